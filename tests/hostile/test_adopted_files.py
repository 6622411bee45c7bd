"""Files that change, vanish or are not what they seem while they are adopted; the part file is a real one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError, IntegrityError, LockedError
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.transfer.adopted_files import artifact_of, opened, take_start, take_whole

MIB = 1 << 20
WHOLE = b"PK\3\4" + hashlib.shake_256(b"big").digest(12 * MIB)
HALF = WHOLE[: 6 * MIB]


def artifact(data: bytes = WHOLE, *, size: int | None = len(WHOLE), name: str = "big") -> Artifact:
    return Artifact(
        kind="conda",
        filename=f"{name}-1.0-0.conda",
        url=RedactedUrl(f"https://h/{name}-1.0-0.conda"),
        size=size,
        sha256=hashlib.sha256(data).hexdigest(),
        name=name,
        version="1.0",
        build="0",
    )


BIG = artifact()


class Case:
    """One file and one place for it; ``at`` calls ``change`` before the given piece is read."""

    def __init__(self, folder: Path, data: bytes) -> None:
        self.store, self.goal = PartStore(folder / FOLDER), folder / BIG.filename
        self.file = folder / "download"
        self.file.write_bytes(data)
        self.read = 0

    def at(self, piece: int, change: Callable[[], object]) -> Callable[[], bool]:
        def cancelled() -> bool:
            self.read += 1
            if self.read == piece:
                change()
            return False

        return cancelled

    def whole(self, cancelled: Callable[[], bool] = lambda: False, file: Path | None = None) -> None:
        with opened(file or self.file) as fd:
            take_whole(fd, BIG, self.store, self.goal, label="download", cancelled=cancelled)

    def start(self, cancelled: Callable[[], bool] = lambda: False, file: Path | None = None):
        with opened(file or self.file) as fd:
            return take_start(fd, BIG, self.store, label="download", cancelled=cancelled)


@pytest.fixture
def put(tmp_path: Path) -> Callable[[bytes], Case]:
    return lambda data: Case(tmp_path, data)


def appended(case: Case, data: bytes) -> Callable[[], object]:
    def append() -> None:
        with case.file.open("ab") as file:
            file.write(data)

    return append


def test_our_own_part_file_keeps_its_bytes(put) -> None:
    """``adopt .resume-dl/KEY.part``: it would be emptied, then read; complete or not."""
    case = put(HALF)
    case.start()
    part = case.store.folder / f"{BIG.key}.part"
    with pytest.raises(ConfigurationError, match="own unfinished download"):
        case.start(file=part)
    part.write_bytes(WHOLE)
    with pytest.raises(ConfigurationError, match="own unfinished download"):
        case.whole(file=part)
    assert part.read_bytes() == WHOLE
    assert not case.goal.exists()


def test_a_file_that_grows_is_not_copied_for_ever(put) -> None:
    """As much as it had, and then the error; its program may write faster than we do."""
    case = put(WHOLE)
    with pytest.raises(IntegrityError, match="changed while it was copied"):
        case.whole(case.at(3, appended(case, bytes(64 * MIB))))
    assert case.read <= 14
    assert not case.goal.exists()


@pytest.mark.parametrize("change", ["cut", "other bytes"])
def test_a_file_that_changes_is_not_published(put, change: str) -> None:
    case = put(WHOLE)

    def other() -> None:
        if change == "cut":
            os.truncate(case.file, 1000)
        else:
            case.file.write_bytes(WHOLE[::-1])

    with pytest.raises(IntegrityError, match="changed while it was copied"):
        case.whole(case.at(4, other))
    assert not case.goal.exists()
    assert sum(each.done for each in case.store.unfinished()) == 0


def test_a_file_that_is_removed_meanwhile_is_taken_all_the_same(put) -> None:
    case = put(WHOLE)
    case.whole(case.at(4, case.file.unlink))
    assert case.goal.read_bytes() == WHOLE


def test_a_start_that_is_cut_meanwhile_gives_what_there_was(put) -> None:
    case = put(HALF)
    taken = case.start(case.at(3, lambda: os.truncate(case.file, 5000)))
    (left,) = case.store.unfinished()
    assert taken.new == left.done <= 5000


def test_a_start_that_grows_beyond_the_package_is_refused(put) -> None:
    case = put(HALF)
    with pytest.raises(IntegrityError):
        case.start(case.at(3, appended(case, bytes(1) + WHOLE)))
    assert not case.store.unfinished()


def test_two_at_once_take_turns(put) -> None:
    """The second finds the part file in use; the first publishes."""
    case = put(WHOLE)
    seen: list[LockedError] = []

    def second() -> None:
        with pytest.raises(LockedError) as caught:
            case.whole()
        seen.append(caught.value)

    case.whole(case.at(5, second))
    assert len(seen) == 1
    assert case.goal.read_bytes() == WHOLE


def test_a_file_is_read_once_for_all_that_a_page_lists(put) -> None:
    """A page without sizes lists thousands of wheels: the last one is found in one reading of the file."""
    case = put(WHOLE)
    others = [artifact(str(number).encode(), size=None, name=f"other{number}") for number in range(500)]
    with opened(case.file) as fd:
        assert artifact_of(fd, [*others, artifact(size=None)], case.at(0, lambda: None)) is not None
        assert case.read <= 14
        assert artifact_of(fd, others, lambda: False) is None


def test_a_link_in_the_place_of_the_part_file_is_not_written_through(put, tmp_path: Path) -> None:
    case = put(WHOLE)
    victim = tmp_path / "thesis"
    victim.write_bytes(b"mine")
    case.store.folder.mkdir(mode=0o700)
    (case.store.folder / f"{BIG.key}.part").symlink_to(victim)
    with pytest.raises(Exception, match=r".+"):
        case.whole()
    assert victim.read_bytes() == b"mine"
    assert not case.goal.exists()
