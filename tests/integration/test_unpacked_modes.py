"""Unpacked packages have the modes that conda gives them: the archive's, less the umask."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from resume_dl.caches.conda.lookup import stem
from resume_dl.caches.package_caches import CondaCache
from resume_dl.demo.package import PackageSpec, index_json
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.transfer.extraction import Extractor
from support.conda_cache import extract_all

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes and the umask are POSIX")

FOLDERS = {"share/private": 0o750, "share/wide": 0o777, "share/holds": 0o775}
FILES = {
    "bin/run": 0o755,
    "lib/nobodys": 0o000,
    "lib/group.txt": 0o664,
    "lib/private": 0o600,
    "lib/read-only": 0o444,
    "lib/wide": 0o777,
    "share/holds/data": 0o666,
}
SUID = {"bin/suid": 0o4755, "bin/sgid": 0o2775}
INFO = {"info/index.json": 0o644, "info/files": 0o664}


@pytest.fixture(params=[0o022, 0o077, 0o002], ids=oct)
def umask(request) -> Iterator[int]:
    """Children start with it too."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def member(name: str, mode: int, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.type, info.linkname = mode, kind, link
    return info


def put_content(tar: tarfile.TarFile) -> None:
    for name, mode in FOLDERS.items():
        tar.addfile(member(name, mode, tarfile.DIRTYPE))
    for name, mode in {**FILES, **SUID}.items():
        tar.addfile(member(name, mode))
    tar.addfile(member("lib/hard", FILES["lib/wide"], tarfile.LNKTYPE, "lib/wide"))
    tar.addfile(member("lib/soft", 0o777, tarfile.SYMTYPE, "group.txt"))
    tar.addfile(member("lib/to-folder", 0o777, tarfile.SYMTYPE, "../share/wide"))
    tar.addfile(member("lib/dangling", 0o777, tarfile.SYMTYPE, "nowhere"))


def put_info(tar: tarfile.TarFile) -> None:
    contents = {"info/index.json": json.dumps(index_json(PackageSpec(name="modes", version="1"))), "info/files": ""}
    for name, text in contents.items():
        info = member(name, INFO[name])
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text.encode()))


def write_both(folder: Path) -> list[Path]:
    """The same package in both formats."""
    old, new = folder / "old-1-0.tar.bz2", folder / "new-1-0.conda"
    with tarfile.open(old, "w:bz2") as tar:
        put_content(tar)
        put_info(tar)
    with zipfile.ZipFile(new, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"conda_pkg_format_version": 2}))
        for part, put in (("pkg", put_content), ("info", put_info)):
            with archive.open(f"{part}-{stem(new.name)}.tar.zst", "w") as target:
                compressor = zstandard.ZstdCompressor()
                with (
                    compressor.stream_writer(target, closefd=False) as frame,
                    tarfile.open(mode="w|", fileobj=frame) as tar,
                ):
                    put(tar)
    return [old, new]


def unpack(archive: Path) -> Path:
    """Into a complete entry beside the archive."""
    cache = CondaCache(archive.parent)
    extractor = Extractor(cache)
    data = archive.read_bytes()
    url = RedactedUrl(f"https://conda.example/linux-64/{archive.name}")
    sha256 = hashlib.sha256(data).hexdigest()
    extractor.submit(
        Artifact(kind="conda", filename=archive.name, url=url, client_url=url, size=len(data), sha256=sha256)
    )
    (done,) = extractor.finish()
    assert done.error is None
    return archive.parent / stem(archive.name)


def modes(folder: Path) -> dict[str, str]:
    """Of the folder and all below it but our record: kind and mode, as ``ls -l`` shows them."""
    paths = [path for path in folder.rglob("*") if path.name != "repodata_record.json"]
    return {path.relative_to(folder).as_posix(): stat.filemode(path.lstat().st_mode) for path in [folder, *paths]}


def test_modes_are_condas(tmp_path, umask):
    """Every path of both formats, as conda's own library unpacks it; but rattler drops setuid and setgid."""
    pkgs = tmp_path / "pkgs"
    pkgs.mkdir()
    archives = write_both(pkgs)
    extract_all(archives, tmp_path / "condas")
    for archive in archives:
        ours, condas = modes(unpack(archive)), modes(tmp_path / "condas" / archive.name)
        for name, mode in SUID.items():
            assert condas.pop(name) == stat.filemode(stat.S_IFREG | mode & ~umask)
            assert ours.pop(name) == stat.filemode(stat.S_IFREG | mode & 0o777 & ~umask)
        assert ours == condas
        wanted = {name: stat.filemode(stat.S_IFREG | mode & ~umask) for name, mode in {**FILES, **INFO}.items()}
        wanted |= {name: stat.filemode(stat.S_IFDIR | mode & ~umask) for name, mode in FOLDERS.items()}
        assert wanted.items() <= ours.items()
