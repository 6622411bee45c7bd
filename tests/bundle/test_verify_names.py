"""Names: what a hostile manifest lists, and what somebody added to an honest bundle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resume_dl.bundle.manifest import write_manifest
from resume_dl.offline_tools.verification.check import check
from resume_dl.offline_tools.verification.findings import Report, lines
from support.hand_bundle import NUMPY, TQDM, hand_bundle, seal

Manifest = dict[str, Any]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    hand_bundle(tmp_path / "bundle")
    return tmp_path / "bundle"


def found(report: Report) -> list[tuple[str, str]]:
    return [(problem.path, problem.what) for problem in report.problems]


def resealed(folder: Path, change: Callable[[Manifest], object]) -> Report:
    """The verdict on a bundle whose maker changed the manifest, all digests made to fit."""
    honest = hand_bundle(folder)
    manifest = json.loads(b"".join(write_manifest(honest)))
    change(manifest)
    seal(folder, json.dumps(manifest).encode(), honest)
    return check(folder)


HOSTILE_PATHS = [
    "../evil.py",
    "channel/../../evil",
    "wheels/../../../home/user/.bashrc",
    "/etc/passwd",
    "//server/share/x",
    "C:/Windows/evil.dll",
    "C:evil",
    "README.txt:stream",
    "channel\\..\\..\\evil",
    "\\\\server\\share",
    "channel//x.conda",
    "./README.txt",
    "channel/./x",
    "channel/",
    "",
    "CON",
    "wheels/nul.txt",
    "simple/aux/index.html",
    "channel/COM1.conda",
    "explicit/lpt9 .txt",
    "trailing.",
    "trailing ",
    "nul\0byte",
    "line\nbreak",
    "\x1b[2Jscreen",
    "\ud800half",
    "what?",
    "a" * 256,
    "a/" * 600 + "a",
    ".resume-dl/x",
    "manifest.json",
    "SHA256SUMS",
    "Manifest.JSON",
    "json.py",
    "pip/__init__.py",
    "pip.conf",
    ".condarc",
    "conda.exe",
]


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_a_manifest_that_lists_a_hostile_path(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "bundle"
    report = resealed(folder, lambda manifest: manifest["files"].append({"path": path, "size": 0, "sha256": "0" * 64}))
    assert ("manifest.json", "unsafe") in found(report)
    assert report.exit_code == 4
    assert report.manifest is None
    for line in lines(report):
        assert line.isprintable()


@pytest.mark.parametrize(
    "path", ["../x-1-0.conda", "evil.py", "README.md", "wheels/x.conda", "channel/linux-64/a/x.conda"]
)
def test_a_package_out_of_its_place(tmp_path: Path, path: str) -> None:
    report = resealed(tmp_path / "bundle", lambda manifest: manifest["packages"][0].update(path=path))
    assert ("manifest.json", "unsafe") in found(report)


@pytest.mark.parametrize(
    "path",
    [
        "readme.TXT",
        "README.txt/evil",
        "channel/LINUX-64/repodata.json",
        "wheels/TQDM-4.0-py3-none-any.whl",
        "README.txt",
    ],
)
def test_paths_that_are_one_file_on_some_disks(tmp_path: Path, path: str) -> None:
    entry = {"path": path, "size": 0, "sha256": "0" * 64}
    report = resealed(tmp_path / "bundle", lambda manifest: manifest["files"].append(entry))
    assert ("manifest.json", "unsafe") in found(report)
    assert "README.txt" in report.problems[0].text or "one file on many disks" in report.problems[0].text


def test_two_forms_of_one_letter_are_one_file_on_a_mac(tmp_path: Path) -> None:
    entries = [{"path": f"b{e}.txt", "size": 0, "sha256": "0" * 64} for e in ("\u00fc", "u\u0308")]
    report = resealed(tmp_path / "bundle", lambda manifest: manifest["files"].extend(entries))
    assert "one file on many disks" in report.problems[0].text


def _put(name: str, value: Any) -> Callable[[Manifest], object]:
    return lambda manifest: manifest.update({name: value})


def _put_first(name: str, value: Any, part: str = "packages") -> Callable[[Manifest], object]:
    return lambda manifest: manifest[part][0].update({name: value})


def _put_platform(name: str, value: Any) -> Callable[[Manifest], object]:
    return lambda manifest: manifest["platforms"]["linux-64"].update({name: value})


WRONG_TYPES = [
    _put("kind", "something else"),
    _put("kind", None),
    _put("schema", "1"),
    _put("schema", True),
    _put("schema", 0),
    _put("schema", None),
    _put("packages", {}),
    _put("packages", [None]),
    _put("packages", [["path"]]),
    _put("files", None),
    _put("files", [1]),
    _put("platforms", []),
    _put("platforms", {"linux-64": 1}),
    _put("platforms", {"../x": {}}),
    _put("created_by", 1),
    _put("request", []),
    *(_put_first("path", value) for value in (None, 1, [], {})),
    *(_put_first("size", value) for value in (None, -1, "1", True, [], 10**30)),
    *(_put_first("sha256", value) for value in (None, 1, "", "0" * 63, "A" * 64, "g" * 64, "0" * 64 + "\n")),
    *(_put_first("md5", value) for value in (1, "", "0" * 31, {})),
    *(_put_first("included", value) for value in (None, 1, "yes")),
    *(_put_first("requested_by", value) for value in (None, "numpy", [1])),
    *(_put_first("kind", value) for value in (None, "exe", "wheel")),
    *(_put_first("url", value) for value in (None, 1)),
    _put_first("size", -1, "files"),
    _put_first("sha256", None, "files"),
    _put_platform("conda", None),
    _put_platform("conda", ["/etc/passwd"]),
    _put_platform("conda", [TQDM]),
    _put_platform("conda", [["x"]]),
    _put_platform("pip", [NUMPY]),
    _put_platform("explicit", "../../list"),
    _put_platform("explicit", NUMPY),
    _put_platform("requirements", None),
    _put_platform("virtual_packages", [1]),
    _put_platform("python", 3),
]


@pytest.mark.parametrize("change", WRONG_TYPES)
def test_a_value_of_the_wrong_kind(tmp_path: Path, change: Callable[[Manifest], object]) -> None:
    report = resealed(tmp_path / "bundle", change)
    assert "manifest.json" in {path for path, _ in found(report)}
    assert (report.manifest, report.exit_code) == (None, 4)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        b"[" * 1_000_000,
        b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
        b'{"schema": 1, "schema": 1}',
        b'{"schema": ' + b"9" * 100_000 + b"}",
        b'{"schema": NaN}',
        b'{"schema": Infinity, "kind": "resume-dl bundle"}',
    ],
    ids=range(12),
)
def test_a_file_that_is_not_a_manifest(bundle: Path, text: bytes) -> None:
    seal(bundle, text, hand_bundle(bundle))
    report = check(bundle)
    assert {path for path, _ in found(report)} == {"manifest.json"}
    assert (report.manifest, report.exit_code) == (None, 4)


def test_a_name_that_stands_twice_may_be_read_in_two_ways(bundle: Path) -> None:
    honest = hand_bundle(bundle)
    text = b"".join(write_manifest(honest))
    seal(bundle, text.replace(b'"size":', b'"size":0,"size":', 1), honest)
    report = check(bundle)
    assert found(report) == [("manifest.json", "damaged")]
    assert "a key occurs twice" in report.problems[0].text


def test_a_manifest_of_a_newer_resume_dl(tmp_path: Path) -> None:
    report = resealed(tmp_path / "bundle", _put("schema", 2))
    assert found(report) == [("manifest.json", "newer")]
    assert "made by a newer resume-dl (schema 2" in report.problems[0].text
    assert "newer resume-dl" in report.problems[0].hint


def test_what_a_newer_one_adds_is_passed_over(tmp_path: Path) -> None:
    def change(manifest: Manifest) -> None:
        manifest["colour"] = 0.5
        manifest["packages"][0]["colour"] = "blue"

    assert resealed(tmp_path / "bundle", change).problems == []


def test_a_login_in_an_address_is_not_shown(tmp_path: Path) -> None:
    for number, url in enumerate(
        ("https://me:secret@x.example/y", "https://x.example/t/secret/y", "https://x.example/y?t=secret")
    ):
        folder = tmp_path / str(number)
        resealed(folder, _put_first("url", url))
        (folder / NUMPY).write_bytes(b"")
        report = check(folder)
        assert found(report) == [(NUMPY, "truncated")]
        assert "secret" not in "\n".join(lines(report))


READ = [
    "channel/linux-64/evil-1-0.conda",
    "channel/linux-64/repodata.json.zst",
    "channel/win-64/repodata.json",
    "channel/linux-64/.cache/x",
    "wheels/numpy-9-py3-none-any.whl",
    "simple/numpy/index.html",
    "explicit/win-64.txt",
    "requirements/more.txt",
    "json.py",
    "JSON.PY",
    "__future__.py",
    "argparse/__init__.py",
    "__pycache__/verify.cpython-311.pyc",
    "hashlib.pyc",
    "evil.pth",
    "_json.pyd",
    "_json.cpython-311-x86_64-linux-gnu.so",
    "python311.dll",
    "pip-99.dist-info/entry_points.txt",
    "ssh-keygen.exe",
    "conda.bat",
    "pylock.dev.toml",
    "pip.conf",
    "pip.ini",
    ".condarc",
    "condarc",
    ".mambarc",
    "environment.yaml",
    "uv.toml",
    "pyproject.toml",
    "dev-requirements.txt",
    "_netrc",
]


@pytest.mark.parametrize("path", READ)
def test_an_added_file_that_a_client_would_read_is_refused(bundle: Path, path: str) -> None:
    (bundle / path).parent.mkdir(parents=True, exist_ok=True)
    (bundle / path).write_bytes(b"")
    report = check(bundle)
    assert (found(report), report.exit_code) == ([(path, "added")], 4)
    assert report.problems[0].hint == "remove it, or copy the bundle again"


LEFT = [
    ".DS_Store",
    "wheels/.DS_Store",
    "channel/linux-64/._numpy-1.0-0.conda",
    "Thumbs.db",
    "simple/desktop.ini",
    "FSCK0000.REC",
    "notes.txt",
    "photos/cat.jpg",
    "tool-1.0/setup.py",
]


@pytest.mark.parametrize("path", LEFT)
def test_any_other_added_file_is_warned_of(bundle: Path, path: str) -> None:
    (bundle / path).parent.mkdir(parents=True, exist_ok=True)
    (bundle / path).write_bytes(b"x")
    report = check(bundle)
    assert (report.problems, report.exit_code) == ([], 0)
    assert [warning.path for warning in report.warnings] == [path]
    assert lines(report)[0].startswith(f"warning: {path}: ")


@pytest.mark.parametrize(
    "folder", ["System Volume Information", "$RECYCLE.BIN", ".Trash-1000", "FOUND.000", "lost+found", "wheels/@eaDir"]
)
def test_what_a_file_system_keeps_for_itself_is_not_looked_into(bundle: Path, folder: str) -> None:
    (bundle / folder / "deep").mkdir(parents=True)
    (bundle / folder / "deep" / "json.py").touch()
    (bundle / folder).chmod(0)  # to root, who runs some tests, this means nothing
    try:
        report = check(bundle)
    finally:
        (bundle / folder).chmod(0o755)
    assert (report.problems, [warning.path for warning in report.warnings]) == ([], [folder])


def test_a_name_that_is_no_text(bundle: Path) -> None:
    try:
        Path(str(bundle), "wheels", "\udcff.whl").write_bytes(b"")
    except OSError:
        pytest.skip("this disk takes no such name")
    report = check(bundle)
    assert found(report) == [("wheels/\udcff.whl", "added")]
    assert report.problems[0].text.startswith("wheels/\\udcff.whl: ")
