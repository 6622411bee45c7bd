"""Extraction of verified archives into package-cache entries, in child processes, while downloads go on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from resume_dl import fs
from resume_dl.caches.conda.extraction_folders import claim_extraction, extraction_folder, remove
from resume_dl.caches.package_caches import Cache
from resume_dl.errors import (
    IntegrityError,
    Interrupted,
    NotWritableError,
    ResumeDLError,
    WorkerCrashedError,
    internal_error,
)
from resume_dl.model.artifact import Artifact
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.store.lock import FileLock
from resume_dl.store.staged import staged_path
from resume_dl.threads import start_thread
from resume_dl.transfer.plan import measured
from resume_dl.transfer.unpacked_batch import Ready, UnpackedBatch, unless_there

PROCESSES = 2
"""Unpacking is limited by one core and the disk; more processes would slow the downloads down."""
WORTH_ANOTHER = 4_000_000
"""Waiting bytes that justify a second process: loading its libraries takes as long as unpacking these."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The result for one archive; ``error`` is None if it is a complete entry now."""

    artifact: Artifact
    error: ResumeDLError | None = None


class Extractor:
    """Unpacks archives in threads: ``submit`` them from one thread, then ``finish`` returns their results.

    ``worker``: an idle worker whose libraries are loaded. The first thread takes it over and closes it at its end;
    the caller must not use it before ``finish`` has returned.
    """

    def __init__(
        self, cache: Cache, *, cancelled: Callable[[], bool] = lambda: False, worker: RattlerWorker | None = None
    ) -> None:
        self._cache = cache
        self._pkgs_dir = cache.folder
        self._cancelled = cancelled
        self._todo: queue.SimpleQueue[Artifact | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Unpacked] = queue.SimpleQueue()
        self._idle = worker
        self._threads: list[threading.Thread] = []
        self._broken: BaseException | None = None
        """The exception that ended one of the threads, if any."""
        self._submitted: list[Artifact] = []
        self._taken: list[Artifact] = []
        """The submitted artifacts that a thread has started on."""
        self._batch = UnpackedBatch(cache)
        self._claim: FileLock | None = None
        self._claiming = threading.Lock()

    def submit(self, artifact: Artifact) -> None:
        """Unpack a verified archive: at ``staged_path``, or under its own name in the package cache."""
        self._submitted.append(artifact)
        self._todo.put(artifact)
        if not self._threads or (len(self._threads) < PROCESSES and self._waiting() >= WORTH_ANOTHER):
            worker = self._idle or RattlerWorker()
            self._idle = None
            worker.waits = partial(self._wait, worker.waits)
            try:
                work = partial(self._work, worker)
                self._threads.append(start_thread(work, self._broke, name=f"extract-{len(self._threads)}"))
            except RuntimeError as error:  # no thread can start: running ones take it, or ``finish`` reports it
                self._broke(error)

    def finish(self) -> list[Unpacked]:
        """Wait for all archives and return their results; those that a broken thread left undone have failed."""
        for _ in self._threads:
            self._todo.put(None)
        for thread in self._threads:
            while thread.is_alive():
                thread.join(0.2)  # in slices: Windows cannot interrupt a wait without a time-out
        self._threads = []
        self._todo = queue.SimpleQueue()
        if self._claim is not None:
            self._claim.release(remove=True)
            self._claim = None
        results = [self._done.get_nowait() for _ in range(self._done.qsize())]
        left = list(self._submitted)
        for each in results:
            left.remove(each.artifact)
        self._submitted, self._taken = [], []
        broken = self._broken or RuntimeError("a thread ended without a result")
        return results + [Unpacked(each, internal_error(broken, f"unpacking {each.filename}")) for each in left]

    def _waiting(self) -> int:
        """Bytes of the archives that no thread has started on."""
        return _size(self._submitted) - _size(list(self._taken))

    def _broke(self, error: BaseException) -> None:
        self._broken = error

    def _work(self, worker: RattlerWorker) -> None:
        with worker:
            while (artifact := self._todo.get()) is not None:
                self._taken.append(artifact)
                result = self._unpack(worker, artifact)
                is_full = False
                if isinstance(result, Ready):
                    is_full = self._batch.add(result)
                else:
                    self._done.put(Unpacked(artifact, result))
                if is_full or self._todo.empty():  # else this is checked again after the next archive
                    self._place_batch()
        self._place_batch()

    def _place_batch(self) -> None:
        for artifact, error in self._batch.place():
            self._done.put(Unpacked(artifact, error))

    def _wait(self, waits: Callable[[str, float], None], op: str, seconds: float) -> None:
        if self._cancelled():
            raise Interrupted("stopped")
        waits(op, seconds)

    def _unpack(self, worker: RattlerWorker, artifact: Artifact) -> Ready | ResumeDLError | None:
        """Return the unpacked package; else its error, or None if another process has published it."""
        stopped = Interrupted(f"{artifact.filename} was not unpacked", hint="run the same command again")
        if self._cancelled():
            return stopped
        try:
            try:
                return self._unpack_once(worker, artifact)
            except WorkerCrashedError:
                return self._unpack_once(worker, artifact)  # in a fresh process: a crash there loses nothing
            except NotWritableError:
                # another process may have renamed the archive between our check and our opening it
                return self._unpack_once(worker, artifact)
        except Interrupted:
            return stopped
        except (ResumeDLError, OSError) as error:
            return unless_there(self._cache, artifact, error)
        except Exception as error:  # noqa: BLE001 - the next archives must still be unpacked
            return internal_error(error, f"unpacking {artifact.filename}")

    def _unpack_once(self, worker: RattlerWorker, artifact: Artifact) -> Ready:
        with self._claiming:
            if self._claim is None:
                self._claim = claim_extraction(self._pkgs_dir)
        folder = extraction_folder(self._pkgs_dir, self._claim)
        with ExitStack() as failed:
            failed.callback(remove, folder)
            target = folder / "package"
            staged = staged_path(self._pkgs_dir, artifact)
            is_staged = fs.is_regular(staged)
            archive = staged if is_staged else self._pkgs_dir / artifact.filename
            try:
                found = worker.extract(archive, target)
            except IntegrityError as error:  # its message has the staged name
                error.message = error.message.replace(archive.name, artifact.filename)
                raise
            expected = artifact.digest
            actual = found.sha256 if expected is not None and expected.algorithm == "sha256" else found.md5
            if expected is None or actual != expected.hex:
                raise IntegrityError(
                    f"{artifact.filename} was changed after it was verified and before it was unpacked",
                    hint="another program writes to this package cache; run the same command again",
                )
            known = replace(artifact, sha256=artifact.sha256 or found.sha256, md5=artifact.md5 or found.md5)
            known = measured(known, archive)  # an explicit list gives one digest; conda too records all and the size
            self._cache.add_record(known, target)
            failed.pop_all()
        return Ready(artifact, known, staged if is_staged else None, target, folder)


def _size(artifacts: Sequence[Artifact]) -> int:
    """Total bytes; an archive of unknown size counts as a large one."""
    return sum(WORTH_ANOTHER if each.size is None else each.size for each in artifacts)
