"""The words for a row of ``mirrors test``, on the terminal and on the page. Pure."""

from __future__ import annotations

from resume_dl.diagnosis.mirror_row import CONDA, STALE_AFTER, MirrorReport, MirrorRow
from resume_dl.model.mirror import UPSTREAM
from resume_dl.model.units import show_age, show_bytes

_NAMES = {"pypi:simple": "pip's package index", "wheels:pytorch": "PyTorch's wheels"}


def heading(origin: str, platform: str) -> str:
    """The title of the rows of one origin and platform."""
    name = _NAMES.get(origin, origin.removeprefix(CONDA))
    return f"{name}, {platform}" if platform else name


def speed(row: MirrorRow) -> str:
    """The speed, or a dash."""
    return "-" if row.speed is None else f"{show_bytes(row.speed)}/s"


def failure(row: MirrorRow) -> str:
    """Why the file did not come, beginning with the kind unless the text says it."""
    text = row.text.removeprefix(f"{row.place.source.url.host}: ")
    return text or row.failure


def age(row: MirrorRow) -> str:
    """How old its index is, by the best evidence at hand."""
    if row.place.mirror == UPSTREAM:
        return "the origin"
    if row.behind is not None:
        return "up to date" if row.behind < _SAME else f"{show_age(row.behind)} behind"
    return "unknown"


def wait(row: MirrorRow) -> str:
    """The time to the first byte."""
    return "-" if row.first_byte is None else f"{row.first_byte:.2f} s"


def is_stale(row: MirrorRow) -> bool:
    """Whether its index is so old that new packages are missing."""
    return row.behind is not None and row.behind >= STALE_AFTER


def remarks(row: MirrorRow, now: float) -> list[str]:
    """What else is worth knowing; ``now`` in seconds since 1970."""
    found = [f"redirects to {row.host}"] if row.host else []
    if row.synced is not None:
        found.append(f"synchronised {show_age(max(0.0, now - row.synced))} ago, as it states")
    return found


def conclusion(report: MirrorReport) -> str:
    """What the rows come to, in a sentence."""
    best = max((row for row in report.rows if row.ok), key=lambda row: row.speed or 0.0, default=None)
    if best is None:
        return "no mirror works from here: resume-dl doctor looks for the reason"
    if best.speed is None:
        return "mirrors answer, but their files are too short to measure a speed"
    return f"fastest: {best.place.mirror}, {speed(best)}; downloads ask the fastest first for a week"


_SAME = 60.0
"""Seconds; two servers' dates for one file differ by less."""
