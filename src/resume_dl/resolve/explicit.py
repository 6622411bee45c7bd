"""Reader and writer of ``@EXPLICIT`` lists, which ``conda create --file`` installs without a solve. Pure.

Source: conda's ``misc.explicit`` and ``cli/main_list``. conda 24 reads only ``url#md5``; it fails for
``url#sha256:hex`` (or the 64 digits alone), which later versions accept. So the md5 is written if known, else the
sha256.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from urllib.parse import unquote, urlsplit

from resume_dl.errors import ConfigurationError, InvalidSpecError
from resume_dl.model.artifact import Artifact
from resume_dl.model.channel import without_credentials
from resume_dl.model.url import RedactedUrl, redact

MARK = "@EXPLICIT"
_HASH = re.compile(r"(?:md5:)?(?P<md5>[0-9a-fA-F]{32})|(?:sha256:)?(?P<sha256>[0-9a-fA-F]{64})")
_FILE = re.compile(r"(?P<name>.+)-(?P<version>[^-]+)-(?P<build>[^-]+)\.(?:conda|tar\.bz2)")
_SCHEMES = ("http", "https", "file")


def is_explicit(text: str) -> bool:
    """Whether a text is an ``@EXPLICIT`` list."""
    return any(line.strip() == MARK for line in text.splitlines())


def write_explicit(artifacts: Iterable[Artifact], *, platform: str) -> str:
    """Return a list for ``conda create --file``. The order does not matter, as conda sorts it.

    The URLs are those that the user's conda requests, without logins.
    """
    lines = [
        "# This file may be used to create an environment using:",
        "# $ conda create --name <env> --file <this file>",
    ]
    lines += [f"# platform: {platform}", MARK]
    for artifact in artifacts:
        url = without_credentials(artifact.client_url or artifact.url).reveal()
        digest = artifact.md5 or (f"sha256:{artifact.sha256}" if artifact.sha256 else "")
        lines.append(f"{url}#{digest}" if digest else url)
    return "\n".join(lines) + "\n"


def parse_explicit(
    text: str, *, canonical: Callable[[str], str] = lambda url: url, where: str = "the list"
) -> tuple[Artifact, ...]:
    """Parse a list into artifacts, in its order, without sizes, and without a digest if the line has none.

    ``canonical`` maps a mirror's URL to the origin's (``MirrorTable.canonical``). Raises InvalidSpecError, with line
    number, for a line that is not the URL of an archive, and ConfigurationError without an ``@EXPLICIT`` line.
    """
    if not is_explicit(text):
        raise ConfigurationError(f"{where} has no {MARK} line", hint="conda list --explicit writes such a file")
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return tuple(
        parse_line(line, canonical=canonical, where=f"{where}, line {number}")
        for number, line in lines
        if line and not line.startswith("#") and line != MARK
    )


def parse_line(line: str, *, canonical: Callable[[str], str] = lambda url: url, where: str = "the address") -> Artifact:
    """Parse one line, ``url`` or ``url#digest``, into an artifact. Raises InvalidSpecError."""
    address, mark, fragment = line.partition("#")
    digest = _HASH.fullmatch(fragment.strip()) if mark else None
    if mark and digest is None:
        raise InvalidSpecError(
            f"{where}: {fragment!r} is not a digest",
            part=fragment,
            hint="write #<md5> or #sha256:<sha256>",
        )
    try:
        parts = urlsplit(address)
        filename = unquote(parts.path.rpartition("/")[2])
        named = _FILE.fullmatch(filename)
        if parts.scheme not in _SCHEMES or named is None:
            raise _no_archive(where, address)
        return Artifact(
            kind="conda",
            filename=filename,
            url=RedactedUrl(canonical(address)),
            sha256=digest["sha256"].lower() if digest and digest["sha256"] else None,
            md5=digest["md5"].lower() if digest and digest["md5"] else None,
            name=named["name"],
            version=named["version"],
            build=named["build"],
            subdir=parts.path.rpartition("/")[0].rpartition("/")[2],
            channel=redact(canonical(address)).rpartition("/")[0].rpartition("/")[0],
            client_url=RedactedUrl(address),
            client_channel=without_credentials(RedactedUrl(address)).reveal().rpartition("/")[0],
        )
    except ValueError:
        raise _no_archive(where, address) from None


def _no_archive(where: str, address: str) -> InvalidSpecError:
    shown = redact(address)
    return InvalidSpecError(
        f"{where}: {shown!r} is not the URL of a conda archive",
        part=shown,
        hint="give an http(s) or file URL that ends in name-version-build.conda or .tar.bz2",
    )
