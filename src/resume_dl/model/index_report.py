"""Report of one index in a run, for ``--json``, the final lines and manifests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Vouched(str, Enum):
    """Why an index is trusted; the values appear in ``--json`` and in manifests."""

    AUTHORITY = "authority"
    """The channel's authority, as the user's settings name it."""
    AGREEMENT = "agreement"
    """Two carriers of different operators state the same chosen records."""
    NAMED = "named"
    """The user named its source with --index-from."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """One index of a run: its form, size and age, and why it is trusted."""

    channel: str
    subdir: str
    authority: str
    """The authority's host."""
    form: str
    """``shards``, ``whole`` or ``kept``."""
    vouched: Vouched
    carried_by: tuple[str, ...]
    downloaded: int
    """Bytes received in this run."""
    age: float | None = None
    """Seconds since its source last confirmed it; None if unknown."""

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
        """The fields that do not depend on which mirrors answered, for a bundle's manifest."""
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
