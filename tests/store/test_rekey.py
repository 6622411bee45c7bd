"""A record turned out to be stale: the bytes go on under the key of the new one."""

from __future__ import annotations

import pytest

from resume_dl.store.part import PartStore
from store.parts import DATA, SIZE, artifact, crash, journal_path, part_path, put, reopen, resumed, settle

NEW = artifact()


def stale(size):
    return artifact(b"what the record says the file is", size=size)


STALE = stale(SIZE)


@pytest.fixture
def folder(tmp_path):
    """Bytes of NEW begun under the digest of STALE; its process is gone."""
    begin(tmp_path)
    return tmp_path


def begin(folder, *, size=SIZE):
    what = stale(size)
    part = reopen(folder, what)
    part.resume()
    put(part, 0, 4000)
    settle(part)
    put(part, 4000, 5000, "two")
    crash(part)


def stale(size):
    return artifact(b"what the record says the file is", size=size)


def test_the_bytes_are_continued_under_the_new_key(folder):
    """All that was believed is believed, nothing is left of the old key, and the file can be finished."""
    assert PartStore(folder).rekey(STALE, NEW)
    assert {path.stem for path in folder.iterdir()} == {NEW.key}
    part = reopen(folder)
    assert part.resume().ranges == ((0, 5000),)
    put(part, 5000, SIZE)
    part.advance_digest(SIZE)
    assert part.digest() == {"sha256": NEW.sha256}
    part.publish(folder / "out" / "a")
    assert (folder / "out" / "a").read_bytes() == DATA


@pytest.mark.parametrize("size", [None, 5000, 7000, SIZE, 20_000])
def test_another_size(tmp_path, size):
    """The new record's size holds, whatever the journal says: what reaches beyond it is not believed."""
    begin(tmp_path, size=size)
    shorter = artifact(DATA[:4500])
    assert PartStore(tmp_path).rekey(stale(size), shorter)
    for _ in range(2):
        part = reopen(tmp_path, shorter)
        found = part.resume()
        assert (found.ranges, found.size) == (((0, 4000),), 4500)
        assert part_path(tmp_path, shorter).stat().st_size == 4500
        crash(part)
    part = reopen(tmp_path, shorter)
    part.resume()
    put(part, 4000, 4500)
    part.advance_digest(4500)
    assert part.digest() == {"sha256": shorter.sha256}
    crash(part)


@pytest.mark.parametrize("size", [5000, 7000])
def test_a_larger_size(tmp_path, size):
    """The new record's file is longer than the old one's: it is made so long."""
    begin(tmp_path, size=size)
    assert PartStore(tmp_path).rekey(stale(size), NEW)
    assert resumed(tmp_path) == ((0, 5000),)
    assert part_path(tmp_path).stat().st_size == SIZE
    assert resumed(tmp_path) == ((0, 5000),)


@pytest.mark.parametrize("who", ["old", "new"])
def test_a_file_in_use_is_not_rekeyed(folder, who):
    """Under either key: nothing is moved, and nobody's lock is lost."""
    part = reopen(folder, STALE if who == "old" else NEW)
    part.resume()
    assert not PartStore(folder).rekey(STALE, NEW)
    put(part, 6000, 6100)
    part.close()
    assert resumed(folder, STALE) == (((0, 5000), (6000, 6100)) if who == "old" else ((0, 5000),))


def test_an_existing_part_file_of_the_new_key_is_kept(folder):
    """Each keeps its own."""
    part = reopen(folder)
    part.resume()
    put(part, 0, 10)
    part.close()
    assert not PartStore(folder).rekey(STALE, NEW)
    assert resumed(folder) == ((0, 10),)
    assert resumed(folder, STALE) == ((0, 5000),)


def test_rekey_without_a_part_file_does_nothing(tmp_path):
    """No part file, no folder, one without a journal, the same key: False, and nothing is left behind."""
    store = PartStore(tmp_path / "parts")
    assert not store.rekey(STALE, NEW)
    assert not (tmp_path / "parts").exists()
    part = store.open(STALE, journaled=False)
    part.resume()
    put(part, 0, 5000)
    crash(part)
    assert not store.rekey(STALE, NEW)
    assert {path.stem for path in (tmp_path / "parts").iterdir()} == {STALE.key}
    assert not store.rekey(STALE, STALE)


def test_killed_between_the_two_renames(folder):
    """The next call finishes the move."""
    journal_path(folder, STALE).rename(journal_path(folder))
    assert PartStore(folder).rekey(STALE, NEW)
    assert resumed(folder) == ((0, 5000),)
