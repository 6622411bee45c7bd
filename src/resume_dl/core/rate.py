"""A token bucket for ``--limit-rate``; pure: it computes the wait, and the worker sleeps."""

from __future__ import annotations


class TokenBucket:
    """Spends bytes at ``rate`` a second; idle time is not saved up beyond ``burst`` seconds."""

    def __init__(self, rate: float, now: float, burst: float = 0.1) -> None:
        self._rate = rate
        self._burst = burst
        self._paid_until = now

    def take(self, count: int, now: float) -> float:
        """Spend ``count`` bytes; returns how many seconds to wait before the next ones are read."""
        self._paid_until = max(self._paid_until, now - self._burst) + count / self._rate
        return max(0.0, self._paid_until - now)


class SpeedMeter:
    """Bytes a second as an exponentially fading average."""

    def __init__(self, half_life: float, now: float) -> None:
        self._half_life = half_life
        self._since = now
        self._weight = 0.0
        self._bytes = 0.0

    def add(self, count: int, now: float) -> None:
        """Take ``count`` bytes received since the last call."""
        elapsed = max(0.0, now - self._since)
        fade: float = 0.5 ** (elapsed / self._half_life)
        self._bytes = self._bytes * fade + count
        self._weight = self._weight * fade + elapsed
        self._since = now

    @property
    def speed(self) -> float | None:
        """Bytes a second when bytes were last received; None before there is enough time to measure."""
        return self._bytes / self._weight if self._weight > 0.05 else None

    def at(self, now: float) -> float | None:
        """Bytes a second with the silence since then counted."""
        elapsed = max(0.0, now - self._since)
        fade: float = 0.5 ** (elapsed / self._half_life)
        weight = self._weight * fade + elapsed
        return self._bytes * fade / weight if weight > 0.05 else None
