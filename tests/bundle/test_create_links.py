"""`bundle create` into a folder that came back from another machine: its links lead nowhere that is written to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resume_dl.offline_tools.verification.check import check
from resume_dl.store.part import FOLDER
from support.bundles import Maker

pytestmark = [pytest.mark.nginx, pytest.mark.skipif(os.name == "nt", reason="symbolic links")]
LINUX = ("--platform", "linux-64")


def precious(place: Path) -> Path:
    (place / "demo-app").mkdir(parents=True)
    for name in ("thesis.txt", "index.html", "demo-app/index.html", "mkl-2020.2-256.conda"):
        (place / name).write_text("years")
    return place


def is_untouched(place: Path) -> bool:
    files = [path for path in place.rglob("*") if path.is_file()]
    return len(files) == 4 and {path.read_text() for path in files} == {"years"}


def test_a_returned_stick_with_links(maker: Maker) -> None:
    """Its ``simple``, ``channel/linux-64`` and ``wheels`` are links: pages were written, files removed behind them."""
    wanted = ("mkl", "--pip", "demo-app", "--python", "3.8", *LINUX)
    assert maker.create(*wanted).code == 0
    elsewhere = {
        name: precious(maker.folder / f"elsewhere-{at}")
        for at, name in enumerate(("simple", "channel/linux-64", "wheels"))
    }
    for name, place in elsewhere.items():
        (maker.out / name).rename(maker.folder / f"was-{place.name}")
        (maker.out / name).symlink_to(place)
    done = maker.create(*wanted)
    assert done.code == 0, done.err
    for name, place in elsewhere.items():
        assert is_untouched(place), name
        assert (maker.out / name).is_dir()
        assert not (maker.out / name).is_symlink()
        assert f"removed: {name}, which was not part of the previous bundle" in done.err
    assert check(maker.out).exit_code == 0


def test_a_link_in_place_of_the_folder_for_unfinished_files(maker: Maker) -> None:
    """``.resume-dl`` is emptied at the end, and all that is begun is written there: a link is refused."""
    assert maker.create("mkl", *LINUX).code == 0
    elsewhere = precious(maker.folder / "elsewhere")
    (maker.out / FOLDER).symlink_to(elsewhere)
    done = maker.create("mkl", *LINUX)
    assert done.code == 5, done.err
    assert f"{maker.out / FOLDER} is a link" in done.err
    assert is_untouched(elsewhere)


@pytest.mark.parametrize("name", ["{}", "{}/" + FOLDER])
def test_a_link_in_place_of_the_staging_folder(maker: Maker, name: str) -> None:
    """The folder beside the tar has a name that all can guess."""
    elsewhere = maker.folder / "elsewhere"
    elsewhere.mkdir()
    planted = maker.folder / name.format("x.tar.workshop")
    planted.parent.mkdir(exist_ok=True)
    planted.symlink_to(elsewhere)
    done = maker.create("mkl", *LINUX, out=maker.folder / "x.tar")
    assert done.code == 5, done.err
    assert f"{planted} is a link" in done.err
    assert list(elsewhere.iterdir()) == []
    assert not (maker.folder / "x.tar").exists()
