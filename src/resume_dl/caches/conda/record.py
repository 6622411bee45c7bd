"""``info/repodata_record.json``: what conda remembers of a package in its cache, written as conda itself writes it.

The rules are those of conda's ``PackageRecord`` (``models/records.py``, 24.7 and 26.7): which fields are kept, which of
them fall back on the archive's own ``info/index.json``, and which defaults are left out. Fields that only newer
condas know are written where the channel has them; older ones ignore them. What conda adds to a record when it loads
an index (``pip`` to python's ``depends``) is the resolver's to add to ``Artifact.record``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from resume_dl import fs
from resume_dl.errors import IntegrityError
from resume_dl.model.artifact import Artifact

BROKEN_PACKAGE = "the package is broken where it was built: choose another build or version of it"
"""The hint where a package's own description cannot be used."""
RECORD = Path("info", "repodata_record.json")
INDEX = Path("info", "index.json")
LAST_COPIED = (INDEX.as_posix(), RECORD.as_posix())
"""Files by which a client tells a whole folder: where a folder has to be copied, they come last."""
PATHS = Path("info", "paths.json")
FILES = Path("info", "files")

_MOST_JSON = 64 << 20
"""Bytes of a file that describes one package: paths.json of 300,000 files. What is longer would take the memory."""

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
_TEXTS = (
    *("name", "version", "build", "subdir", "arch", "platform", "date", "md5", "legacy_bz2_md5", "sha256"),
    *("preferred_env", "license", "license_family", "python_site_packages_path"),
)
_COUNTS = ("build_number", "size", "legacy_bz2_size")
_MOST = 1 << 60
"""No count and no time in milliseconds is as large: beyond it, numbers stop being whole or finite."""
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
    in neither, IntegrityError where a field of either has a type that it cannot have.
    """
    check_fields(index, f"{artifact.filename}: its own info/index.json")
    check_fields(artifact.record, f"{artifact.filename}: its record in the channel's index")
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


def check_fields(record: Mapping[str, Any], subject: str) -> None:
    """Raise IntegrityError where a field that is used here has another type than conda's records have.

    The builder of the package wrote these. A null says nothing; other fields are left alone.
    """
    fits: list[tuple[tuple[str, ...], Callable[[Any], bool], str]] = [
        (_TEXTS, lambda value: isinstance(value, str), "a text"),
        (_COUNTS, lambda value: _is_number(value) and isinstance(value, int) and value >= 0, "a whole number"),
        (_TIMESTAMPS, _is_number, "a number"),
        (("depends", "constrains", "flags"), _is_texts, "a list of texts"),
        (_FEATURES, lambda value: isinstance(value, str) or _is_texts(value), "a text or a list of texts"),
        (("noarch",), lambda value: isinstance(value, (str, bool)), "a text"),
    ]
    for names, fit, kind in fits:
        for name in names:
            value = record.get(name)
            if value is not None and not fit(value):
                raise IntegrityError(
                    f"{subject} is malformed: {name!r} is not {kind}",
                    hint=BROKEN_PACKAGE,
                )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -_MOST < value < _MOST  # no NaN either


def _is_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)


def record_bytes(record: Mapping[str, Any]) -> bytes:
    """A record as the bytes of its file: conda 24's ``json_dump`` (sorted, two spaces, ASCII)."""
    return json.dumps(record, indent=2, sort_keys=True, separators=(",", ": ")).encode()


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object, or None where there is none that can be read: absent, a link, damaged, not an object."""
    try:
        return _object(fs.read_regular(path, _MOST_JSON))
    except OSError:
        return None


def read_info(extracted: Path, name: Path) -> dict[str, Any] | None:
    """As ``read_json``, of a file that a package brought: None also where it, or a folder above it, is a link."""
    try:
        return _object(fs.read_below(extracted, *name.parts, limit=_MOST_JSON))
    except OSError:
        return None


def read_lines(extracted: Path, name: Path) -> list[str] | None:
    """The lines of a text that a package brought, or None as ``read_info``."""
    try:
        return fs.read_below(extracted, *name.parts, limit=_MOST_JSON).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None


def write_record(extracted: Path, record: Mapping[str, Any], *, sync: bool) -> None:
    """Put a record into an extracted package, by one rename; with ``sync`` it is on the disk then. Raises OSError.

    A link that the package brought under that name is replaced; where its ``info`` is a link, nothing is written.
    """
    fs.replace_below(extracted, *RECORD.parts, data=record_bytes(record), sync=sync)


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


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
