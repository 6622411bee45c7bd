"""Unpacking into a package cache: real archives, real worker processes, and all that can become of one of them."""

from __future__ import annotations

import functools
import hashlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from resume_dl.caches.conda.extraction_folders import sweep
from resume_dl.caches.conda.lookup import State, is_whole, look, stem
from resume_dl.caches.conda.publish import Unplaced
from resume_dl.caches.package_caches import CondaCache
from resume_dl.demo.package import PackageSpec, write_package
from resume_dl.errors import IntegrityError, InternalError, Interrupted, StoreError, WorkerCrashedError
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.worker import Extracted, RattlerWorker
from resume_dl.store.staged import staged_path
from resume_dl.transfer.extraction import Extractor
from resume_dl.transfer.unpacked_batch import MOST, Ready, UnpackedBatch

GUARD = 60.0
"""Seconds; only a test that would hang needs them."""
posix = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is of POSIX")
Wrapper = Callable[[RattlerWorker, Path, Callable[[], Extracted]], Extracted]


@pytest.fixture
def pkgs(tmp_path: Path) -> Path:
    """An empty package cache."""
    (tmp_path / "pkgs").mkdir()
    return tmp_path / "pkgs"


@pytest.fixture
def around_extract(monkeypatch: pytest.MonkeyPatch) -> Callable[[Wrapper], None]:
    """``around_extract(f)``: each request to a worker becomes ``f(worker, target, go_on)``, real processes as ever."""
    real = RattlerWorker.extract

    def put(wrapper: Wrapper) -> None:
        def extract(worker: RattlerWorker, archive: Path, target: Path) -> Extracted:
            return wrapper(worker, target, functools.partial(real, worker, archive, target))

        monkeypatch.setattr(RattlerWorker, "extract", extract)

    return put


def package(pkgs: Path, name: str, *, staged: bool = True, digests: Sequence[str] = ("sha256",)) -> Artifact:
    """An archive in the cache, verified a moment ago, as a download of ``name`` leaves it."""
    path = write_package(PackageSpec(name=name, version="1", files={"share/a.txt": b"text"}), pkgs)
    data = path.read_bytes()
    url = RedactedUrl(f"https://conda.example/linux-64/{path.name}")
    known = {kind: hashlib.new(kind, data).hexdigest() for kind in digests}
    artifact = Artifact(kind="conda", filename=path.name, url=url, client_url=url, **known)
    if staged:
        staged_path(pkgs, artifact).parent.mkdir(exist_ok=True)
        path.rename(staged_path(pkgs, artifact))
    return artifact


def unpacked(extractor: Extractor, *artifacts: Artifact) -> dict[str, object]:
    """Package name -> error of each, all submitted before any is waited for."""
    for each in artifacts:
        extractor.submit(each)
    return finished(extractor)


def finished(extractor: Extractor) -> dict[str, object]:
    done = extractor.finish()
    assert len({each.artifact.filename for each in done}) == len(done)
    return {each.artifact.filename.partition("-")[0]: each.error for each in done}


def left_over(pkgs: Path) -> list[str]:
    return sorted(path.name for path in (pkgs / ".resume-dl").iterdir())


@pytest.mark.parametrize("staged", [True, False], ids=["staged", "under its own name"])
@pytest.mark.parametrize("digests", [["sha256"], ["md5"], ["sha256", "md5"]], ids="+".join)
def test_a_verified_archive_becomes_a_complete_entry(pkgs, staged, digests):
    """Archive, folder and a record with all digests and the size, however much of it was known before."""
    artifact = package(pkgs, "a", staged=staged, digests=digests)
    assert unpacked(Extractor(CondaCache(pkgs)), artifact) == {"a": None}
    entry = look(pkgs, artifact)
    assert entry is not None
    assert entry.state is State.COMPLETE
    assert is_whole(entry.extracted)
    data = (pkgs / artifact.filename).read_bytes()
    assert entry.record["sha256"] == hashlib.sha256(data).hexdigest()
    assert entry.record["md5"] == hashlib.md5(data).hexdigest()
    assert entry.record["size"] == len(data)
    assert left_over(pkgs) == []


@pytest.mark.parametrize("digest", ["sha256", "md5", ""])
def test_bytes_that_changed_after_their_verification_are_refused(pkgs, digest):
    """What unpacked has another digest than what was verified, or none was verified: no entry, nothing half there."""
    artifact = package(pkgs, "a")
    changed = Artifact(
        kind="conda",
        filename=artifact.filename,
        url=artifact.url,
        sha256="0" * 64 if digest == "sha256" else None,
        md5="0" * 32 if digest == "md5" else None,
    )
    staged_path(pkgs, artifact).rename(staged_path(pkgs, changed))
    error = unpacked(Extractor(CondaCache(pkgs)), changed)["a"]
    assert isinstance(error, IntegrityError)
    assert artifact.filename in error.message
    assert not (pkgs / stem(artifact.filename)).exists()
    assert left_over(pkgs) == [staged_path(pkgs, changed).name]


def test_a_cancelled_run_unpacks_nothing_more(pkgs, around_extract):
    """Each archive that waits is told as not unpacked and stays for the next run; no worker is asked."""
    around_extract(lambda *_: pytest.fail("a worker was asked"))
    wanted = [package(pkgs, name) for name in "abc"]
    errors = unpacked(Extractor(CondaCache(pkgs), cancelled=lambda: True), *wanted)
    assert set(errors) == {"a", "b", "c"}
    assert all(isinstance(error, Interrupted) and "was not unpacked" in error.message for error in errors.values())
    assert left_over(pkgs) == sorted(staged_path(pkgs, each).name for each in wanted)


@posix
def test_a_stop_does_not_wait_for_an_archive(pkgs, tmp_path):
    """The worker would never answer; what it has unpacked so far is removed."""
    script, asked = tmp_path / "python", tmp_path / "asked"
    script.write_text(f"#!/bin/sh\nread line\ntouch {asked}\nexec sleep 600\n")
    script.chmod(0o755)
    extractor = Extractor(CondaCache(pkgs), cancelled=asked.exists, worker=RattlerWorker(python=script))
    wanted = package(pkgs, "a")
    errors = unpacked(extractor, wanted)
    assert isinstance(errors["a"], Interrupted)
    assert left_over(pkgs) == [staged_path(pkgs, wanted).name]


@posix
@pytest.mark.parametrize("crashes", [1, 2])
def test_a_worker_that_dies_is_replaced_once(pkgs, around_extract, crashes):
    """A process killed in the middle is one more try, in a fresh one; the second death is that file's error alone."""
    asked: list[str] = []

    def kill(worker: RattlerWorker, target: Path, go_on: functools.partial[Extracted]) -> Extracted:
        if "bad" in go_on.args[1].name:  # the archive
            asked.append(target.parent.name)
            if len(asked) <= crashes:
                worker.start()
                os.kill(worker.pid, signal.SIGKILL)
        return go_on()

    around_extract(kill)
    errors = unpacked(Extractor(CondaCache(pkgs)), package(pkgs, "bad"), package(pkgs, "good"))
    assert len(set(asked)) == 2, "each try has a folder of its own"
    assert errors["good"] is None
    if crashes == 1:
        assert errors["bad"] is None
        assert left_over(pkgs) == []
    else:
        assert isinstance(errors["bad"], WorkerCrashedError)
        assert len(left_over(pkgs)) == 1, "the archive is left, the half-filled folders are not"


def test_small_archives_take_one_process(pkgs, around_extract):
    """A second one would cost more than it saves; all of them wait while the first is unpacked."""
    all_submitted, pids = threading.Event(), set()

    def note(worker: RattlerWorker, target: Path, go_on: Callable[[], Extracted]) -> Extracted:
        assert all_submitted.wait(GUARD)
        try:
            return go_on()
        finally:
            pids.add(worker.pid)

    around_extract(note)
    extractor = Extractor(CondaCache(pkgs))
    for number in range(4):
        extractor.submit(replace(package(pkgs, f"p{number}"), size=100_000))
    all_submitted.set()
    assert list(finished(extractor).values()) == [None] * 4
    assert len(pids) == 1


def test_two_processes_unpack_and_sync_at_once(pkgs, around_extract):
    """Twelve archives that wait are shared by two workers; one that fails does not make the others wait for the disk.

    Each worker has one package in hand once nothing is left to be taken: so it is at most two waits for the disk.
    """
    all_submitted = threading.Event()
    threads: set[str] = set()
    pids: set[int] = set()
    both = threading.Barrier(2)

    def note(worker: RattlerWorker, target: Path, go_on: Callable[[], Extracted]) -> Extracted:
        assert all_submitted.wait(GUARD)
        if threading.current_thread().name not in threads:
            threads.add(threading.current_thread().name)
            both.wait(GUARD)  # each of the two has a first one
        try:
            return go_on()
        finally:
            pids.add(worker.pid)

    class Counted(CondaCache):
        batches: ClassVar[list[int]] = []

        def sync(self, extracted: Sequence[Path]) -> None:
            self.batches.extend([len(extracted)] if extracted else [])
            super().sync(extracted)

    around_extract(note)
    good = [package(pkgs, f"good{number}") for number in range(6)]
    bad = [package(pkgs, f"bad{number}") for number in range(6)]
    for each in bad:
        staged_path(pkgs, each).write_bytes(b"no archive")
    cache = Counted(pkgs)
    extractor = Extractor(cache)
    for one, other in zip(good, bad, strict=True):
        extractor.submit(one)
        extractor.submit(other)
    running = {each.name for each in threading.enumerate() if each.name.startswith("extract-")}
    all_submitted.set()
    errors = finished(extractor)
    assert running == threads == {"extract-0", "extract-1"}
    assert len(pids) == 2
    assert {name for name, error in errors.items() if error is None} == {f"good{number}" for number in range(6)}
    assert len(errors) == 12
    for each in bad:
        message = str(errors[each.filename.partition("-")[0]])
        assert each.filename in message, "the file has the name that the user knows"
        assert staged_path(pkgs, each).name not in message
    assert sum(cache.batches) == 6
    assert len(cache.batches) <= 2
    assert not any(each.name.startswith("extract-") for each in threading.enumerate())


def test_an_archive_is_placed_while_the_next_is_still_downloading(pkgs):
    """Nothing waits in a batch for a download that may take hours: ``finish`` is not needed for that."""
    placed = threading.Event()

    class Telling(CondaCache):
        def place(self, entries: Sequence[Unplaced]) -> list[StoreError | None]:
            errors = super().place(entries)
            placed.set()
            return errors

    cache = Telling(pkgs)
    extractor = Extractor(cache)
    artifact = package(pkgs, "a")
    extractor.submit(artifact)
    assert placed.wait(GUARD)
    assert cache.has(artifact)
    assert finished(extractor) == {"a": None}


def test_an_unpacking_that_ends_after_finish_is_placed_too(pkgs, around_extract):
    """The last packages of a run come out of the workers when nothing more is to be taken."""
    ended = threading.Event()
    around_extract(lambda worker, target, go_on: ended.wait(GUARD) and go_on())
    extractor = Extractor(CondaCache(pkgs))
    wanted = [package(pkgs, name) for name in "ab"]
    for each in wanted:
        extractor.submit(each)
    waiting = threading.Thread(target=lambda: errors.update(finished(extractor)), daemon=True)
    errors: dict[str, object] = {}
    waiting.start()
    while waiting.is_alive() and extractor._todo.qsize() < 2:  # both ends are in the queue: finish waits
        waiting.join(0.01)
    ended.set()
    waiting.join(GUARD)
    assert errors == {"a": None, "b": None}
    assert left_over(pkgs) == []


def test_an_extractor_can_be_used_again(pkgs, around_extract):
    """``finish`` tells each result once; in a second use folders are claimed anew, and no sweep takes them away."""
    swept: list[list[str]] = []

    def sweep_beside(worker: RattlerWorker, target: Path, go_on: Callable[[], Extracted]) -> Extracted:
        sweep(pkgs)  # of another process that begins now
        claims = [name.removesuffix(".lock") for name in left_over(pkgs) if name.endswith(".lock")]
        assert [target.parent.name.startswith(claim) for claim in claims] == [True]
        swept.append(claims)
        return go_on()

    around_extract(sweep_beside)
    extractor = Extractor(CondaCache(pkgs))
    assert extractor.finish() == []
    assert unpacked(extractor, package(pkgs, "a"), package(pkgs, "b")) == {"a": None, "b": None}
    assert extractor.finish() == []
    assert left_over(pkgs) == []
    assert unpacked(extractor, package(pkgs, "c")) == {"c": None}
    assert left_over(pkgs) == []
    assert swept[0] == swept[1] != swept[2], "one claim a run"


class BrokenOnce(CondaCache):
    """A cache whose code ends the threads that first come to it."""

    left: ClassVar[list[str]] = []

    def add_record(self, artifact: Artifact, extracted: Path) -> None:
        if self.left:
            self.left.pop()
            raise SystemExit
        super().add_record(artifact, extracted)


def test_ended_threads_do_not_affect_the_next_use(pkgs):
    """What they left undone has failed, by what ended them; only what is submitted later is unpacked then."""
    BrokenOnce.left = ["both", "threads"]
    extractor = Extractor(BrokenOnce(pkgs))
    wanted = [package(pkgs, f"lost{number}") for number in range(4)]
    errors = unpacked(extractor, *wanted)
    assert set(errors) == {f"lost{number}" for number in range(4)}
    assert all(isinstance(error, InternalError) and "SystemExit" in error.message for error in errors.values())
    assert unpacked(extractor, package(pkgs, "later")) == {"later": None}
    assert look(pkgs, wanted[3]) is None


@pytest.fixture
def without_threads() -> Iterator[None]:
    """The system refuses every new thread: no address space holds such a stack."""
    before = threading.stack_size(1 << 47)
    yield
    threading.stack_size(before)


def test_without_any_thread_all_files_fail(pkgs, without_threads):
    """A process at its limit of threads says so for each file; nothing waits."""
    extractor = Extractor(CondaCache(pkgs))
    wanted = [package(pkgs, name) for name in "ab"]
    for each in wanted:
        extractor.submit(each)
    done = extractor.finish()
    assert [each.artifact for each in done] == wanted
    assert all(isinstance(each.error, InternalError) for each in done)
    assert {str(each.error.__cause__) for each in done} == {"can't start new thread"}


def test_a_record_that_raises_in_our_code_fails_only_that_package(pkgs):
    """A defect met while one package is unpacked is that package's result."""

    class Broken(CondaCache):
        def add_record(self, artifact: Artifact, extracted: Path) -> None:
            if artifact.filename.startswith("bad"):
                raise TypeError
            super().add_record(artifact, extracted)

    errors = unpacked(Extractor(Broken(pkgs)), package(pkgs, "bad"), package(pkgs, "good"))
    assert errors["good"] is None
    assert isinstance(errors["bad"], InternalError)
    assert "bad-1-0.conda: internal error (TypeError)" in errors["bad"].message
    assert len(left_over(pkgs)) == 1


def test_an_error_of_the_cache_folder_names_the_file(tmp_path):
    """No folder can be made where the cache should be: an error of ours that names file and reason."""
    pkgs = tmp_path / "file" / "pkgs"
    artifact = package(tmp_path, "a", staged=False)
    (tmp_path / "file").write_bytes(b"")
    error = unpacked(Extractor(CondaCache(pkgs)), artifact)["a"]
    assert isinstance(error, StoreError)
    assert "directory" in error.message


def test_an_archive_unpacked_by_another_process_is_not_a_failure(pkgs):
    """Nothing is left to unpack and nothing is missing; without its entry the same is an error."""
    artifact = package(pkgs, "a")
    extractor = Extractor(CondaCache(pkgs))
    assert unpacked(extractor, artifact) == {"a": None}
    (pkgs / artifact.filename).unlink()
    assert unpacked(extractor, artifact) == {"a": None}
    (pkgs / "c-1-0.conda").write_bytes(b"no archive")
    url = RedactedUrl("https://conda.example/linux-64/c-1-0.conda")
    missing = Artifact(kind="conda", filename="c-1-0.conda", url=url, sha256="0" * 64)
    assert isinstance(unpacked(extractor, missing)["c"], IntegrityError)


def ready(pkgs: Path, artifact: Artifact, number: int = 0) -> Ready:
    """As the extractor leaves it: unpacked, with its record, beside its staged archive."""
    folder = pkgs / ".resume-dl" / f"extract-{number}"
    with RattlerWorker() as worker:
        folder.mkdir(parents=True)
        worker.extract(staged_path(pkgs, artifact), folder / "package")
    CondaCache(pkgs).add_record(artifact, folder / "package")
    return Ready(artifact, artifact, staged_path(pkgs, artifact), folder / "package", folder)


def test_an_archive_published_by_another_process_is_unpacked(pkgs, around_extract):
    """Between the look at it and its opening; the folder beside it is a third process's, and away for a moment."""
    artifact = package(pkgs, "moved")
    asked = []

    def move(_worker: RattlerWorker, _target: Path, go_on: Callable[[], Extracted]) -> Extracted:
        if not asked:
            staged_path(pkgs, artifact).rename(pkgs / artifact.filename)
        asked.append(1)
        return go_on()

    around_extract(move)
    assert unpacked(Extractor(CondaCache(pkgs)), artifact) == {"moved": None}
    assert len(asked) == 2
    assert look(pkgs, artifact).state is State.COMPLETE


def test_a_batch_is_limited(tmp_path):
    """So many may wait, and with the last of them it is time."""
    batch = UnpackedBatch(CondaCache(tmp_path))
    url = RedactedUrl("https://conda.example/linux-64/a-1-0.conda")
    artifact = Artifact(kind="conda", filename="a-1-0.conda", url=url)
    one = Ready(artifact, artifact, None, tmp_path / "x" / "package", tmp_path / "x")
    assert [batch.add(one) for _ in range(MOST)] == [False] * (MOST - 1) + [True]


def test_a_batch_that_cannot_be_synced_is_not_placed(pkgs):
    """A full disk is told for each package; none of them is in the cache, and their folders are gone."""

    class Full(CondaCache):
        def sync(self, extracted: Sequence[Path]) -> None:
            raise StoreError("no space left")

    wanted = [package(pkgs, name) for name in "ab"]
    batch = UnpackedBatch(Full(pkgs))
    for number, each in enumerate(wanted):
        batch.add(ready(pkgs, each, number))
    placed = batch.place()
    assert [(artifact, str(error)) for artifact, error in placed] == [(each, "no space left") for each in wanted]
    assert [look(pkgs, each) for each in wanted] == [None, None]
    assert left_over(pkgs) == sorted(staged_path(pkgs, each).name for each in wanted)
    assert batch.place() == []


def test_a_package_that_raises_does_not_fail_its_batch(pkgs):
    """The defect is told with its name; the other one is in the cache."""

    class Broken(CondaCache):
        def place(self, entries: Sequence[Unplaced]) -> list[StoreError | None]:
            if any(each.artifact.filename.startswith("bad") for each in entries):
                raise TypeError
            return super().place(entries)

    wanted = [package(pkgs, name) for name in ("good", "bad")]
    batch = UnpackedBatch(Broken(pkgs))
    for number, each in enumerate(wanted):
        batch.add(ready(pkgs, each, number))
    (_, fine), (broken, error) = batch.place()
    assert fine is None
    assert CondaCache(pkgs).has(wanted[0])
    assert broken is wanted[1]
    assert isinstance(error, InternalError)
    assert "bad-1-0.conda" in error.message
    assert "TypeError" in error.message


def test_a_batch_whose_archive_another_process_has_placed(pkgs):
    """Our archive moved from under us into the same entry: that is no error. Where there is no entry, it is one."""
    there, gone = package(pkgs, "there"), package(pkgs, "gone")
    mine = [ready(pkgs, there, 1), ready(pkgs, gone, 2)]
    theirs = UnpackedBatch(CondaCache(pkgs))
    theirs.add(ready(pkgs, there, 3))
    assert theirs.place() == [(there, None)]
    staged_path(pkgs, gone).unlink()

    class Unplaceable(CondaCache):
        def has(self, artifact: Artifact) -> bool:
            return artifact is there and super().has(artifact)

    batch = UnpackedBatch(Unplaceable(pkgs))
    for each in mine:
        batch.add(each)
    (_, fine), (_, error) = batch.place()
    assert fine is None
    assert isinstance(error, StoreError)
