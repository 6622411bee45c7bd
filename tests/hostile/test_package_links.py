"""Below an unpacked package no link is followed, and only regular files of a bounded size are read."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import resume_dl
from resume_dl.caches.conda.extraction_folders import extraction_folder
from resume_dl.caches.conda.lookup import is_whole, look
from resume_dl.caches.conda.publish import claim_for_client, publish_entry
from resume_dl.caches.package_caches import CondaCache, RattlerCache
from resume_dl.caches.rattler import publish_for_rattler
from resume_dl.demo.package import PackageSpec, index_json
from resume_dl.errors import IntegrityError, StoreError
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.transfer.extraction import Extractor

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="making symbolic links takes a privilege on Windows")

INDEX = json.dumps(index_json(PackageSpec(name="evil", version="1")))
SHA256 = "a" * 64


def artifact(sha256: str = SHA256, size: int | None = None, base: str = "https://conda.example/linux-64") -> Artifact:
    url = RedactedUrl(f"{base}/evil-1-0.tar.bz2")
    return Artifact(
        kind="conda", filename="evil-1-0.tar.bz2", url=url, client_url=url, size=size, sha256=sha256,
        name="evil", version="1", build="0",
    )  # fmt: skip


def write_archive(path: Path, links: dict[str, str]) -> Artifact:
    """A package with these links in it, and nothing else than what makes it one."""
    with tarfile.open(path, "w:bz2") as tar:
        for name, target in links.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
        for name, text in {"info/index.json": INDEX, "info/files": ""}.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    data = path.read_bytes()
    return artifact(hashlib.sha256(data).hexdigest(), len(data))


def unpacked(pkgs: Path) -> Path:
    """An extraction folder with a package in it, as unpacking leaves it."""
    folder = extraction_folder(pkgs) / "package"
    (folder / "info").mkdir(parents=True)
    (folder / "info" / "index.json").write_text(INDEX)
    (folder / "info" / "files").write_text("")
    return folder


def with_linked_info(pkgs: Path, elsewhere: Path) -> Path:
    """The same, with its ``info`` outside of it."""
    folder = unpacked(pkgs)
    (folder / "info").rename(elsewhere)
    (folder / "info").symlink_to(elsewhere)
    return folder


@pytest.mark.parametrize("kind", [CondaCache, RattlerCache])
def test_a_record_that_a_package_brings_as_a_link(tmp_path: Path, kind: type[CondaCache | RattlerCache]) -> None:
    """A real archive, really unpacked: the user's file that the link names stays, and the record is a file."""
    thesis, pkgs = tmp_path / "thesis.txt", tmp_path / "pkgs"
    thesis.write_text("years")
    pkgs.mkdir()
    wanted = write_archive(pkgs / "evil-1-0.tar.bz2", {"info/repodata_record.json": str(thesis)})
    extractor = Extractor(kind(pkgs))
    extractor.submit(wanted)
    (done,) = extractor.finish()
    assert thesis.read_text() == "years"
    assert done.error is None
    record = pkgs / "evil-1-0" / "info" / "repodata_record.json"
    assert not record.is_symlink()
    assert json.loads(record.read_bytes())["sha256"] == wanted.sha256
    assert sorted(path.name for path in record.parent.iterdir()) == ["files", "index.json", "repodata_record.json"]


def test_a_package_whose_info_is_a_link_is_not_published(tmp_path: Path) -> None:
    """Its record would be written where the link leads, in both caches."""
    elsewhere = tmp_path / "elsewhere"
    folder = with_linked_info(tmp_path / "pkgs", elsewhere)
    for publish in (
        lambda: publish_entry(tmp_path / "pkgs", artifact(), archive=None, extracted=folder),
        lambda: publish_for_rattler(tmp_path / "pkgs", artifact(), folder),
    ):
        with pytest.raises(IntegrityError, match="no readable info"):
            publish()
    assert sorted(path.name for path in elsewhere.iterdir()) == ["files", "index.json"]
    assert not (tmp_path / "pkgs" / "evil-1-0").exists()


def test_an_entry_whose_info_became_a_link_is_not_claimed(tmp_path: Path) -> None:
    """Its record is replaced by one of another URL: inside of the package, or not at all."""
    pkgs, elsewhere = tmp_path / "pkgs", tmp_path / "elsewhere"
    folder = unpacked(pkgs)
    entry = publish_entry(pkgs, artifact(), archive=None, extracted=folder)
    assert entry.extracted is not None
    (entry.extracted / "info").rename(elsewhere)
    before = (elsewhere / "repodata_record.json").read_bytes()
    (entry.extracted / "info").symlink_to(elsewhere)
    with pytest.raises(StoreError):
        claim_for_client(entry, artifact(base="https://mirror.example/linux-64"))
    assert (elsewhere / "repodata_record.json").read_bytes() == before
    assert look(pkgs, artifact()) is None
    assert not is_whole(entry.extracted)


def test_a_package_folder_that_is_a_link_is_no_entry(tmp_path: Path) -> None:
    """Another user of a shared cache made it: what it leads to is theirs, and changes when they like."""
    pkgs = tmp_path / "pkgs"
    publish_entry(pkgs, artifact(), archive=None, extracted=unpacked(pkgs))
    (pkgs / "evil-1-0").rename(tmp_path / "theirs")
    (pkgs / "evil-1-0").symlink_to(tmp_path / "theirs")
    assert look(pkgs, artifact()) is None
    publish_entry(pkgs, artifact(), archive=None, extracted=unpacked(pkgs))
    assert not (pkgs / "evil-1-0").is_symlink()
    assert (tmp_path / "theirs" / "info" / "index.json").is_file()


CHECK = """
import sys
from pathlib import Path
from resume_dl.caches.conda.publish import is_whole
print(is_whole(Path(sys.argv[1])))
"""


def limited() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


@pytest.mark.parametrize("name", ["paths.json", "files", "index.json"])
@pytest.mark.parametrize("kind", ["endless", "pipe", "link to a pipe"])
def test_endless_files_and_pipes_in_a_package(tmp_path: Path, name: str, kind: str) -> None:
    """``/dev/zero`` ended in MemoryError, and a FIFO is read for ever: neither is opened."""
    folder = unpacked(tmp_path / "pkgs")
    place = folder / "info" / name
    place.unlink(missing_ok=True)
    if name == "files":
        (folder / "info" / "paths.json").write_text("[]")
    if kind == "endless":
        place.symlink_to("/dev/zero")
    else:
        pipe = place if kind == "pipe" else tmp_path / "pipe"
        os.mkfifo(pipe)
        if pipe != place:
            place.symlink_to(pipe)
    done = subprocess.run(
        [sys.executable, "-c", CHECK, str(folder)], preexec_fn=limited, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    expected = "True\n" if name == "paths.json" else "False\n"  # then ``files``, which is empty, counts
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_a_description_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    """64 MiB and one byte, as a hole: nothing of it comes into memory as an object."""
    folder = unpacked(tmp_path / "pkgs")
    with (folder / "info" / "files").open("r+b") as file:
        file.truncate((64 << 20) + 1)
    assert not is_whole(folder)


def test_the_first_look_of_the_plugin_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    """conda would hang in its hook."""
    (tmp_path / "evil-1-0" / "info").mkdir(parents=True)
    os.mkfifo(tmp_path / "evil-1-0" / "info" / "repodata_record.json")

    class Record(dict[str, str]):
        fn = "evil-1-0.conda"

    place = Path(resume_dl.__file__).parent / "conda_plugin" / "cache_check.py"  # its package imports conda
    spec = importlib.util.spec_from_file_location("cache_check", place)
    assert spec is not None
    assert spec.loader is not None
    cache_check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cache_check)
    record = Record(url="https://conda.example/linux-64/evil-1-0.conda", sha256=SHA256)
    assert cache_check.uncached([record], [str(tmp_path)]) == [record]
