"""When a download without progress is given up: its clock, what counts as progress, and how long it waits."""

from __future__ import annotations

from collections.abc import Sequence

from resume_dl.core.policy import Policy
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.sources import SourceState


class GiveUpTimer:
    """Seconds on the injected clock. A file that changes at every request makes no progress, however much it moves.

    ``replaceable``, ``last_chance``: see ``Download``.
    """

    def __init__(
        self, sources: Sequence[SourceState], budget: Budget, policy: Policy, *, replaceable: bool, last_chance: bool
    ) -> None:
        self._sources = sources
        self._budget = budget
        self._policy = policy
        self._replaceable = replaceable
        self._last_chance = last_chance
        self._came = False
        self._since = 0.0
        self._most_done = 0
        self._furthest = 0
        self._room_since: float | None = None

    # ------------------------------------------------------------------ the clock

    def begin(self, now: float, done: int = 0) -> None:
        """Restart, with ``done`` bytes on disk."""
        self._since = now
        self._most_done, self._furthest = done, 0

    def moved(self, now: float, host: str, *, done: int, came: int, position: int) -> None:
        """Take received bytes. Progress: more bytes on disk, or a longer stream from 0, than ever."""
        if came > 0 and not self._came:
            self._came = True
            self._budget.network.came(host)
        if done > self._most_done or (came > 0 and position > self._furthest):
            self._most_done = max(self._most_done, done)
            self._furthest = max(self._furthest, position)
            self._since = now

    def note_room(self, now: float, *, waits: bool) -> None:
        """Stop the clock while others have the line: that is no failure of this file."""
        if self._room_since is not None:
            self._since += now - self._room_since
        self._room_since = now if waits else None

    # ------------------------------------------------------------------ how long

    def deadline(self) -> float:
        """When the download is given up unless there is progress before."""
        patience = self._policy.give_up_after
        if not self.reached:
            silent = any(self._budget.host(source.host).silent for source in self._sources if source.usable)
            longest = min(self._policy.silent_give_up, patience) if silent else 0.0
            patience = max(self._policy.unreached_give_up, longest)
        if self._is_hurried and self._last_chance:
            patience = min(patience, self._policy.unreached_give_up)
        elif self._is_hurried:
            replaced = self._budget.network.is_given_up(self._hosts)
            patience = 0.0 if replaced else min(patience, self._policy.authority_give_up)
        return min(self._since + patience, self._budget.network.ends(self._hosts, self._policy))

    def passed(self) -> None:
        """Handle the deadline: other files of the run no longer wait for the same hosts."""
        if self._is_hurried:
            self._budget.network.give_up(self._hosts)

    @property
    def no_network(self) -> bool:
        """Whether no host of this file can be resolved, and nothing has answered in this run."""
        return self._budget.network.is_missing(self._hosts)

    @property
    def reached(self) -> bool:
        """Whether any source that is still of use has answered in this run."""
        return any(self._budget.host(source.host).reached for source in self._sources if source.usable)

    @property
    def _hosts(self) -> set[str]:
        """The hosts of the sources that may still be used."""
        return {source.host for source in self._sources if source.usable}

    @property
    def _is_hurried(self) -> bool:
        """Whether the time for the first byte is short, because alternatives exist or have failed."""
        return (self._replaceable or self._last_chance) and not self._came
