"""The CRCs of a ZIP's members say where it is wrong: real packages, each damaged in every place that matters."""

from __future__ import annotations

import io
import os
import random
import struct
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resume_dl.core.ranges import RangeSet
from resume_dl.demo.package import PackageSpec, write_package
from resume_dl.store import archive_damage
from resume_dl.store.archive_damage import damaged_ranges

WHEEL = [f"demo/module_{number}.py" for number in range(12)] + ["demo-1.0.dist-info/RECORD", "demo/größe.txt"]


def wheel(path, *, streamed=False, compression=zipfile.ZIP_DEFLATED):
    """As pip's builders write it; ``streamed``: by a writer that cannot seek, with data descriptors."""
    chance = random.Random(3)
    target = Unseekable() if streamed else io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name in WHEEL:
            info = zipfile.ZipInfo(name, (2026, 7, 14, 13, 37, 58))
            info.compress_type = compression
            text = b"".join(b"value_%d = %d\n" % (n, chance.randrange(10**9)) for n in range(400))
            archive.writestr(info, text)
    path.write_bytes(bytes(target.data) if streamed else target.getvalue())
    return path


class Unseekable(io.RawIOBase):
    """A pipe."""

    def __init__(self):
        self.data = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.data += data
        return len(data)


@pytest.fixture(scope="module", params=["conda", "wheel", "streamed", "stored"])
def archive(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    if request.param == "conda":
        return write_package(PackageSpec(name="demo", version="1.0", payload_size=300_000), folder)
    path = folder / "demo-1.0-py3-none-any.whl"
    compression = zipfile.ZIP_STORED if request.param == "stored" else zipfile.ZIP_DEFLATED
    return wheel(path, streamed=request.param == "streamed", compression=compression)


def same_content(one, other):
    """Whether two archives have the same members with the same content: nothing of it was read wrong."""
    with zipfile.ZipFile(one) as first, zipfile.ZipFile(other) as second:
        return first.namelist() == second.namelist() and all(first.read(n) == second.read(n) for n in first.namelist())


def directory_of(path):
    """Where the central directory begins."""
    with zipfile.ZipFile(path) as archive:
        return archive.start_dir


def test_another_build_is_not_damage(archive):
    """Headers, data, data descriptors: where all of it is right, no place is worse than another."""
    assert damaged_ranges(archive, archive.name) is None


def test_a_damaged_descriptor(tmp_path):
    """What follows a streamed member is vouched for too: it is suspect where it is wrong, up to the next header."""
    path = wheel(tmp_path / "a.whl", streamed=True)
    data = bytearray(path.read_bytes())
    second = data.index(b"PK\x03\x04", 4)
    data[second - 1] ^= 1
    path.write_bytes(data)
    assert damaged_ranges(path, path.name) == ((second - 16, second), (directory_of(path), len(data)))


@settings(max_examples=settings.default.max_examples * 3 // 5)
@given(st.data())
def test_damage_is_among_the_suspects(archive, data):
    """Whichever byte is another, it is suspect, or it changes nothing; and no other member is suspected."""
    good = archive.read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    damaged = bytearray(good)
    damaged[at] ^= data.draw(st.integers(1, 255))
    path = archive.with_suffix(".damaged")
    path.write_bytes(damaged)
    suspects = damaged_ranges(path, archive.name)
    directory = directory_of(archive)
    if suspects is None:
        assert at >= directory or same_content(path, archive)
        return
    found = RangeSet(suspects)
    with zipfile.ZipFile(archive) as whole:
        starts = [*sorted(each.header_offset for each in whole.infolist()), directory]
        names = {each.header_offset: each for each in whole.infolist()}
    assert found.covers(directory, len(good))
    if at >= directory:
        return
    low = max(start for start in starts if start <= at)
    high = min(start for start in starts if start > at)
    assert found.total - (len(good) - directory) <= high - low
    if not found.covers(at, at + 1):  # one of the last bits of a packed member, which mean nothing
        with zipfile.ZipFile(path) as still, zipfile.ZipFile(archive) as whole:
            name = names[low].filename
            assert still.read(name) == whole.read(name)
            assert whole.getinfo(name).compress_type == zipfile.ZIP_DEFLATED


def test_damage_in_several_places_is_located(archive):
    """A liar's bytes in two members: both are suspect, and where there are more, the rest is not."""
    content = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as whole:
        infos = sorted(whole.infolist(), key=lambda each: each.header_offset)
    first, last = infos[0], infos[-1]
    for each in (first, last):
        middle = each.header_offset + 30 + len(each.orig_filename.encode()) + each.compress_size // 2
        content[middle : middle + 3] = bytes(b ^ 0xA5 for b in content[middle : middle + 3])
    path = archive.with_suffix(".several")
    path.write_bytes(content)
    found = RangeSet(damaged_ranges(path, archive.name))
    for each in (first, last):
        assert found.overlaps(each.header_offset + 30, each.header_offset + 30 + each.compress_size)
    assert len(infos) > 2
    assert len(list(found)) == 2


def test_a_gap_is_suspect(tmp_path):
    """Bytes of no member, as an installer's stub, are not vouched for; alone they do not say that a file is damaged."""
    path = wheel(tmp_path / "a.whl")
    data = bytearray(b"in front" + path.read_bytes())
    path.write_bytes(data)
    assert damaged_ranges(path, path.name) is None
    data[100] ^= 1  # of the first member
    path.write_bytes(data)
    assert damaged_ranges(path, path.name)[0][0] == 0


def test_an_extra_field_of_the_header_alone_is_not_damage(tmp_path):
    """Info-ZIP writes more times before the data than into the directory; beside damage they are suspect."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("a.py", "b.py"):
            info = zipfile.ZipInfo(name)
            info.extra = struct.pack("<HHBII", 0x5455, 9, 3, 1, 1)
            archive.writestr(info, b"text")
    data = bytearray(path.read_bytes())
    at = directory_of(path)
    for _ in range(2):
        at = data.index(b"UT", at) + 2
        data[at + 3] ^= 2  # a time in the directory is another
    path.write_bytes(data)
    assert damaged_ranges(path, path.name) is None
    second = data.index(b"PK\x03\x04", 4)
    data[second - 1] ^= 1
    path.write_bytes(data)
    first, other, _ = damaged_ranges(path, path.name)
    assert first == (0, second)
    assert second < other[0] < other[1] < directory_of(path)


@pytest.mark.parametrize("name", ["a.tar.bz2", "a.json", "a"])
def test_other_formats_report_no_damage(tmp_path, name):
    """Whatever lies in them."""
    assert damaged_ranges(wheel(tmp_path / name), name) is None


@pytest.mark.parametrize("where", ["end", "directory", "all", "empty"])
def test_without_a_central_directory_no_damage_is_located(tmp_path, where):
    """None, not an error."""
    path = wheel(tmp_path / "a.whl")
    data = bytearray(path.read_bytes())
    if where == "end":
        data[-22:] = bytes(22)
    elif where == "directory":
        data[directory_of(path)] ^= 1
    else:
        data = bytearray(b"<html>" * 1000 if where == "all" else b"")
    path.write_bytes(data)
    assert damaged_ranges(path, path.name) is None


def test_a_decompression_bomb_is_bounded(tmp_path, monkeypatch):
    """An archive that unpacks to more than any package is given up, after bounded work."""
    monkeypatch.setattr(archive_damage, "_WORK_MORE", 1 << 20)
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(50 << 20))
    assert damaged_ranges(path, path.name) is None


def test_overlapping_members_are_rejected(tmp_path):
    """The other kind of bomb: many entries of one piece of data."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", os.urandom(1000))
        (only,) = archive.infolist()
        archive.filelist += [only, only]
    assert damaged_ranges(path, path.name) is None


@pytest.mark.parametrize("again", ["same", "within"])
def test_overlapping_members_confirm_no_bytes(tmp_path, again):
    """Where two members claim the same bytes, nothing is told of the damage in a third.

    They have the same place, or one is in the other's data.
    """
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr(zipfile.ZipInfo("inner"), b"text" * 50)
        (within,) = archive.infolist()
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo("outer"), inner.getvalue())
        archive.writestr(zipfile.ZipInfo("third"), b"other" * 50)
        outer, third = archive.infolist()
        within.header_offset = 30 + len("outer")
        extra = {"same": outer, "within": within}[again]
        archive.filelist.append(extra)
        archive._didModify = True
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        assert [each.filename for each in archive.infolist()] == ["outer", "third", extra.filename]
        assert archive.read(extra.filename)
    assert damaged_ranges(path, path.name) is None
    data[third.header_offset + 40] ^= 1
    path.write_bytes(data)
    assert damaged_ranges(path, path.name) is None


def test_more_members_than_any_package_has(tmp_path):
    """A central directory beyond the bound is not read into memory."""
    path = tmp_path / "a.zip"
    entry = b"PK\x01\x02" + bytes(42)
    count = archive_damage._DIRECTORY_MOST // 46 + 10
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 65535, 65535, count * 46, 0, 0)
    path.write_bytes(entry * count + end)
    assert damaged_ranges(path, path.name) is None


def test_the_bound_of_the_directory(tmp_path, monkeypatch):
    """The bound is on what is read at once, whatever is in it."""
    path = wheel(tmp_path / "a.whl")
    monkeypatch.setattr(archive_damage, "_DIRECTORY_MOST", 600)
    assert damaged_ranges(path, path.name) is None


def test_an_empty_member_does_not_prove_its_header(tmp_path):
    """Where an extra field ends is proved by the data behind it: without data a wrong length is suspect."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo("__init__.py"), b"")
        archive.writestr(zipfile.ZipInfo("a.py"), b"text")
    data = bytearray(path.read_bytes())
    second = data.index(b"PK\x03\x04", 4)
    assert damaged_ranges(path, path.name) is None
    data[28] = 3
    path.write_bytes(data)
    assert damaged_ranges(path, path.name) == ((0, second), (directory_of(path), len(data)))


def test_bytes_behind_the_packed_data_are_suspect(tmp_path):
    """A member's size in the archive covers more than its data needs: nothing vouches for the rest."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("a.py"), b"text" * 100, zipfile.ZIP_DEFLATED)
        (only,) = archive.infolist()
    data = bytearray(path.read_bytes())
    directory = directory_of(path)
    for at in (18, directory + 20):
        data[at : at + 4] = struct.pack("<I", only.compress_size + 4)
    end = len(data) - 22
    data[end + 16 : end + 20] = struct.pack("<I", directory + 4)
    data[directory:directory] = b"junk"
    path.write_bytes(data)
    assert damaged_ranges(path, path.name) is None


def test_more_than_65535_members(tmp_path):
    """ZIP64's directory is read as any other, within the bound."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(66_000):
            archive.writestr(zipfile.ZipInfo(f"{number:x}"), b"")
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    assert damaged_ranges(path, path.name)[0] == (0, data.index(b"PK\x03\x04", 4))


@pytest.mark.parametrize("field", ["size", "packed"])
def test_absurd_sizes(tmp_path, field):
    """Sizes that cannot be: that member is suspect, the others are not, and nothing is reserved for it."""
    path = wheel(tmp_path / "a.whl")
    data = bytearray(path.read_bytes())
    at = directory_of(path) + (24 if field == "size" else 20)
    data[at : at + 4] = b"\xf0\xff\xff\xff"
    path.write_bytes(data)
    first, directory = damaged_ranges(path, path.name)
    with zipfile.ZipFile(path) as archive:
        assert first[1] <= archive.infolist()[1].header_offset
    assert directory == (directory_of(path), len(data))


def test_a_comment(tmp_path):
    """An archive with a comment is read as any other."""
    path = wheel(tmp_path / "a.whl")
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"x" * 1000
    data = bytearray(path.read_bytes())
    data[40] ^= 1  # of the first member's name
    path.write_bytes(data)
    _, last = damaged_ranges(path, path.name)
    assert last == (directory_of(path), len(data))
