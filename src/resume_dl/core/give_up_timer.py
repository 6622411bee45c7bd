"""When a download without progress is given up: its clock, and what counts as progress."""

from __future__ import annotations


class GiveUpTimer:
    """Seconds on the injected clock. A file that changes at every request makes no progress, however much it moves."""

    def __init__(self) -> None:
        self._since = 0.0
        self._most_done = 0
        self._furthest = 0
        self._room_since: float | None = None

    def begin(self, now: float, done: int = 0) -> None:
        """Start anew, with ``done`` bytes on disk."""
        self._since = now
        self._most_done, self._furthest = done, 0

    def moved(self, now: float, *, done: int, came: int, position: int) -> None:
        """Bytes came. Progress is more on disk than ever, or a stream that runs further than ever over what we have."""
        if done > self._most_done or (came > 0 and position > self._furthest):
            self._most_done = max(self._most_done, done)
            self._furthest = max(self._furthest, position)
            self._since = now

    def note_room(self, now: float, *, waits: bool) -> None:
        """Stop the clock while others have the line: that is no failure of this file."""
        if self._room_since is not None:
            self._since += now - self._room_since
        self._room_since = now if waits else None

    def ends(self, seconds: float) -> float:
        """When ``seconds`` without progress are over."""
        return self._since + seconds
