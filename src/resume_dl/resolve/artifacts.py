"""Artifacts from an index's records; records that refer to places outside their channel are refused. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from resume_dl.errors import IntegrityError
from resume_dl.model.artifact import Artifact, safe_filename
from resume_dl.model.channel import Channel
from resume_dl.model.digest import Digest
from resume_dl.model.url import RedactedUrl, redact

_PLAIN = "!$&'()*+,;=@~"
_DOTS = re.compile(r"(?i)(?:\.|%2e){1,2}")
_HINT = "it may be malicious: leave out the channel or the mirror, and report it to its operator"


def conda_artifact(channel: Channel, fields: Mapping[str, Any]) -> Artifact:
    """Return the artifact of one record of ``channel``.

    ``fields``: ``filename``, ``subdir``, ``name``, ``version``, ``build``, ``sha256``, ``md5`` (hex or None), ``size``,
    ``record`` (as the channel has it), ``base`` (``info.base_url`` of CEP 15: None, ``/path`` below the channel, or an
    absolute URL). Raises IntegrityError if a name or URL could lead outside the channel or the package cache.
    """
    filename, subdir = str(fields["filename"]), str(fields["subdir"])
    record: Mapping[str, Any] = fields.get("record") or {}
    where = channel.name, subdir
    # conda derives names of folders and files from all of these.
    label = f"{fields['name']}-{fields['version']}-{fields['build']}"
    for name in (filename, subdir, f"{label}.json", record.get("fn", filename), record.get("subdir", subdir)):
        try:
            safe_filename(name if isinstance(name, str) else "")
        except ValueError:
            raise _refused(where, f"it names the file {name!r}") from None
    if record.get("fn", filename) != filename:
        raise _refused(where, f"the record of {filename} names another file, {record['fn']!r}")
    _check_url(record.get("url"), filename, where)
    for algorithm in ("sha256", "md5"):
        if fields.get(algorithm):
            try:
                Digest(algorithm, fields[algorithm])
            except ValueError as error:
                raise _refused(where, f"{filename} has no valid digest: {error}") from None
    url, client_url = _addresses(channel, subdir, filename, fields.get("base"), where)
    return Artifact(
        kind="conda",
        filename=filename,
        url=url,
        size=_size(fields.get("size"), filename, where),
        sha256=fields.get("sha256"),
        md5=fields.get("md5"),
        name=fields["name"],
        version=fields["version"],
        build=fields["build"],
        subdir=subdir,
        channel=channel.name,
        client_url=client_url,
        client_channel=channel.client_subdir_url(subdir).reveal(),
        record=record,
    )


def _addresses(
    channel: Channel, subdir: str, filename: str, base: str | None, where: tuple[str, str]
) -> tuple[RedactedUrl, RedactedUrl]:
    """Return the origin's URL of the file, and the one that the user's conda requests."""
    last = quote(filename, safe=_PLAIN)
    if base is None:
        return channel.file_url(subdir, last), channel.client_file_url(subdir, last)
    scheme = urlsplit(channel.canonical_base.reveal()).scheme
    if base.startswith("/"):
        path = base.rstrip("/")
        if any(not part or _DOTS.fullmatch(part) or "\\" in part for part in path.split("/")[1:]):
            raise _refused(where, f"its base_url leads to {base!r}")
        own, client = channel.canonical_base.reveal(), channel.record_base.reveal()
        return RedactedUrl(f"{own}{path}/{last}"), RedactedUrl(f"{client}{path}/{last}")
    parts = urlsplit(base)
    if (
        parts.scheme not in {"https", scheme}
        or (not parts.hostname and parts.scheme != "file")
        or redact(base) != base
        or parts.query
        or any(_DOTS.fullmatch(part) or "\\" in part for part in parts.path.split("/"))
    ):
        raise _refused(where, f"its base_url leads to {redact(base)!r}")
    url = RedactedUrl(f"{base.rstrip('/')}/{last}")
    return url, url


def _check_url(url: Any, filename: str, where: tuple[str, str]) -> None:
    """Refuse a record whose own URL, which is never followed, names another file."""
    if url is None:
        return
    parts = str(url).partition("#")[0].split("/")
    climbs = any(_DOTS.fullmatch(part) for part in parts) or "\\" in str(url) or "\0" in str(url)
    if climbs or parts[-1] not in {filename, quote(filename, safe=_PLAIN), quote(filename)}:
        raise _refused(where, f"the record of {filename} leads to {redact(str(url))!r}")


def _size(size: Any, filename: str, where: tuple[str, str]) -> int | None:
    if size is None or (isinstance(size, int) and not isinstance(size, bool) and size >= 0):
        return size
    raise _refused(where, f"the size of {filename} is {size!r}")


def _refused(where: tuple[str, str], why: str) -> IntegrityError:
    return IntegrityError(f"the repodata of {'/'.join(where)} is refused: {why}", index=where, hint=_HINT)
