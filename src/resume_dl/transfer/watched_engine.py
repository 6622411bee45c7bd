"""The engine as use cases see it: what sources answered is looked at across files, and errors say what it means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from resume_dl.core.failures import FailureKind
from resume_dl.engine.engine import Engine
from resume_dl.engine.job import Job, Outcome
from resume_dl.errors import CaptivePortalError, SourcesExhaustedError
from resume_dl.ports import Reporter, Transport
from resume_dl.transfer.blocks import Blocks
from resume_dl.transfer.run_notes import Remember

_PORTAL = FailureKind.PORTAL.value
_NO_ANSWER = frozenset(
    kind.value
    for kind in (
        FailureKind.UNREACHABLE,
        FailureKind.BROKEN,
        FailureKind.STALLED,
        FailureKind.SLOW,
        FailureKind.FATAL,
    )
)
"""What a network that wants a login makes of other addresses: nothing answers, or with a certificate of its own."""


class WatchedEngine:
    """Wraps one engine; ``finish`` is called once, when the command ends."""

    def __init__(self, engine: Engine, blocks: Blocks, reporter: Reporter, remember: Remember | None = None) -> None:
        self._engine = engine
        self._remember = remember or Remember()
        self._blocks = blocks
        self._reporter = reporter

    @property
    def transport(self) -> Transport:
        """The engine's, for small requests beside it."""
        return self._engine.transport

    def run(self, jobs: Sequence[Job], on_done: Callable[[Outcome], None] | None = None) -> list[Outcome]:
        """As ``Engine.run``."""
        self._blocks.tell(self._reporter)
        ended: list[Outcome] = []

        def done(outcome: Outcome) -> None:
            explained = self._explained(outcome)
            self._blocks.learn([explained])
            ended.append(explained)
            if on_done is not None:
                on_done(explained)

        with self._remember.during(jobs):
            self._engine.run(jobs, done)
        order = {job.artifact.key: number for number, job in enumerate(jobs)}
        return sorted(ended, key=lambda outcome: order[outcome.artifact.key])

    def finish(self) -> None:
        """Write down what was learnt of mirrors."""
        self._blocks.keep(self._reporter)

    def _explained(self, outcome: Outcome) -> Outcome:
        error = outcome.error
        if not isinstance(error, SourcesExhaustedError):
            return outcome
        if _is_portal(outcome):
            portal = CaptivePortalError(
                f"{outcome.artifact.title}: web pages come instead of files: this looks like the login page of this "
                "network (a captive portal)",
                hint="open a browser, sign in to the network, then run the same command again: what is on disk is kept",
                resumable_bytes=error.resumable_bytes,
            )
            return replace(outcome, error=portal)
        if not outcome.artifact.sources and (names := self._blocks.left_out()):
            error.hint = f"every mirror that has it refused us lately; to ask again: --mirror {names[0]}"
        return outcome


def _is_portal(outcome: Outcome) -> bool:
    """Whether no source gave anything but web pages, and at least one gave that."""
    kinds = [set(report.failures) for report in outcome.sources]
    pages = [_PORTAL in each for each in kinds]
    # Where bytes came before, it must be all of them: one mirror with odd pages is no network.
    enough = all(pages) if any(report.bytes for report in outcome.sources) else any(pages)
    return any(pages) and enough and all(each <= {_PORTAL} | _NO_ANSWER for each in kinds)
