"""The parts of one download, wired: bytes from connections onto the disk, whatever state the download is in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from resume_dl.core.actions import Action, DiscardPieces
from resume_dl.core.arrivals import Arrivals
from resume_dl.core.byte_coverage import ByteCoverage
from resume_dl.core.causes import Causes, account_of_all
from resume_dl.core.checkpointing import Checkpointing
from resume_dl.core.events import Prepared
from resume_dl.core.give_up_timer import GiveUpTimer
from resume_dl.core.policy import Policy
from resume_dl.core.ranges import RangeSet
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.scheduling.connection import Connection
from resume_dl.core.scheduling.connection_scheduler import ConnectionScheduler
from resume_dl.core.scheduling.connections import Connections
from resume_dl.core.scheduling.leases import NO_END
from resume_dl.core.sources import SourceState
from resume_dl.core.verification.repair import Repair
from resume_dl.core.version_binding import VersionBinding
from resume_dl.model.http import CacheHeaders


class FileTransfer:
    """The parts of a download, which ``Download`` moves through its states and others may read.

    ``size``: None if no record states one. ``bound_by_digest``: False if there is no digest; then one source and its
    validator bind the whole file. ``thorough``: if sources agree against the record, compare every byte.
    ``replaceable``: the caller has alternatives to these sources and waits for their first byte no longer than
    ``authority_give_up``. ``last_chance``: the alternatives have failed; wait for ``unreached_give_up``. ``jitter``
    returns numbers in [0, 1).
    """

    def __init__(
        self,
        *,
        size: int | None,
        sources: Sequence[SourceState],
        budget: Budget,
        policy: Policy,
        jitter: Callable[[], float],
        bound_by_digest: bool = True,
        thorough: bool = True,
        replaceable: bool = False,
        last_chance: bool = False,
    ) -> None:
        self.sources = own = list(sources)
        self._out: list[Action] = []
        self._journaled = size is None or size >= policy.journal_from  # as passed to the store when it opens the file
        self._digest = bound_by_digest
        self._budget = budget
        self._policy = policy
        self._coverage = ByteCoverage()
        self._inflight = Connections(own, budget, policy)
        self._scheduler = ConnectionScheduler(own, budget, policy, self._coverage, self._inflight)
        self._repair = Repair(
            own,
            budget,
            policy,
            coverage=self._coverage,
            scheduler=self._scheduler,
            connections=self._inflight,
            thorough=thorough,
            size_is_stated=size is not None,
        )
        self._give_up = GiveUpTimer(own, budget, policy, replaceable=replaceable, last_chance=last_chance)
        self._checkpointing = Checkpointing(policy, journaled=self._journaled, by_digest=bound_by_digest)
        self._binding = VersionBinding(own, policy, by_digest=bound_by_digest)
        self._arrivals = Arrivals(
            own,
            budget,
            policy,
            jitter,
            stated_size=size,
            coverage=self._coverage,
            connections=self._inflight,
            checkpointing=self._checkpointing,
            give_up=self._give_up,
            binding=self._binding,
        )
        for source in own:
            budget.host(source.host, source.connections)

    # ------------------------------------------------------------------ what others may look at

    @property
    def size(self) -> int | None:
        """The file's size in bytes; None until a record or a source states it."""
        return self._arrivals.size

    @property
    def received(self) -> int:
        """Body bytes received in this run."""
        return self._arrivals.received

    @property
    def done(self) -> RangeSet:
        """The trusted ranges on disk."""
        return self._coverage.done

    @property
    def connections(self) -> dict[int, Connection]:
        """The requests in flight."""
        return self._inflight.live

    @property
    def complete(self) -> bool:
        """Whether every byte is on disk."""
        size = self._arrivals.size
        return size is not None and self._coverage.done.covers(0, size)

    @property
    def validator(self) -> str | None:
        """The validator for If-Range, for a file without a digest; None if its source sent none."""
        return self._binding.validator

    @property
    def said(self) -> CacheHeaders:
        """The validator for later conditional requests; None if its source sent none."""
        return self._binding.said

    @property
    def resumed(self) -> int:
        """Bytes of earlier runs that are still trusted."""
        return self._coverage.resumed

    @property
    def kept(self) -> int:
        """Body bytes received in this run that are still trusted."""
        return self._coverage.kept

    def kept_of(self, source: int) -> int:
        """The same, of one source by its index."""
        return self._coverage.kept_of(source)

    @property
    def wasted(self) -> int:
        """Body bytes received in this run and thrown away."""
        return self.received - self.kept

    @property
    def resumable_bytes(self) -> int:
        """Number of bytes that a later run will trust."""
        bound = self._digest or (self.validator is not None and self.size is not None)
        return self.done.total if bound and self._journaled else 0

    # ------------------------------------------------------------------ for the states

    def _resume(self, event: Prepared, now: float) -> list[Action]:
        """Take over the bytes of an earlier run, if they can be continued."""
        usable = self.size is None or event.size is None or event.size == self.size
        usable = usable and self._binding.resume(event)
        if not event.ranges:
            return []  # without bytes, the size or validator may be that of an older file
        if not usable:
            return [DiscardPieces()]
        if event.size is not None:
            self._arrivals.size = event.size
        self._coverage.resume(event.ranges, event.owners, [source.label for source in self.sources])
        if self.size is not None:
            self._coverage.forget([(self.size, NO_END)])
        self._give_up.begin(now, self.resumed)
        return []

    def _allowed(self) -> list[SourceState]:
        """The sources that may be used, now or later; those of a distrusted host only if there are no others."""
        if self._repair.solo is not None:
            solo = self.sources[self._repair.solo]
            return [solo] if solo.usable and solo.failures_in_a_row < self._policy.solo_failures else []
        if self._binding.source is not None:
            return [self.sources[self._binding.source]]
        usable = [source for source in self.sources if source.usable]
        return [source for source in usable if not self._budget.host(source.host).distrusted] or usable

    def _note_room(self, now: float) -> None:
        """Stop the give-up timer while others' connections are all that keeps us, and they get answers."""
        waits = False
        if not self.connections:
            hosts = [self._budget.host(source.host) for source in self._allowed() if source.not_before <= now]
            waits = any(host.not_before <= now and (host.reached or not host.active) for host in hosts)
        self._give_up.note_room(now, waits=waits)

    def _account_of_all(self, now: float) -> Causes:
        return account_of_all(self.sources, self.connections.values(), now)
