"""Where a file may be asked for."""

from __future__ import annotations

from dataclasses import dataclass

from resume_dl.app.blocks import Blocks
from resume_dl.model.artifact import Source
from resume_dl.model.mirror import MirrorTable
from resume_dl.model.url import RedactedUrl


@dataclass(frozen=True, slots=True)
class Places:
    """Which sources may be used: every mirror and upstream, or fewer."""

    table: MirrorTable
    upstream: bool = True
    only: frozenset[str] | None = None
    blocks: Blocks | None = None
    """Mirrors that have blocked us are left out."""

    def of(self, url: RedactedUrl) -> tuple[Source, ...]:
        """The sources of the file whose canonical address is ``url``, best first."""
        sources = self.table.sources(url, upstream=self.upstream, only=self.only)
        return sources if self.blocks is None else self.blocks.allowed(sources)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The mirrors that were left out so far because they had blocked us."""
        return () if self.blocks is None else self.blocks.left_out()
