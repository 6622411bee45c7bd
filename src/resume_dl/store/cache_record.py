"""``info/repodata_record.json``: what conda remembers of a package in its cache, written as conda itself writes it.

The rules are those of conda's ``PackageRecord`` (``models/records.py``, 24.7 and 26.7): which fields are kept, which of
them fall back on the archive's own ``info/index.json``, and which defaults are left out. Fields that only newer
condas know are written where the channel has them; older ones ignore them. What conda adds to a record when it loads
an index (``pip`` to python's ``depends``) is the resolver's to add to ``Artifact.record``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from resume_dl.model.artifact import Artifact

RECORD = Path("info", "repodata_record.json")
INDEX = Path("info", "index.json")

_ALWAYS = ("name", "version", "build", "build_number", "subdir")
_IF_SET = (
    "arch",
    "platform",
    "date",
    "size",
    "md5",
    "legacy_bz2_md5",
    "legacy_bz2_size",
    "sha256",
    "preferred_env",
    "license",
    "license_family",
    "python_site_packages_path",
)
_FEATURES = ("track_features", "features")
_TIMESTAMPS = ("timestamp", "indexed_timestamp")
_PACKAGE_TYPES = {"generic": "noarch_generic", "python": "noarch_python"}
_LATEST_SECONDS = 253402300799
"""9999-12-31: a larger timestamp is in milliseconds (conda-build#1988)."""
_TOKEN = re.compile(r"/t/[^/]+(?=/)")


def without_credentials(url: str) -> str:
    """``url`` without userinfo and ``/t/<token>``: what may be written to a file, and what conda compares by."""
    parts = urlsplit(url)
    path = _TOKEN.sub("", parts.path, count=1)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, parts.query, ""))


def client_url(artifact: Artifact) -> str:
    """The URL that the user's conda will ask for, without credentials."""
    return without_credentials((artifact.client_url or artifact.url).reveal())


def channel_of(url: str) -> str:
    """The channel in the form that conda writes: ``scheme://location/name/subdir``, i.e. the URL's folder."""
    return without_credentials(url).rpartition("/")[0]


def repodata_record(artifact: Artifact, index: Mapping[str, Any]) -> dict[str, Any]:
    """The record for an extracted archive; ``index`` is its ``info/index.json``.

    Where the artifact has no record of a channel (it was named by a URL), the archive's own index and the digests
    that were verified take its place, as conda does for explicit specs. Raises KeyError where a required field is
    in neither.
    """
    source: Mapping[str, Any] = artifact.record
    if not source:
        verified = {"md5": artifact.md5, "sha256": artifact.sha256, "size": artifact.size}
        source = {**index, **{name: value for name, value in verified.items() if value is not None}}
    record: dict[str, Any] = {name: source[name] if name in source else index[name] for name in _ALWAYS}
    url = client_url(artifact)
    record |= {"fn": artifact.filename, "url": url, "channel": channel_of(url)}
    record |= {name: list(source.get(name) or ()) for name in ("depends", "constrains")}
    for name in _IF_SET:
        value = _first(source.get(name), index.get(name))
        if value is not None:
            record[name] = value
    for name in _FEATURES:
        features = _words(source.get(name))
        if features:
            record[name] = " ".join(features)
    for name in _TIMESTAMPS:
        if source.get(name):
            record[name] = _milliseconds(source[name])
    if flags := list(source.get("flags") or ()):
        record["flags"] = flags
    if noarch := _first(_noarch(source.get("noarch")), _noarch(index.get("noarch"))):
        record["noarch"] = noarch
        record["package_type"] = _PACKAGE_TYPES[noarch]
    return record


def record_bytes(record: Mapping[str, Any]) -> bytes:
    """A record as the bytes of its file: conda 24's ``json_dump`` (sorted, two spaces, ASCII)."""
    return json.dumps(record, indent=2, sort_keys=True, separators=(",", ": ")).encode()


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object, or None where there is none that can be read: absent, damaged, not an object, no permission."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and wait until it is on the disk; raises OSError."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _first(value: Any, other: Any) -> Any:
    """A null in a channel's record counts as nothing said (conda's ``find_or_raise``)."""
    return other if value is None else value


def _words(value: Any) -> list[str]:
    """Features come as a list, or as a text parted by spaces or commas."""
    parts = value.replace(" ", ",").split(",") if isinstance(value, str) else list(value or ())
    return [word for word in (part.strip() for part in parts) if word]


def _milliseconds(value: float) -> int:
    """Whole milliseconds; by way of seconds as a float, because conda's rounding is part of what it writes."""
    seconds = value / 1000 if value > _LATEST_SECONDS else value
    return int(seconds * 1000)


def _noarch(value: Any) -> str | None:
    """``noarch: true`` of old packages means generic."""
    if value is True:
        return "generic"
    return value.lower() if isinstance(value, str) and value.lower() in _PACKAGE_TYPES else None
