"""The engine as use cases see it: detects blocks and login pages across files, and explains them in errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from resume_dl.core.failures import FailureKind
from resume_dl.engine.engine import Engine
from resume_dl.engine.job import Job, Outcome
from resume_dl.errors import CaptivePortalError, SourcesExhaustedError
from resume_dl.ports import Reporter, Transport
from resume_dl.transfer.blocks import Blocks
from resume_dl.transfer.run_notes import RunNotes

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
"""How other addresses fail behind a login page: no answer, or a certificate of the network's own."""


class WatchedEngine:
    """Wraps one engine; call ``finish`` once, when the command ends."""

    def __init__(self, engine: Engine, blocks: Blocks, reporter: Reporter, notes: RunNotes | None = None) -> None:
        self._engine = engine
        self._notes = notes or RunNotes()
        self._blocks = blocks
        self._reporter = reporter

    @property
    def transport(self) -> Transport:
        """The engine's transport, for small requests that share its connections."""
        return self._engine.transport

    def run(self, jobs: Sequence[Job], on_done: Callable[[Outcome], None] | None = None) -> list[Outcome]:
        """Run ``Engine.run``, and note blocks and unfinished downloads."""
        self._blocks.warn_left_out(self._reporter)
        ended: list[Outcome] = []

        def done(outcome: Outcome) -> None:
            explained = self._explained(outcome)
            self._blocks.record([explained])
            ended.append(explained)
            if on_done is not None:
                on_done(explained)

        with self._notes.during(jobs):
            self._engine.run(jobs, done)
        order = {job.artifact.key: number for number, job in enumerate(jobs)}
        return sorted(ended, key=lambda outcome: order[outcome.artifact.key])

    def finish(self) -> None:
        """Save which mirrors have blocked us."""
        self._blocks.save(self._reporter)

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
            error.hint = f"every mirror that has it blocked us recently; to try one again: --mirror {names[0]}"
        return outcome


def _is_portal(outcome: Outcome) -> bool:
    """Whether at least one source served a web page, and none served anything else."""
    kinds = [set(report.failures) for report in outcome.sources]
    pages = [_PORTAL in each for each in kinds]
    # If bytes arrived before, all sources must serve pages: a single one does so for reasons of its own.
    enough = all(pages) if any(report.bytes for report in outcome.sources) else any(pages)
    return any(pages) and enough and all(each <= {_PORTAL} | _NO_ANSWER for each in kinds)
