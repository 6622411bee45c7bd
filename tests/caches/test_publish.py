"""conda's package cache: what is found in it is what is there, and what is put there stands or is an error."""

from __future__ import annotations

import errno
import json
import os
import sys

import pytest

from resume_dl.caches.conda import publish as module
from resume_dl.caches.conda.extraction_folders import claim_extraction, extraction_folder, is_unpacking, sweep
from resume_dl.caches.conda.lookup import (
    Entry,
    State,
    find_entry,
    is_package,
    is_whole,
    look,
    same_bytes,
    stem,
    verify_file,
)
from resume_dl.caches.conda.publish import Unplaced, claim_for_client, place_entries, publish_entry
from resume_dl.caches.conda.record import read_json
from resume_dl.errors import IntegrityError, NotWritableError, OutOfSpaceError, StoreError
from resume_dl.model.digest import Digest
from resume_dl.model.url import RedactedUrl
from store.packages import ARCHIVE, FILES, FOLDER, URL, package, unpack
from support.system_errors import said_of

OTHER_URL = "https://other.example/c/noarch/a-1-0.conda"
RECORD = "info/repodata_record.json"


@pytest.fixture
def pkgs(tmp_path):
    folder = tmp_path / "pkgs"
    folder.mkdir()
    return folder


def publish(pkgs, what=None, *, archive=True, extracted=True):
    """Put the package into a cache as a fetch does."""
    what = what or package()
    work = pkgs / FOLDER / "verified"
    if archive:
        extraction_folder(pkgs).rmdir()
        work.write_bytes(ARCHIVE)
    folder = unpack(extraction_folder(pkgs)) if extracted else None
    return publish_entry(pkgs, what, archive=work if archive else None, extracted=folder)


def left(pkgs):
    return sorted(path.name for path in (pkgs / FOLDER).iterdir())


def urls(pkgs):
    return (pkgs / "urls.txt").read_text().split() if (pkgs / "urls.txt").exists() else []


# --- names and bytes


@pytest.mark.parametrize(
    ("name", "folder", "of_conda"),
    [
        ("a-1-0.conda", "a-1-0", True),
        ("a-1-0.tar.bz2", "a-1-0", True),
        ("a-1-py3-none-any.whl", "a-1-py3-none-any", False),
        ("a.b", "a.b", False),
        (".conda", ".conda", False),
        (".tar.bz2", ".tar.bz2", False),
    ],
)
def test_the_name_of_the_folder(name, folder, of_conda):
    """What stands before a known extension; only conda's two are packages that every conda extracts."""
    assert stem(name) == folder
    assert is_package(name) is of_conda


GOOD = {"fn": "a-1-0.conda", "sha256": package().sha256, "md5": package().md5, "size": len(ARCHIVE), "url": URL}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"sha256": None}, True),
        ({"md5": None, "size": None}, True),
        ({"sha256": None, "md5": None}, False),  # a size alone proves nothing
        ({"sha256": None, "md5": None, "size": None}, False),
        ({"size": 1}, False),
        ({"md5": "0" * 32}, False),
        ({"sha256": "0" * 64}, False),
        ({"fn": "b-1-0.conda"}, False),
        ({"url": None}, True),
        ({"url": OTHER_URL}, True),
        ({"url": "file:///c/noarch/a-1-0.conda"}, False),  # conda does not compare such an archive with its index
    ],
)
def test_which_records_describe_the_same_bytes(change, expected):
    """Its file name, every digest and size that both give, one digest at least; a file: URL for itself alone."""
    assert same_bytes({**GOOD, **change}, package()) is expected


def test_a_record_of_a_local_channel_counts_for_its_own_url_only():
    url = "file:///c/noarch/a-1-0.conda"
    assert same_bytes({**GOOD, "url": url}, package(url=RedactedUrl(url)))


def test_a_file_is_verified_by_size_and_digest(tmp_path):
    """Right with its size or without one; another size, another digest, no file or a folder are not it."""
    path = tmp_path / "a"
    path.write_bytes(ARCHIVE)
    digest, size = Digest("sha256", package().sha256), len(ARCHIVE)
    assert verify_file(path, digest, size)
    assert verify_file(path, digest, None)
    assert not verify_file(path, digest, size + 1)
    assert not verify_file(path, Digest("sha256", "0" * 64), size)
    assert verify_file(tmp_path / "absent", digest, None) is False
    assert verify_file(tmp_path, digest, None) is False
    assert verify_file(tmp_path / "a\0b", digest, None) is False


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/mem is a regular file that cannot be read at 0")
def test_a_file_that_cannot_be_read_is_not_verified():
    from pathlib import Path

    assert verify_file(Path("/proc/self/mem"), Digest("sha256", "0" * 64), None) is False


# --- whole or not


def edited(folder, name, change):
    path = folder / "info" / name
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def rows(change):
    return lambda folder: edited(folder, "paths.json", lambda value: change(value["paths"]))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda folder: None, True),
        (lambda folder: (folder / "info/index.json").unlink(), False),
        (lambda folder: (folder / "lib/a.py").unlink(), False),
        (lambda folder: (folder / "lib/a.py").write_bytes(b"longer than it was"), False),
        (lambda folder: (folder / "lib/b.py").unlink(), False),  # an empty file is one too
        (rows(lambda paths: paths[0].pop("size_in_bytes")), True),
        (rows(lambda paths: paths.append({"_path": "lib", "size_in_bytes": 1})), True),  # a folder has no size
        (rows(lambda paths: paths.append({"_path": "gone", "size_in_bytes": None})), False),
        (rows(lambda paths: paths.append({"path": "lib"})), False),
        (rows(lambda paths: paths.append("lib")), False),
        (rows(lambda paths: paths.append({"_path": "a\0b"})), False),
        (lambda folder: (folder / "info/paths.json").write_text('{"paths": {}}'), False),
        (lambda folder: (folder / "info/paths.json").write_text("[]"), False),  # and no info/files either
    ],
)
def test_a_folder_is_complete_if_all_listed_paths_exist(tmp_path, change, expected):
    """Every path of paths.json, files with the size that it gives; whatever is odd about it is not whole."""
    folder = unpack(tmp_path / "a")
    change(folder)
    assert is_whole(folder) is expected


def test_a_link_of_a_package_need_only_be_there(tmp_path):
    """Its size in the list is that of what it leads to, which may come with another package."""
    folder = unpack(tmp_path / "a")
    (folder / "lib/link").symlink_to("absent")
    edited(folder, "paths.json", lambda value: value["paths"].append({"_path": "lib/link", "size_in_bytes": 99}))
    assert is_whole(folder)


@pytest.mark.parametrize("lost", [None, *FILES, "info/files"])
def test_old_packages_list_names_alone(tmp_path, lost):
    """info/files, with blank lines: whole where each is there; a folder with neither list is not."""
    folder = unpack(tmp_path / "a", listed=False)
    if lost is not None:
        (folder / lost).unlink()
    assert is_whole(folder) is (lost is None)


# --- finding


def test_entries_found_in_one_cache(pkgs):
    """Nothing, an archive of the right size, the folder alone, both."""
    assert look(pkgs, package()) is None
    (pkgs / "a-1-0.conda").write_bytes(b"short")
    assert look(pkgs, package()) is None
    (pkgs / "a-1-0.conda").write_bytes(ARCHIVE)
    assert look(pkgs, package()) == Entry(pkgs, State.ARCHIVE, pkgs / "a-1-0.conda", None)
    publish(pkgs)
    complete = look(pkgs, package())
    assert (complete.state, complete.archive, complete.extracted) == (
        State.COMPLETE,
        pkgs / "a-1-0.conda",
        pkgs / "a-1-0",
    )
    assert complete.is_for(package())
    complete.archive.unlink()
    extracted = look(pkgs, package())
    assert (extracted.state, extracted.archive, extracted.extracted) == (State.EXTRACTED, None, pkgs / "a-1-0")
    (pkgs / "a-1-0" / RECORD).write_text(json.dumps({**GOOD, "sha256": "0" * 64}))
    assert look(pkgs, package()) is None


def test_the_best_of_several_caches(tmp_path):
    """What conda takes as it is goes before an extracted folder, that before an archive, and the first of equals."""
    caches = {name: tmp_path / name for name in ("absent", "archive", "archive2", "other", "other2", "own", "own2")}
    for name, folder in caches.items():
        if name != "absent":
            folder.mkdir()
        if name.startswith("archive"):
            (folder / "a-1-0.conda").write_bytes(ARCHIVE)
        elif name.startswith("other"):
            publish(folder, package(url=RedactedUrl(OTHER_URL)))
        elif name.startswith("own"):
            publish(folder)

    def best(*names):
        entry = find_entry([caches[name] for name in names], package())
        return entry and entry.pkgs_dir.name

    assert best("absent") is None
    assert best("absent", "archive", "archive2") == "archive"
    assert best("archive", "other", "other2") == "other"
    assert best("other", "archive", "absent") == "other"
    assert best("archive", "other", "own", "own2") == "own"
    assert best("own", "archive", "other") == "own"


def test_a_folder_with_missing_files_is_ignored(tmp_path):
    """It is passed over, its archive is not; who does not ask for a whole one gets it."""
    alone, packed, whole = (tmp_path / name for name in ("alone", "packed", "whole"))
    for folder in (alone, packed, whole):
        folder.mkdir()
        publish(folder)
    for folder in (alone, packed):
        (folder / "a-1-0/lib/a.py").unlink()
    (alone / "a-1-0.conda").unlink()
    assert find_entry([alone], package()) is None
    assert find_entry([alone], package(), whole=False).extracted == alone / "a-1-0"
    assert find_entry([alone, whole], package()).pkgs_dir == whole
    assert find_entry([packed], package()) == Entry(packed, State.ARCHIVE, packed / "a-1-0.conda", None)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"url": OTHER_URL}, False),
        ({"channel": "https://other.example/c/noarch"}, False),
        ({"url": None}, False),
        ({"channel": None}, False),
        ({"url": URL.replace("//", "//me:secret@")}, True),
    ],
)
def test_which_entries_conda_uses_as_they_are(tmp_path, change, expected):
    """URL and channel of the record are the client's, logins aside; without a record it is not."""
    record = {**GOOD, "channel": "https://example.org/c/noarch", **change}
    assert Entry(tmp_path, State.EXTRACTED, None, tmp_path, record).is_for(package()) is expected
    assert Entry(tmp_path, State.ARCHIVE, tmp_path, None).is_for(package()) is False


# --- publishing


def test_a_published_package_is_complete(pkgs):
    """Archive, folder, record and line in urls.txt; nothing is left of what it came from."""
    entry = publish(pkgs)
    assert (entry.state, entry.archive, entry.extracted) == (State.COMPLETE, pkgs / "a-1-0.conda", pkgs / "a-1-0")
    assert entry.is_for(package())
    assert (pkgs / "a-1-0.conda").read_bytes() == ARCHIVE
    assert is_whole(pkgs / "a-1-0")
    assert urls(pkgs) == [URL]
    assert left(pkgs) == []


def test_an_archive_may_be_moved_by_a_function(pkgs):
    """As a part file is: by one rename of its own."""
    work = pkgs / "elsewhere"
    work.write_bytes(ARCHIVE)
    entry = publish_entry(pkgs, package(), archive=work.rename, extracted=None)
    assert entry.state is State.ARCHIVE
    assert urls(pkgs) == [URL]


def test_a_folder_without_an_archive_has_no_line_of_urls(pkgs):
    """urls.txt tells where archives came from."""
    assert publish(pkgs, archive=False).state is State.EXTRACTED
    assert urls(pkgs) == []


@pytest.mark.parametrize("extracted", [True, False])
def test_a_matching_folder_stays(pkgs, extracted):
    """One that is this package already is not replaced, only claimed; what was brought is removed."""
    publish(pkgs, package(url=RedactedUrl(OTHER_URL)))
    before = (pkgs / "a-1-0").stat().st_ino
    entry = publish(pkgs, extracted=extracted)
    assert (pkgs / "a-1-0").stat().st_ino == before
    assert entry.state is State.COMPLETE
    assert entry.is_for(package())
    assert urls(pkgs) == [OTHER_URL, URL]
    assert left(pkgs) == []


@pytest.mark.parametrize("damage", ["digest", "lost", "no record", "link"])
@pytest.mark.parametrize("extracted", [True, False])
def test_another_package_in_its_place_is_replaced(pkgs, tmp_path, damage, extracted):
    """A folder of another package, one that lost files or a link goes; where nothing was unpacked, none is left."""
    publish(pkgs)
    folder = pkgs / "a-1-0"
    if damage == "digest":
        (folder / RECORD).write_text(json.dumps({**GOOD, "sha256": "0" * 64}))
    elif damage == "lost":
        (folder / "lib/a.py").unlink()
    elif damage == "no record":
        (folder / RECORD).unlink()
    else:
        folder.rename(tmp_path / "theirs")
        folder.symlink_to(tmp_path / "absent")
    entry = publish(pkgs, extracted=extracted)
    assert entry.state is (State.COMPLETE if extracted else State.ARCHIVE)
    assert os.path.lexists(folder) is extracted
    assert left(pkgs) == []


def test_packages_without_what_a_record_needs_are_refused(pkgs):
    """No index.json, or one without a required field: said with the field's name, and nothing is published."""
    folder = unpack(extraction_folder(pkgs))
    (folder / "info/index.json").unlink()
    with pytest.raises(IntegrityError, match=r"no readable info/index\.json"):
        publish_entry(pkgs, package(), archive=None, extracted=folder)
    nameless = unpack(extraction_folder(pkgs), {"name": "a"})
    with pytest.raises(IntegrityError, match="has no 'version'"):
        publish_entry(pkgs, package(), archive=None, extracted=nameless)
    assert not (pkgs / "a-1-0").exists()


def test_a_record_that_cannot_be_written_is_an_error_of_the_store(pkgs):
    """A folder has the record's name: the system's refusal becomes ours."""
    folder = unpack(extraction_folder(pkgs))
    (folder / RECORD).mkdir()
    with pytest.raises(StoreError, match=said_of(errno.EISDIR)):
        publish_entry(pkgs, package(), archive=None, extracted=folder)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no call that syncs a folder")
def test_a_folder_that_cannot_be_synced_is_an_error_of_the_store(pkgs):
    with pytest.raises(StoreError, match="No such file"):
        module.sync_extracted(pkgs, [pkgs / "absent"])


def raising(error):
    def place(target):
        raise error

    return place


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (PermissionError(13, "Permission denied"), NotWritableError, "Permission denied"),
        (OSError(30, "Read-only file system"), NotWritableError, "Read-only file system"),
        (OSError(28, "No space left on device"), OutOfSpaceError, "no space left in"),
        (OSError("odd"), StoreError, "odd"),
    ],
)
def test_one_that_cannot_be_placed_is_its_own_error(pkgs, error, kind, reason):
    """Of several packages the others are published; the failed one has the error of the right kind, and no line."""
    other = package(filename="b-1-0.conda", url=RedactedUrl(URL.replace("a-1", "b-1")))
    (pkgs / "b").write_bytes(ARCHIVE)
    failed, placed = place_entries(
        pkgs,
        [Unplaced(package(), raising(error), None), Unplaced(other, (pkgs / "b").rename, None)],
    )
    assert type(failed) is kind
    assert reason in str(failed)
    assert str(pkgs) in str(failed)
    assert failed.hint
    assert placed.archive == pkgs / "b-1-0.conda"
    assert urls(pkgs) == [URL.replace("a-1", "b-1")]


def test_an_error_of_ours_is_passed_on_as_it_is(pkgs):
    own = StoreError("the disk is full", hint="free some space")
    assert place_entries(pkgs, [Unplaced(package(), raising(own), None)]) == [own]
    with pytest.raises(StoreError) as caught:
        publish_entry(pkgs, package(), archive=raising(own), extracted=None)
    assert caught.value is own


def test_an_entry_that_vanishes_meanwhile_is_an_error(pkgs):
    """Nothing lies there at the end: an error, not an entry that is none."""
    with pytest.raises(StoreError, match="was removed"):
        publish_entry(pkgs, package(), archive=lambda target: None, extracted=None)


def test_a_urls_txt_that_cannot_be_written_fails_all(pkgs):
    """Each package has an error; one that failed before keeps its own."""
    (pkgs / "urls.txt").mkdir()
    own = StoreError("its own")
    ours = Unplaced(package(), lambda target: target.write_bytes(ARCHIVE), None)
    first, second = place_entries(pkgs, [Unplaced(package(), raising(own), None), ours])
    assert first is own
    assert isinstance(second, StoreError)
    assert "urls.txt" in str(second) or "not a regular file" in str(second)


def test_a_folder_that_another_process_puts_there_first(pkgs, monkeypatch):
    """Between look and rename: the same package is kept, another makes room, and after some tries it is an error."""
    real = module.move_folder

    def rival(make):
        def move_folder(source, destination, **more):
            if destination == pkgs / "a-1-0":
                make(destination)
            real(source, destination, **more)

        monkeypatch.setattr(module, "move_folder", move_folder)

    publish(pkgs)
    (pkgs / "a-1-0").rename(pkgs / "same")
    rival(lambda folder: (pkgs / "same").rename(folder) if (pkgs / "same").exists() else None)
    inode = (pkgs / "same").stat().st_ino
    assert publish(pkgs, archive=False).extracted.stat().st_ino == inode
    assert left(pkgs) == []

    (pkgs / "a-1-0").rename(pkgs / "gone")
    tries = []

    def once(folder):
        tries.append(folder)
        if len(tries) == 1:
            (folder / "theirs").mkdir(parents=True)

    rival(once)
    assert publish(pkgs, archive=False).is_for(package())
    assert len(tries) == 2
    assert left(pkgs) == []

    (pkgs / "a-1-0").rename(pkgs / "gone too")
    tries.clear()

    def always(folder):
        tries.append(folder)
        (folder / "theirs").mkdir(parents=True)

    rival(always)
    with pytest.raises(StoreError, match=said_of(errno.ENOTEMPTY)):
        publish(pkgs, archive=False)
    assert len(tries) == module._TRIES


def test_a_missing_unpacked_folder_is_not_retried(pkgs, monkeypatch):
    """No folder stands in the way: the system's error is told at once."""
    tries = []
    real = module.move_folder
    monkeypatch.setattr(module, "move_folder", lambda *names, **more: tries.append(names) or real(*names, **more))
    (result,) = place_entries(pkgs, [Unplaced(package(), None, pkgs / "absent")])
    assert isinstance(result, StoreError)
    assert said_of(errno.ENOENT) in str(result)
    assert len(tries) == 1


# --- claiming


@pytest.mark.parametrize("packed", [True, False])
def test_claiming_replaces_url_and_channel(pkgs, packed):
    """Nothing else of the record changes; urls.txt gets a line only where there is an archive."""
    publish(pkgs, package(url=RedactedUrl(OTHER_URL)), archive=packed)
    before = read_json(pkgs / "a-1-0" / RECORD)
    entry = look(pkgs, package())
    claimed = claim_for_client(entry, package())
    after = read_json(pkgs / "a-1-0" / RECORD)
    assert after == {**before, "url": URL, "channel": "https://example.org/c/noarch"}
    assert claimed == Entry(pkgs, entry.state, entry.archive, entry.extracted, after)
    assert urls(pkgs) == ([OTHER_URL, URL] if packed else [])


def test_only_an_extracted_entry_is_claimed(pkgs):
    for entry in (Entry(pkgs, State.ARCHIVE, pkgs, None, {}), Entry(pkgs, State.EXTRACTED, None, pkgs, None)):
        with pytest.raises(ValueError, match="record"):
            claim_for_client(entry, package())


def test_a_claim_that_cannot_be_written_leaves_the_record(pkgs):
    """The old record stands, and publishing tells the error as that package's."""
    publish(pkgs, package(url=RedactedUrl(OTHER_URL)))
    entry = look(pkgs, package())
    (pkgs / "a-1-0/info").rename(pkgs / "info")
    (pkgs / "a-1-0/info").symlink_to(pkgs / "info")
    with pytest.raises(StoreError):
        claim_for_client(entry, package())
    assert read_json(pkgs / "info/repodata_record.json")["url"] == OTHER_URL


def test_a_claim_that_fails_while_publishing_is_the_result(pkgs):
    publish(pkgs, package(url=RedactedUrl(OTHER_URL)), archive=False)
    (pkgs / "urls.txt").mkdir()
    (pkgs / "a-1-0.conda").write_bytes(ARCHIVE)
    entry = look(pkgs, package())
    assert isinstance(module._placed(pkgs, package()), StoreError)
    assert entry.state is State.COMPLETE


# --- unpacking


def test_folders_to_unpack_into(pkgs):
    """New and empty below the folder of unfinished files, no two alike; a short name leaves more of Windows' 260."""
    claim = claim_extraction(pkgs)
    one, two, free = (extraction_folder(pkgs, each) for each in (claim, claim, None))
    assert len({one, two, free}) == 3
    for folder in (one, two, free):
        assert folder.parent == pkgs / FOLDER
        assert len(folder.name) <= len("extract-12345678-123456")
        assert list(folder.iterdir()) == []
    assert is_unpacking(pkgs)
    claim.release(remove=True)
    assert not is_unpacking(pkgs)


def test_a_sweep_removes_unclaimed_folders(pkgs, tmp_path):
    """Folders put aside, and those of processes that have ended, with their locks; what is in use stays."""
    dead, alive = claim_extraction(pkgs), claim_extraction(pkgs)
    for claim in (dead, alive):
        unpack(extraction_folder(pkgs, claim))
    in_use = {path.name for path in (pkgs / FOLDER).glob(f"{alive.path.stem}*")}
    dead.release()
    unpack(pkgs / FOLDER / "aside-1")
    (pkgs / FOLDER / "another.part").write_bytes(b"x")
    sweep(pkgs)
    assert set(left(pkgs)) == in_use | {"another.part"}
    assert len(in_use) == 2
    alive.release(remove=True)


def test_a_sweep_leaves_a_folder_alone_that_others_may_write_to(pkgs):
    (pkgs / FOLDER).mkdir()
    unpack(pkgs / FOLDER / "aside-1")
    (pkgs / FOLDER).chmod(0o777)
    sweep(pkgs)
    assert left(pkgs) == ["aside-1"]


def test_an_invalid_lock_file_does_not_stop_a_sweep(pkgs):
    """A link in place of a lock is not opened, and the next is looked at."""
    dead = claim_extraction(pkgs)
    unpack(extraction_folder(pkgs, dead))
    dead.release()
    for name in ("extract-0.lock", "extract-z.lock"):
        (pkgs / FOLDER / name).symlink_to("absent")
    sweep(pkgs)
    assert left(pkgs) == ["extract-0.lock", "extract-z.lock"]


def test_publishing_keeps_its_order(pkgs, monkeypatch):
    """The unpacked files are on the disk before the folder has its name, the names before they count."""
    done = []

    def watched(name, of):
        real = getattr(module, name)

        def call(*arguments, **more):
            done.append(f"{name} {of(*arguments)}")
            return real(*arguments, **more)

        monkeypatch.setattr(module, name, call)

    watched("sync_trees", len)
    watched("move_folder", lambda source, destination: destination.name)
    watched("replace", lambda source, destination: destination.name)
    watched("sync_directory", lambda folder: folder.name)
    watched("add_url", lambda folder, *urls: len(urls))
    publish(pkgs)
    assert done == ["sync_trees 1", "move_folder a-1-0", "replace a-1-0.conda", "sync_directory pkgs", "add_url 1"]
    done.clear()
    assert isinstance(place_entries(pkgs, [Unplaced(package(), raising(OSError(28, "full")), None)])[0], StoreError)
    assert done == ["add_url 0"]


@pytest.mark.parametrize("synced", [True, False])
def test_records_are_synced_together_or_alone(pkgs, monkeypatch, synced):
    """One of many is on the disk after ``sync_extracted``; one that is claimed, by itself."""
    publish(pkgs, package(url=RedactedUrl(OTHER_URL)), archive=False)
    calls = []
    monkeypatch.setattr(os, "fsync", calls.append)
    if synced:
        claim_for_client(look(pkgs, package()), package())
    else:
        module.add_record(pkgs, package(), pkgs / "a-1-0")
    assert bool(calls) is synced
