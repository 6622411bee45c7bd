"""The engine's loop: takes events, passes them to the core, executes the actions that the core returns."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue

from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.download import Download
from resume_dl.core.policy import Policy
from resume_dl.core.reachability import Reachability
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.session import Session
from resume_dl.core.sources import SourceState
from resume_dl.engine.clock import AwakeClock
from resume_dl.engine.comparer import Comparer
from resume_dl.engine.duplicate_worker import DuplicateWorker
from resume_dl.engine.job import NOTHING_SAID, Job, Outcome, error_of, labels_of
from resume_dl.engine.limiter import RateLimiter
from resume_dl.engine.pool import Pool
from resume_dl.engine.progress_notifier import ProgressNotifier
from resume_dl.engine.running_job import RunningJob
from resume_dl.engine.store_calls import advance, check, prepare, publish
from resume_dl.engine.worker import Worker
from resume_dl.engine.writer import Writer
from resume_dl.ports import Clock, PartFile, Reporter, Tracer, Transport

STOP_SECONDS = 10.0
"""Seconds that a run that ends by an exception waits for its connections to close."""
SLICE = 0.2
"""Longest wait of the main thread in seconds: on Windows Ctrl-C cannot interrupt a wait."""
SHOW_ALL_EVERY = 1.0
STORERS = 16
"""Threads for calls of the store. The disk merges concurrent syncs; a call never runs before one that it waits for."""
HASHERS = max(2, min(4, os.cpu_count() or 2))
"""Threads for hashing, which is bound by the processors; syncs and journals only wait."""

_Posted = tuple[str, ev.Event]
"""A job's key, and an event of it."""


def _latest(happened: list[_Posted]) -> list[_Posted]:
    """Drop counts that a later event of the same connection supersedes."""
    if len(happened) == 1:
        return happened
    last: dict[tuple[str, int], ev.Event] = {}
    for key, event in happened:
        if isinstance(event, ev.BytesWritten | ev.BytesReceived):
            last[key, event.connection] = event
    return [
        (key, event)
        for key, event in happened
        if not isinstance(event, ev.BytesWritten | ev.BytesReceived) or last[key, event.connection] is event
    ]


class Engine:
    """Runs jobs; each call of ``run`` is one session. Used from one thread."""

    def __init__(
        self,
        transport: Transport,
        reporter: Reporter,
        policy: Policy,
        *,
        limit_rate: float | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
        tracer: Tracer | None = None,
        network: Reachability | None = None,
    ) -> None:
        self._transport = transport
        self._notifier = ProgressNotifier(reporter)
        self._policy = policy if limit_rate is None else replace(policy, rebalance=False)
        self._cancelled = cancelled
        self._clock = AwakeClock(clock, policy.longest_step)
        self._jitter = jitter
        self._tracer = tracer
        self._network = network or Reachability()
        self._limiter = RateLimiter(limit_rate, self._clock) if limit_rate else None
        self._events: SimpleQueue[_Posted] = SimpleQueue()
        self._running: dict[str, RunningJob] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._on_done: Callable[[Outcome], None] = lambda _: None

    @property
    def transport(self) -> Transport:
        """The transport of all requests; its other users share the connections."""
        return self._transport

    def run(self, jobs: Sequence[Job], on_done: Callable[[Outcome], None] | None = None) -> list[Outcome]:
        """Run all jobs; one outcome per job, in order. ``on_done`` is called in this thread as each one ends.

        Jobs must have different keys. Raises KeyboardInterrupt only if ``cancelled`` raises it.
        """
        self._on_done = on_done or (lambda _: None)
        self._running, self._outcomes = {}, {}
        session = Session(self._policy)
        budget = Budget(self._policy, self._network)
        self._connecting, self._storing, self._hashing = (
            Pool("connection"),
            Pool("store", STORERS),
            Pool("hash", HASHERS),
        )
        for job in jobs:
            labels = labels_of(job.artifact.sources)
            sources = [
                SourceState(label, s.url.host, s.connections, knows=s.url in job.known)
                for label, s in zip(labels, job.artifact.sources, strict=True)
            ]
            download = Download(
                size=job.artifact.size,
                sources=sources,
                budget=budget,
                policy=self._policy,
                jitter=self._jitter,
                bound_by_digest=job.artifact.digest is not None,
                thorough=job.thorough,
                replaceable=job.replaceable,
                last_chance=job.last_chance,
            )
            self._running[job.artifact.key] = RunningJob(job, download)
            session.add(job.artifact.key, download)
            self._trace_begin(job)
        try:
            self._loop(session)
        except BaseException:
            with suppress(Exception):  # the caller must see the exception that ended the run
                self._stop(session)
            raise
        finally:
            for running in self._running.values():
                for worker in list(running.workers.values()):
                    worker.shut()
            for pool in (self._connecting, self._storing, self._hashing):
                pool.close()
        return [self._outcomes[job.artifact.key] for job in jobs]

    def _loop(self, session: Session) -> None:
        cancelled, shown_at = False, self._clock.now()
        slept = self._clock.slept
        self._perform(session.fill(self._clock.now()))
        deadline = session.next_deadline()
        while not session.over:
            happened = self._wait(min(SLICE, max(0.0, deadline - self._clock.now())))
            looked_at = self._clock.now()
            if self._clock.slept > slept:  # before other events: sources are not to blame for what broke in suspend
                awoke, slept = ev.Awoke(self._clock.slept - slept), self._clock.slept
                self._trace(looked_at, None, awoke)
                self._perform(session.handle(None, awoke, looked_at))
            batch = _latest([*happened, *self._posted()])
            batch = [(key, event) for key, event in batch if key in self._running]  # drop late events of earlier runs
            for left, (key, event) in zip(range(len(batch) - 1, -1, -1), batch, strict=True):
                if isinstance(event, ev.ConnectionClosed):
                    self._running[key].workers.pop(event.connection, None)
                moment = self._clock.now()
                self._trace(moment, key, event)
                self._perform(session.handle(key, event, moment, more=left > 0))
                self._notifier.show(self._running[key], moment)
            if not cancelled and self._cancelled():
                cancelled = True
                moment = self._clock.now()
                self._trace(moment, None, ev.Cancelled())
                self._stop_hashing()
                self._perform(session.handle(None, ev.Cancelled(), moment))
            # The time is that before the events were taken: a connection whose event was posted while we were busy,
            # for example with a slow disk, must not count as silent.
            deadline = session.next_deadline()
            if deadline <= looked_at:
                self._trace(looked_at, None, ev.TimerFired())
                self._perform(session.tick(looked_at))
                deadline = session.next_deadline()
            now = self._clock.now()
            if now - shown_at >= SHOW_ALL_EVERY:
                shown_at = now
                for each in self._running.values():  # so that a stalled transfer is shown as stalled
                    self._notifier.show(each, now)

    def _stop(self, session: Session) -> None:
        """Cancel every download as a user would: an open part file would keep its lock.

        Takes ``STOP_SECONDS`` at most, because an interrupted action may never be answered.
        """
        until = self._clock.now() + STOP_SECONDS
        self._stop_hashing()
        self._perform(session.handle(None, ev.Cancelled(), self._clock.now()))
        while not session.over and (now := self._clock.now()) < until:
            for key, event in self._wait(SLICE):
                if key in self._running:
                    if isinstance(event, ev.ConnectionClosed):
                        self._running[key].workers.pop(event.connection, None)
                    self._perform(session.handle(key, event, now))
            if session.next_deadline() <= now:
                self._perform(session.tick(now))

    def _stop_hashing(self) -> None:
        for running in self._running.values():
            running.stopped = True

    def _wait(self, seconds: float) -> list[_Posted]:
        """Wait for the next event; an empty list if none is posted in time."""
        try:
            return [self._events.get(timeout=seconds) if seconds > 0 else self._events.get_nowait()]
        except Empty:
            return []

    def _posted(self) -> list[_Posted]:
        """Take every event that has been posted by now; only this thread takes events."""
        return [self._events.get_nowait() for _ in range(self._events.qsize())]

    # ------------------------------------------------------------------ actions

    def _perform(self, actions: list[tuple[str, act.Action]]) -> None:
        for key, action in actions:
            if self._tracer is not None:
                self._trace(self._clock.now(), key, action)
            if isinstance(action, act.Finish | act.Fail):
                self._conclude(key, self._running[key], action)
                continue
            try:
                self._do(key, self._running[key], action)
            except Exception as error:  # noqa: BLE001 - the core must hear of every failure
                self._events.put((key, ev.LocalFailed(error)))

    def _do(self, key: str, running: RunningJob, action: act.Action) -> None:
        if isinstance(action, act.OpenRange):
            self._open_range(key, running, action)
        elif isinstance(action, act.ShortenLease | act.WriteHeld | act.CloseConnection):
            self._tell_worker(running.workers.get(action.connection), action)
        elif isinstance(action, act.NoteFailure):
            self._notifier.failure(running, action)
        elif isinstance(action, act.Prepare):
            journaled = action.journaled
            self._in_pool(self._storing, key, lambda: prepare(running, journaled=journaled))
        elif running.part is None:
            raise AssertionError(f"{action} without a part file")
        else:
            self._do_with_file(key, running, running.part, action)

    def _do_with_file(self, key: str, running: RunningJob, part: PartFile, action: act.Action) -> None:
        if isinstance(action, act.FixSize):
            label = None if action.source is None else running.download.sources[action.source].label
            running.job.check_size(action.size)
            part.fix_size(action.size, action.validator, label)
        elif isinstance(action, act.SyncData):
            self._in_pool(self._storing, key, lambda: ev.DataSynced(part.sync_data()), sync=True)
        elif isinstance(action, act.RecordProgress):
            self._record(key, running, part, action.mark)
        elif isinstance(action, act.DiscardPieces):
            running.recorded.wait()
            part.discard()
        elif isinstance(action, act.ForgetRanges):
            running.recorded.wait()
            part.forget(action.ranges)
        elif isinstance(action, act.AdvanceDigest):
            upto = action.upto
            self._in_pool(self._hashing, key, lambda: advance(running, part, upto))
        elif isinstance(action, act.CheckDigest):
            self._in_pool(self._hashing, key, lambda: check(running, part))
        elif isinstance(action, act.LocateDamage):
            self._in_pool(self._hashing, key, lambda: ev.DamageLocated(part.locate_damage()))
        elif isinstance(action, act.Publish):
            self._in_pool(self._storing, key, lambda: publish(running, part), publish=True)
        else:
            raise TypeError(f"unknown action: {action}")

    def _record(self, key: str, running: RunningJob, part: PartFile, mark: int) -> None:
        """Record durable progress in the pool, because it syncs the journal: in order, and before ranges are voided."""
        before, after = running.recorded, threading.Event()

        def work() -> None:
            before.wait()
            part.record_durable(mark)
            after.set()

        def failed(error: Exception) -> None:
            after.set()
            self._events.put((key, ev.LocalFailed(error)))

        running.recorded = after
        self._storing.submit(work, failed)

    @staticmethod
    def _tell_worker(worker: Worker | None, action: act.ShortenLease | act.WriteHeld | act.CloseConnection) -> None:
        if worker is None:
            return  # it could not be started, which has been reported
        if isinstance(action, act.CloseConnection):
            worker.shut()
        elif isinstance(action, act.ShortenLease):
            worker.shorten(action.end)
        elif isinstance(worker, DuplicateWorker):
            worker.write(action.gaps)
        else:
            raise TypeError(f"{action} for a worker that holds no bytes")

    def _in_pool(
        self, pool: Pool, key: str, call: Callable[[], ev.Event], *, sync: bool = False, publish: bool = False
    ) -> None:
        def failed(error: Exception) -> None:
            self._events.put((key, ev.LocalFailed(error, sync, digest=pool is self._hashing, publish=publish)))

        pool.submit(lambda: self._events.put((key, call())), failed)

    def _open_range(self, key: str, running: RunningJob, action: act.OpenRange) -> None:
        if running.part is None:
            raise AssertionError("a connection without a part file")
        job = running.job
        source = job.artifact.sources[action.source]
        more = {
            "source": source,
            "filename": running.job.artifact.filename,
            "part": running.part,
            "transport": self._transport,
            "post": lambda event: self._events.put((key, event)),
            "clock": self._clock,
            "limiter": self._limiter,
            "conditions": job.known.get(source.url, NOTHING_SAID).conditions(),
            "headers": running.job.headers,
            "largest": running.job.largest,
        }
        label = running.download.sources[action.source].label
        worker: Worker
        try:
            if action.mode is act.Mode.WRITE:
                worker = Writer(action, label=label, **more)
            elif action.mode is act.Mode.HOLD:
                worker = DuplicateWorker(action, label=label, **more)
            else:
                worker = Comparer(action, block=self._policy.compare_block, **more)
        except Exception:
            self._events.put((key, ev.ConnectionClosed(action.connection, action.start, 0)))  # it was never opened
            raise
        running.workers[action.connection] = worker

        def failed(error: Exception) -> None:
            self._events.put((key, ev.LocalFailed(error)))
            self._events.put((key, ev.ConnectionClosed(action.connection, action.start, 0)))

        self._connecting.submit(worker.run, failed)

    # ------------------------------------------------------------------ the trace

    def _trace_begin(self, job: Job) -> None:
        artifact = job.artifact
        mirrors = [source.mirror for source in artifact.sources]
        if self._tracer is not None:
            self._tracer.begin(self._clock.now(), artifact.key, artifact.title, artifact.size, mirrors)

    def _trace(self, now: float, key: str | None, what: ev.Event | act.Action) -> None:
        if self._tracer is not None:
            self._tracer.note(now, key, what)

    # ------------------------------------------------------------------ ends

    def _conclude(self, key: str, running: RunningJob, action: act.Finish | act.Fail) -> None:
        """End a job. An exception from here on is a bug, ours or the caller's, and must propagate out of ``run``."""
        if running.part is not None and (isinstance(action, act.Fail) or action.another):
            running.recorded.wait()
            with suppress(Exception):  # the job's own outcome counts; the lock ends with the process at the latest
                running.part.close()
        if isinstance(action, act.Fail):
            self._end(key, running, "failed", action)
            return
        status = "cached" if action.another else "resumed" if running.download.resumed else "downloaded"
        self._end(key, running, status)

    def _end(self, key: str, running: RunningJob, status: str, fail: act.Fail | None = None) -> None:
        artifact = running.job.artifact
        failures = [source.failures for source in running.download.sources]
        error = error_of(fail, artifact, artifact.sources, failures, received=running.download.kept) if fail else None
        safe = fail.resumable_bytes if fail else None
        self._notifier.ended(running, status, safe=safe, note=error.message if error else "")
        outcome = self._outcomes[key] = running.outcome(status, fail, error)
        self._on_done(outcome)
