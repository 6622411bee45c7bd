"""Part files after every kind of end: what is believed is right, and what is right and recorded is believed."""

from __future__ import annotations

import errno
import os
import zlib

import pytest

from resume_dl.errors import JournalError, LockedError, NotWritableError, OutOfSpaceError, StoreError
from resume_dl.ports import Resumed
from resume_dl.store import journal as jn
from resume_dl.store.part import PartStore
from store.parts import (
    DATA,
    SIZE,
    artifact,
    crash,
    journal_path,
    part_path,
    put,
    reopen,
    resumed,
    settle,
)


def names(folder):
    return sorted(path.suffix for path in folder.iterdir())


@pytest.fixture
def begun(tmp_path):
    """A part file with [0, 3000) durable and [3000, 5000) written; its process was killed."""
    part = reopen(tmp_path)
    assert part.resume() == Resumed(size=SIZE)
    put(part, 0, 3000)
    settle(part)
    put(part, 3000, 5000, "two")
    crash(part)
    return tmp_path


def test_a_killed_process_loses_only_what_it_had_not_recorded(begun):
    """Durable and written ranges are there again, with the size; a byte without a record is not."""
    part = reopen(begun)
    owners = (("one", ((0, 3000),)), ("two", ((3000, 5000),)))
    assert part.resume() == Resumed(((0, 5000),), SIZE, owners=owners)
    part.write(5000, DATA[5000:6000])
    crash(part)
    assert resumed(begun) == ((0, 5000),)


def test_a_resumed_part_file_is_completed(begun):
    """The rest comes, the digest is right, and publishing leaves the file and nothing else."""
    part = reopen(begun)
    part.resume()
    put(part, 5000, SIZE)
    settle(part)
    part.advance_digest(SIZE)
    assert part.digest() == {"sha256": artifact().sha256}
    part.publish(begun / "out" / "a-1-0.conda")
    assert (begun / "out" / "a-1-0.conda").read_bytes() == DATA
    assert [path.name for path in begun.iterdir()] == ["out"]


@pytest.mark.parametrize("where", ["mid", "crc", "one byte"])
def test_a_torn_tail_is_cut_off(begun, where):
    """A last record of which only a part reached the disk is gone; what comes after it is believed again."""
    path = journal_path(begun)
    whole = path.read_bytes()
    torn = whole[: {"mid": -12, "crc": -1, "one byte": -28}[where]]
    path.write_bytes(torn)
    part = reopen(begun)
    assert part.resume().ranges == ((0, 3000),)
    put(part, 6000, 7000)
    crash(part)
    assert resumed(begun) == ((0, 3000), (6000, 7000))


def test_a_torn_tail_is_never_read_again(begun):
    """The journal after a torn tail has another nonce: old blocks behind its end are no records."""
    path = journal_path(begun)
    old = path.read_bytes()
    damaged = bytearray(old)
    damaged[-1] ^= 1
    path.write_bytes(bytes(damaged))
    crash_free = reopen(begun)
    crash_free.resume()
    crash(crash_free)
    new = path.read_bytes()
    assert jn.read(new).nonce != jn.read(old).nonce
    assert jn.read(new + old[len(new) :]).written == []


def test_written_records_that_do_not_match_the_disk_are_never_trusted(begun):
    """A written record without its data: not believed, also not after the next durable record."""
    with part_path(begun).open("r+b") as file:
        file.seek(4000)
        file.write(bytes(10))
    part = reopen(begun)
    assert part.resume().ranges == ((0, 3000),)
    put(part, 7000, 8000)
    settle(part)
    crash(part)
    assert resumed(begun) == ((0, 3000), (7000, 8000))


def test_durable_records_are_trusted_without_reading(begun):
    """What is durable is not read again at the start: this is what makes resuming a large file quick."""
    with part_path(begun).open("r+b") as file:
        file.write(bytes(10))
    assert resumed(begun) == ((0, 5000),)


def test_records_after_the_mark_are_not_durable(tmp_path):
    """What is recorded while a sync is under way is not covered by it."""
    part = reopen(tmp_path)
    part.resume()
    put(part, 0, 100)
    mark = part.sync_data()
    put(part, 100, 200)
    part.record_durable(mark)
    crash(part)
    contents = jn.read(journal_path(tmp_path).read_bytes())
    assert [(w.start, w.end) for w in contents.durable] == [(0, 100)]
    assert [(w.start, w.end) for w in contents.written] == [(100, 200)]


@pytest.mark.parametrize("length", [0, 1, 2999, 4000, SIZE - 1])
def test_a_truncated_part_file_is_not_trusted(begun, length):
    """A part file shorter than its journal says has been meddled with: begin anew."""
    os.truncate(part_path(begun), length)
    assert resumed(begun) == ()
    assert part_path(begun).stat().st_size == SIZE
    assert resumed(begun) == ()


def test_a_vanished_part_file(begun):
    """A journal alone says nothing."""
    part_path(begun).unlink()
    assert resumed(begun) == ()


@pytest.mark.parametrize("damage", ["gone", "empty", "short", "header", "other"])
def test_without_a_readable_journal_nothing_is_trusted(begun, damage):
    """Bytes that nobody vouches for are thrown away."""
    path = journal_path(begun)
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(
            {"empty": b"", "short": data[:9], "header": b"\0" + data[1:], "other": b"something else entirely"}[damage]
        )
    assert resumed(begun) == ()
    assert part_path(begun).read_bytes() == bytes(SIZE)


@pytest.mark.parametrize("journaled", [True, False])
def test_a_newer_journal_is_left_alone(begun, journaled):
    """A journal of another version: an error that says so; journal and bytes stay, and the lock is free again."""
    head = bytearray(journal_path(begun).read_bytes()[:12])
    head[4] = 9
    newer = bytes(head) + zlib.crc32(head).to_bytes(4, "little") + b"its records"
    journal_path(begun).write_bytes(newer)
    before = part_path(begun).read_bytes()
    for _ in range(2):
        part = PartStore(begun).open(artifact(), journaled=journaled)
        with pytest.raises(JournalError, match="version 9"):
            part.resume()
        part.close()
    assert (journal_path(begun).read_bytes(), part_path(begun).read_bytes()) == (newer, before)
    assert [each.done for each in PartStore(begun).unfinished()] == [0]


def test_discard(begun):
    """After a discard the ranges are gone for good, the size stays where a record gave it."""
    part = reopen(begun)
    part.resume()
    part.discard()
    put(part, 100, 200)
    settle(part)
    crash(part)
    part = reopen(begun)
    assert part.resume() == Resumed(((100, 200),), SIZE, owners=(("one", ((100, 200),)),))
    crash(part)
    assert part_path(begun).read_bytes()[:100] == bytes(100)


def test_without_a_size(tmp_path):
    """No record gives a size: ranges are kept without it, and it is kept once it is known; discard forgets it."""
    what = artifact(size=None)
    part = reopen(tmp_path, what)
    assert part.resume() == Resumed()
    put(part, 0, 1000)
    crash(part)
    part = reopen(tmp_path, what)
    assert part.resume() == Resumed(((0, 1000),), None, owners=(("one", ((0, 1000),)),))
    part.fix_size(SIZE)
    assert part_path(tmp_path, what).stat().st_size == SIZE
    crash(part)
    part = reopen(tmp_path, what)
    assert part.resume() == Resumed(((0, 1000),), SIZE, owners=(("one", ((0, 1000),)),))
    part.discard()
    crash(part)
    part = reopen(tmp_path, what)
    assert part.resume() == Resumed()
    part.close()


def test_a_shrunk_part_file_without_a_size(tmp_path):
    """Where no size is known, a record that reaches beyond the file's end is not believed, now or later."""
    what = artifact(size=None)
    part = reopen(tmp_path, what)
    part.resume()
    put(part, 0, 1000)
    put(part, 1000, 2000)
    settle(part)
    crash(part)
    os.truncate(part_path(tmp_path, what), 1500)
    part = reopen(tmp_path, what)
    assert part.resume().ranges == ((0, 1000),)
    put(part, 5000, 6000)
    settle(part)
    crash(part)
    assert resumed(tmp_path, what) == ((0, 1000), (5000, 6000))


def test_validator_and_source(tmp_path):
    """A file without a digest remembers whom its bytes came from, also in a journal that was rewritten."""
    what = artifact(sha256=False)
    part = reopen(tmp_path, what)
    part.resume()
    part.fix_size(SIZE, '"v1"', "https://one.example/a")
    put(part, 0, 1000, "one")
    put(part, 1000, 2000, "one")
    crash(part)
    with part_path(tmp_path, what).open("r+b") as file:
        file.seek(1500)
        file.write(b"\0\0\0\0")
    for _ in range(2):
        part = reopen(tmp_path, what)
        owners = (("one", ((0, 1000),)),)
        assert part.resume() == Resumed(((0, 1000),), SIZE, '"v1"', "https://one.example/a", owners)
        assert part.digest() == {}
        crash(part)


def test_closing_an_empty_part_leaves_nothing(tmp_path):
    """Nothing came: no part file, no journal, no lock."""
    part = reopen(tmp_path)
    part.resume()
    part.close()
    assert names(tmp_path) == []
    part = reopen(tmp_path)
    part.close()
    assert names(tmp_path) == []


def test_close_keeps_received_bytes(tmp_path):
    """Bytes and journal stay; the lock is free."""
    part = reopen(tmp_path)
    part.resume()
    put(part, 0, 10)
    part.close()
    assert names(tmp_path) == [".journal", ".lock", ".part"]
    assert resumed(tmp_path) == ((0, 10),)


def test_small_files_have_no_journal(tmp_path):
    """Not journaled: every run begins anew, and publishing works as ever."""
    part = PartStore(tmp_path).open(artifact(), journaled=False)
    assert part.resume() == Resumed(size=SIZE)
    put(part, 0, 5000)
    settle(part)
    crash(part)
    assert names(tmp_path) == [".lock", ".part"]
    part = PartStore(tmp_path).open(artifact(), journaled=False)
    assert part.resume() == Resumed(size=SIZE)
    put(part, 0, SIZE)
    part.advance_digest(SIZE)
    assert part.digest() == {"sha256": artifact().sha256}
    part.publish(tmp_path / "a")
    assert names(tmp_path) == [""]


def test_a_stale_journal_does_not_apply_to_an_unjournaled_file(begun):
    """Begun with a journal, continued without (its size became known): the journal goes with the bytes it spoke of."""
    part = PartStore(begun).open(artifact(), journaled=False)
    assert part.resume() == Resumed(size=SIZE)
    crash(part)
    assert resumed(begun) == ()


@pytest.mark.parametrize("journaled", [True, False])
def test_a_part_file_with_a_second_name_is_not_written_to(begun, journaled):
    """Published, and the power went before its old name was gone from the disk: whoever has it now keeps it."""
    os.link(part_path(begun), begun / "published")
    before = part_path(begun).read_bytes()
    part = PartStore(begun).open(artifact(), journaled=journaled)
    assert part.resume() == Resumed(size=SIZE)
    put(part, 0, SIZE, data=bytes(SIZE))
    part.close()
    assert (begun / "published").read_bytes() == before


def test_a_part_file_longer_than_its_size_is_cut(begun):
    """What lies behind the end is nobody's: it must not get into the published file."""
    os.truncate(part_path(begun), SIZE + 500)
    part = reopen(begun)
    assert part.resume().ranges == ((0, 5000),)
    put(part, 5000, SIZE)
    part.advance_digest(SIZE)
    assert part.digest() == {"sha256": artifact().sha256}
    part.publish(begun / "a")
    assert (begun / "a").read_bytes() == DATA


def test_killed_between_rename_and_clean_up(begun):
    """Published, and killed before the journal went: the next run begins anew instead of believing it."""
    part = reopen(begun)
    part.resume()
    crash(part)
    part_path(begun).rename(begun / "published")
    assert resumed(begun) == ()


def test_md5_becomes_sha256(tmp_path):
    """Begun when only the md5 was known, continued when both are."""
    by_md5, both = artifact(sha256=False, md5=True), artifact(md5=True)
    part = reopen(tmp_path, by_md5)
    part.resume()
    put(part, 0, 1000)
    crash(part)
    assert resumed(tmp_path, both) == ((0, 1000),)
    assert {path.stem for path in tmp_path.iterdir()} == {both.key}


def test_md5_becomes_sha256_in_spite_of_a_kill(tmp_path):
    """Killed between the two renames, the next run finishes the move."""
    by_md5, both = artifact(sha256=False, md5=True), artifact(md5=True)
    part = reopen(tmp_path, by_md5)
    part.resume()
    put(part, 0, 1000)
    crash(part)
    journal_path(tmp_path, by_md5).rename(journal_path(tmp_path, both))
    assert resumed(tmp_path, both) == ((0, 1000),)


def test_an_md5_part_in_use_is_not_renamed(tmp_path):
    """Another download works under the md5: ours begins on its own."""
    by_md5, both = artifact(sha256=False, md5=True), artifact(md5=True)
    other = reopen(tmp_path, by_md5)
    other.resume()
    put(other, 0, 1000)
    assert resumed(tmp_path, both) == ()
    crash(other)
    assert resumed(tmp_path, by_md5) == ((0, 1000),)


def test_a_sha256_part_wins_over_an_md5_part(tmp_path):
    """Both are there: each keeps its own."""
    by_md5, both = artifact(sha256=False, md5=True), artifact(md5=True)
    for what, end in ((both, 10), (by_md5, 20)):
        part = reopen(tmp_path, what)
        part.resume()
        put(part, 0, end)
        crash(part)
    assert resumed(tmp_path, both) == ((0, 10),)
    assert resumed(tmp_path, by_md5) == ((0, 20),)


def test_status_and_remove(begun):
    """What ``status`` shows is what the journal says; ``remove`` leaves nothing, and refuses what is at work."""
    store = PartStore(begun)
    (only,) = store.unfinished()
    assert (only.key, only.size, only.done) == (artifact().key, SIZE, 5000)
    part = reopen(begun)
    with pytest.raises(LockedError):
        store.remove(only.key)
    crash(part)
    (begun / f"{only.key}.new").write_bytes(b"left by a kill")
    assert store.remove(only.key) == 5000
    assert names(begun) == []
    assert PartStore(begun / "none").unfinished() == []


def test_a_folder_that_cannot_be_made(tmp_path):
    """A file where the folder should be: an error of ours that names the place."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="file"):
        PartStore(tmp_path / "file" / "below").open(artifact(), journaled=True)


def test_publishing_to_an_unwritable_place_is_an_error(begun):
    """A destination that cannot be: an error of ours, and the bytes are still there afterwards."""
    part = reopen(begun)
    part.resume()
    (begun / "file").write_text("x")
    with pytest.raises(StoreError):
        part.publish(begun / "file" / "a")
    part.close()
    assert resumed(begun) == ((0, 5000),)


def test_os_errors_become_store_errors(tmp_path):
    """No space, no permission and the rest reach the caller as StoreError of the right kind."""
    from resume_dl.store.disk_errors import as_store_errors

    no_space, not_writable = (errno.ENOSPC, errno.EDQUOT), (errno.EACCES, errno.EROFS)  # each system's own numbers
    kinds = [(number, OutOfSpaceError) for number in no_space] + [(number, NotWritableError) for number in not_writable]
    for number, kind in kinds:
        with pytest.raises(kind), as_store_errors(tmp_path / "a"):
            raise OSError(number, os.strerror(number))
    with pytest.raises(StoreError, match="a: Input/output error"), as_store_errors(tmp_path / "a"):
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("journaled", [True, False])
def test_a_new_part_file_is_not_truncated(tmp_path, journaled):
    """Cutting a file to nothing makes ext4 write it out while it is closed: an empty one is not touched."""
    part = PartStore(tmp_path).open(artifact(size=None), journaled=journaled)
    os.utime(part.path, (1, 1))
    part.resume()
    assert part.path.stat().st_mtime == 1
    part.close()
