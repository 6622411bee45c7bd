"""One tar: the same bytes for the same files, readable by everybody's tar, never half there."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from bundle.files import NAMES, contents, make
from resume_dl.bundle.tar import (
    MTIME,
    Member,
    bundle_members,
    in_order,
    mtime_of,
    tar_blocks,
    tar_size,
    write_tar,
)
from resume_dl.bundle.unfinished import writing
from resume_dl.errors import (
    ConfigurationError,
    DigestMismatchError,
    Interrupted,
    LockedError,
    NotWritableError,
    OutOfSpaceError,
    SizeMismatchError,
    StoreError,
)
from support.processes import WAS_KILLED

GOLDEN = "b45d3e6dc7c9dfbfe9e4474d85ddfb3ef7c0f2ba14d5174e1e7f60fb96efcf14"


CHILD = """
import hashlib, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from bundle.files import NAMES, make
from resume_dl.bundle.tar import in_order, write_tar
os.umask(int(sys.argv[2], 8))
names = NAMES[::int(sys.argv[3])]
members = make(Path(sys.argv[1]) / "files", names)
for number, member in enumerate(members):
    os.utime(member.source, (number, int(sys.argv[2], 8) * 1000))
    member.source.chmod(0o777 - int(sys.argv[2], 8))
write_tar(in_order(members), Path(sys.argv[1]) / "x.tar")
"""


def test_the_same_files_give_the_same_bytes_on_any_machine(tmp_path: Path) -> None:
    digests = set()
    for umask, step, settings in (
        ("022", "1", {"LC_ALL": "C", "PYTHONHASHSEED": "1", "TZ": "UTC"}),
        ("077", "-1", {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2", "TZ": "Asia/Shanghai"}),
    ):
        folder = tmp_path / f"with umask {umask}"
        folder.mkdir()
        arguments = [sys.executable, "-c", CHILD, folder, umask, step, Path(__file__).parents[1]]
        subprocess.run(arguments, check=True, env={**os.environ, **settings}, timeout=60)
        digests.add(hashlib.sha256((folder / "x.tar").read_bytes()).hexdigest())
    # the second half holds on every version of Python and every platform: a change of it is a change of the format
    assert digests == {GOLDEN}


def test_the_order_is_what_a_reader_needs_first_then_by_path(tmp_path: Path) -> None:
    members = in_order(make(tmp_path, NAMES[::-1]))
    paths = [member.path for member in members]
    assert paths[:3] == ["manifest.json", "manifest.json.sig", "SHA256SUMS"]
    assert paths[3:] == sorted(NAMES[3:])


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, list[Member]]:
    members = in_order(make(tmp_path / "files", NAMES))
    tar = tmp_path / "X ü.tar"
    assert write_tar(members, tar) == tar.stat().st_size == tar_size(members)
    return tar, members


def test_python_reads_it(written: tuple[Path, list[Member]], tmp_path: Path) -> None:
    tar, members = written
    with tarfile.open(tar) as opened:
        found = opened.getmembers()
        assert [each.name for each in found] == [member.path for member in members]
        assert {(e.mode, e.uid, e.gid, e.uname, e.gname, e.mtime, e.isreg()) for e in found} == {
            (0o644, 0, 0, "", "", MTIME, True)
        }
        opened.extractall(tmp_path / "out", filter="data")
    check_extracted(tmp_path / "out")


@pytest.mark.parametrize("program", ["tar", "bsdtar"])
def test_the_systems_tar_reads_it(program: str, written: tuple[Path, list[Member]], tmp_path: Path) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"no {program} here")
    tar, members = written
    (tmp_path / "out").mkdir()
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    listed = subprocess.run([program, "-tf", tar], env=env, capture_output=True, check=True, timeout=60)
    assert len(listed.stdout.splitlines()) == len(members)
    done = subprocess.run(
        [program, "-xf", tar, "-C", tmp_path / "out"], env=env, capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
    check_extracted(tmp_path / "out")


def check_extracted(folder: Path) -> None:
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == {name: contents(name) for name in NAMES}


def test_a_file_of_nine_gib_is_followed_by_the_next(tmp_path: Path) -> None:
    size, tar = 9 * 1024**3, tmp_path / "x.tar"
    (tmp_path / "next").write_bytes(b"next")
    big = Member("big", tmp_path / "not there", size, "0" * 64)
    after = Member("next", tmp_path / "next", 4, hashlib.sha256(b"next").hexdigest())
    assert tar_size([big, after]) == tar_size([big]) + 1024
    header = bytes(next(tar_blocks([big])))
    assert b" size=9663676416\n" in header  # eleven octal digits end at 8 GiB
    with tar.open("wb") as file:
        file.write(header)
        file.seek(size, os.SEEK_CUR)  # sparse
        for block in tar_blocks([after]):
            file.write(block)
    with tarfile.open(tar) as opened:
        assert [(each.name, each.size) for each in opened.getmembers()] == [("big", size), ("next", 4)]
    if shutil.which("tar"):
        listed = subprocess.run(["tar", "-tf", tar], capture_output=True, text=True, check=True, timeout=60)
        assert listed.stdout.split() == ["big", "next"]


@pytest.mark.parametrize("change", ["flip", "shorten", "lengthen", "remove"])
def test_a_file_that_changed_is_refused_and_what_was_there_stays(change: str, tmp_path: Path) -> None:
    members = make(tmp_path / "files", ["manifest.json", "b"])
    source, data = members[1].source, members[1].source.read_bytes()
    tar = tmp_path / "x.tar"
    tar.write_bytes(b"an earlier one")
    if change == "remove":
        source.unlink()
    else:
        source.write_bytes({"flip": b"B" + data[1:], "shorten": data[:-1], "lengthen": data + b"!"}[change])
    expected = {"flip": DigestMismatchError, "remove": StoreError}.get(change, SizeMismatchError)
    with pytest.raises(expected, match=r"files.b"):
        write_tar(members, tar)
    assert tar.read_bytes() == b"an earlier one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "x.tar"]


def test_a_stopped_run_leaves_nothing(tmp_path: Path) -> None:
    members = make(tmp_path / "files", ["a"])
    with pytest.raises(Interrupted):
        write_tar(members, tmp_path / "x.tar", cancelled=lambda: True)
    assert [path.name for path in tmp_path.iterdir()] == ["files"]


def test_a_killed_run_leaves_no_tar_and_the_next_makes_it(tmp_path: Path) -> None:
    script = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from bundle.files import NAMES, make
from support.processes import KILL
from resume_dl.bundle.tar import in_order, write_tar
members = in_order(make(Path("files"), NAMES))
told = []
def count(size):
    told.append(size)
    if len(told) == 9:
        os.kill(os.getpid(), KILL)
write_tar(members, Path("x.tar"), progress=count)
"""
    died = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False, timeout=60)
    assert died.returncode == WAS_KILLED
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "x.tar.unfinished"]
    members = in_order(make(tmp_path / "files", NAMES))
    write_tar(members, tmp_path / "x.tar")
    assert hashlib.sha256((tmp_path / "x.tar").read_bytes()).hexdigest() == GOLDEN
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "x.tar"]


def test_of_two_that_write_one_name_the_first_gives_way(tmp_path: Path) -> None:
    members = make(tmp_path / "files", ["a", "b"])
    tar, begun = tmp_path / "x.tar", []

    def other(_: int) -> None:
        if not begun:
            begun.append(True)
            write_tar(members, tar)

    with pytest.raises(LockedError):
        write_tar(members, tar, progress=other)
    assert tar.stat().st_size == tar_size(members)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "x.tar"]


def test_room_is_looked_at_before(tmp_path: Path) -> None:
    members = [Member("big", tmp_path / "not there", 10**18, "0" * 64)]
    with pytest.raises(OutOfSpaceError) as raised:
        write_tar(members, tmp_path / "x.tar")
    assert raised.value.needed == tar_size(members) > raised.value.free
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux" or not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OutOfSpaceError), writing(tmp_path), Path("/dev/full").open("wb", buffering=0) as full:
        full.write(b"x")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_read_only_folder_is_reported(number: int, tmp_path: Path) -> None:
    with pytest.raises(NotWritableError, match="there"), writing(tmp_path):
        raise OSError(number, "no", "there")


@pytest.mark.skipif(sys.platform == "win32", reason="no limit for a file's size")
def test_a_file_system_without_large_files_is_reported(tmp_path: Path) -> None:
    script = """
import resource
from pathlib import Path
from resume_dl.bundle.unfinished import Unfinished, writing
from resume_dl.errors import StoreError
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
file = Unfinished(Path("x.tar"))
try:
    with writing(Path(".")):
        for _ in range(1000):
            file.write(bytes(4096))
except StoreError as error:
    print(error.hint)
file.discard()
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert "FAT32" in ran.stdout, ran
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("text", "expected"), [("", MTIME), ("0", 0), ("1700000000", 1700000000)])
def test_source_date_epoch(text: str, expected: int) -> None:
    assert mtime_of({"SOURCE_DATE_EPOCH": text}) == expected
    assert mtime_of({}) == MTIME


@pytest.mark.parametrize("text", ["yesterday", "-1", "1.5", "²", str(8**11)])
def test_a_wrong_source_date_epoch_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="SOURCE_DATE_EPOCH"):
        mtime_of({"SOURCE_DATE_EPOCH": text})


def test_the_members_of_a_bundle_are_those_of_its_sums(tmp_path: Path) -> None:
    members = make(tmp_path, [name for name in NAMES if name != "SHA256SUMS"])
    lines = sorted((member.path, member.sha256) for member in members)
    (tmp_path / "SHA256SUMS").write_text(
        "".join(f"{sha256}  {path}\n" for path, sha256 in lines), "utf-8", newline="\n"
    )
    (tmp_path / ".DS_Store").write_bytes(b"not listed")
    found = bundle_members(tmp_path)
    assert [member for member in found if member.path != "SHA256SUMS"] == in_order(members)
    write_tar(found, tmp_path.with_name("x.tar"))
