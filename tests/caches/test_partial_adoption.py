"""What is taken of conda's unfinished files: as far as nothing speaks against it, once, and only where it helps."""

from __future__ import annotations

import hashlib
import os
import random
import struct
import sys
import zlib

import pytest

from resume_dl.caches.conda.partial_adoption import LABEL, Adopted, adopt_partial, remove_adopted
from resume_dl.core.ranges import RangeSet
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.store.journal_file import read_journal
from resume_dl.store.part import FOLDER, PartStore
from store.parts import crash, put
from support.condas_lock import another_conda_works_on

PIECE = 128 * 1024


def member(name: bytes, data: bytes, *, method=0, flags=0, extra=b"", crc=None, packed=None) -> bytes:
    crc = zlib.crc32(data) if crc is None else crc
    packed = len(data) if packed is None else packed
    head = struct.pack(
        "<4sHHHHHIIIHH", b"PK\x03\x04", 20, flags, method, 0, 0, crc, packed, len(data), len(name), len(extra)
    )
    return head + name + extra + data


BLOCK = random.Random(11).randbytes(3000)
ONE = member(b"metadata.json", BLOCK)
TWO = member(b"info.tar.zst", BLOCK[:2000], extra=b"\x55\x54\x01\x00\x00")
ZIP = ONE + TWO + b"PK\x01\x02" + bytes(200)
BZ2 = b"BZh9" + random.Random(12).randbytes(4 * PIECE)


def wanted(data: bytes, name="a-1-0.conda", *, size=True, digest=True) -> Artifact:
    return Artifact(
        kind="conda",
        filename=name,
        url=RedactedUrl(f"https://example.org/{name}"),
        size=len(data) if size else None,
        sha256=hashlib.sha256(data).hexdigest() if digest else None,
    )


def lies_there(pkgs, data, name="a-1-0.conda"):
    path = pkgs / f"{name}.partial"
    path.write_bytes(data)
    return path


def count(pkgs, data, what):
    """How many bytes are taken of ``data``; they, and no others, are what the next run believes and finds."""
    lies_there(pkgs, data, what.filename)
    adopted = adopt_partial(pkgs, what)
    if adopted is None:
        return None
    part = PartStore(pkgs / FOLDER).open(what, journaled=True)
    ranges = part.resume().ranges
    assert RangeSet(ranges).total == adopted.count
    assert ranges in {(), ((0, adopted.count),)}
    assert part.read(0, adopted.count) == data[: adopted.count]
    part.close()
    return adopted.count


@pytest.mark.parametrize("length", [30, 100, len(ONE), len(ONE) + 10, len(ONE + TWO), len(ZIP)])
def test_a_prefix_is_adopted(tmp_path, length):
    """All of it, wherever it was cut off."""
    assert count(tmp_path, ZIP[:length], wanted(ZIP)) == length


def test_adopted_bytes_are_durable_with_their_source(tmp_path):
    """Its records name conda's file as their source; the file itself is as it was, and its state is remembered."""
    path = lies_there(tmp_path, BZ2, "a-1-0.tar.bz2")
    before = path.stat()
    adopted = adopt_partial(tmp_path, wanted(BZ2, "a-1-0.tar.bz2"))
    assert adopted == Adopted(path, len(BZ2), (before.st_ino, before.st_size, before.st_mtime_ns))
    contents = read_journal(tmp_path / FOLDER / f"{wanted(BZ2).key}.journal")
    assert set(contents.sources.values()) == {LABEL}
    assert [(each.start, each.end) for each in contents.durable] == [
        *((at, at + PIECE) for at in range(0, 4 * PIECE, PIECE)),
        (4 * PIECE, 4 * PIECE + 4),
    ]
    assert contents.written == []
    assert path.read_bytes() == BZ2
    assert adopt_partial(tmp_path, wanted(BZ2, "a-1-0.tar.bz2")) == Adopted(path, 0, adopted.state)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (ZIP, wanted(ZIP, digest=False)),
        (ZIP, wanted(ZIP[:-1])),  # longer than the whole
        (b"", wanted(ZIP)),
        (ZIP[:29], wanted(ZIP)),
        (b"<html>" + bytes(100), wanted(ZIP)),
        (BZ2, wanted(BZ2)),  # another format than its name says
        (b"BZh9" + bytes(100), wanted(ZIP, "a-1-0.conda")),
    ],
)
def test_implausible_content_is_not_adopted(tmp_path, data, what):
    """No digest to judge it by, too long, too short, another format."""
    assert count(tmp_path, data, what) is None
    assert not (tmp_path / FOLDER).exists()


def test_a_size_is_not_needed(tmp_path):
    assert count(tmp_path, ZIP, wanted(ZIP, size=False)) == len(ZIP)


def test_links_pipes_and_absent_files_are_not_opened(tmp_path):
    """What is not a regular file of that name is as none."""
    assert adopt_partial(tmp_path, wanted(ZIP)) is None
    (tmp_path / "real").write_bytes(ZIP)
    path = tmp_path / "a-1-0.conda.partial"
    path.symlink_to(tmp_path / "real")
    assert adopt_partial(tmp_path, wanted(ZIP)) is None
    path.unlink()
    if sys.platform != "win32":
        os.mkfifo(path)
        assert adopt_partial(tmp_path, wanted(ZIP)) is None


BAD = bytes(4) + BLOCK[4:]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (ONE + member(b"b", BAD, crc=1) + TWO, len(ONE)),  # a stored member with another CRC
        (member(b"b", BAD, crc=1), None),  # the first
        (ONE + b"junk" + bytes(40), len(ONE)),
        (ONE + b"junk" + bytes(26), len(ONE)),  # as long as a header
        (ONE + b"PK\x05\x06" + bytes(40), len(ONE) + 44),
        (ONE + b"PK\x06\x06" + bytes(40), len(ONE) + 44),
        (ONE + member(b"b", BAD, crc=1, method=8) + TWO, len(ONE) + len(member(b"b", BAD)) + len(TWO)),  # packed
        (ONE + member(b"b", BAD, crc=1, method=8) + b"junk" + bytes(40), len(ONE) + len(member(b"b", BAD))),
        (ONE + member(b"b", BAD, crc=1, flags=0x08), len(ONE) + len(member(b"b", BAD))),  # its length is not said
        (ONE + member(b"b", BAD, crc=1, flags=0x01), len(ONE) + len(member(b"b", BAD))),
        (ONE + member(b"b", BAD, crc=1, packed=0xFFFFFFFF), len(ONE) + len(member(b"b", BAD))),
        (ONE + member(b"b", BAD, crc=1)[:-1], len(ONE) + len(member(b"b", BAD)) - 1),  # cut off
        (member(b"", b"") + b"junk" + bytes(40), 30),
    ],
)
def test_a_zip_is_adopted_up_to_its_first_damaged_member(tmp_path, data, expected):
    """Stored members are compared with their CRC-32; what cannot be judged or is cut off is taken on trust."""
    assert count(tmp_path, data, wanted(data + b"rest")) == expected


def test_a_large_member_is_read_in_pieces(tmp_path):
    """Beyond a mebibyte at once: its CRC-32 is of all of it."""
    large = random.Random(13).randbytes((2 << 20) + 5)
    data = member(b"pkg", large) + b"junk" + bytes(40)
    assert count(tmp_path, data, wanted(data + b"rest")) == len(data) - 44


def test_adoption_stops_at_zeros_of_a_power_cut(tmp_path):
    """A piece of zeros alone was never written."""
    data = BZ2[: 2 * PIECE] + bytes(PIECE) + BZ2[3 * PIECE :]
    assert count(tmp_path, data, wanted(BZ2, "a-1-0.tar.bz2")) == 2 * PIECE


@pytest.mark.parametrize("pieces", [0, 1, 2])
def test_adoption_can_be_cancelled(tmp_path, pieces):
    """Between two pieces; what was copied stays."""
    calls = []

    def cancelled():
        calls.append(None)
        return len(calls) > pieces

    lies_there(tmp_path, BZ2, "a-1-0.tar.bz2")
    assert adopt_partial(tmp_path, wanted(BZ2, "a-1-0.tar.bz2"), cancelled=cancelled).count == pieces * PIECE


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (((0, 1000),), 4000),
        (((1000, 2000), (9000, 9500)), 4000),
        (((0, 4999),), 1),
        (((0, 5000),), None),
        (((5000, 10000),), None),  # as much, elsewhere
        (((0, 7000),), None),
    ],
)
def test_only_missing_ranges_are_copied(tmp_path, ours, expected):
    """Where our part file has as much or more, conda's is of no use."""
    what = wanted(BZ2, "a-1-0.tar.bz2")
    part = PartStore(tmp_path / FOLDER).open(what, journaled=True)
    part.resume()
    for start, end in ours:
        put(part, start, end, data=BZ2)
    crash(part)
    lies_there(tmp_path, BZ2[:5000], what.filename)
    adopted = adopt_partial(tmp_path, what)
    assert (adopted and adopted.count) == expected
    part = PartStore(tmp_path / FOLDER).open(what, journaled=True)
    believed = RangeSet(part.resume().ranges)
    assert all(believed.covers(start, end) for start, end in ours)
    assert expected is None or believed.covers(0, 5000)
    part.close()


def test_nothing_is_adopted_while_another_process_uses_the_file(tmp_path):
    """A conda on its file, another process on our part file."""
    path = lies_there(tmp_path, ZIP)
    with another_conda_works_on(path):
        assert adopt_partial(tmp_path, wanted(ZIP)) is None
    part = PartStore(tmp_path / FOLDER).open(wanted(ZIP), journaled=True)
    assert adopt_partial(tmp_path, wanted(ZIP)) is None
    part.close()
    assert adopt_partial(tmp_path, wanted(ZIP)).count == len(ZIP)


@pytest.mark.parametrize("change", [None, "longer", "time", "another file"])
def test_a_changed_partial_is_not_removed(tmp_path, change):
    """Unchanged since its bytes were taken; a conda that goes on with it keeps it."""
    path = lies_there(tmp_path, ZIP)
    adopted = adopt_partial(tmp_path, wanted(ZIP))
    if change == "longer":
        with path.open("ab") as file:
            file.write(b"x")
        os.utime(path, ns=(1, adopted.state[2]))
    elif change == "time":
        os.utime(path, ns=(1, adopted.state[2] + 100))
    elif change == "another file":
        path.rename(tmp_path / "old")
        path.write_bytes(ZIP)
        os.utime(path, ns=(1, adopted.state[2]))
    remove_adopted(adopted)
    assert path.exists() is (change is not None)
    remove_adopted(adopted)


def test_a_partial_in_use_by_conda_is_not_removed(tmp_path):
    path = lies_there(tmp_path, ZIP)
    adopted = adopt_partial(tmp_path, wanted(ZIP))
    with another_conda_works_on(path):
        remove_adopted(adopted)
    assert path.exists()
    path.unlink()
    remove_adopted(adopted)
