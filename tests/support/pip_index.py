"""Real wheels, and the folders that a web server turns into a pip index: PEP 503 and 691 pages, find-links pages.

    app = build_wheel(tmp_path / "built", "demo-app", "1.0", requires=["colorama; sys_platform == 'win32'"])
    write_index(root, [app, colorama])                     # root/simple/..., root/packages/<2>/<2>/<60>/...
    nginx = nginx_mirrors([root, root])                    # support.nginx; it picks html or JSON by the Accept header
    nginx.base(0) + "/simple/"                             # --index-url

    write_index(root, [app], hashes=False, core_metadata=False)   # an old index: nothing but links
    write_index(root, [app], html=False)                          # PEP 691 only; json=False: PEP 503 only
    write_index(root, [app], prefix="private/")                   # root/private/simple/..., root/private/packages/...
    write_find_links(root, [torch], page="whl/torch_stable.html") # links below whl/<variant>/, without hashes
    big_wheel(folder)                                             # 300 MB, built once for each folder

Every wheel imports as a module of its own: ``import demo_app; demo_app.VERSION``. The same description gives the same
bytes. Wheels end with their ``.dist-info`` as PEP 427 recommends; ``dist_info_first`` makes one that does not.
"""

from __future__ import annotations

import base64
import hashlib
import html as markup
import io
import json as json_format
import os
import random
import re
import tarfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

MIB = 1 << 20
DATE = (2020, 7, 28, 0, 0, 0)


@dataclass(frozen=True)
class BuiltFile:
    """A wheel or sdist on disk; ``size`` in bytes, ``sha256`` as lower-case hex, ``metadata`` as METADATA has it."""

    path: Path
    name: str
    version: str
    size: int
    sha256: str
    metadata: bytes
    requires_python: str | None = None
    yanked: str | None = None
    """The reason that the index gives, perhaps empty; None for a file that is not yanked."""

    @property
    def filename(self) -> str:
        return self.path.name

    @property
    def normalized(self) -> str:
        """The project's name as PEP 503 writes it."""
        return re.sub(r"[-_.]+", "-", self.name).lower()

    @property
    def url_path(self) -> str:
        """``packages/<2 hex>/<2 hex>/<60 hex>/<file>``, as PyPI lays its files out."""
        return f"packages/{self.sha256[:2]}/{self.sha256[2:4]}/{self.sha256[4:]:.60}/{quote(self.filename)}"

    @property
    def module(self) -> str:
        """What to import after it was installed."""
        return self.name.replace("-", "_").replace(".", "_").lower()


# --- building ---------------------------------------------------------------------------------------------------------


def build_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    extras: Mapping[str, Sequence[str]] | None = None,
    requires_python: str | None = None,
    tag: str = "py3-none-any",
    filler: int = 0,
    files: Mapping[str, bytes] | None = None,
    yanked: str | None = None,
    dist_info_first: bool = False,
    wrong_record: bool = False,
) -> BuiltFile:
    """Write a wheel that pip installs; ``filler`` bytes of noise are stored in it as they are.

    ``files`` are further members. ``wrong_record`` names another hash for the module in RECORD: the ZIP is whole and
    its content is not what its maker listed.
    """
    distribution = re.sub(r"[-_.]+", "_", name).lower()
    module = name.replace("-", "_").replace(".", "_").lower()
    info = f"{distribution}-{version}.dist-info"
    metadata = _metadata(name, version, requires, extras or {}, requires_python)
    purelib = str(tag.endswith("-any")).lower()
    wheel = f"Wheel-Version: 1.0\nGenerator: support.pip_index\nRoot-Is-Purelib: {purelib}\nTag: {tag}\n"
    code = f'"""{name}, built for a test."""\n\nVERSION = "{version}"\n'
    content = {f"{module}/__init__.py": code.encode(), **(files or {})}
    about = {f"{info}/METADATA": metadata, f"{info}/WHEEL": wheel.encode()}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{distribution}-{version}-{tag}.whl"
    rows: list[str] = []
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in ({**about, **content} if dist_info_first else content).items():
            rows.append(_add(archive, member, data))
        if filler:
            rows.append(_add_filler(archive, f"{module}/filler.bin", filler, seed=f"{name}-{version}"))
        for member, data in ({} if dist_info_first else about).items():
            rows.append(_add(archive, member, data))
        if wrong_record:
            wrong = _record_digest(hashlib.sha256(b"something else"))
            rows = [re.sub(r"sha256=[^,]+", wrong, row) if "__init__" in row else row for row in rows]
        rows.append(f"{info}/RECORD,,")
        _add(archive, f"{info}/RECORD", ("\n".join(rows) + "\n").encode())
    return _built(path, name, version, metadata, requires_python=requires_python, yanked=yanked)


def build_sdist(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    requires_python: str | None = None,
    trap: Path | None = None,
) -> BuiltFile:
    """Write an sdist whose build backend lies in it and needs nothing; the backend creates the file ``trap`` if run."""
    distribution = re.sub(r"[-_.]+", "_", name).lower()
    metadata = _metadata(name, version, requires, {}, requires_python)
    members = {
        "PKG-INFO": metadata,
        "pyproject.toml": b'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": _BACKEND.format(
            module=distribution, version=version, info=f"{distribution}-{version}.dist-info", trap=str(trap or "")
        ).encode(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{distribution}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for member, data in members.items():
            row = tarfile.TarInfo(f"{distribution}-{version}/{member}")
            row.size = len(data)
            archive.addfile(row, io.BytesIO(data))
    return _built(path, name, version, metadata, requires_python=requires_python)


def big_wheel(folder: Path, *, name: str = "torch", version: str = "1.6.0+cu101", size: int = 300 * 10**6) -> BuiltFile:
    """A wheel of about ``size`` bytes that does not compress; kept where ``folder`` has it already."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    if path.exists():
        return _built(path, name, version, _metadata(name, version, (), {}, None))
    return build_wheel(folder, name, version, filler=size)


# --- pages ------------------------------------------------------------------------------------------------------------


def write_index(
    root: Path,
    files: Iterable[BuiltFile],
    *,
    html: bool = True,
    json: bool = True,
    hashes: bool = True,
    core_metadata: bool = True,
    prefix: str = "",
    file_base: str | None = None,
    wrong_hash: Mapping[str, str] | None = None,
    uploaded: Mapping[str, str] | None = None,
) -> None:
    """Write ``<prefix>simple/<project>/`` pages and the files they link to below ``root``; earlier projects stay.

    ``core_metadata`` writes ``<file>.metadata`` beside each wheel and says so (PEP 658, 714). ``file_base``: links are
    absolute below this URL; they are relative without it. ``wrong_hash``: file name -> the sha256 that the pages name.
    ``uploaded``: file name -> its ``upload-time``. ``html`` and ``json``: the forms in which pages are there (PEP 503
    and 691; sizes and upload times only in JSON, PEP 700).
    """
    projects: dict[str, list[BuiltFile]] = {}
    for file in files:
        projects.setdefault(file.normalized, []).append(file)
        put(root / prefix / _unquoted(file), file)
        if core_metadata and file.filename.endswith(".whl"):
            (root / prefix / (_unquoted(file) + ".metadata")).write_bytes(file.metadata)
    base = file_base.rstrip("/") if file_base is not None else "../.."
    for project, members in projects.items():
        rows = [_row(file, f"{base}/{file.url_path}", hashes, core_metadata, wrong_hash or {}) for file in members]
        _write_page(
            root / prefix / "simple" / project,
            _project_html(rows),
            _project_json(project, rows, uploaded or {}),
            html,
            json,
        )
    simple = root / prefix / "simple"
    simple.mkdir(parents=True, exist_ok=True)
    names = sorted(entry.name for entry in simple.iterdir() if entry.is_dir())
    links = "".join(f'<a href="{name}/">{name}</a>\n' for name in names)
    listing = {"meta": {"api-version": "1.1"}, "projects": [{"name": name} for name in names]}
    _write_page(simple, _HTML.format(body=links), json_format.dumps(listing), html, json)


def write_find_links(
    root: Path, files: Iterable[BuiltFile], *, page: str = "whl/torch_stable.html", hashes: bool = False
) -> None:
    """Write a flat page of links as download.pytorch.org has one: wheels of ``+cu101`` below ``cu101/``, no hashes."""
    place = root / page
    place.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for file in files:
        variant = file.version.partition("+")[2]
        where = f"{variant}/{file.filename}" if variant else file.filename
        put(place.parent / where, file)
        fragment = f"#sha256={file.sha256}" if hashes else ""
        lines.append(f'<a href="{quote(where)}{fragment}">{markup.escape(where)}</a><br>\n')
    place.write_text("".join(lines), encoding="utf-8")


def put(place: Path, file: BuiltFile) -> None:
    """Lay a built file somewhere else too, without copying it where the file system can do so."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    try:
        os.link(file.path, place)
    except OSError:
        place.write_bytes(file.path.read_bytes())


# --- inside -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Row:
    file: BuiltFile
    url: str
    sha256: str | None
    metadata_sha256: str | None
    attributes: Mapping[str, str] = field(default_factory=dict)


def _row(file: BuiltFile, url: str, hashes: bool, core_metadata: bool, wrong: Mapping[str, str]) -> _Row:
    told = wrong.get(file.filename, file.sha256) if hashes else None
    has_metadata = core_metadata and file.filename.endswith(".whl")
    metadata = hashlib.sha256(file.metadata).hexdigest() if has_metadata else None
    attributes = {}
    if metadata is not None:
        attributes = {"data-core-metadata": f"sha256={metadata}", "data-dist-info-metadata": f"sha256={metadata}"}
    if file.requires_python is not None:
        attributes["data-requires-python"] = file.requires_python
    if file.yanked is not None:
        attributes["data-yanked"] = file.yanked
    return _Row(file, url, told, metadata, attributes)


def _project_html(rows: Sequence[_Row]) -> str:
    lines = []
    for row in rows:
        fragment = "" if row.sha256 is None else f"#sha256={row.sha256}"
        more = "".join(f' {key}="{markup.escape(value)}"' for key, value in row.attributes.items())
        lines.append(f'<a href="{markup.escape(row.url + fragment)}"{more}>{row.file.filename}</a><br>\n')
    return _HTML.format(body="".join(lines))


def _project_json(project: str, rows: Sequence[_Row], uploaded: Mapping[str, str]) -> str:
    files = []
    for row in rows:
        entry: dict[str, object] = {
            "filename": row.file.filename,
            "url": row.url,
            "hashes": {} if row.sha256 is None else {"sha256": row.sha256},
            "size": row.file.size,
            "yanked": False if row.file.yanked is None else (row.file.yanked or True),
            "core-metadata": {"sha256": row.metadata_sha256} if row.metadata_sha256 else False,
        }
        if row.file.requires_python is not None:
            entry["requires-python"] = row.file.requires_python
        if row.file.filename in uploaded:
            entry["upload-time"] = uploaded[row.file.filename]
        files.append(entry)
    versions = sorted({row.file.version for row in rows})
    page = {"meta": {"api-version": "1.1"}, "name": project, "versions": versions, "files": files}
    return json_format.dumps(page)


def _write_page(folder: Path, as_html: str, as_json: str, html: bool, json: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text, wanted in (("index.html", as_html, html), ("index.json", as_json, json)):
        if wanted:
            (folder / name).write_text(text, encoding="utf-8")
        else:
            (folder / name).unlink(missing_ok=True)


def _unquoted(file: BuiltFile) -> str:
    return f"{file.url_path.rpartition('/')[0]}/{file.filename}"


def _built(
    path: Path,
    name: str,
    version: str,
    metadata: bytes,
    *,
    requires_python: str | None = None,
    yanked: str | None = None,
) -> BuiltFile:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(MIB):
            digest.update(chunk)
    return BuiltFile(path, name, version, path.stat().st_size, digest.hexdigest(), metadata, requires_python, yanked)


def _metadata(
    name: str, version: str, requires: Sequence[str], extras: Mapping[str, Sequence[str]], requires_python: str | None
) -> bytes:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", "Summary: Built for a test."]
    if requires_python is not None:
        lines.append(f"Requires-Python: {requires_python}")
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    for extra, needed in extras.items():
        lines.append(f"Provides-Extra: {extra}")
        for requirement in needed:
            what, _, marker = requirement.partition(";")
            condition = f'({marker.strip()}) and extra == "{extra}"' if marker else f'extra == "{extra}"'
            lines.append(f"Requires-Dist: {what.strip()}; {condition}")
    return ("\n".join(lines) + "\n").encode()


def _add(archive: zipfile.ZipFile, member: str, data: bytes) -> str:
    """Add one member, and give its line of RECORD."""
    row = zipfile.ZipInfo(member, DATE)
    row.external_attr = 0o644 << 16
    row.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(row, data)
    path = '"' + member.replace('"', '""') + '"' if set(member) & set('",') else member  # RFC 4180
    return f"{path},{_record_digest(hashlib.sha256(data))},{len(data)}"


def _add_filler(archive: zipfile.ZipFile, member: str, size: int, *, seed: str) -> str:
    row = zipfile.ZipInfo(member, DATE)
    row.external_attr = 0o644 << 16
    row.file_size = size
    noise, digest, left = random.Random(seed), hashlib.sha256(), size
    with archive.open(row, "w") as target:
        while left:
            chunk = noise.randbytes(min(left, MIB))
            digest.update(chunk)
            target.write(chunk)
            left -= len(chunk)
    return f"{member},{_record_digest(digest)},{size}"


def _record_digest(digest: hashlib._Hash) -> str:
    return "sha256=" + base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()


_HTML = """<!DOCTYPE html>
<html><head><meta name="pypi:repository-version" content="1.1"></head><body>
{body}</body></html>
"""

_BACKEND = '''"""Builds a wheel with nothing but the standard library."""
import zipfile
from pathlib import Path

if {trap!r}:
    Path({trap!r}).write_text("the backend was run")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = "{module}-{version}-py3-none-any.whl"
    code = 'VERSION = "{version}"\\n'
    wheel = "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w") as archive:
        archive.writestr("{module}/__init__.py", code)
        archive.writestr("{info}/METADATA", Path("PKG-INFO").read_text())
        archive.writestr("{info}/WHEEL", wheel)
        rows = ["{module}/__init__.py", "{info}/METADATA", "{info}/WHEEL", "{info}/RECORD"]
        archive.writestr("{info}/RECORD", "".join(row + ",,\\n" for row in rows))
    return name
'''
