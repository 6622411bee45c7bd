"""The folder of part files, and one part file at its edges: what is refused, freed, removed and passed on."""

from __future__ import annotations

import hashlib
import io
import os
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from resume_dl.errors import LockedError, OutOfSpaceError, StoreError, UntrustedFolderError
from resume_dl.ports import DigestProgress
from resume_dl.store import journal as jn
from resume_dl.store.disk_errors import as_store_errors
from resume_dl.store.lock import FileLock
from resume_dl.store.part import PartStore
from resume_dl.store.part_file import joined
from store.parts import DATA, SIZE, artifact, crash, journal_path, part_path, put, reopen, resumed, settle


def begin(folder, what=None, end=1000):
    part = reopen(folder, what)
    part.resume()
    if end:
        put(part, 0, end)
    return part


@pytest.mark.parametrize("there", ["link", "folder"])
def test_links_and_special_files_are_refused_as_part_files(tmp_path, there):
    """With what to do about a link; the lock is free again, and what the link leads to is as it was."""
    (tmp_path / "theirs").write_bytes(b"theirs")
    path = part_path(tmp_path)
    path.symlink_to(tmp_path / "theirs") if there == "link" else path.mkdir()
    for _ in range(2):
        with pytest.raises(StoreError) as caught:
            PartStore(tmp_path).open(artifact(), journaled=True)
        assert not isinstance(caught.value, LockedError)
        assert ("remove it" in caught.value.hint) is (there == "link")
    assert (tmp_path / "theirs").read_bytes() == b"theirs"
    lock = FileLock(tmp_path / f"{artifact().key}.lock")
    lock.acquire()
    lock.release()


def test_a_full_disk_names_file_and_folder(tmp_path):
    """How much is needed is not known here."""
    with pytest.raises(OutOfSpaceError, match="no space left") as caught, as_store_errors(tmp_path / "a"):
        raise OSError(28, "No space left on device")
    assert (caught.value.needed, caught.value.free) == (0, 0)
    with pytest.raises(StoreError, match="named: odd") as caught, as_store_errors(tmp_path / "a"):
        raise OSError(5, "odd", "named")
    assert caught.value.hint == ""
    with pytest.raises(StoreError, match="odd"), as_store_errors(tmp_path / "a"):
        raise OSError("odd")


@pytest.mark.parametrize("validator", [None, '"v1"'])
def test_bytes_that_no_later_run_can_use(tmp_path, validator):
    """Without digest and validator nothing says that a later answer is of the same file: such bytes count as none."""
    what = artifact(sha256=False, size=None)
    part = begin(tmp_path, what, end=0)
    if validator:
        part.fix_size(SIZE, validator, "https://one.example/a")
    put(part, 0, 1000)
    settle(part)
    crash(part)
    kept = 1000 if validator else 0
    assert [each.done for each in PartStore(tmp_path).unfinished()] == [kept]
    part = reopen(tmp_path, what)
    part.resume()
    part.close()
    assert part_path(tmp_path, what).exists() is bool(validator)


def test_unfinished_downloads_are_listed(tmp_path):
    """Each part file by its key, with the size and the bytes that its journal says; without one nothing is known."""
    store = PartStore(tmp_path)
    other = artifact(DATA[:5000])
    part = begin(tmp_path)
    settle(part)
    put(part, 5000, 5500)
    crash(part)
    crash(begin(tmp_path, other, 0))
    journal_path(tmp_path, other).write_bytes(b"damaged")
    (tmp_path / "alone.part").write_bytes(b"")
    (tmp_path / "newer.part").write_bytes(b"")
    (tmp_path / "newer.journal").mkdir()
    found = {each.key: (each.path, each.size, each.done) for each in store.unfinished()}
    assert found == {
        artifact().key: (part_path(tmp_path), SIZE, 1500),
        other.key: (part_path(tmp_path, other), None, 0),
        "alone": (tmp_path / "alone.part", None, 0),
        "newer": (tmp_path / "newer.part", None, 0),
    }
    assert [each.key for each in store.unfinished()] == sorted(found)
    if os.name == "posix":  # permission bits
        tmp_path.chmod(0o777)
        assert store.unfinished() == []
        with pytest.raises(UntrustedFolderError):
            store.remove(artifact().key)
        tmp_path.chmod(0o700)
    assert part_path(tmp_path).exists()


def test_removing_one_leaves_the_others(tmp_path):
    """Its bytes are told; one that is not there has none, and no lock is left of asking."""
    other = artifact(DATA[:5000])
    crash(begin(tmp_path))
    crash(begin(tmp_path, other, 700))
    assert PartStore(tmp_path).remove(artifact().key) == 1000
    assert {path.stem for path in tmp_path.iterdir()} == {other.key}
    assert PartStore(tmp_path).remove("absent") == 0
    assert {path.stem for path in tmp_path.iterdir()} == {other.key}
    assert resumed(tmp_path, other) == ((0, 700),)


def test_locks_of_killed_processes_are_swept(tmp_path):
    """Those of published files go; those of unfinished files, held ones, and other names stay."""
    crash(begin(tmp_path))
    names = [artifact().key, "sha256-ab", "md5-ab", "url-ab"]
    others = ["handed-7-x.conda", "sha256-xyz", "extract-1"]
    for name in [*names, *others]:
        (tmp_path / f"{name}.lock").touch()
    (tmp_path / "sha256-cd.journal").touch()
    (tmp_path / "sha256-cd.lock").touch()
    held = FileLock(tmp_path / "sha256-ef.lock")
    held.acquire()
    PartStore(tmp_path).sweep_locks()
    kept = {artifact().key, "sha256-cd", "sha256-ef", *others}
    assert {path.stem for path in tmp_path.glob("*.lock")} == kept
    held.release(remove=True)
    if os.name == "posix":
        tmp_path.chmod(0o777)  # others may write here
        (tmp_path / "md5-ab.lock").touch()
        PartStore(tmp_path).sweep_locks()
        assert (tmp_path / "md5-ab.lock").exists()
        tmp_path.chmod(0o700)
    PartStore(tmp_path / "absent").sweep_locks()


def test_what_cannot_be_removed_is_an_error_and_not_locked(tmp_path):
    part_path(tmp_path).mkdir()
    with pytest.raises(StoreError):
        PartStore(tmp_path).remove(artifact().key)
    assert not (tmp_path / f"{artifact().key}.lock").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which handles are open")
@pytest.mark.parametrize("journaled", [True, False])
def test_no_handle_is_left(tmp_path, journaled):
    """Of a file that has a second name and is given up, of what was closed, of what was published."""
    crash(begin(tmp_path))
    os.link(part_path(tmp_path), tmp_path / "published")

    def handles():
        found = (each for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
        return [each for each in found if str(each.readlink()).startswith(str(tmp_path))]

    part = PartStore(tmp_path).open(artifact(), journaled=journaled)
    assert len(handles()) == 2  # part file and lock
    part.resume()
    assert len(handles()) == (3 if journaled else 2)
    put(part, 0, SIZE)
    part.publish(tmp_path / "a")
    assert handles() == []
    part = PartStore(tmp_path).open(artifact(), journaled=journaled)
    part.resume()
    part.close()
    assert handles() == []


def test_close_after_publish_does_not_touch_the_new_file(tmp_path):
    """Closed after it, or twice, nothing of the next download with these names is touched."""
    part = begin(tmp_path, end=SIZE)
    part.publish(tmp_path / "a")
    other = begin(tmp_path)
    part.close()
    with pytest.raises(LockedError):
        reopen(tmp_path)
    crash(other)
    part.close()
    assert resumed(tmp_path) == ((0, 1000),)


def test_without_a_journal_nothing_is_kept(tmp_path):
    """Closed before its end, a small file's bytes go: no later run could believe them."""
    part = PartStore(tmp_path).open(artifact(), journaled=False)
    part.resume()
    put(part, 0, 5000)
    assert part.sync_data() == 0
    part.record_durable(0)
    part.advance_digest(5000)
    part.forget([(10, 20)])
    assert part.advance_digest(10) == DigestProgress(10)
    part.discard()
    assert part_path(tmp_path).read_bytes() == bytes(SIZE)
    put(part, 0, 10)
    part.close()
    assert list(tmp_path.iterdir()) == []


def test_read_returns_the_bytes_on_disk(tmp_path):
    part = begin(tmp_path)
    assert part.read(10, 20) == DATA[10:30]
    assert part.read(SIZE - 1, 20) == b"\0"
    part.close()
    for use in (lambda: part.read(0, 1), lambda: part.write(0, b"x"), lambda: part.fix_size(5)):
        with pytest.raises(StoreError, match="descriptor"):
            use()


def test_a_discarded_file_is_hashed_from_its_start(tmp_path):
    """Nothing of the digest so far is left, and the journal says nothing of the old bytes."""
    part = begin(tmp_path, end=0)
    put(part, 0, 1000, data=bytes(1000))
    part.advance_digest(1000)
    part.discard()
    put(part, 0, SIZE)
    part.advance_digest(SIZE)
    assert part.digest() == {"sha256": hashlib.sha256(DATA).hexdigest()}
    part.publish(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == DATA


def test_damage_is_located_by_the_archive_format(tmp_path):
    """By the name of the artifact, of the bytes as they lie in the part file."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in ("one", "two"):
            archive.writestr(zipfile.ZipInfo(name), DATA[:100])
    data = bytearray(packed.getvalue())
    data[40] ^= 1
    what = artifact(bytes(data))
    for name, told in (("a-1-0.conda", True), ("a-1-0.tar.bz2", False)):
        part = reopen(tmp_path, replace(what, filename=name))
        part.resume()
        put(part, 0, len(data), data=bytes(data))
        found = part.locate_damage()
        assert (found is not None and found[0] == (0, 133)) is told
        crash(part)


@pytest.mark.parametrize("size", [None, SIZE])
def test_records_beyond_the_file_are_not_trusted(tmp_path, size):
    """Empty ones and those beyond its end are not; the last byte may be there."""
    what = artifact(size=size)
    part = begin(tmp_path, what, 0)
    part.fix_size(SIZE)
    for start, end in ((5, 5), (100, 200), (SIZE - 1, SIZE)):
        put(part, start, end)
    part.record_written(SIZE, SIZE + 1, 0, "one")
    settle(part)
    crash(part)
    assert resumed(tmp_path, what) == ((100, 200), (SIZE - 1, SIZE))


def test_a_valid_journal_is_not_rewritten(tmp_path):
    """A journal that is believed as it is goes on under its nonce; after a torn tail it has another."""
    crash(begin(tmp_path))
    path = journal_path(tmp_path)
    nonce = jn.read(path.read_bytes()).nonce
    assert resumed(tmp_path) == ((0, 1000),)
    assert jn.read(path.read_bytes()).nonce == nonce
    with path.open("ab") as file:
        file.write(b"torn")
    assert resumed(tmp_path) == ((0, 1000),)
    assert jn.read(path.read_bytes()).nonce != nonce


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([], ()),
        ([(0, 5)], ((0, 5),)),
        ([(0, 5), (5, 9)], ((0, 9),)),
        ([(0, 5), (6, 9)], ((0, 5), (6, 9))),
        ([(1, 9), (2, 3), (4, 12)], ((1, 12),)),
        ([(1, 9), (1, 9), (20, 21), (21, 22)], ((1, 9), (20, 22))),
    ],
)
def test_ranges_of_records(records, expected):
    assert joined(jn.Written(start, end, 0, 0) for start, end in records) == expected


@pytest.mark.parametrize("there", ["old", "new"])
def test_a_key_in_use_is_not_taken(tmp_path, there):
    """Another process has the old or the new key: False, its lock's file stays, and it is free once that one ends."""
    old, new = artifact(sha256=False, md5=True), artifact()
    crash(begin(tmp_path, old))
    lock = FileLock(tmp_path / f"{(old if there == 'old' else new).key}.lock")
    lock.acquire()
    assert PartStore(tmp_path).rekey(old, new) is False
    assert lock.path.exists()
    lock.release(remove=True)
    assert PartStore(tmp_path).rekey(old, new) is True
    assert resumed(tmp_path, new) == ((0, 1000),)
    assert PartStore(tmp_path).rekey(old, new) is False
    if os.name == "posix":  # permission bits
        tmp_path.chmod(0o777)
        with pytest.raises(UntrustedFolderError):
            PartStore(tmp_path).rekey(new, old)
        tmp_path.chmod(0o700)


def test_md5_bytes_without_a_journal_are_not_moved(tmp_path):
    """Without a journal the bytes under the md5 stay where they are, and nothing is locked."""
    by_md5, both = artifact(sha256=False, md5=True), artifact(md5=True)
    crash(begin(tmp_path, by_md5))
    journal_path(tmp_path, by_md5).unlink()
    assert resumed(tmp_path, both) == ()
    assert part_path(tmp_path, by_md5).exists()
    assert not PartStore(tmp_path).rekey(by_md5, both)
    part = reopen(tmp_path, by_md5)
    part.close()


def test_bytes_beyond_the_end_are_cut_before_publishing(tmp_path):
    """Neither journal nor size: the file is as long as what this run wrote."""
    what = artifact(size=None)
    for end in (5000, 100):
        part = PartStore(tmp_path).open(what, journaled=False)
        part.resume()
        put(part, 0, end)
        if end == 5000:
            crash(part)
    part.publish(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == DATA[:100]
