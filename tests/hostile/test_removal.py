"""Removing a folder removes what is in it, and reaches nothing that a link in it leads to."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from resume_dl.caches.conda.extraction_folders import REPLACED, remove, sweep
from resume_dl.fs import regular, removal
from resume_dl.store.part import FOLDER
from support.users import ALICE, as_user, common_folder, give, needs_users

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links and modes are POSIX")


@pytest.fixture(params=["by descriptor", "by path"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways: Windows has no calls relative to an open folder."""
    if request.param == "by path":
        for module in (regular, removal):
            monkeypatch.setattr(module, "BY_FD", False)
    return str(request.param)


def precious(place: Path) -> Path:
    """A folder that must stay as it is."""
    (place / "sub").mkdir(parents=True)
    (place / "sub" / "thesis.txt").write_text("years")
    place.chmod(0o500)
    return place


def tree(place: Path, elsewhere: Path) -> Path:
    """Files, folders, links to a folder and to a file, a dangling one, a pipe."""
    (place / "a" / "b").mkdir(parents=True)
    (place / "a" / "b" / "file").write_text("x")
    (place / "a" / "to-folder").symlink_to(elsewhere)
    (place / "to-file").symlink_to(elsewhere / "sub" / "thesis.txt")
    (place / "a" / "dangling").symlink_to("nowhere")
    os.mkfifo(place / "pipe")
    return place


def is_untouched(place: Path) -> bool:
    thesis = place / "sub" / "thesis.txt"
    return stat.S_IMODE(place.stat().st_mode) == 0o500 and thesis.read_text() == "years"


@pytest.mark.usefixtures("way")
def test_a_tree_with_links(tmp_path: Path) -> None:
    """All of it goes; what its links lead to keeps its content and its mode."""
    elsewhere = precious(tmp_path / "elsewhere")
    removal.remove(tree(tmp_path / "tree", elsewhere))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere"]
    assert is_untouched(elsewhere)


@pytest.mark.usefixtures("way")
def test_a_link_itself_a_file_and_nothing(tmp_path: Path) -> None:
    """A link to a folder is removed as a link; what is not there is removed already."""
    elsewhere = precious(tmp_path / "elsewhere")
    (tmp_path / "link").symlink_to(elsewhere)
    (tmp_path / "file").touch()
    for name in ("link", "file", "absent"):
        removal.remove(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere"]
    assert is_untouched(elsewhere)


CHMODDED = """
import os, sys
from pathlib import Path
from resume_dl.caches.conda.publish import remove
tree = Path(sys.argv[1])
remove(tree)
print(tree.exists())
"""


@needs_users
@pytest.mark.parametrize("mode", [0o555, 0o500, 0o300, 0o000], ids=oct)
def test_read_only_folders_are_removed_and_no_mode_is_changed_through_a_link(mode: int) -> None:
    """CVE-2023-6597: a removal that had failed was mended by a chmod, which followed the link that it was about."""
    with common_folder() as common:
        elsewhere = precious(common / "elsewhere")
        place = tree(common / "tree", elsewhere)
        for path in (elsewhere, *elsewhere.rglob("*"), place, *place.rglob("*")):
            give(path, ALICE)
        for path in (place / "a" / "b", place / "a", place):
            path.chmod(mode)
        done = as_user(ALICE, "-c", CHMODDED, place)
        assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
        assert is_untouched(elsewhere)


def test_a_tree_of_any_depth(tmp_path: Path) -> None:
    """3,000 folders in each other, deeper than a path can be long and than a process may have files open."""
    elsewhere = precious(tmp_path / "elsewhere")
    before = Path.cwd()
    (tmp_path / "tree").mkdir()
    try:
        os.chdir(tmp_path / "tree")
        for number in range(3000):
            Path("d").mkdir()
            if number % 100 == 0:
                Path("link").symlink_to(elsewhere)
            os.chdir("d")
    finally:
        os.chdir(before)
    open_before = len([*Path("/dev/fd").iterdir()])
    removal.remove(tmp_path / "tree")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere"]
    assert len([*Path("/dev/fd").iterdir()]) == open_before
    assert is_untouched(elsewhere)


@needs_users
def test_unremovable_files_are_reported_and_the_rest_is_removed() -> None:
    """Another user's folder stays; what lies beside it does not."""
    with common_folder() as common:
        place = common / "tree"
        (place / "theirs").mkdir(parents=True)
        give(place, ALICE)
        (place / "theirs" / "file").touch()
        (place / "mine").touch()
        give(place / "mine", ALICE)
        code = "import sys; from resume_dl.fs import removal; removal.remove(sys.argv[1])"
        done = as_user(ALICE, "-c", code, place)
        assert "PermissionError" in done.stderr
        assert [path.name for path in place.rglob("*")] == ["theirs", "file"]


def test_replaced_folders_are_removed_without_following_links(tmp_path: Path) -> None:
    """A package with a read-only folder of links: the next run sweeps it."""
    elsewhere = precious(tmp_path / "elsewhere")
    (tmp_path / FOLDER).mkdir(mode=0o700)
    tree(tmp_path / FOLDER / f"{REPLACED}0", elsewhere)
    (tmp_path / FOLDER / f"{REPLACED}1").symlink_to(elsewhere)
    sweep(tmp_path)
    assert list((tmp_path / FOLDER).iterdir()) == []
    assert is_untouched(elsewhere)


def test_a_removal_that_fails_is_no_error_in_a_cache(tmp_path: Path) -> None:
    """A name that no folder can have: nothing is raised."""
    remove(tmp_path / ("x" * 300))
