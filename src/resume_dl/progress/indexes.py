"""All channel indexes of a run as one line of progress. Pure."""

from __future__ import annotations

from resume_dl.model.units import show_bytes, show_part
from resume_dl.ports import ArtifactProgress
from resume_dl.progress.tally import OVER, WELL


class IndexTally:
    """Sums over the files of indexes, whose progress has ``index``; counts in bytes.

    A file that is missing or unchanged is no longer counted.
    """

    def __init__(self) -> None:
        self._files: dict[str, ArtifactProgress] = {}

    def add(self, progress: ArtifactProgress) -> None:
        """Update one file."""
        if progress.state in OVER - WELL:
            self._files.pop(progress.key, None)
        elif progress.index:
            self._files[progress.key] = progress

    @property
    def active(self) -> bool:
        """Whether one of them is not finished."""
        return any(file.state not in OVER for file in self._files.values())

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels of the indexes."""
        return tuple(dict.fromkeys(file.index for file in self._files.values()))

    @property
    def done(self) -> int:
        """Bytes on disk."""
        return sum(file.done for file in self._files.values())

    @property
    def fetched(self) -> int:
        """Bytes fetched in this run."""
        return sum(max(0, file.done - file.resumed) for file in self._files.values())

    @property
    def total(self) -> int | None:
        """The sum of sizes; None while one is unknown."""
        sizes = [file.size for file in self._files.values()]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def lines(self, speed: float | None = None) -> tuple[str, ...]:
        """``index of conda-forge: 1.9 of 2.2 MB, 310.0 kB/s``, and shorter and shorter forms."""
        counts, waits = show_part(self.done, self.total), next(filter(None, map(_wait, self._files.values())), "")
        if waits:
            return f"{self.title}: {waits}", f"index: {waits}"
        if not self.done:
            return f"{self.title}: asking", "index: asking"
        shorter = f"{self.title}: {counts}", f"index: {counts}"
        return shorter if speed is None else (f"{shorter[0]}, {show_bytes(speed)}/s", *shorter)

    @property
    def title(self) -> str:
        """``index of conda-forge``, ``index of 3 channels``."""
        names = self.channels
        return f"index of {' and '.join(names) if len(names) < 3 else f'{len(names)} channels'}"


def _wait(file: ArtifactProgress) -> str:
    return (file.note or "waits for another process") if file.state == "locked" else ""
