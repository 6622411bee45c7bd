"""The digest behind a download at its real sizes: blocks, checkpoints and how far it looks for more damage."""

from __future__ import annotations

import hashlib
import os
import random
import zlib

import pytest

from resume_dl.core.ranges import RangeSet
from resume_dl.ports import DigestProgress
from resume_dl.store.journal import Written
from resume_dl.store.platform import PositionedFile
from resume_dl.store.running_digest import RunningDigest, crc32_of, hash_file

MIB = 1 << 20
STEP = 300_000
SIZE = 40 * MIB
DATA = random.Random(31).randbytes(3 * MIB) + bytes(SIZE - 3 * MIB)
RECORDS = [
    Written(start, min(start + STEP, SIZE), 0, zlib.crc32(DATA[start : start + STEP])) for start in range(0, SIZE, STEP)
]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "part"
    with path.open("wb") as file:
        file.write(DATA[: 3 * MIB])
        file.truncate(SIZE)
    return path


@pytest.fixture
def file(path):
    file = PositionedFile(path, create=False)
    yield file
    file.close()


def digest(records=RECORDS, algorithm="sha256"):
    running = RunningDigest(algorithm)
    running.expect(records)
    return running


def test_advance_stops_at_the_requested_position(file):
    """At any byte, in any number of steps; what is right is right whatever the steps are."""
    running = digest()
    for upto in (1, MIB - 1, MIB + 7, 3 * MIB // 2, 5 * MIB + 1, 5 * MIB + 1, 4, SIZE):
        expected = max(running.position, upto)
        assert running.advance(file, upto) == DigestProgress(expected)
        assert running.position == expected
        assert running.hexdigest() == hashlib.sha256(DATA[:expected]).hexdigest()


def test_it_goes_back_to_a_checkpoint_each_16_mebibytes(file):
    """What is forgotten costs at most so much hashing; what lies ahead costs none."""
    running = digest([])
    running.advance(file, SIZE)
    for at, position in ((39 * MIB, 32 * MIB), (33 * MIB, 32 * MIB), (32 * MIB - 1, 16 * MIB), (16 * MIB, 16 * MIB)):
        running.forget(RangeSet([(at, at + 1)]))
        assert running.position == position
        assert running.hexdigest() == hashlib.sha256(DATA[:position]).hexdigest()
    running.forget(RangeSet([(20 * MIB, 21 * MIB)]))
    assert running.position == 16 * MIB
    running.forget(RangeSet([(3, 4)]))
    assert running.position == 0
    running.advance(file, SIZE)
    assert running.hexdigest() == hashlib.sha256(DATA).hexdigest()


def test_damage_before_a_forgotten_range_is_found(path, file):
    """Only records that the range touches go; those of bytes that are not hashed yet are still compared."""
    flip(path, STEP)
    running = digest(RECORDS[:4])
    running.forget(RangeSet([(2 * STEP, 3 * STEP)]))
    assert running.advance(file, 4 * STEP) == DigestProgress(STEP, ((STEP, 2 * STEP),))


def flip(path, at):
    with path.open("r+b") as raw:
        raw.seek(at)
        raw.write(bytes([DATA[at] ^ 1]))


def record_at(at):
    start = at // STEP * STEP
    return (start, min(start + STEP, SIZE))


@pytest.mark.parametrize(("second", "together"), [(1, True), (15 * MIB, True), (18 * MIB, False)])
def test_damage_is_looked_for_16_mebibytes_ahead(path, file, second, together):
    """What lies nearer is told at once, what lies farther comes up in its turn."""
    first = 2 * MIB
    places = [record_at(first), record_at(first + second + STEP)]
    for at in (first, first + second + STEP):
        flip(path, at)
    running = digest()
    joined = tuple(RangeSet(places))
    assert running.advance(file, SIZE).damaged == (joined if together else joined[:1])
    assert running.position == places[0][0]
    assert running.hexdigest() == hashlib.sha256(DATA[: places[0][0]]).hexdigest()


def test_damage_is_counted_from_the_last_one(path, file):
    """Each damaged record is a reason to look so far again."""
    places = [2 * MIB, 12 * MIB, 22 * MIB, 32 * MIB]
    for at in places:
        flip(path, at)
    assert digest().advance(file, SIZE).damaged == tuple(record_at(at) for at in places)


def test_crc32_of_a_range(file):
    """Beyond a block, continued, of nothing; None where the file ends before."""
    assert crc32_of(file, 5, 2 * MIB + 9) == zlib.crc32(DATA[5 : 2 * MIB + 9])
    assert crc32_of(file, 5, 9, zlib.crc32(DATA[:5])) == zlib.crc32(DATA[:9])
    assert crc32_of(file, 7, 7) == 0
    assert crc32_of(file, 7, 7, 5) == 5
    assert crc32_of(file, SIZE - 1, SIZE) == 0xD202EF8D  # of a single zero
    assert crc32_of(file, SIZE - 1, SIZE + 1) is None


def test_without_an_algorithm_nothing_is_hashed(path, file):
    """Records are compared all the same."""
    running = digest(algorithm=None)
    assert running.advance(file, MIB) == DigestProgress(MIB)
    assert running.hexdigest() == ""
    flip(path, 2 * MIB)
    assert running.advance(file, SIZE).damaged == (record_at(2 * MIB),)
    running.forget(RangeSet([(0, 1)]))
    assert running.position == 0


def test_a_file_that_ends_before(path, file):
    os.truncate(path, MIB)
    with pytest.raises(OSError, match="shorter"):
        digest([]).advance(file, MIB + 1)


@pytest.mark.parametrize("size", [0, 1, MIB, MIB + 1])
def test_the_digest_of_a_whole_file(tmp_path, size):
    path = tmp_path / "a"
    path.write_bytes(DATA[:size])
    assert hash_file(path, "md5") == hashlib.md5(DATA[:size]).hexdigest()
