"""A bundle in a tar: verified without unpacking, and unpacked so that nothing is written outside or unverified."""

from __future__ import annotations

import bz2
import hashlib
import io
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from resume_dl.offline_tools.tarred.tar_check import check_tar
from resume_dl.offline_tools.tarred.unpack_tar import unpack
from resume_dl.offline_tools.verification import judge
from resume_dl.offline_tools.verification.check import check
from resume_dl.offline_tools.verification.findings import Report
from support.hand_bundle import NUMPY, PYTZ, TQDM, bundle_tar, files, hand_bundle, packages, paths_in, tarred

Unpack = Callable[[Path, Path], Report]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "bundle"
    hand_bundle(folder)
    return folder


@pytest.fixture
def tar(bundle: Path, tmp_path: Path) -> Path:
    return bundle_tar(bundle, tmp_path / "bundle.tar")


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """Where it is unpacked, in a room of its own; nothing may appear beside it."""
    room = tmp_path / "room"
    room.mkdir()
    yield room / "target"
    assert [each.name for each in room.iterdir()] in ([], ["target"])


def found(report: Report) -> list[tuple[str, str]]:
    return [(problem.path, problem.what) for problem in report.problems]


def tar_of(path: Path, bundle: Path, extra: tuple[tarfile.TarInfo, ...] = ()) -> Path:
    """The bundle by Python's own tarfile, with these members too."""
    with tarfile.open(path, "w") as archive:
        for name in paths_in(bundle):
            archive.add(bundle / name, name)
        for info in extra:
            archive.addfile(info, io.BytesIO(bytes(info.size)))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info


def test_a_valid_tar_is_verified_and_unpacked(tar: Path, bundle: Path, target: Path) -> None:
    report = check_tar(tar)
    assert (report.problems, report.warnings) == ([], [])
    assert report.verified == {*packages(), *files()}
    report = unpack(tar, target)
    assert (report.problems, report.warnings) == ([], [])
    assert paths_in(target) == paths_in(bundle)
    assert all((target / path).read_bytes() == (bundle / path).read_bytes() for path in paths_in(bundle))
    assert not (target / ".resume-dl").exists()
    assert check(target).problems == []


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_a_tar_of_other_programs(bundle: Path, tmp_path: Path, target: Path, form: int) -> None:
    long = "wheels/" + "a" * 120 + "-1.0-py3-none-any.whl"
    deep = "simple/" + "b" * 80 + "/index.html"
    shutil.rmtree(bundle)
    wheel = packages()[TQDM]
    archives = {**packages(), **({} if form == tarfile.USTAR_FORMAT else {long: wheel})}
    hand_bundle(bundle, archives=archives, others={**files(), deep: b"", "simple/ü/index.html": b"u"})
    tar = tmp_path / "x.tar"
    with tarfile.open(tar, "w", format=form) as archive:
        archive.add(bundle, ".")  # ./manifest.json, and folders
    assert check_tar(tar).problems == []
    assert unpack(tar, target).problems == []
    assert paths_in(target) == paths_in(bundle)


HOSTILE = {
    "above": member("../evil"),
    "far above": member("channel/../../evil"),
    "absolute": member("/tmp/evil"),
    "drive": member("C:/evil"),
    "backslash": member("..\\evil"),
    "reserved": member("wheels/NUL"),
    "symlink": member("channel/link", tarfile.SYMTYPE, "/etc"),
    "symlink inside": member("alias", tarfile.SYMTYPE, "README.txt"),
    "hard link": member("wheels/hard.whl", tarfile.LNKTYPE, "/etc/passwd"),
    "character device": member("null", tarfile.CHRTYPE),
    "block device": member("disk", tarfile.BLKTYPE),
    "pipe": member("pipe", tarfile.FIFOTYPE),
    "old sparse": member("sparse", tarfile.GNUTYPE_SPARSE),
    "contiguous": member("odd", tarfile.CONTTYPE),
    "twice": member("README.txt"),
    "twice on some disks": member("readme.TXT"),
    "folder above": member("../evil/", tarfile.DIRTYPE),
    "added": member("wheels/evil.whl"),
    "added at the root": member("json.py"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_member(bundle: Path, tmp_path: Path, target: Path, kind: str) -> None:
    tar = tar_of(tmp_path / "x.tar", bundle, (HOSTILE[kind],))
    what = "added" if kind.startswith("added") else "unsafe"
    for report in (check_tar(tar), unpack(tar, target)):
        assert [problem.what for problem in report.problems] == [what]
        assert report.exit_code == 4
    assert not target.exists()


def test_a_folder_may_name_a_size_and_has_no_bytes(bundle: Path, tmp_path: Path) -> None:
    """Once a quota (pax(1), "ustar Interchange Format", size)."""
    tar = tmp_path / "x.tar"
    with tarfile.open(tar, "w") as archive:
        archive.addfile(member("channel", tarfile.DIRTYPE, size=512))
        for name in paths_in(bundle):
            archive.add(bundle / name, name)
    assert check_tar(tar).problems == []


def test_a_link_in_the_place_of_a_listed_file(bundle: Path, tmp_path: Path, target: Path) -> None:
    (bundle / TQDM).unlink()
    tar = tar_of(tmp_path / "x.tar", bundle, (member(TQDM, tarfile.SYMTYPE, "/etc/passwd"),))
    assert found(check_tar(tar)) == [(TQDM, "unsafe")]
    assert found(unpack(tar, target)) == [(TQDM, "unsafe")]
    assert not target.exists()


def test_a_sparse_file_in_pax_headers(bundle: Path, tmp_path: Path, target: Path) -> None:
    info = member("sparse", size=512)
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1" + "0" * 15}
    tar = tar_of(tmp_path / "x.tar", bundle, (info,))
    for report in (check_tar(tar), unpack(tar, target)):
        assert "holds a sparse file" in report.problems[0].text
    assert not target.exists()


@pytest.mark.parametrize("size", ["9" * 17, "-1", "1e3", "9" * 40])
def test_a_size_that_lies(bundle: Path, tmp_path: Path, target: Path, size: str) -> None:
    info = member("notes.txt")
    info.pax_headers = {"size": size}
    tar = tar_of(tmp_path / "x.tar", bundle, (info,))
    for report in (check_tar(tar), unpack(tar, target)):
        assert [path for path, _ in found(report)] == ["x.tar"]
    assert not target.exists()


def test_a_size_other_than_the_manifests(bundle: Path, tmp_path: Path, target: Path) -> None:
    with (bundle / TQDM).open("ab") as file:
        file.write(bytes(5000))
    tar = tar_of(tmp_path / "x.tar", bundle)
    assert found(check_tar(tar)) == [(TQDM, "damaged")]
    assert found(unpack(tar, target)) == [(TQDM, "damaged")]
    assert TQDM not in paths_in(target)


def test_what_the_manifest_does_not_list_is_refused_in_a_tar(bundle: Path, tmp_path: Path, target: Path) -> None:
    """``tar -xf`` unpacks it: in a folder the same files are warned of, because nothing takes them anywhere."""
    tar = tar_of(tmp_path / "x.tar", bundle, (member(".DS_Store", size=9), member("notes.txt", size=3)))
    for report in (check_tar(tar), unpack(tar, target)):
        assert found(report) == [(".DS_Store", "added"), ("notes.txt", "added")]
        assert "make the tar again" in report.problems[0].hint
    assert not target.exists()


def test_a_flip_anywhere_in_a_tar_is_found(tmp_path: Path) -> None:
    hand_bundle(tmp_path / "bundle", others={**files(), "unpack.py": b"pass", "verify.py": b"print('short')"})
    tar = bundle_tar(tmp_path / "bundle", tmp_path / "bundle.tar")
    good = tar.read_bytes()
    for at in range(0, len(good), 47):
        data = bytearray(good)
        data[at] ^= 1 << at % 4  # higher ones turn a leading zero of a checksum into a blank, which says the same
        tar.write_bytes(data)
        report = check_tar(tar)
        assert report.exit_code == 4, at
    tar.write_bytes(good)
    assert check_tar(tar).problems == []


def test_a_tar_cut_anywhere_is_truncated(tar: Path, target: Path) -> None:
    good = tar.read_bytes()
    for left in [0, 1, 511, 512, 513, *range(1000, len(good), 1777), len(good) - 512, len(good) - 1]:
        tar.write_bytes(good[:left])
        for report in (check_tar(tar), unpack(tar, target)):
            assert (tar.name, "truncated") in found(report), left
            assert "missing" not in {what for _, what in found(report)}
        assert not target.exists()


def test_something_behind_the_end(tar: Path) -> None:
    with tar.open("ab") as file:
        file.write(tarred("w", [(member("evil"), b"evil")]))
    report = check_tar(tar)
    assert found(report) == [("bundle.tar", "damaged")]
    assert "data after its end" in report.problems[0].text


@pytest.mark.parametrize("data", [b"PK\3\4" * 1000, b"\x1f\x8b" + bytes(2000), bytes(3000)[:-1] + b"x", b"x" * 512])
def test_a_file_that_is_not_a_tar(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.tar").write_bytes(data)
    report = check_tar(tmp_path / "x.tar")
    assert (report.problems[0].path, report.exit_code) == ("x.tar", 4)


def test_an_empty_tar_is_no_bundle(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(bytes(1024))
    assert found(check_tar(tmp_path / "x.tar")) == [("manifest.json", "unfinished")]


def test_damaged_files_are_named_the_others_laid_out_and_the_same_call_continues(
    tar: Path, bundle: Path, target: Path
) -> None:
    good = tar.read_bytes()
    tar.write_bytes(good.replace(b"tqdm tqdm", b"tqdm tQdm", 1).replace(b"What this is", b"What this as", 1))
    report = unpack(tar, target)
    assert found(report) == [("README.txt", "damaged"), (TQDM, "damaged")]
    left_out = {"README.txt", TQDM, "manifest.json", "SHA256SUMS"}
    there = {path for path in paths_in(target) if not path.startswith(".resume-dl/")}
    assert there == set(paths_in(bundle)) - left_out
    assert found(check(target)) == [(".resume-dl", "unfinished")]

    tar.write_bytes(good)
    before = (target / NUMPY).stat().st_mtime_ns, (target / NUMPY).stat().st_ino
    assert unpack(tar, target).problems == []
    assert ((target / NUMPY).stat().st_mtime_ns, (target / NUMPY).stat().st_ino) == before
    assert paths_in(target) == paths_in(bundle)


def test_a_folder_with_other_files_is_not_touched(tar: Path, target: Path, tmp_path: Path) -> None:
    target.mkdir()
    (target / "mine").write_bytes(b"mine")
    report = unpack(tar, target)
    assert ([problem.what for problem in report.problems], report.exit_code) == (["machine"], 5)
    assert paths_in(target) == ["mine"]
    hand_bundle(tmp_path / "other", others={**files(), "README.txt": b"another"})
    (target / "mine").unlink()
    tar.write_bytes(tar.read_bytes().replace(b"tqdm tqdm", b"tqdm tQdm", 1))
    assert found(unpack(tar, target)) == [(TQDM, "damaged")]
    before = paths_in(target)
    other = bundle_tar(tmp_path / "other", tmp_path / "other.tar")
    assert [what for _, what in found(unpack(other, target))] == ["machine"]
    assert paths_in(target) == before


def test_links_that_wait_in_the_target_are_not_followed(tar: Path, target: Path, tmp_path: Path) -> None:
    good = tar.read_bytes()
    tar.write_bytes(good.replace(b"What this is", b"What this as", 1))
    unpack(tar, target)
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(target / "wheels")
    try:
        (target / "wheels").symlink_to(outside, target_is_directory=True)
        (target / "README.txt").symlink_to(outside / "readme")
        next((target / ".resume-dl").iterdir()).joinpath("part").unlink(missing_ok=True)
        next((target / ".resume-dl").iterdir()).joinpath("part").symlink_to(outside / "part")
    except OSError:
        pytest.skip("this user may not make links")
    tar.write_bytes(good)
    assert found(unpack(tar, target)) == [(TQDM, "unsafe")]
    assert list(outside.iterdir()) == []
    assert not (target / "README.txt").is_symlink()


def test_missing_disk_space_is_reported_before_anything_is_written(
    tar: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    report = unpack(tar, target)
    assert (report.exit_code, paths_in(target)) == (5, [])
    assert "has 100 B free" in report.problems[0].text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_an_error_of_this_machine(tar: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.open

    def full(path: Path, mode: str = "r", *more: Any, **options: Any) -> Any:
        return real(Path("/dev/full"), "wb") if mode == "xb" else real(path, mode, *more, **options)

    monkeypatch.setattr(Path, "open", full)
    report = unpack(tar, target)
    assert ([what for _, what in found(report)], report.exit_code) == (["machine"], 5)
    assert "No space left" in report.problems[0].text
    monkeypatch.setattr(Path, "open", real)
    assert unpack(tar, target).problems == []


def test_a_digest_other_than_the_given_one_unpacks_nothing(tar: Path, target: Path) -> None:
    assert found(unpack(tar, target, manifest_sha256="0" * 64)) == [("manifest.json", "untrusted")]
    assert not target.exists()


def test_progress_never_exceeds_its_total(
    tar: Path, bundle: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lists are hashed too, and so is what an earlier run left: neither is in the total, whatever is read twice."""
    monkeypatch.setattr(judge, "_SECONDS_BETWEEN_LINES", 0.0)  # a line for each block
    monkeypatch.setattr(judge, "show_bytes", str)  # exact, not rounded
    sizes = [len(data) for data in {**packages(), **files()}.values()]
    lines: list[str] = []

    def runs() -> list[list[int]]:
        """The numbers of each line since the last call."""
        said = (line.replace(",", "") for line in lines if line.startswith("verified"))
        numbers = [[int(word) for word in re.findall(r"\d+", line)] for line in said]
        lines.clear()
        for read, size, count, number in numbers:
            assert (size, number) == (sum(sizes), len(sizes))
            assert read <= size
            assert count <= number
        return numbers

    assert check_tar(tar, log=lines.append).problems == []
    assert check(bundle, log=lines.append).problems == []
    assert len(runs()) >= 2 * len(sizes)
    good = tar.read_bytes()
    tar.write_bytes(good.replace(b"What this is", b"What this as", 1))
    assert found(unpack(tar, target, log=lines.append)) == [("README.txt", "damaged")]
    for path in (NUMPY, TQDM):  # read where it lies, then from the tar
        (target / path).write_bytes(bytes(len(packages()[path])))
    (target / PYTZ).write_bytes(bytes(5 * sum(sizes)))  # and longer than it has to be
    tar.write_bytes(good)
    assert unpack(tar, target, log=lines.append).problems == []
    assert len(runs()) > 2 * len(sizes)
    assert paths_in(target) == paths_in(bundle)


DEEP = {
    "above": member("../evil"),
    "absolute": member("/etc/passwd"),
    "link outside": member("lib/link", tarfile.SYMTYPE, "../../etc"),
    "absolute link": member("link", tarfile.SYMTYPE, "/etc"),
    "hard link outside": member("link", tarfile.LNKTYPE, "../evil"),
    "device": member("null", tarfile.CHRTYPE),
    "pipe": member("pipe", tarfile.FIFOTYPE),
    "sparse": member("sparse", tarfile.GNUTYPE_SPARSE),
}


@pytest.mark.parametrize("kind", DEEP)
def test_an_archive_whose_members_leave_the_folder(tmp_path: Path, kind: str) -> None:
    honest = [
        (member("lib/a"), b"a"),
        (member("lib/b", tarfile.SYMTYPE, "../lib/a"), b""),
        (member("lib/c", tarfile.LNKTYPE, "lib/a"), b""),
    ]
    hand_bundle(tmp_path / "honest", archives={**packages(), PYTZ: tarred(members=honest)})
    assert check(tmp_path / "honest", deep=True).problems == []
    for path, mode in ((PYTZ, "w:bz2"), ("wheels/x-1.0.tar.gz", "w:gz")):
        folder = tmp_path / path.partition("/")[0]
        hand_bundle(folder, archives={**packages(), path: tarred(mode, [*honest, (DEEP[kind], b"")])})
        digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
        assert check(folder, manifest_sha256=digest).problems == []
        assert found(check(folder, manifest_sha256=digest, deep=True)) == [(path, "unsafe")]
        assert found(check(folder)) == [(path, "unsafe")]


def test_an_archive_that_asks_for_all_memory(tmp_path: Path) -> None:
    info = member("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 40
    header = info.tobuf(tarfile.GNU_FORMAT)
    hand_bundle(tmp_path, archives={**packages(), PYTZ: bz2.compress(header + bytes(1_000_000))})
    report = check(tmp_path, deep=True)
    assert found(report) == [(PYTZ, "unsafe")]
    assert "at once" in report.problems[0].text
