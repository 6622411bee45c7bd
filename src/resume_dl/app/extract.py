"""Unpacks verified archives into package-cache entries, in child processes, beside the downloads still running."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from queue import SimpleQueue

from resume_dl.app.caches import Cache
from resume_dl.app.plan import measured
from resume_dl.errors import IntegrityError, ResumeDLError, StoreError, WorkerCrashedError
from resume_dl.model.artifact import Artifact
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.store.condacache import claim_extraction, extraction_folder, remove
from resume_dl.store.lock import FileLock
from resume_dl.store.staged import staged_path

PROCESSES = 2
"""Unpacking is bound by one core and the disk; more would take both from the downloads."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What became of one archive; ``error`` None when it is a complete entry."""

    artifact: Artifact
    error: ResumeDLError | None = None


class Extractor:
    """``submit`` from one thread; ``finish`` waits for all and returns what became of each."""

    def __init__(self, cache: Cache, *, cancelled: Callable[[], bool] = lambda: False) -> None:
        self._cache = cache
        self._pkgs_dir = cache.folder
        self._cancelled = cancelled
        self._todo: SimpleQueue[Artifact | None] = SimpleQueue()
        self._done: SimpleQueue[Unpacked] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._submitted = 0
        self._claim: FileLock | None = None
        self._claiming = threading.Lock()

    def submit(self, artifact: Artifact) -> None:
        """Unpack the archive that lies, verified, at ``staged_path`` or under its own name in the package cache."""
        self._submitted += 1
        if len(self._threads) < PROCESSES:
            thread = threading.Thread(target=self._work, name=f"extract-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._todo.put(artifact)

    def finish(self) -> list[Unpacked]:
        """Wait until all that was submitted is unpacked or has failed."""
        for _ in self._threads:
            self._todo.put(None)
        for thread in self._threads:
            while thread.is_alive():
                thread.join(0.2)  # in slices: a wait without end cannot be interrupted on Windows
        self._threads = []
        if self._claim is not None:
            self._claim.release(remove=True)
            self._claim = None
        results = [self._done.get() for _ in range(self._submitted)]
        self._submitted = 0
        return results

    def _work(self) -> None:
        with RattlerWorker() as worker:
            while (artifact := self._todo.get()) is not None:
                self._done.put(Unpacked(artifact, self._unpack(worker, artifact)))

    def _unpack(self, worker: RattlerWorker, artifact: Artifact) -> ResumeDLError | None:
        if self._cancelled():
            return StoreError(f"{artifact.filename} was not unpacked", hint="run the same command again")
        try:
            try:
                self._unpack_once(worker, artifact)
            except WorkerCrashedError:
                self._unpack_once(worker, artifact)  # in a fresh process: a crash there loses nothing
        except ResumeDLError as error:
            return None if self._cache.has(artifact) else error  # another process has made it meanwhile: as good
        except OSError as error:
            if self._cache.has(artifact):
                return None
            return StoreError(f"{artifact.filename}: {error.strerror or error}", hint="see whether the disk is full")
        return None

    def _unpack_once(self, worker: RattlerWorker, artifact: Artifact) -> None:
        with self._claiming:
            if self._claim is None:
                self._claim = claim_extraction(self._pkgs_dir)
        folder = extraction_folder(self._pkgs_dir, artifact, self._claim)
        try:
            target = folder / "package"
            staged = staged_path(self._pkgs_dir, artifact)
            is_staged = staged.is_file()
            archive = staged if is_staged else self._pkgs_dir / artifact.filename
            found = worker.extract(archive, target)
            expected = artifact.digest
            actual = found.sha256 if expected is not None and expected.algorithm == "sha256" else found.md5
            if expected is None or actual != expected.hex:
                raise IntegrityError(
                    f"{artifact.filename} changed between its verification and its unpacking",
                    hint="something else writes into this package cache; run the same command again",
                )
            known = replace(artifact, sha256=artifact.sha256 or found.sha256, md5=artifact.md5 or found.md5)
            known = measured(known, archive)  # a line of a list says one digest; conda would note all three too
            self._cache.publish(known, archive=staged if is_staged else None, extracted=target)
        finally:
            remove(folder)
