"""What became of one index in a run, for ``--json``, the final lines and manifests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Vouched(str, Enum):
    """Why an index is believed; the values stand in ``--json`` and in manifests."""

    AUTHORITY = "authority"
    """The place that the user's settings name gave it."""
    AGREEMENT = "agreement"
    """Two carriers of different operators state the chosen records alike."""
    NAMED = "named"
    """The user named its source as one to be believed."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """One index of a run: what it came to, and why it is believed."""

    channel: str
    subdir: str
    authority: str
    """The host that decides."""
    form: str
    """``shards``, ``whole`` or ``kept``."""
    vouched: Vouched
    carried_by: tuple[str, ...]
    downloaded: int
    """Bytes that came in this run."""
    age: float | None = None
    """Seconds since its source last said that it is current; None where that is not known."""

    def as_json(self) -> dict[str, Any]:
        """The object in ``indexes``."""
        return {
            "channel": self.channel,
            "subdir": self.subdir,
            "authority": self.authority,
            "form": self.form,
            "vouched": self.vouched.value,
            "carried_by": list(self.carried_by),
            "bytes": self.downloaded,
            "age_seconds": None if self.age is None else round(self.age),
        }

    def as_vouched(self) -> dict[str, str]:
        """What stays the same where other mirrors of equal standing answer: for a bundle's manifest."""
        return {"channel": self.channel, "subdir": self.subdir, "vouched": self.vouched.value}


def index_lines(reports: Iterable[IndexReport]) -> list[str]:
    """``index: conda-forge, conda.anaconda.org (whole), carried by tuna``: a line for each channel."""
    of: dict[tuple[str, str, Vouched], list[IndexReport]] = {}
    for report in reports:
        of.setdefault((report.channel, report.authority, report.vouched), []).append(report)
    lines = []
    for (channel, authority, vouched), those in of.items():
        forms = " and ".join(dict.fromkeys(each.form for each in those))
        names = ", ".join(dict.fromkeys(name for each in those for name in each.carried_by))
        if vouched is Vouched.NAMED:
            lines.append(f"index: {channel}, {names} ({forms}), as --index-from says")
        elif vouched is Vouched.AGREEMENT:
            lines.append(f"index: {channel}, on which {names.replace(', ', ' and ')} agree ({forms})")
        else:
            carried = "" if names in {"", "upstream"} or authority == channel else f", carried by {names}"
            lines.append(f"index: {channel}, {authority or 'this machine'} ({forms}){carried}")
    return lines
