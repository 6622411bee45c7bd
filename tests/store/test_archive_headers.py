"""What of a ZIP's member is suspect, byte by byte: archives written by hand, beside a member that is surely damaged."""

from __future__ import annotations

import random
import struct
import zipfile
import zlib

import pytest

from resume_dl.store import archive_damage
from resume_dl.store.archive_damage import damaged_ranges

DATA = random.Random(21).randbytes(700)
NAME = b"a/member.py"
STREAMED, ENCRYPTED, UTF8 = 0x08, 0x01, 0x800
TIME, DATE = 13 << 11 | 37 << 5 | 29, (2026 - 1980) << 9 | 7 << 5 | 14


class Member:
    """One member; ``local`` is what only the header before its data says, ``central`` what only the directory does."""

    def __init__(
        self, data=DATA, *, name=NAME, deflated=False, flags=0, extra=b"", after=b"", local=None, central=None
    ):
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        self.data = packer.compress(data) + packer.flush() if deflated else data
        self.said = {
            "magic": b"PK\x03\x04", "version": 20, "flags": flags, "method": 8 if deflated else 0, "time": TIME,
            "date": DATE, "crc": zlib.crc32(data), "packed": len(self.data), "size": len(data), "extra": extra,
        }  # fmt: skip
        self.name, self.after, self.local, self.central = name, after, local or {}, central or {}

    def before(self):
        said = {**self.said, **self.local}
        extra = said.pop("extra")
        return struct.pack("<4sHHHHHIIIHH", *said.values(), len(self.name), len(extra)) + self.name + extra

    def bytes(self):
        return self.before() + self.data + self.after

    def entry(self, at):
        said = {**self.said, "extra": b"", "offset": at, **self.central}
        extra, at = said.pop("extra"), said.pop("offset")
        del said["magic"]
        numbers = (len(self.name), len(extra), 0, 0, 0, 0, at)
        return struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\x01\x02", 20, *said.values(), *numbers) + self.name + extra


def archive(path, *members):
    """Write it; where each member begins, and the directory, and the end."""
    starts, data = [], b""
    for each in members:
        starts.append(len(data))
        data += each.bytes()
    directory = b"".join(each.entry(at) for each, at in zip(members, starts, strict=True))
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, len(members), len(members), len(directory), len(data), 0)
    path.write_bytes(data + directory + end)
    return [*starts, len(data), len(data) + len(directory) + len(end)]


def wrong():
    return Member(DATA, name=b"wrong", central={"crc": 1})


def suspects(path, member):
    """What is suspect of ``member`` in an archive of it, one that is wrong in all its bytes and one that is right."""
    at, other, right, directory, end = archive(path, member, wrong(), Member(name=b"right"))
    found = damaged_ranges(path, "a.zip")
    assert found[-1] == (directory, end)
    assert found[-2][0] <= other
    assert found[-2][1] == right
    return [(max(start, at), min(stop, other)) for start, stop in found if start < other]


HEADER = (0, 30 + len(NAME))
ALL = (0, 30 + len(NAME) + len(DATA))
ZIP64 = struct.pack("<HHQQ", 1, 16, len(DATA), len(DATA))
MAX32 = 0xFFFFFFFF


def descriptor(layout="<4sIII", magic=b"PK\x07\x08", crc=None):
    return struct.pack(layout, magic, zlib.crc32(DATA) if crc is None else crc, len(DATA), len(DATA))


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        (Member(), []),
        (Member(deflated=True), []),
        # the header says something else than the directory
        (Member(local={"magic": b"PK\x03\x05"}), [HEADER]),
        (Member(local={"version": 10}), [HEADER]),
        (Member(local={"flags": 2}), [HEADER]),
        (Member(local={"method": 8}), [HEADER]),
        (Member(local={"time": TIME + 1}), [HEADER]),
        (Member(local={"time": TIME + (1 << 5)}), [HEADER]),
        (Member(local={"time": TIME + (1 << 11)}), [HEADER]),
        (Member(local={"date": DATE + 1}), [HEADER]),
        (Member(local={"date": DATE + (1 << 5)}), [HEADER]),
        (Member(local={"date": DATE + (1 << 9)}), [HEADER]),
        (Member(local={"crc": 5}), [HEADER]),
        (Member(local={"crc": 0}), [HEADER]),  # 0 is right only where a descriptor follows
        (Member(local={"packed": 5}), [HEADER]),
        (Member(local={"packed": 0}), [HEADER]),
        (Member(local={"size": 5}), [HEADER]),
        (Member(local={"size": 0}), [HEADER]),
        (Member(local={"size": MAX32}), [HEADER]),  # right only where an extra field has it
        # the data is not what the directory says
        (Member(central={"crc": 0}), [ALL]),
        (Member(central={"size": len(DATA) + 1}), [ALL]),
        (Member(central={"size": len(DATA) - 1}), [ALL]),
        (Member(central={"packed": 1 << 30}), [ALL]),
        (Member(central={"method": 12}), [ALL]),  # bzip2 is not judged
        (Member(flags=ENCRYPTED), [ALL]),
        (Member(central={"method": 8}), [ALL]),  # not a deflated stream
        # extra fields
        (Member(extra=b"\x55\x54\x01\x00\x00", central={"extra": b"\x55\x54\x01\x00\x00"}), []),
        (
            Member(extra=b"\x55\x54\x01\x00\x00", central={"extra": b"\x55\x54\x01\x00\x01"}),
            [(HEADER[1], HEADER[1] + 5)],
        ),
        (Member(extra=ZIP64, local={"packed": MAX32, "size": MAX32}), [(HEADER[1], HEADER[1] + len(ZIP64))]),
        (Member(extra=ZIP64, local={"packed": 7}), [(0, HEADER[1] + len(ZIP64))]),
        # data descriptors: with and without their mark, in 32 and 64 bits
        (Member(flags=STREAMED, after=descriptor()), []),
        (Member(flags=STREAMED, after=descriptor()[4:]), []),
        (Member(flags=STREAMED, after=descriptor("<4sIQQ")), []),
        (Member(flags=STREAMED, after=descriptor("<4sIQQ")[4:]), []),
        (Member(flags=STREAMED, after=descriptor(), local={"crc": 0, "packed": 0, "size": 0}), []),
        (Member(flags=STREAMED, after=descriptor(), local={"crc": 5}), [HEADER]),
        (Member(flags=STREAMED, after=descriptor(), local={"packed": 5}), [HEADER]),
        (Member(flags=STREAMED, after=descriptor(crc=5)), [(ALL[1], ALL[1] + 16)]),
        (Member(flags=STREAMED, after=descriptor(magic=b"PK\x07\x09")), [(ALL[1], ALL[1] + 16)]),
        (Member(after=descriptor()), [(ALL[1], ALL[1] + 16)]),  # no flag says that one follows
        # names
        (Member(name=b"m\x82mber.py.."), []),  # code page 437, where no flag says UTF-8
        (Member(name="gr\u00f6\u00dfe.py".encode(), flags=UTF8), []),
        (Member(flags=UTF8), []),
        # what lies between
        (Member(after=b"gap"), [(ALL[1], ALL[1] + 3)]),
        (Member(b""), []),
        (Member(b"", extra=b"\x55\x54\x01\x00\x00"), [(0, HEADER[1] + 5)]),  # no data proves where the field ends
    ],
)
def test_suspect_ranges_of_a_damaged_member(tmp_path, member, expected):
    """Its header where it differs from the directory, its data where it does not fit; what fits is good."""
    assert suspects(tmp_path / "a.zip", member) == expected


@pytest.mark.parametrize(
    ("layout", "above", "expected"),
    [("<4sIQQ", 1, []), ("<4sIII", 1, [(ALL[1], ALL[1] + struct.calcsize("<4sIII"))]), ("<4sIII", 0, [])],
)
def test_a_size_beyond_32_bits_needs_a_descriptor_of_64(tmp_path, monkeypatch, layout, above, expected):
    """APPNOTE.TXT 4.3.9.2; the bound is lowered here, as the member would have 4 GiB."""
    monkeypatch.setattr(archive_damage, "_MAX32", len(DATA) - above)
    assert suspects(tmp_path / "a.zip", Member(flags=STREAMED, after=descriptor(layout))) == expected


@pytest.mark.parametrize(
    "size",
    [
        archive_damage._CHUNK - 1,
        archive_damage._CHUNK,
        archive_damage._CHUNK + 100,
        3 * archive_damage._CHUNK,
        1_000_003,
    ],
)
@pytest.mark.parametrize("deflated", [True, False])
def test_large_members_that_pack_well(tmp_path, size, deflated):
    """A few packed bytes give many pieces; each of them is counted, none is lost."""
    assert suspects(tmp_path / "a.zip", Member(bytes(size), deflated=deflated)) == []


@pytest.mark.parametrize("junk", [b"j", b"junk" * 100_000])
def test_bytes_behind_a_packed_stream_are_not_good(tmp_path, junk):
    """The member's size covers more than its stream: all of it is suspect."""
    member = Member(deflated=True)
    member.data += junk
    member.said["packed"] = len(member.data)
    assert suspects(tmp_path / "a.zip", member) == [(0, len(member.bytes()))]


def test_a_stream_that_does_not_end(tmp_path):
    """Cut off after all its bytes came out, before its own end."""
    packer = zlib.compressobj(0, zlib.DEFLATED, -15)
    member = Member(deflated=True)
    member.data = packer.compress(DATA) + packer.flush(zlib.Z_SYNC_FLUSH)
    member.said["packed"] = len(member.data)
    assert suspects(tmp_path / "a.zip", member) == [(0, len(member.bytes()))]


@pytest.mark.parametrize("away", [1, 29])
def test_a_header_that_the_file_has_no_room_for(tmp_path, away):
    """The directory says that it begins a few bytes before the end: that member vouches for nothing, the other does."""
    path = tmp_path / "a.zip"
    good, lost = Member(), Member(name=b"lost")
    *_, end = archive(path, good, lost)
    lost.central["offset"] = end - away
    _, second, _, end = archive(path, good, lost)
    assert damaged_ranges(path, "a.zip") == ((second, end),)


def test_work_is_bounded(tmp_path, monkeypatch):
    """Up to four times the archive and the spare amount is unpacked, and not a byte more."""
    path = tmp_path / "a.zip"
    members = [Member(bytes(100_000), deflated=True), wrong()]
    *_, end = archive(path, *members)
    spare = 100_000 + len(DATA) - 4 * end
    monkeypatch.setattr(archive_damage, "_WORK_MORE", spare)
    assert damaged_ranges(path, "a.zip") is not None
    monkeypatch.setattr(archive_damage, "_WORK_MORE", spare - 1)
    assert damaged_ranges(path, "a.zip") is None


def test_packages_may_unpack_to_a_gibibyte_more(tmp_path):
    """A small archive of zeros is no bomb yet."""
    assert suspects(tmp_path / "a.zip", Member(bytes(5_000_000), deflated=True)) == []


def test_the_generated_archives_are_valid(tmp_path):
    archive(tmp_path / "a.zip", Member(), Member(deflated=True, name=b"b"))
    with zipfile.ZipFile(tmp_path / "a.zip") as whole:
        assert whole.testzip() is None
        assert [whole.read(name) for name in whole.namelist()] == [DATA, DATA]
