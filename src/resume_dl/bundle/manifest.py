"""``manifest.json``: a bundle's Manifest as bytes and back. JSON with a package, a file or a platform on each line.

The lines make it easy to compare two of them, and to write one without holding its text. Keys stand in the order of
the values in ``model/bundle.py``. The reader accepts any layout, ignores unknown keys, and checks every path: each
must stay inside the bundle on every platform.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from resume_dl.errors import ConfigurationError, IntegrityError
from resume_dl.model.artifact import safe_filename
from resume_dl.model.bundle import KIND, SCHEMA, BundleFile, BundlePackage, BundlePlatform, Manifest

_KINDS = ("conda", "wheel", "sdist")
_DIGEST = {"sha256": re.compile(r"[0-9a-f]{64}"), "md5": re.compile(r"[0-9a-f]{32}")}
_T = TypeVar("_T")


def write_manifest(manifest: Manifest) -> Iterator[bytes]:
    """The text of ``manifest.json`` in chunks: UTF-8 with LF; the same values give the same bytes."""
    head: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": KIND,
        "created_by": manifest.created_by,
        "request": dict(manifest.request),
    }
    if manifest.indexes:
        head["indexes"] = [dict(each) for each in manifest.indexes]
    yield b"{" + b",\n".join(_json(key) + b":" + _json(value) for key, value in head.items())
    yield b',\n"platforms":{'
    yield from _lines(_json(each.platform) + b":" + _json(each.as_json()) for each in manifest.platforms)
    yield b'},\n"packages":['
    yield from _lines(_json(each.as_json()) for each in manifest.packages)
    yield b'],\n"files":['
    yield from _lines(_json({"path": each.path, "size": each.size, "sha256": each.sha256}) for each in manifest.files)
    yield b"]}\n"


def read_manifest(data: bytes, *, where: str = "manifest.json") -> Manifest:
    """Parse a Manifest; ``where`` names it in messages.

    Raises ConfigurationError for a file that is not a bundle's manifest, or of a later version; IntegrityError for a
    damaged one: invalid JSON, a wrong type, a path that leaves the bundle or occurs twice.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise IntegrityError(
            f"{where} is damaged: it is not JSON", hint="copy it again from where it was made"
        ) from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise ConfigurationError(f"{where} is not the manifest of a bundle", hint="resume-dl bundle create makes one")
    if document.get("schema") != SCHEMA:
        raise ConfigurationError(
            f"{where} has schema {document.get('schema')!r}, known is {SCHEMA}", hint="use a newer resume-dl to read it"
        )
    try:
        return _manifest(document)
    except (ValueError, TypeError, KeyError) as error:
        text = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise IntegrityError(f"{where} is damaged: {text}", hint="copy it again from where it was made") from error


def _json(value: Any) -> bytes:
    # Half of a surrogate pair cannot be UTF-8; as \udc80 it is what JSON itself would write.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def _lines(entries: Iterable[bytes]) -> Iterator[bytes]:
    for number, entry in enumerate(entries):
        yield (b",\n" if number else b"\n") + entry


# --------------------------------------------------------------------------- reading


def _manifest(document: Mapping[str, Any]) -> Manifest:
    packages = tuple(_package(_dict(each)) for each in _value(document, "packages", list))
    files = tuple(_file(_dict(each)) for each in _value(document, "files", list))
    paths = {*(each.path for each in packages), *(each.path for each in files)}
    if len(paths) < len(packages) + len(files):
        raise ValueError("a path occurs twice")
    known = {each.path for each in packages}
    return Manifest(
        created_by=_value(document, "created_by", str),
        request=_value(document, "request", dict),
        platforms=tuple(
            _platform(name, _dict(each), known) for name, each in _value(document, "platforms", dict).items()
        ),
        packages=packages,
        files=files,
        indexes=tuple(_index(_dict(each)) for each in document.get("indexes", ())),
    )


def _index(entry: Mapping[str, Any]) -> Mapping[str, str]:
    """Why the records of one index were trusted; missing in older manifests."""
    return {key: _value(entry, key, str) for key in ("channel", "subdir", "vouched")}


def _package(entry: Mapping[str, Any]) -> BundlePackage:
    kind = _value(entry, "kind", str)
    if kind not in _KINDS:
        raise ValueError(f"{kind!r} is not a kind of package")
    return BundlePackage(
        path=_path(entry),
        kind=kind,
        size=_size(entry),
        sha256=_digest(entry, "sha256"),
        md5=None if entry.get("md5") is None else _digest(entry, "md5"),
        requested_by=_texts(entry, "requested_by"),
        included=_value(entry, "included", bool),
        **{
            name: _value(entry, name, str)
            for name in ("name", "version", "url", "build", "subdir", "channel", "license")
        },
    )


def _file(entry: Mapping[str, Any]) -> BundleFile:
    return BundleFile(_path(entry), _size(entry), _digest(entry, "sha256"))


def _platform(name: str, entry: Mapping[str, Any], known: set[str]) -> BundlePlatform:
    conda, pip = _texts(entry, "conda"), _texts(entry, "pip")
    if unknown := sorted({*conda, *pip} - known):
        raise ValueError(f"{name} has {unknown[0]!r}, which is not one of its packages")
    lists = {key: _value(entry, key, str) and _path(entry, key) for key in ("explicit", "requirements")}
    return BundlePlatform(
        platform=safe_filename(name),
        python=_value(entry, "python", str),
        virtual_packages=_texts(entry, "virtual_packages"),
        conda=conda,
        pip=pip,
        exclude_newer=_value(entry, "exclude_newer", str) if "exclude_newer" in entry else "",
        pip_exclude_newer=_value(entry, "pip_exclude_newer", str) if "pip_exclude_newer" in entry else "",
        **lists,
    )


def _path(entry: Mapping[str, Any], key: str = "path") -> str:
    path = _value(entry, key, str)
    for part in path.split("/"):
        safe_filename(part)
    return path


def _size(entry: Mapping[str, Any]) -> int:
    size = _value(entry, "size", int)
    if size < 0 or isinstance(size, bool):
        raise ValueError(f"{size!r} is not a size")
    return size


def _digest(entry: Mapping[str, Any], kind: str) -> str:
    digest = _value(entry, kind, str)
    if not _DIGEST[kind].fullmatch(digest):
        raise ValueError(f"{digest!r} is not a valid {kind}")
    return digest


def _texts(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    texts = _value(entry, key, list)
    if not all(isinstance(each, str) for each in texts):
        raise TypeError(f"{key!r} is not a list of strings")
    return tuple(texts)


def _dict(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.40} is not an object")
    return value


def _value(entry: Mapping[str, Any], key: str, kind: type[_T]) -> _T:
    value = entry[key]
    if not isinstance(value, kind):
        raise TypeError(f"{key!r} is {value!r:.40}")
    return value
