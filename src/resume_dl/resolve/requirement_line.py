"""Parser of one pip requirement: PEP 508, a URL, or a form that only pip itself can handle.

Sources: PEP 508, and pip.pypa.io, "Requirement Specifiers". Logins are removed from quotations in errors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from dataclasses import replace as changed
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename

from resume_dl.errors import InvalidSpecError
from resume_dl.model.pip import PipRequirement
from resume_dl.model.url import RedactedUrl, scrub

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
_NAMED = re.compile(r"[A-Za-z0-9][-\w.]*\s*(?:\[[^\]]*\])?(?:\s+@|@\s)")
"""``name @ …``, which is never a path."""
_ARCHIVES = (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar")
HASH = re.compile(r"sha(?:256:[0-9a-f]{64}|384:[0-9a-f]{96}|512:[0-9a-f]{128})")
"""The value of pip's ``--hash``."""


def parse_requirement(text: str, where: str = "") -> PipRequirement:
    """Parse a requirement as on pip's command line: PEP 508, or the URL of a wheel or source archive.

    Raises InvalidSpecError for anything else, including local paths and version control URLs, which cannot be fetched.
    """
    found = parse_any(text.strip())
    if isinstance(found, PipRequirement):
        return changed(found, where=where)
    raise InvalidSpecError(
        f"{where + ': ' if where else ''}{scrub(text)!r} is {found.what}", part=scrub(text), hint=found.hint
    )


def is_left_to_pip(text: str) -> bool:
    """Whether only pip can handle it: a path, a local archive, version control, an archive without a package name."""
    found = parse_any(text.strip())
    return isinstance(found, OtherRequirement) and found.valid


@dataclass(frozen=True, slots=True)
class OtherRequirement:
    """A text that cannot be looked up in an index; ``what`` completes the sentence "it is ..."."""

    what: str
    hint: str
    valid: bool = True
    """Whether pip itself accepts it."""


_INVALID = OtherRequirement(
    "not a valid requirement", "write it as in torch==1.6.0, torch[extra]>=1.6; python_version < '3.9'", valid=False
)
_UNREADABLE = OtherRequirement("at an invalid URL", "write it as: name @ https://host/file.whl", valid=False)
NOT_FETCHED = "only files from an index or a URL are fetched; pip itself handles the rest"
_PATH = OtherRequirement("a path on this machine", NOT_FETCHED)


def parse_any(text: str) -> PipRequirement | OtherRequirement:
    """Parse a requirement; OtherRequirement says why an index or URL cannot supply it."""
    if _is_archive(text):  # it may also be a valid name, but pip treats it as a file
        return _PATH
    address, mark, marker = text.partition(" ;") if _SCHEME.match(text) else (text, "", "")
    try:
        requirement = Requirement(_named(address.strip()) + (f" ;{marker}" if mark else ""))
        urlsplit(requirement.url or "")
    except InvalidRequirement:
        return _INVALID if _NAMED.match(text) else _classify(text)
    except ValueError:
        return _UNREADABLE
    if requirement.url is None:
        return _requirement(requirement)
    scheme = _SCHEME.match(requirement.url)
    if scheme is None or scheme["scheme"].lower() not in {"http", "https"}:
        return _classify(requirement.url)
    url, _, fragment = requirement.url.partition("#")
    hashes = tuple(
        part.replace("=", ":", 1) for part in fragment.split("&") if HASH.fullmatch(part.replace("=", ":", 1))
    )
    return changed(_requirement(requirement), url=RedactedUrl(url), hashes=hashes)


def _named(text: str) -> str:
    """Return ``name @ URL`` for the bare URL of an archive whose file name states the package; else the text itself."""
    if not _SCHEME.match(text):
        return text
    filename = unquote(urlsplit(text).path.rpartition("/")[2])
    try:
        name = (parse_wheel_filename if filename.endswith(".whl") else parse_sdist_filename)(filename)[0]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return text
    return f"{name} @ {text}"


def _requirement(found: Requirement) -> PipRequirement:
    return PipRequirement(
        name=found.name,
        extras=tuple(sorted(found.extras)),
        specifier=str(found.specifier),
        marker="" if found.marker is None else str(found.marker),
    )


def _classify(text: str) -> OtherRequirement:
    scheme = _SCHEME.match(text)
    if scheme is not None and "+" in scheme["scheme"]:
        return OtherRequirement("from version control", NOT_FETCHED)
    if scheme is not None and scheme["scheme"].lower() != "file":
        return OtherRequirement("an archive without a package name in its file name", "write it as: name @ URL")
    plain = text.partition(" ;")[0]
    is_path = scheme is not None or plain.startswith((".", "~")) or "/" in plain or "\\" in plain
    return _PATH if is_path else _INVALID


def _is_archive(text: str) -> bool:
    """Whether it is an archive's file name, optionally followed by extras or a marker."""
    return _SCHEME.search(text) is None and text.partition(";")[0].partition("[")[0].strip().lower().endswith(_ARCHIVES)
