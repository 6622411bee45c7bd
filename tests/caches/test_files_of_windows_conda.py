"""Files as a conda on Windows writes them (conda 24.7's source; no conda for Windows ran here)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from resume_dl import text_encoding
from resume_dl.caches.conda import urls
from resume_dl.caches.conda.extraction_folders import extraction_folder
from resume_dl.caches.conda.lookup import State, is_whole, look
from resume_dl.caches.conda.publish import publish_entry
from resume_dl.caches.conda.urls import add_url, origin_of
from resume_dl.offline_tools.machine.conda_clients import conda_roots
from store.packages import ARCHIVE, URL, package, unpack

HERE = "file:///C:/bld/noarch/a-1-0.conda"
BACKSLASHES = r"C:\bld\noarch\a-1-0.conda"
RECORD = "info/repodata_record.json"


def test_urls_with_drive_letters_backslashes_and_crlf(tmp_path, monkeypatch):
    """Its lines end in CR LF, and the name in one is what ``os.path.basename`` of that system finds."""
    (tmp_path / "urls.txt").write_bytes(f"{URL}\r\n{HERE}\r\n{BACKSLASHES}\r\n".encode())
    assert urls._name(BACKSLASHES, windows=True) == urls._name(HERE, windows=True) == "a-1-0.conda"
    assert urls._name(BACKSLASHES, windows=False) == BACKSLASHES
    monkeypatch.setattr(urls, "_name", lambda line, name=urls._name: name(line, windows=True))
    assert origin_of(tmp_path, "a-1-0.conda") == BACKSLASHES
    assert add_url(tmp_path, URL)  # the later line counts, so that conda does not take the archive for the local one
    assert origin_of(tmp_path, "a-1-0.conda") == URL
    assert not add_url(tmp_path, URL)


@pytest.fixture
def extracted(tmp_path: Path) -> Path:
    """A package with what only Windows has, and paths.json with the slashes that conda-build writes everywhere."""
    files = {
        "Lib/site-packages/ü/__init__.py": b"",
        "Scripts/a-script.py": b"#!C:\\bld\\python.exe\r\n",
        "Scripts/a.exe": b"MZ",
        "Library/bin/a.dll": b"MZ",
        "Menu/a.json": b'{"menu_name": "A"}',
    }
    folder = unpack(extraction_folder(tmp_path))
    for name, data in files.items():
        folder.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        folder.joinpath(name).write_bytes(data)
    paths = [{"_path": name, "path_type": "hardlink", "size_in_bytes": len(data)} for name, data in files.items()]
    (folder / "info/paths.json").write_text(json.dumps({"paths": paths, "paths_version": 1}), encoding="utf-8")
    return folder


def test_a_package_for_windows_is_published_as_it_is(tmp_path: Path, extracted: Path) -> None:
    """menuinst's files too: menus are made by conda as it links, and by nothing of ours."""
    before = {path.relative_to(extracted): path.read_bytes() for path in extracted.rglob("*") if path.is_file()}
    archive = tmp_path / ".resume-dl" / "verified"
    archive.write_bytes(ARCHIVE)
    published = publish_entry(tmp_path, package(), archive=archive, extracted=extracted).extracted
    after = {path.relative_to(published): path.read_bytes() for path in published.rglob("*") if path.is_file()}
    assert {name: after.get(name) for name in before if name.as_posix() != RECORD} == {
        name: data for name, data in before.items() if name.as_posix() != RECORD
    }
    assert {name.as_posix() for name in after.keys() - before.keys()} <= {RECORD}
    assert is_whole(published)
    assert look(tmp_path, package()).state is State.COMPLETE
    # conda reads it in the code page of the system, so it has to be ASCII whatever a record says
    (published / RECORD).read_bytes().decode("ascii")


def test_a_record_that_it_wrote_is_read(tmp_path: Path, extracted: Path) -> None:
    """With CR LF, and what is not ASCII escaped."""
    archive = tmp_path / ".resume-dl" / "verified"
    archive.write_bytes(ARCHIVE)
    published = publish_entry(tmp_path, package(), archive=archive, extracted=extracted).extracted
    record = json.loads((published / RECORD).read_bytes())
    record |= {"license": "für alle"}
    text = json.dumps(record, indent=2, sort_keys=True, separators=(",", ": "))
    (published / RECORD).write_bytes(text.replace("\n", "\r\n").encode())
    assert look(tmp_path, package()).state is State.COMPLETE


def test_environments_in_the_code_page_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``register_env`` opens environments.txt without an encoding; the offline tools look there too."""
    monkeypatch.setattr(text_encoding, "system_encoding", lambda: "cp936")
    root = tmp_path / "环境"
    (tmp_path / ".conda").mkdir()
    (tmp_path / ".conda" / "environments.txt").write_bytes(f"{root}\r\n{root / 'envs' / 'ü'}\r\n".encode("cp936"))
    env = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    assert {root, root / "envs" / "ü"} <= {*conda_roots(env)}
