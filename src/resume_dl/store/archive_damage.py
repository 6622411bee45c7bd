"""Where a whole archive with a wrong digest is wrong, by the format's own checksums."""

from __future__ import annotations

from pathlib import Path


def damaged_ranges(path: Path, filename: str) -> tuple[tuple[int, int], ...] | None:  # noqa: ARG001
    """Suspect ranges; None where the format cannot tell."""
    return None
