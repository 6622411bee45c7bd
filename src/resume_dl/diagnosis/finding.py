"""The result of one check. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Status(Enum):
    """``NOTE``: worth knowing, downloads work; ``PROBLEM``: something fails or is unsafe until it is corrected."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """``name``: of the check, a stable word; ``text``: one sentence; ``command``: corrects it, empty if none does."""

    name: str
    status: Status
    text: str
    command: str = ""


def ok(name: str, text: str) -> Finding:
    """A check without findings; ``text`` says what was found."""
    return Finding(name, Status.OK, text)


def note(name: str, text: str, command: str = "") -> Finding:
    """See Status."""
    return Finding(name, Status.NOTE, text, command)


def problem(name: str, text: str, command: str = "") -> Finding:
    """See Status."""
    return Finding(name, Status.PROBLEM, text, command)
