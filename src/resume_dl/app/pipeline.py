"""The pipeline from a request to files, which every use case that downloads runs through.

    request -> artifacts -> plan -> transfer -> publish -> report
               resolve()    plan()  `---- carry_out() ----------'

A use case has one ``Batch`` for each kind of artifact, and each batch has one ``Destination``:

=============  ======================  ===================================  ==============================
use case       artifacts               destination                          report
=============  ======================  ===================================  ==============================
get            its URLs                files, each under a name of its own  digests of unverified files
fetch, conda   specs and lists solved  a package cache, folder or channel   explicit list, conda's command
fetch, pip     requirements solved     a wheel dir                          lock file, pip's command
conda plugin   conda's solution        conda's package cache                entries registered with conda
bundle create  as fetch, both          channel and wheel dir of a bundle    the bundle around them
verify         damaged packages        the cache, in their place            what is not repaired, and why
=============  ======================  ===================================  ==============================

Everything is resolved and planned before the first download, so that a refusal costs no traffic. A file is published as
soon as it is verified, while others are still downloaded: ``Destination.fetch`` does both.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cached_property

from resume_dl.model.artifact import Artifact
from resume_dl.ports import Reporter
from resume_dl.transfer.destination import Destination
from resume_dl.transfer.outdated_records import merged
from resume_dl.transfer.plan import Plan, Wanted
from resume_dl.transfer.report import ArtifactResult, RunResult
from resume_dl.transfer.setup import EngineAccess, Setup, engine_for
from resume_dl.transfer.watched_engine import WatchedEngine


class Batch(ABC):
    """The artifacts of one kind in a request, with their destination. Used once, from one thread."""

    destination: Destination

    def __init__(
        self,
        setup: Setup,
        reporter: Reporter,
        cancelled: Callable[[], bool],
        *,
        dry_run: bool = False,
        leave_out: Callable[[Artifact], bool] = lambda _: False,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """``leave_out``: whether the target has an artifact. ``begin`` is called before the destination changes."""
        self.setup, self.reporter, self.cancelled = setup, reporter, cancelled
        self.dry_run, self.leave_out, self.begin = dry_run, leave_out, begin
        self._open = ExitStack()

    @cached_property
    def engine(self) -> WatchedEngine:
        """The engine of this batch, from its first use to ``close``."""
        opened = engine_for(self.setup, self.reporter, self.cancelled, access=self.access)
        return self._open.enter_context(opened)

    # what differs between use cases

    @property
    def access(self) -> EngineAccess | None:
        """Network settings in place of conda's; valid after ``resolve``."""
        return None

    @abstractmethod
    def resolve(self) -> Wanted:
        """Turn the request into artifacts with their sources. Raises a ResumeDLError."""

    def renew(self, results: Sequence[ArtifactResult]) -> Wanted | None:
        """Resolve again if ``results`` show that an index was out of date; None if that changes nothing."""
        del results
        return None

    @abstractmethod
    def report(self, result: RunResult, done: Sequence[ArtifactResult]) -> None:
        """Add this use case's own results once its files are ``done``."""

    # what is the same for all

    def plan(self, wanted: Wanted) -> Plan:
        """Compare the artifacts with what is on the disk. Raises StoreError."""
        left_out = [artifact for artifact in wanted.artifacts if self.leave_out(artifact)]
        artifacts = [artifact for artifact in wanted.artifacts if not self.leave_out(artifact)]
        if not self.dry_run:
            self.begin()
        planned = self.destination.plan(artifacts, touch=not self.dry_run)
        return Plan(planned, left_out, self.destination.spaces(planned), wanted.thorough)

    def announce(self, plan: Plan, before: Plan | None = None) -> None:
        """Report the plan. ``before``: the plan that this one replaces."""
        files = self.destination.files(plan.planned)
        if before is None:
            self.reporter.plan(files)
        else:
            self.reporter.plan(files, replaces=before.keys - plan.keys)

    def carry_out(self, plan: Plan, result: RunResult) -> None:
        """Download, publish, report. Errors of single artifacts are in ``result``, others are raised."""
        self.announce(plan)
        if self.dry_run:
            done = [ArtifactResult.of_plan(each) for each in plan.planned]
        else:
            done = self._transfer(plan, result)
            if (wanted := self.renew(done)) is not None:
                before, plan = plan, self.plan(wanted)
                self.announce(plan, before)
                done = merged(done, self._transfer(plan, result))
        self.close()
        result.artifacts += [*done, *(ArtifactResult(artifact, "left-out") for artifact in plan.left_out)]
        self.report(result, done)

    def _transfer(self, plan: Plan, result: RunResult) -> list[ArtifactResult]:
        plan.check()
        engine, began = self.engine, time.monotonic()
        done = self.destination.fetch(plan.planned, engine, thorough=plan.thorough)
        result.transfer_seconds += time.monotonic() - began
        return done

    def close(self) -> None:
        """End the engine. May be called twice."""
        self._open.close()


def run(batches: Sequence[Batch], result: RunResult) -> RunResult:
    """Run ``batches``: resolve all, plan all, then carry out each."""
    with ExitStack() as stack:
        for batch in batches:
            stack.callback(batch.close)
        wanted = [batch.resolve() for batch in batches]
        plans = [batch.plan(each) for batch, each in zip(batches, wanted, strict=True)]
        for batch, plan in zip(batches, plans, strict=True):
            batch.carry_out(plan, result)
    return result
