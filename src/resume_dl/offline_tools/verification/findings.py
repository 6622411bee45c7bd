"""What a verification came to, for a program and as lines for people."""

from __future__ import annotations

from typing import Any, NamedTuple

from resume_dl.byte_units import show_bytes
from resume_dl.offline_tools.console import shown

_MOST_OF_A_KIND = 20
"""Warnings that are told; 5,000 files of somebody's own would hide the verdict."""

EMPTY = "is empty, as a variable that nobody has set; leave the option out if nothing is to be compared"


class UsageError(ValueError):
    """The caller's options do not go together; nothing is said of the bundle."""


class Problem(NamedTuple):
    """What is wrong with one file, for a program and for people."""

    path: str
    """Below the bundle, as it was found; print ``text``, in which nothing unprintable is left."""
    what: str
    """``missing``, ``truncated``, ``damaged``, ``swapped``, ``added``, ``unsafe``, ``unfinished``, ``untrusted``,
    ``newer`` (made by a newer resume-dl), or ``machine``: this machine's disk or programs, and not the bundle."""
    text: str
    hint: str


class Report:
    """What a verification came to; whole and to be used only where ``problems`` is empty."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.manifest: dict[str, Any] | None = None
        """The parsed manifest; None where it is missing, damaged or hostile."""
        self.manifest_sha256 = ""
        """Of the manifest that is there; empty where none is."""
        self.trust = "accidents"
        """``signature``, ``digest``, or ``accidents``: whoever can change the bundle can change its manifest too."""
        self.signer = ""
        """Who signed it, where ``trust`` is ``signature``."""
        self.verified: set[str] = set()
        """Paths of the files that were hashed and found right, with all their ``bytes``."""
        self.bytes = 0
        self.unlooked: list[str] = []
        """Paths of .conda packages that were to be looked into, by a Python that cannot unpack them."""

    @property
    def exit_code(self) -> int:
        """0 whole, 4 bytes that cannot be trusted, 5 where this machine failed."""
        if any(problem.what == "machine" for problem in self.problems):
            return 5
        return 4 if self.problems else 0

    def add(self, path: str, what: str, text: str, hint: str) -> None:
        """One more problem; ``text`` goes on after the path."""
        self.problems.append(Problem(path, what, f"{shown(path)}: {text}", hint))

    def warn(self, path: str, text: str) -> None:
        """One more warning."""
        self.warnings.append(Problem(path, "warning", f"{shown(path)}: {text}", ""))

    def add_unreadable(self, path: str, error: OSError) -> None:
        """One more problem: this machine cannot read a file."""
        hint = "look at this disk and the file's permissions; copy it again if it can be read where it came from"
        self.add(path, "machine", f"cannot be read: {shown(error.strerror or str(error))}", hint)


def lines(report: Report) -> list[str]:
    """The report as lines for people, problems first; a hint that several share stands once, after the last of them."""
    found = [f"warning: {text}" for text in _few(report.warnings)]
    for number, problem in enumerate(report.problems):
        found.append(f"error: {problem.text}")
        last = number + 1 == len(report.problems) or report.problems[number + 1].hint != problem.hint
        if problem.hint and last:
            found.append(f"  {problem.hint}")
    if report.manifest_sha256:
        found.append(f"manifest sha256: {report.manifest_sha256}")
    if report.problems:
        verdict = "not to be used" if report.exit_code == 4 else "this machine failed"
        found.append("{}: {}".format(verdict, _count(len(report.problems), "problem")))
        return found
    if report.unlooked:
        packages = _count(len(report.unlooked), ".conda package")
        found.append(f"warning: {packages} not looked into: this Python has no zstandard, conda's own has")
    if report.trust == "signature":
        found.append(f"trust: signed by {shown(report.signer)}")
    elif report.trust == "digest":
        found.append("trust: its manifest has the digest that you gave")
    else:
        found.append(
            "trust: only accidents are caught; who can change this bundle can change its list. Against that, compare "
            "the digest that `bundle create` printed (--manifest-sha256) or check a signature (--allowed-signers)"
        )
    found.append("verified: {}, {}".format(_count(len(report.verified), "file"), show_bytes(report.bytes)))
    return found


def _few(warnings: list[Problem]) -> list[str]:
    """Of each kind of warning the first ones, and how many more there are."""
    texts: list[str] = []
    kinds: dict[str, int] = {}
    for warning in warnings:
        kind = warning.text[len(shown(warning.path)) + 2 :]
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] <= _MOST_OF_A_KIND:
            texts.append(warning.text)
    more = ((count - _MOST_OF_A_KIND, kind) for kind, count in kinds.items() if count > _MOST_OF_A_KIND)
    return texts + [f"and {count:,} more, of each: {kind}" for count, kind in more]


def _count(number: int, noun: str) -> str:
    return "{:,} {}{}".format(number, noun, "" if number == 1 else "s")
