"""Values of a vote: comparisons and verdicts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compare ``[start, end)`` from ``source`` with the disk."""

    source: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CorruptSources:
    """These sources served wrong bytes: forget ``ranges``, quarantine ``owners``.

    Without ``ranges`` only answers were wrong, and the digest need not be checked again. Not ``proven``: a guess
    between two, to be taken back if the digest is wrong still and a further vote finds no corrupt source.
    """

    owners: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]
    proven: bool = True


@dataclass(frozen=True, slots=True)
class Agreement:
    """``sources`` do not contradict each other: the record is wrong. ``complete``: every byte was compared."""

    sources: tuple[int, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class Unknown:
    """No source is left to compare with. ``suspects``: the bytes that no second source has confirmed."""

    suspects: tuple[tuple[int, int], ...]


Verdict = CorruptSources | Agreement | Unknown
