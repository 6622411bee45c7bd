"""A bundle's folder: whatever happened to a file on its way is found, named, and how to repair it."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from resume_dl.offline_tools.verification import judge
from resume_dl.offline_tools.verification.check import check
from resume_dl.offline_tools.verification.findings import Report, lines
from support.hand_bundle import NUMPY, PYTZ, SCRIPTS, TQDM, files, hand_bundle, packages, paths_in, without, zipped

LISTED = sorted({*packages(), *files()})
EVERY = [*LISTED, "SHA256SUMS", "manifest.json"]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "a bundle, Bündel, 包"
    hand_bundle(folder)
    return folder


def found(report: Report) -> list[tuple[str, str]]:
    return [(problem.path, problem.what) for problem in report.problems]


def test_a_valid_bundle(bundle: Path) -> None:
    report = check(bundle)
    assert (report.problems, report.warnings, report.exit_code) == ([], [], 0)
    assert report.verified == set(LISTED)
    assert report.bytes == sum(len(data) for data in {**packages(), **files()}.values())
    assert report.manifest is not None
    assert [each["path"] for each in report.manifest["packages"]] == [NUMPY, PYTZ, TQDM]
    assert report.trust == "accidents"
    assert any("only accidental damage is detected" in line for line in lines(report))


@pytest.mark.parametrize("path", EVERY)
@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_a_flipped_bit_anywhere(bundle: Path, path: str, where: str) -> None:
    file = bundle / path
    data = bytearray(file.read_bytes())
    data[{"first": 0, "middle": len(data) // 2, "last": -1}[where]] ^= 1
    file.write_bytes(data)
    report = check(bundle)
    assert found(report) == [(path, "damaged")]
    assert report.problems[0].text.startswith(f"{path}: ")
    assert "again" in report.problems[0].hint
    assert report.exit_code == 4


def test_every_flip_in_sha256sums_and_manifest_names_one_of_them_and_nothing_else(bundle: Path) -> None:
    for name in ("SHA256SUMS", "manifest.json"):
        good = (bundle / name).read_bytes()
        for at in range(0, len(good), 7):
            data = bytearray(good)
            data[at] ^= 1 << at % 8
            (bundle / name).write_bytes(data)
            assert {path for path, _ in found(check(bundle))} == {name}, at
        (bundle / name).write_bytes(good)


@pytest.mark.parametrize("path", EVERY)
@pytest.mark.parametrize("left", [0, -1])
def test_a_truncated_file(bundle: Path, path: str, left: int) -> None:
    data = (bundle / path).read_bytes()
    (bundle / path).write_bytes(data[:left])
    report = check(bundle)
    assert [each for each, _ in found(report)] == [path]
    if path in LISTED or left == 0:
        assert found(report) == [(path, "truncated")]
        assert ("is empty" if left == 0 else f"has {len(data) - 1:,} of {len(data):,} bytes") in report.problems[0].text


@pytest.mark.parametrize("path", EVERY)
def test_a_missing_file(bundle: Path, path: str) -> None:
    (bundle / path).unlink()
    assert found(check(bundle)) == [(path, "missing")]


def test_a_file_that_grew(bundle: Path) -> None:
    with (bundle / NUMPY).open("ab") as file:
        file.write(b"x")
    assert found(check(bundle)) == [(NUMPY, "damaged")]


def test_two_files_swapped_name_each_other(bundle: Path) -> None:
    shutil.move(bundle / NUMPY, bundle / "aside")
    shutil.move(bundle / TQDM, bundle / NUMPY)
    shutil.move(bundle / "aside", bundle / TQDM)
    report = check(bundle)
    assert found(report) == [(NUMPY, "swapped"), (TQDM, "swapped")]
    assert report.problems[0].text == f"{NUMPY}: has the content of {TQDM}"
    assert report.problems[1].text == f"{TQDM}: has the content of {NUMPY}"


def test_all_problems_are_listed_and_a_package_can_be_fetched_again(bundle: Path) -> None:
    (bundle / NUMPY).write_bytes(b"")
    (bundle / PYTZ).unlink()
    (bundle / "README.txt").write_bytes(b"What this isn't, and what to do with it")
    (bundle / "wheels" / "evil.whl").write_bytes(b"")
    report = check(bundle)
    wanted = {(NUMPY, "truncated"), (PYTZ, "missing"), ("README.txt", "damaged"), ("wheels/evil.whl", "added")}
    assert set(found(report)) == wanted
    hint = next(problem.hint for problem in report.problems if problem.path == NUMPY)
    assert f"resume-dl get https://packages.example/{NUMPY} --sha256 " in hint
    assert lines(report)[-1] == "must not be used: 4 problems"


def test_with_a_damaged_manifest_the_others_are_held_against_sha256sums(bundle: Path) -> None:
    (bundle / "manifest.json").write_bytes(b"{}")
    (bundle / TQDM).write_bytes(b"")
    (bundle / "channel" / "more.conda").touch()
    report = check(bundle)
    assert set(found(report)) == {
        ("manifest.json", "damaged"),
        (TQDM, "truncated"),
        ("channel/more.conda", "added"),
    }
    assert report.manifest is None


def test_sha256sums_of_another_bundle(bundle: Path, tmp_path: Path) -> None:
    hand_bundle(tmp_path / "other", others={**files(), "README.txt": b"another"})
    shutil.copy(tmp_path / "other" / "SHA256SUMS", bundle)
    problem = check(bundle).problems[0]
    assert (problem.path, problem.hint) == (
        "manifest.json",
        "copy manifest.json and SHA256SUMS again, both from the same bundle",
    )


def test_what_a_delta_leaves_out_is_not_missed(tmp_path: Path) -> None:
    archives = packages()
    hand_bundle(tmp_path, changed=lambda manifest: without(manifest, NUMPY))
    (tmp_path / NUMPY).unlink()
    report = check(tmp_path)
    assert (report.problems, len(report.verified)) == ([], len(archives) - 1 + len(files()))


def test_an_unfinished_bundle(bundle: Path, tmp_path: Path) -> None:
    (bundle / ".resume-dl" / "parts").mkdir(parents=True)
    (bundle / ".resume-dl" / "parts" / "x.conda").touch()
    report = check(bundle)
    assert found(report) == [(".resume-dl", "unfinished")]
    assert "`resume-dl bundle create` to its end" in report.problems[0].hint
    for name in ("manifest.json", "SHA256SUMS"):
        (bundle / name).unlink()
    assert found(check(bundle)) == [(".resume-dl", "unfinished")]
    assert found(check(tmp_path)) == [("manifest.json", "unfinished")]


def test_links_are_refused_wherever_they_lead(bundle: Path, tmp_path: Path) -> None:
    shutil.move(bundle / NUMPY, tmp_path / "numpy")
    shutil.move(bundle / "simple", tmp_path / "simple")
    try:
        (bundle / NUMPY).symlink_to(tmp_path / "numpy")
        (bundle / "simple").symlink_to(tmp_path / "simple", target_is_directory=True)
        (bundle / ".DS_Store").symlink_to("README.txt")
        (bundle / "loop").symlink_to(".", target_is_directory=True)
    except OSError:
        pytest.skip("this user may not make links")
    wanted = [(".DS_Store", "unsafe"), (NUMPY, "unsafe"), ("loop", "unsafe"), ("simple", "unsafe")]
    assert sorted(found(check(bundle))) == sorted(wanted)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes among files on this system")
def test_pipes_and_sockets_are_refused_and_not_opened(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bundle / TQDM).unlink()
    os.mkfifo(bundle / TQDM)
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(bundle)  # the name of a socket is short
        listening.bind("socket")
        assert sorted(found(check(bundle))) == [("socket", "unsafe"), (TQDM, "unsafe")]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_an_error_of_this_machine(bundle: Path) -> None:
    (bundle / NUMPY).chmod(0)
    report = check(bundle)
    assert (found(report), report.exit_code) == ([(NUMPY, "machine")], 5)


def test_a_disk_without_case_may_spell_a_name_its_own_way(bundle: Path) -> None:
    (bundle / "README.txt").rename(bundle / "readme.TXT")
    report = check(bundle)
    if (bundle / "README.txt").exists():
        assert report.problems == []
    else:
        assert found(report) == [("README.txt", "missing")]
        assert report.problems[0].text == "README.txt: is missing, but readme.TXT"


@pytest.mark.parametrize(
    "member",
    ["../evil", "/etc/passwd", "a/../../b", "C:/windows", "..\\evil", "link"],
)
def test_an_archive_whose_names_leave_the_folder(tmp_path: Path, member: str) -> None:
    import io
    import zipfile

    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("honest", b"")
        info = zipfile.ZipInfo(member)
        info.external_attr = (0o120777 if member == "link" else 0o100644) << 16
        archive.writestr(info, b"/etc")
    for path in (NUMPY, TQDM):
        folder = tmp_path / path.partition("/")[0]
        hand_bundle(folder, archives={**packages(), path: data.getvalue()})
        report = check(folder)
        assert found(report) == [(path, "unsafe")]


def test_a_file_that_is_not_an_archive(tmp_path: Path) -> None:
    hand_bundle(tmp_path, archives={**packages(), TQDM: b"<html>please sign in</html>"})
    assert found(check(tmp_path)) == [(TQDM, "unsafe")]


@pytest.mark.parametrize("cut", [0, 1, 20, 100])
def test_an_archive_with_a_wrong_directory(tmp_path: Path, cut: int) -> None:
    honest = zipped(one=b"1" * 50)
    for at in range(len(honest) - 60, len(honest)):
        data = bytearray(honest)
        data[at] ^= 0xFF
        folder = tmp_path / str(at)
        hand_bundle(folder, archives={TQDM: bytes(data[cut:])}, others={"requirements/linux-64.txt": b""})
        check(folder)  # whatever it says, it says it


def test_the_scripts_of_a_bundle_are_among_its_files(bundle: Path) -> None:
    assert set(SCRIPTS) <= set(paths_in(bundle))


def test_progress_is_printed_every_few_seconds(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    check(bundle, log=told.append)
    assert told == []
    monkeypatch.setattr(judge, "_SECONDS_BETWEEN_LINES", 0.0)
    check(bundle, log=told.append)
    assert len(told) == len(LISTED)
    assert told[-1].endswith(f"{len(LISTED) - 1} of {len(LISTED)} files")


def test_a_file_larger_than_a_block(tmp_path: Path) -> None:
    others = {**files(), "README.txt": b"".join(b"1 %d\n" % number for number in range(300_000))}
    hand_bundle(tmp_path, others=others)
    assert check(tmp_path).problems == []


@pytest.mark.parametrize("count", [20, 21, 1500])
def test_only_the_first_of_many_warnings_are_shown(bundle: Path, count: int) -> None:
    """Of each kind; the report has them all."""
    for number in range(count):
        (bundle / f"{number:04}.txt").touch()
    (bundle / ".DS_Store").touch()
    report = check(bundle)
    assert (len(report.warnings), report.exit_code) == (count + 1, 0)
    told = [line for line in lines(report) if line.startswith("warning: ")]
    foreign = "is not part of this bundle and will not be used"
    assert told[:21] == [
        "warning: .DS_Store: was left by a file manager or file system and will not be used",
        *(f"warning: {number:04}.txt: {foreign}" for number in range(20)),
    ]
    assert told[21:] == ([f"warning: and {count - 20:,} more, of each: {foreign}"] if count > 20 else [])
