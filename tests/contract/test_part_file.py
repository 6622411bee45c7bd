"""What the engine may expect of any ``ports.PartFile``, whether or not it keeps a journal."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
import zlib

import pytest

from resume_dl.errors import LockedError
from resume_dl.ports import DigestProgress, PartFile, Resumed
from resume_dl.ports import PartStore as PartStorePort
from resume_dl.store.part import PartStore
from store.parts import DATA, SIZE, artifact


@pytest.fixture(params=[True, False], ids=["journaled", "not journaled"])
def journaled(request):
    return request.param


@pytest.fixture
def store(tmp_path) -> PartStorePort:
    return PartStore(tmp_path / "parts")


@pytest.fixture
def part(store, journaled):
    part: PartFile = store.open(artifact(), journaled=journaled)
    yield part
    part.close()


def fill(part, start=0, end=SIZE):
    part.write(start, DATA[start:end])
    part.record_written(start, end, zlib.crc32(DATA[start:end]), "one")


def digest(part):
    """The whole file's, as it lies on disk."""
    assert part.advance_digest(SIZE) == DigestProgress(SIZE)
    return part.digest()


def test_it_begins_with_nothing(part):
    """No ranges; the size that the artifact's record gives."""
    assert part.resume() == Resumed(size=SIZE)


def test_from_first_byte_to_publishing(part, tmp_path):
    """Written in any order, digested, published into a folder that is made for it; nothing else is left."""
    part.resume()
    for start in (7000, 0, 3000):
        fill(part, start, {7000: SIZE, 0: 3000, 3000: 7000}[start])
        part.record_durable(part.sync_data())
    assert digest(part) == {"sha256": hashlib.sha256(DATA).hexdigest()}
    part.publish(tmp_path / "new" / "file")
    assert (tmp_path / "new" / "file").read_bytes() == DATA
    assert list((tmp_path / "parts").iterdir()) == []


def test_publishing_replaces(part, tmp_path):
    """What had the name before is replaced at once."""
    (tmp_path / "file").write_bytes(b"old")
    part.resume()
    fill(part)
    part.publish(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == DATA


def test_any_buffer_and_no_bytes(part):
    """``write`` takes memory views as they are, and an empty one."""
    part.resume()
    part.write(5, memoryview(DATA)[5:50])
    part.write(5, b"")
    part.write(0, bytearray(DATA[:5]))
    part.write(50, DATA[50:])
    assert digest(part)["sha256"] == artifact().sha256


def test_writes_from_several_threads(part):
    """Threads write and record at once; nothing is lost."""
    part.resume()

    def work(first):
        for at in range(first, SIZE, 200):
            fill(part, at, at + 50)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(0, 200, 50)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        part.record_durable(part.sync_data())
    for thread in threads:
        thread.join()
    assert digest(part)["sha256"] == artifact().sha256


def test_after_a_discard_it_is_as_at_the_beginning(part, store, journaled):
    """Nothing of what was written is there, and a whole new file can be."""
    part.resume()
    part.write(0, b"x" * SIZE)
    part.record_written(0, SIZE, 1, "one")
    part.discard()
    fill(part)
    assert digest(part)["sha256"] == artifact().sha256


def test_close_lets_go(store, journaled):
    """While it is open nobody else has it; after ``close`` the next one has, and a second ``close`` does nothing."""
    part = store.open(artifact(), journaled=journaled)
    part.resume()
    fill(part, 0, 100)
    with pytest.raises(LockedError):
        store.open(artifact(), journaled=journaled)
    part.close()
    again = store.open(artifact(), journaled=journaled)
    part.close()
    ranges, owners = (((0, 100),), (("one", ((0, 100),)),)) if journaled else ((), ())
    assert again.resume() == Resumed(ranges, SIZE, owners=owners)
    part.close()
    fill(again)
    assert digest(again)["sha256"] == artifact().sha256
    again.close()


def test_close_before_resume(store, journaled):
    """Opened and closed, as when another process has published the file meanwhile: nothing is changed."""
    part = store.open(artifact(), journaled=journaled)
    part.resume()
    fill(part, 0, 100)
    part.close()
    store.open(artifact(), journaled=journaled).close()
    again = store.open(artifact(), journaled=journaled)
    assert bool(again.resume().ranges) is journaled
    again.close()


def test_other_artifacts_do_not_mind(part, store, journaled):
    """Two files at once in one store."""
    other = store.open(artifact(DATA[::-1]), journaled=journaled)
    part.resume()
    other.resume()
    fill(part)
    other.write(0, DATA[::-1])
    assert digest(part) != digest(other)
    assert digest(other)["sha256"] == hashlib.sha256(DATA[::-1]).hexdigest()
    other.close()


def test_no_digest(store, journaled):
    """Where the artifact names no digest, none is computed."""
    part = store.open(artifact(sha256=False), journaled=journaled)
    part.resume()
    assert part.digest() == {}
    part.close()


def test_the_digest_follows_the_download(part):
    """It goes as far as it is told and no further, beside writers of what lies above."""
    part.resume()
    fill(part, 0, 4000)
    assert part.advance_digest(2500) == DigestProgress(2500)
    assert part.digest()["sha256"] == hashlib.sha256(DATA[:2500]).hexdigest()
    assert part.advance_digest(2500) == DigestProgress(2500)
    fill(part, 6000, SIZE)
    fill(part, 4000, 6000)
    assert digest(part)["sha256"] == artifact().sha256


def test_what_is_forgotten_can_be_written_anew(part):
    """The digest goes back before it: the file is right once the bytes are, whatever was hashed before."""
    part.resume()
    wrong = DATA[:3000] + bytes(2000) + DATA[5000:]
    part.write(0, wrong)
    part.record_written(0, SIZE, zlib.crc32(wrong), "liar")
    assert digest(part)["sha256"] != artifact().sha256
    part.forget(((3000, 4000), (4000, 5000)))
    fill(part, 3000, 5000)
    assert digest(part)["sha256"] == artifact().sha256


def test_what_is_forgotten_is_forgotten(store, journaled):
    """Also by the next run, which believes what was left; who brought that is known."""
    part = store.open(artifact(), journaled=journaled)
    part.resume()
    fill(part, 0, 6000)
    part.record_durable(part.sync_data())
    part.forget(((1000, 2000),))
    part.close()
    again = store.open(artifact(), journaled=journaled)
    ranges = ((0, 1000), (2000, 6000)) if journaled else ()
    assert again.resume() == Resumed(ranges, SIZE, owners=(("one", ranges),) if journaled else ())
    again.forget(())
    fill(again)
    assert digest(again)["sha256"] == artifact().sha256
    again.close()


def test_damage_of_an_earlier_run_is_told(store, journaled, tmp_path):
    """Bytes that are believed from an earlier run are compared with what was recorded; where none are, nothing is."""
    part = store.open(artifact(), journaled=journaled)
    part.resume()
    fill(part, 0, 3000)
    fill(part, 3000, 6000)
    part.record_durable(part.sync_data())
    part.close()
    for path in (tmp_path / "parts").glob("*.part"):
        with path.open("r+b") as file:
            file.seek(4000)
            file.write(b"damage")
    again = store.open(artifact(), journaled=journaled)
    again.resume()
    fill(again, 6000 if journaled else 0, SIZE)
    if journaled:
        assert again.advance_digest(SIZE) == DigestProgress(3000, ((3000, 6000),))
        again.forget(((3000, 6000),))
        fill(again, 3000, 6000)
    assert digest(again)["sha256"] == artifact().sha256
    again.close()


def test_reading(part):
    """What was written, from any place; nothing behind the end."""
    part.resume()
    fill(part)
    assert part.read(100, 50) == DATA[100:150]
    assert part.read(SIZE - 5, 50) == DATA[-5:]
    assert part.read(SIZE, 50) == b""


def test_locating_damage(part):
    """Bytes that are no archive at all: their format cannot tell."""
    part.resume()
    fill(part)
    assert part.locate_damage() is None


def test_locating_damage_in_an_archive(store, journaled):
    """A member that is not what its CRC-32 says is suspect, the one before it is not."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in ("one", "two"):
            archive.writestr(name, DATA[:3000])
        second = archive.infolist()[1].header_offset
    damaged = bytearray(target.getvalue())
    damaged[second + 500] ^= 1
    part = store.open(artifact(bytes(damaged)), journaled=journaled)
    part.resume()
    part.write(0, damaged)
    assert part.locate_damage() == ((second, len(damaged)),)
    part.close()
