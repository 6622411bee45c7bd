"""``info/repodata_record.json``, conda's record of a package in its cache, written as conda writes it.

The rules are those of conda's ``PackageRecord`` (``models/records.py``, 24.7 and 26.7): which fields are kept, which of
them fall back on the archive's own ``info/index.json``, and which defaults are left out. Fields that only newer
versions of conda know are written if the channel has them; older versions ignore them. What conda adds to a record when
it loads an index (``pip`` in python's ``depends``), the resolver has added to ``Artifact.record``.
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

BROKEN_PACKAGE = "the package was built wrongly: choose another build or version of it"
"""The hint if a package's own metadata cannot be used."""
RECORD = Path("info", "repodata_record.json")
INDEX = Path("info", "index.json")
LAST_COPIED = (INDEX.as_posix(), RECORD.as_posix())
"""Files by which a client tells a whole folder: where a folder has to be copied, they come last."""
PATHS = Path("info", "paths.json")
FILES = Path("info", "files")

_MOST_JSON = 64 << 20
"""The most bytes of a metadata file, to bound memory: enough for a paths.json of 300,000 files."""

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
"""Above any real count and any time in milliseconds; excludes infinity and NaN too."""
_TOKEN = re.compile(r"/t/[^/]+(?=/)")


def without_credentials(url: str) -> str:
    """Return ``url`` without userinfo and ``/t/<token>``, as it may be written to files and as conda compares it."""
    parts = urlsplit(url)
    path = _TOKEN.sub("", parts.path, count=1)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, parts.query, ""))


def client_url(artifact: Artifact) -> str:
    """Return the URL that the user's conda will request, without credentials."""
    return without_credentials((artifact.client_url or artifact.url).reveal())


def channel_of(url: str) -> str:
    """Return the channel as conda writes it: ``scheme://location/name/subdir``, i.e. the URL's folder."""
    return without_credentials(url).rpartition("/")[0]


def repodata_record(artifact: Artifact, index: Mapping[str, Any]) -> dict[str, Any]:
    """Build the record of an extracted archive; ``index`` is its ``info/index.json``.

    If the artifact has no record of a channel (it was named by a URL), the archive's own index and the verified digests
    are used instead, as conda does for explicit specs. Raises KeyError if a required field is in neither, and
    IntegrityError if a field has a wrong type.
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
    """Raise IntegrityError if a field that is used here has a type that conda's records do not have.

    The package's builder wrote these, so they may be anything. A null counts as missing; other fields are ignored.
    """
    fits: list[tuple[tuple[str, ...], Callable[[Any], bool], str]] = [
        (_TEXTS, lambda value: isinstance(value, str), "a string"),
        (_COUNTS, lambda value: _is_number(value) and isinstance(value, int) and value >= 0, "a whole number"),
        (_TIMESTAMPS, _is_number, "a number"),
        (("depends", "constrains", "flags"), _is_texts, "a list of strings"),
        (_FEATURES, lambda value: isinstance(value, str) or _is_texts(value), "a string or a list of strings"),
        (("noarch",), lambda value: isinstance(value, (str, bool)), "a string"),
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
    """Serialise a record as conda 24's ``json_dump`` does: sorted, two spaces, ASCII."""
    return json.dumps(record, indent=2, sort_keys=True, separators=(",", ": ")).encode()


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None if the file is missing, a link, damaged or not an object."""
    try:
        return _object(fs.read_regular(path, _MOST_JSON))
    except OSError:
        return None


def read_info(extracted: Path, name: Path) -> dict[str, Any] | None:
    """Read a JSON object of a package as ``read_json`` does; None also if the file or a folder above it is a link."""
    try:
        return _object(fs.read_below(extracted, *name.parts, limit=_MOST_JSON))
    except OSError:
        return None


def read_lines(extracted: Path, name: Path) -> list[str] | None:
    """Read the lines of a package's text file; None as in ``read_info``."""
    try:
        return fs.read_below(extracted, *name.parts, limit=_MOST_JSON).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None


def write_record(extracted: Path, record: Mapping[str, Any], *, sync: bool) -> None:
    """Write a record into an extracted package atomically, and durably with ``sync``. Raises OSError.

    A link of that name in the package is replaced; if its ``info`` is a link, nothing is written.
    """
    fs.replace_below(extracted, *RECORD.parts, data=record_bytes(record), sync=sync)


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _first(value: Any, other: Any) -> Any:
    """Return ``other`` if ``value`` is null, which counts as missing (conda's ``find_or_raise``)."""
    return other if value is None else value


def _words(value: Any) -> list[str]:
    """Split features, which are a list or a string separated by spaces or commas."""
    parts = value.replace(" ", ",").split(",") if isinstance(value, str) else list(value or ())
    return [word for word in (part.strip() for part in parts) if word]


def _milliseconds(value: float) -> int:
    """Convert a timestamp to whole milliseconds, by way of float seconds, to round as conda does."""
    seconds = value / 1000 if value > _LATEST_SECONDS else value
    return int(seconds * 1000)


def _noarch(value: Any) -> str | None:
    """Normalise ``noarch``; ``true`` in old packages means generic."""
    if value is True:
        return "generic"
    return value.lower() if isinstance(value, str) and value.lower() in _PACKAGE_TYPES else None
