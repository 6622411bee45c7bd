"""The package cache that conda would write to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resume_dl.errors import NotWritableError
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.settings.pkgs_dirs import check_pkgs_dir, first_writable_pkgs_dir
from support.conda_env import TestConda


def tree(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def test_first_that_can_be_made(tmp_path: Path) -> None:
    """A place that cannot be a folder is passed over; looking makes nothing, making puts conda's files there."""
    (tmp_path / "file").touch()
    conda = CondaSettings(pkgs_dirs=(tmp_path / "file" / "pkgs", tmp_path / "a" / "b" / "pkgs", tmp_path / "c"))
    before = tree(tmp_path)
    assert first_writable_pkgs_dir(conda) == tmp_path / "a" / "b" / "pkgs"
    assert tree(tmp_path) == before
    made = first_writable_pkgs_dir(conda, create=True)
    assert made == tmp_path / "a" / "b" / "pkgs"
    assert {path.name for path in made.iterdir()} == {"urls.txt", "urls"}
    assert first_writable_pkgs_dir(conda) == made


def test_looking_leaves_the_time_stamp(tmp_path: Path) -> None:
    """The test for writing changes nothing: conda knows by urls.txt's time stamp whether to read it again."""
    (tmp_path / "urls.txt").write_text("https://x.example/a.conda\n", encoding="utf-8")
    os.utime(tmp_path / "urls.txt", (1, 1))
    for create in (False, True):
        assert check_pkgs_dir(tmp_path, create=create) == tmp_path
    assert (tmp_path / "urls.txt").stat().st_mtime == 1


def test_none_can_be_written(tmp_path: Path) -> None:
    """NotWritableError (exit 5) names every place and why."""
    (tmp_path / "file").touch()
    for create in (False, True):
        with pytest.raises(NotWritableError) as caught:
            check_pkgs_dir(tmp_path / "file", create=create)
        assert str(tmp_path / "file") in caught.value.message
        assert "--pkgs-dir" in caught.value.hint
        assert caught.value.exit_code == 5
    with pytest.raises(NotWritableError, match="empty"):
        first_writable_pkgs_dir(CondaSettings())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_permissions_count(tmp_path: Path) -> None:
    """A folder or a urls.txt without permission to write is passed over."""
    closed, owned = tmp_path / "closed", tmp_path / "owned"
    closed.mkdir(mode=0o555)
    owned.mkdir()
    (owned / "urls.txt").touch(mode=0o444)
    conda = CondaSettings(pkgs_dirs=(closed / "pkgs", closed, owned, tmp_path / "open"))
    for create in (False, True):
        assert first_writable_pkgs_dir(conda, create=create) == tmp_path / "open"


@pytest.mark.conda
def test_same_choice_as_conda(tmp_path: Path, test_conda: TestConda) -> None:
    """A real conda chooses the same folder, and leaves the same files there."""
    (tmp_path / "kept").mkdir()
    dirs = [tmp_path / "new" / "pkgs", tmp_path / "kept"]
    test_conda.configure(pkgs_dirs=[str(folder) for folder in dirs])
    ours = first_writable_pkgs_dir(CondaSettings(pkgs_dirs=tuple(dirs)))
    code = (
        "from conda.base.context import reset_context; reset_context()\n"
        "from conda.core.package_cache_data import PackageCacheData\n"
        "print(PackageCacheData.first_writable().pkgs_dir)"
    )
    import subprocess

    done = subprocess.run(
        [test_conda.python, "-c", code], capture_output=True, text=True, env=test_conda.environment(), check=True
    )
    assert Path(done.stdout.strip()) == ours
    theirs = {path.name for path in ours.iterdir()}
    assert theirs == {path.name for path in check_pkgs_dir(tmp_path / "mine", create=True).iterdir()}
