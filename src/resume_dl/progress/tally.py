"""The whole run in a few numbers, from what is told of each file. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from resume_dl.model.artifact import Artifact
from resume_dl.ports import ArtifactProgress

OVER = frozenset({"downloaded", "resumed", "cached", "failed"})


class Tally:
    """Sums over the files of the plan; counts in bytes. Files outside of it (indexes) are not summed."""

    def __init__(self) -> None:
        self._planned: dict[str, int | None] = {}
        self._latest: dict[str, ArtifactProgress] = {}
        self._total = 0
        self._cached = 0

    def plan(self, artifacts: Iterable[Artifact], total_bytes: int, cached_bytes: int) -> None:
        """Files to be summed; a second plan adds to the first."""
        self._planned.update({artifact.key: artifact.size for artifact in artifacts})
        self._total += total_bytes
        self._cached += cached_bytes

    def add(self, progress: ArtifactProgress) -> None:
        """The newest of one file."""
        if progress.key in self._planned:
            self._latest[progress.key] = progress

    @property
    def planned(self) -> bool:
        """Whether there is a plan with something in it."""
        return bool(self._planned)

    @property
    def total(self) -> int:
        """All bytes of the plan, with the sizes that became known only on the way."""
        learnt = sum(
            one.size or 0 for one in self._latest.values() if self._planned[one.key] is None and one.size is not None
        )
        return self._total + learnt

    @property
    def done(self) -> int:
        """Bytes on disk, those that were there before included; never more than ``total``."""
        return min(self.total, self._cached + sum(one.done for one in self._latest.values()))

    @property
    def before(self) -> int:
        """How many of ``done`` were not fetched by this run, and must not count as speed."""
        others = sum(one.done if one.state == "cached" else one.resumed for one in self._latest.values())
        return min(self.done, self._cached + others)

    @property
    def files(self) -> tuple[int, int]:
        """Files that are over (well or not), and all."""
        return sum(one.state in OVER for one in self._latest.values()), len(self._planned)
