"""Origins, and the mirrors that carry them: which URLs hold the same bytes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Mirror:
    """One mirror site; ``carries`` maps an origin's name to the base URL at this mirror (no trailing slash)."""

    name: str
    title: str = ""
    home: str = ""
    connections: int | None = None
    status: str = "active"
    carries: Mapping[str, str] = field(default_factory=dict)
