"""Parser and checks of manifest.json."""

from __future__ import annotations

import json
import re
from typing import Any, List, Tuple

from resume_dl.offline_tools.console import shown
from resume_dl.offline_tools.verification.file_names import folded, unsafe_path
from resume_dl.offline_tools.verification.layout import OWN_FILES, SHA256_HEX, UNFINISHED
from resume_dl.offline_tools.verification.readers import FOLDERS_OF_CLIENTS, read_by

SCHEMA = 1
KIND = "resume-dl bundle"
_MD5 = re.compile(r"[0-9a-f]{32}")
_SUBDIR = re.compile(r"[a-z0-9][a-z0-9_-]*")
_PYTHON_VERSION = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){1,2}(?:\.?(?:a|b|rc)[0-9]{1,3})?")
_VIRTUAL_PACKAGE = re.compile(r"__[a-z0-9][a-z0-9_.-]{0,60}(?:=[A-Za-z0-9_.+!-]{1,60}){1,2}")
"""``__cuda=11.0=0``: name, version, build."""
_Wrong = List[Tuple[str, str]]


def parse_manifest(text: bytes) -> tuple[dict[str, Any] | None, _Wrong]:
    """The manifest, or None and its problems: kind and sentence."""
    try:
        data = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_no_name_twice,
            parse_int=_short_number,
        )
    except (ValueError, RecursionError, MemoryError) as error:
        why = "it nests too deeply" if isinstance(error, RecursionError) else shown(str(error))
        return None, [("damaged", f"is not valid JSON of a bundle: {why}")]
    if not isinstance(data, dict) or data.get("kind") != KIND:
        return None, [("damaged", "is not the manifest of a resume-dl bundle")]
    schema = data.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        return None, [("damaged", "states no schema")]
    if schema > SCHEMA:
        return None, [("newer", f"was made by a newer resume-dl (schema {schema}; this reads {SCHEMA})")]
    wrong: _Wrong = []
    _check_manifest(data, wrong)
    return (None if wrong else data), wrong


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def _short_number(digits: str) -> int:
    if len(digits) > 18:
        raise ValueError("a number is too long")
    return int(digits)


def _check_manifest(data: dict[str, Any], wrong: _Wrong) -> None:
    packages, files, platforms = data.get("packages"), data.get("files"), data.get("platforms")
    if not isinstance(packages, list) or not isinstance(files, list) or not isinstance(platforms, dict):
        wrong.append(("damaged", "lacks packages, files or platforms"))
        return
    if not isinstance(data.get("created_by"), str) or not isinstance(data.get("request"), dict):
        wrong.append(("damaged", "lacks created_by or request"))
    kinds: dict[str, str] = {}
    for noun, entries, misplaced in (("package", packages, _package_is_wrong), ("file", files, _file_is_wrong)):
        for number, each in enumerate(entries, 1):
            complaint = _entry_is_wrong(each) or misplaced(each)
            if complaint:
                wrong.append(("unsafe", f"{noun} {number}: {complaint}"))
                continue
            if each["path"] in kinds:
                wrong.append(("unsafe", "lists {} twice".format(shown(each["path"]))))
            kinds[each["path"]] = each["kind"] if noun == "package" else noun
    _check_collisions(kinds, wrong)
    for name, platform in platforms.items():
        complaint = _platform_is_wrong(name, platform, kinds)
        if complaint:
            wrong.append(("unsafe", f"platform {shown(name)}: {complaint}"))


def _check_collisions(paths: dict[str, str], wrong: _Wrong) -> None:
    """Report paths that are one file on a case-insensitive disk, and files that are folders too."""
    seen: dict[str, str] = {}
    for path in paths:
        other = seen.setdefault(folded(path), path)
        if other is not path:
            wrong.append(("unsafe", f"lists {shown(other)} and {shown(path)}, one file on many disks"))
    for path in paths:
        folder = folded(path).rpartition("/")[0]
        while folder:
            if folder in seen:
                wrong.append(("unsafe", f"lists {shown(seen[folder])} as a file and as a folder"))
            folder = folder.rpartition("/")[0]


def _package_is_wrong(each: dict[str, Any]) -> str:
    path: str = each["path"]
    for name in ("kind", "name", "version", "url", "build", "subdir", "channel", "license"):
        if not isinstance(each.get(name), str):
            return f"{shown(path)}: {name} is not a string"
    if not isinstance(each.get("included"), bool) or not _is_texts(each.get("requested_by")):
        return f"{shown(path)}: lacks included or requested_by"
    md5 = each.get("md5")
    if md5 is not None and not (isinstance(md5, str) and _MD5.fullmatch(md5)):
        return f"{shown(path)}: its md5 is invalid"
    parts = path.split("/")
    if each["kind"] == "conda":
        fits = len(parts) == 3 and parts[0] == "channel" and _SUBDIR.fullmatch(parts[1]) is not None
        fits = fits and parts[2].endswith((".conda", ".tar.bz2"))
    else:
        fits = each["kind"] in ("wheel", "sdist") and len(parts) == 2 and parts[0] == "wheels"
        fits = fits and parts[1].endswith(".whl") == (each["kind"] == "wheel")
    return "" if fits else "{} is the wrong path for a {}".format(shown(path), shown(each["kind"]))


def _file_is_wrong(each: dict[str, Any]) -> str:
    path: str = each["path"]
    if path in (*_SCRIPTS, *_READ_BY_PURPOSE) or ("/" in path and path.partition("/")[0] in FOLDERS_OF_CLIENTS):
        return ""
    reader = read_by(path)
    return f"{shown(path)} would be read by {reader}" if reader else ""


def _entry_is_wrong(each: Any) -> str:
    """Check the fields that packages and other files share."""
    if not isinstance(each, dict):
        return "is not an object"
    path = each.get("path")
    if not isinstance(path, str):
        return "its path is not a string"
    complaint = unsafe_path(path)
    if complaint:
        return f"{shown(path)} {complaint}"
    if path in OWN_FILES or folded(path).partition("/")[0] in {folded(own) for own in (*OWN_FILES, UNFINISHED)}:
        return f"{shown(path)} cannot be listed in it"
    if not _is_count(each.get("size")):
        return f"{shown(path)}: its size is not a number of bytes"
    sha256 = each.get("sha256")
    if not isinstance(sha256, str) or not SHA256_HEX.fullmatch(sha256):
        return f"{shown(path)}: its sha256 is invalid"
    return ""


def _platform_is_wrong(name: str, platform: Any, kinds: dict[str, str]) -> str:
    """Check a platform: ``install`` passes its paths to conda and pip, so each must be in the bundle."""
    if not _SUBDIR.fullmatch(name) or not isinstance(platform, dict):
        return "is not a conda platform"
    python, virtual = platform.get("python"), platform.get("virtual_packages")
    if not isinstance(python, str) or not isinstance(virtual, list) or not _is_texts(virtual):
        return "its python or virtual_packages are not strings"
    if python and not _PYTHON_VERSION.fullmatch(python):
        return "its python is not a Python version"
    if not all(_VIRTUAL_PACKAGE.fullmatch(each) for each in virtual):
        return "one of its virtual_packages is invalid"
    for part, allowed in (("conda", ("conda",)), ("pip", ("wheel", "sdist"))):
        paths = platform.get(part)
        if not isinstance(paths, list) or not _is_texts(paths):
            return f"{part} is not a list of paths"
        lost = [path for path in paths if kinds.get(path) not in allowed]
        if lost:
            return f"{part} names {shown(lost[0])}, which is not such a package of this bundle"
        if len(set(paths)) != len(paths):
            return f"{part} names a package twice"
    for part in ("explicit", "requirements"):
        path = platform.get(part)
        if not isinstance(path, str) or (path and kinds.get(path) != "file"):
            return f"{part} does not name a file of this bundle"
    return ""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_SCRIPTS = ("install.py", "verify.py", "unpack.py", "probe.py", "join.py", "fs.py")
_READ_BY_PURPOSE = ("environment.yml", "pylock.toml")
