"""One request in flight, as the core sees it."""

from __future__ import annotations

from dataclasses import dataclass

from resume_dl.core.actions import Mode
from resume_dl.core.rate import SpeedMeter
from resume_dl.core.scheduling.leases import NO_END, Lease


@dataclass(slots=True)
class Connection:
    """``position``: its stream is written (or compared) up to here. Speeds in bytes a second."""

    source: int
    host: str
    lease: Lease
    opened_at: float
    last_byte_at: float
    position: int
    meter: SpeedMeter
    patience: float
    """Its answer is waited for so many seconds."""
    norm: float | None = None
    """What its host's connections gave when it was opened."""
    mode: Mode = Mode.WRITE
    received: int = 0
    answered: bool = False
    closing: bool = False
    stalled: bool = False
    shorten_to: int | None = None
    """The requested end of its lease, until it has reported where it ends."""
    spent: bool = False
    """It had got beyond that already: there is nothing more to take from it."""
    held: bool = False
    """A duplicate whose range is all in memory."""
    writing: bool = False
    """A duplicate that has won."""
    doubted_at: float | None = None
    """When the process awoke; None once bytes have been received since then."""
    peak: float = 0.0
    slow_since: float | None = None
    slow: bool = False
    """Closed because it had become slow."""

    def end(self, size: int | None) -> int:
        """Where its lease ends."""
        end = NO_END if self.lease.end is None else self.lease.end
        return end if size is None else min(end, size)

    def finished(self, size: int | None) -> bool:
        """Whether it has written its whole lease; its response may not have ended yet."""
        return self.mode is Mode.WRITE and self.answered and self.position >= self.end(size)

    def silent(self, now: float, patience: float) -> bool:
        """Whether its response has been silent for ``patience`` seconds."""
        return self.answered and now - self.last_byte_at >= patience

    def speed(self, now: float, patience: float) -> float | None:
        """The current speed; None while it is too new, 0 if its response has been silent for ``patience`` seconds."""
        if self.silent(now, patience):
            return 0.0
        return self.meter.at(now) if self.received else None
