"""The digest behind the download finds what an earlier run's bytes are no more; what is forgotten is never believed."""

from __future__ import annotations

import hashlib
import os
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resume_dl.core.ranges import RangeSet
from resume_dl.errors import StoreError
from resume_dl.ports import DigestProgress
from resume_dl.store import journal as jn
from resume_dl.store import running_digest
from store.parts import DATA, SIZE, artifact, crash, journal_path, part_path, put, reopen, resumed, settle

STEP = 1000


@pytest.fixture
def whole(tmp_path):
    """All bytes durable in records of STEP bytes from two sources; its process was killed."""
    part = reopen(tmp_path)
    part.resume()
    for start in range(0, SIZE, STEP):
        put(part, start, start + STEP, "one" if start % 2000 else "two")
    settle(part)
    crash(part)
    return tmp_path


def flip(folder, *offsets):
    """Another byte at each offset of the part file, as a bad disk would have it."""
    with part_path(folder).open("r+b") as file:
        for offset in offsets:
            file.seek(offset)
            file.write(bytes([DATA[offset] ^ 0xFF]))


def repair(part, ranges, data=DATA):
    """What the engine does about damage."""
    part.forget(ranges)
    for start, end in ranges:
        put(part, start, end, "three", data)


@pytest.mark.parametrize("positioned", [True, False])
def test_intact_records_are_hashed_to_the_end(whole, monkeypatch, positioned):
    """An earlier run's bytes in steps of any size, with and without ``preadv``: the digest of the whole file."""
    if not positioned:
        monkeypatch.delattr(os, "preadv", raising=False)
    part = reopen(whole)
    assert part.resume().ranges == ((0, SIZE),)
    for upto in (1, 999, 1000, 4500, 4500, 3, SIZE):
        assert part.advance_digest(upto).damaged == ()
    assert part.digest() == {"sha256": artifact().sha256}
    crash(part)


def test_the_digest_stops_before_damage_and_continues_after_the_repair(whole):
    """Damaged records are reported together, the digest stands before the first, and a repair is all it needs."""
    flip(whole, 3500, 4999, 7000)
    part = reopen(whole)
    assert part.resume().ranges == ((0, SIZE),)
    assert part.advance_digest(3000) == DigestProgress(3000)
    expected = DigestProgress(3000, ((3000, 5000), (7000, 8000)))
    assert part.advance_digest(SIZE) == expected
    assert part.digest() == {"sha256": hashlib.sha256(DATA[:3000]).hexdigest()}
    assert part.advance_digest(SIZE) == expected
    repair(part, expected.damaged)
    assert part.advance_digest(SIZE) == DigestProgress(SIZE)
    assert part.digest() == {"sha256": artifact().sha256}
    crash(part)
    assert resumed(whole) == ((0, SIZE),)


def test_the_search_for_damage_ends_after_enough_intact_bytes(whole, monkeypatch):
    """One repair for damage that lies close together; what lies far behind comes up in its turn."""
    monkeypatch.setattr(running_digest, "_LOOK_AHEAD", 3 * STEP)
    flip(whole, 0, 3 * STEP, 5 * STEP, 9 * STEP)
    part = reopen(whole)
    part.resume()
    for expected in ((0, 1000), (3000, 4000), (5000, 6000)), ((9000, 10000),):
        assert part.advance_digest(SIZE).damaged == expected
        repair(part, expected)
    assert part.advance_digest(SIZE) == DigestProgress(SIZE)
    crash(part)


def test_damage_beyond_the_requested_position_is_reported_later(whole):
    """Only records that begin below ``upto`` are read; one that reaches beyond it is read whole."""
    flip(whole, 5999)
    part = reopen(whole)
    part.resume()
    assert part.advance_digest(5000) == DigestProgress(5000)
    assert part.advance_digest(5001) == DigestProgress(5000, ((5000, 6000),))
    crash(part)


def test_bytes_of_this_run_are_not_compared(whole):
    """What was recorded in this run is in the page cache: it is hashed as it lies there."""
    part = reopen(whole)
    part.resume()
    part.forget(((0, 1000),))
    part.write(0, DATA[:1000])
    part.record_written(0, 1000, 12345, "three")
    assert part.advance_digest(SIZE) == DigestProgress(SIZE)
    assert part.digest() == {"sha256": artifact().sha256}
    crash(part)


def test_damage_is_found_without_a_digest(tmp_path):
    """A file that no digest judges is compared with its records too."""
    what = artifact(sha256=False)
    part = reopen(tmp_path, what)
    part.resume()
    put(part, 0, SIZE)
    settle(part)
    crash(part)
    with part_path(tmp_path, what).open("r+b") as file:
        file.write(bytes(3))
    part = reopen(tmp_path, what)
    part.resume()
    assert part.advance_digest(SIZE) == DigestProgress(0, ((0, SIZE),))
    assert part.digest() == {}
    crash(part)


def test_forget_rewinds_to_the_nearest_checkpoint(tmp_path, monkeypatch):
    """The digest of a file that was changed below its position is right, and only what lies behind is read again."""
    monkeypatch.setattr(running_digest, "_CHECKPOINT_EVERY", 1000)
    monkeypatch.setattr(running_digest, "_BLOCK", 256)
    part = reopen(tmp_path)
    part.resume()
    wrong = DATA[:6000] + bytes(100) + DATA[6100:]
    put(part, 0, SIZE, data=wrong)
    part.advance_digest(SIZE)
    assert part.digest() == {"sha256": hashlib.sha256(wrong).hexdigest()}
    repair(part, ((6000, 6100),))
    with part_path(tmp_path).open("r+b") as file:
        file.write(bytes(4000))  # were they read again, the digest would be another
    assert part.advance_digest(SIZE) == DigestProgress(SIZE)
    assert part.digest() == {"sha256": artifact().sha256}
    crash(part)


def test_a_truncated_part_file_is_an_error(tmp_path):
    """Bytes that this run wrote and that are not there: an error that says so, no endless reading."""
    part = reopen(tmp_path)
    part.resume()
    put(part, 0, SIZE)
    os.truncate(part_path(tmp_path), 2500)
    with pytest.raises(StoreError, match="shorter than what was written"):
        part.advance_digest(SIZE)
    crash(part)


@settings(max_examples=settings.default.max_examples * 3 // 5)
@given(
    st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(1, 3000)), max_size=12),
    st.sets(st.integers(0, SIZE - 1), max_size=4),
    st.lists(st.integers(0, SIZE), max_size=5),
    st.integers(1, 1500),
)
def test_arbitrary_records_are_checked_and_hashed(tmp_path_factory, pieces, flips, stops, block):
    """Overlapping, nested, longer than a block: what is damaged is reported, no more, and the digest is right."""
    folder = tmp_path_factory.mktemp("any")
    records = [(start, min(SIZE, start + count)) for start, count in pieces]
    part = reopen(folder)
    part.resume()
    part.write(0, DATA)
    for start, end in records:
        put(part, start, end)
    settle(part)
    crash(part)
    flip(folder, *flips)
    content = bytearray(part_path(folder).read_bytes())
    bad = RangeSet((start, end) for start, end in records if any(start <= each < end for each in flips))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running_digest, "_BLOCK", block)
        part = reopen(folder)
        assert part.resume().ranges == tuple(RangeSet(records))
        found = RangeSet()
        for stop in [*stops, SIZE]:
            while (progress := part.advance_digest(stop)).damaged:
                low = progress.damaged[0][0]
                assert progress.position == low
                assert part.digest() == {"sha256": hashlib.sha256(content[:low]).hexdigest()}
                repair(part, progress.damaged)
                for start, end in progress.damaged:
                    found.add(start, end)
                    content[start:end] = DATA[start:end]
            assert progress.position >= stop
        assert found == bad
        assert part.digest() == {"sha256": hashlib.sha256(content).hexdigest()}
        crash(part)


def test_forgotten_ranges_are_not_trusted_later_and_the_others_are(whole):
    """Parts of records, several in one, in this run's and an earlier run's: exactly the rest is there next time."""
    part = reopen(whole)
    part.resume()
    part.forget(((500, 600), (700, 1500), (4000, 6000)))
    crash(part)
    left = ((0, 500), (600, 700), (1500, 4000), (6000, SIZE))
    part = reopen(whole)
    found = part.resume()
    assert found.ranges == left
    assert dict(found.owners)["two"][:3] == ((0, 500), (600, 700), (2000, 3000))
    put(part, 500, 600)
    part.forget(((550, 9500),))
    settle(part)
    crash(part)
    assert resumed(whole) == ((0, 550), (9500, SIZE))


def test_a_kill_anywhere_in_forget(whole):
    """Whatever part of it reached the journal: nothing of the rest is lost, and once it is done nothing is believed."""
    before = journal_path(whole).read_bytes()
    part = reopen(whole)
    part.resume()
    part.forget(((500, 600), (1200, 1300)))
    crash(part)
    after = journal_path(whole).read_bytes()
    assert after.startswith(before)
    for length in range(len(before), len(after) + 1):
        journal_path(whole).write_bytes(after[:length])
        left = RangeSet(resumed(whole))
        assert all(left.covers(*each) for each in ((0, 500), (600, 1200), (1300, SIZE)))
        assert left.total == SIZE - 200 or length < len(after)


def test_forgetting_does_not_make_damage_good(whole):
    """What is left of a record that was not right is not recorded anew; in this run it is reported as damaged."""
    flip(whole, 2100)
    part = reopen(whole)
    part.resume()
    part.forget(((2500, 2600),))
    put(part, 2500, 2600, "three")
    assert part.advance_digest(SIZE) == DigestProgress(2000, ((2000, 2500), (2600, 3000)))
    crash(part)
    part = reopen(whole)
    assert part.resume().ranges == ((0, 2000), (2500, 2600), (3000, SIZE))
    crash(part)


def test_damage_below_the_digest_is_found_when_its_record_is_forgotten(whole):
    """A disk that goes bad behind the digest: forgetting half of a record brings the digest back to its other half."""
    part = reopen(whole)
    part.resume()
    part.advance_digest(SIZE)
    flip(whole, 2100)
    part.forget(((2500, 2600),))
    put(part, 2500, 2600, "three")
    assert part.advance_digest(SIZE).damaged == ((2000, 2500), (2600, 3000))
    crash(part)


def test_forgetting_nothing(whole):
    """No ranges, or empty ones: nothing changes."""
    before = journal_path(whole).read_bytes()
    part = reopen(whole)
    part.resume()
    part.forget(())
    part.forget(((5, 5),))
    crash(part)
    assert journal_path(whole).read_bytes() == before


def test_a_journal_of_version_1_is_upgraded(whole):
    """What it says is believed, and it is version 2 before anything else is appended to it."""
    data = journal_path(whole).read_bytes()
    head = bytearray(data[:12])
    head[4] = 1
    journal_path(whole).write_bytes(bytes(head) + zlib.crc32(head).to_bytes(4, "little") + data[16:])
    assert jn.read(journal_path(whole).read_bytes()).version == 1
    assert resumed(whole) == ((0, SIZE),)
    assert jn.read(journal_path(whole).read_bytes()).version == 2
