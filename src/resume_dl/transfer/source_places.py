"""The sources of a file that may be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from resume_dl.model.access import Access
from resume_dl.model.artifact import Source
from resume_dl.model.channel_rules import EVERY_CHANNEL, ChannelRules
from resume_dl.model.mirror import MirrorTable
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.mirror_speeds import MirrorSpeeds
from resume_dl.transfer.blocks import Blocks


@dataclass(frozen=True, slots=True)
class Places:
    """The permitted mirrors, and what is sent to each; all mirrors and upstream by default."""

    table: MirrorTable
    upstream: bool = True
    only: frozenset[str] | None = None
    blocks: Blocks | None = None
    """Mirrors that have blocked us, which are left out."""
    rules: ChannelRules = EVERY_CHANNEL
    """The channels that conda may use; sources in other channels are left out."""
    access: Callable[[RedactedUrl], Access] = Access
    """How the user's conda would request an address."""
    speeds: MirrorSpeeds = field(default_factory=MirrorSpeeds)
    """What ``mirrors test`` has measured: the order of the sources."""

    def of(self, url: RedactedUrl) -> tuple[Source, ...]:
        """Return the sources of the file whose canonical address is ``url``, best first.

        An address outside of all known origins is its only source, even against the rules: the caller named it.
        """
        access = self.access(url)
        asked = access.url if access.private else url
        found = self.table.sources(asked, upstream=self.upstream, only=self.only, private=access.private)
        match = self.table.origin_of(asked.reveal())
        lone = match is None
        sources = tuple(
            replace(source, url=access.url, headers=access.headers) if source.url == asked else source
            for source in found
            if (lone and source.url == asked) or self.rules.permit_file(source.url)
        )
        kept = sources if self.blocks is None else self.blocks.allowed(sources)
        return kept if match is None else self.speeds.ordered(match[0], kept)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The mirrors left out so far because they have blocked us."""
        return () if self.blocks is None else self.blocks.left_out()
