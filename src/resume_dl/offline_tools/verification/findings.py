"""Findings of a verification, for programs and as lines for people."""

from __future__ import annotations

from typing import Any, NamedTuple

from resume_dl.byte_units import show_bytes
from resume_dl.offline_tools.console import shown

_MOST_OF_A_KIND = 20
"""Warnings shown of each kind: thousands of foreign files would hide the verdict."""

EMPTY = "is empty, as an unset variable is; leave the option out if nothing is to be compared"


class UsageError(ValueError):
    """Conflicting or invalid options; says nothing about the bundle."""


class Problem(NamedTuple):
    """A problem with one file, for programs and people."""

    path: str
    """Path below the bundle, as found and unescaped; print ``text`` instead."""
    what: str
    """``missing``, ``truncated``, ``damaged``, ``swapped``, ``added``, ``unsafe``, ``unfinished``, ``untrusted``,
    ``newer`` (made by a newer resume-dl), or ``machine``: a fault of this machine's disk or programs."""
    text: str
    hint: str


class Report:
    """The result of a verification; the bundle may be used only if ``problems`` is empty."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.manifest: dict[str, Any] | None = None
        """The parsed manifest; None if it is missing, damaged or hostile."""
        self.manifest_sha256 = ""
        """Digest of the manifest found; empty if missing."""
        self.trust = "accidents"
        """``signature``, ``digest``, or ``accidents``: only accidental damage is detected."""
        self.signer = ""
        """The signer's name, if ``trust`` is ``signature``."""
        self.verified: set[str] = set()
        """Paths of the verified files; ``bytes`` is their total size."""
        self.bytes = 0
        self.unlooked: list[str] = []
        """Paths of .conda packages that could not be inspected: this Python has no zstandard."""

    @property
    def exit_code(self) -> int:
        """0 valid, 4 invalid, 5 if this machine failed."""
        if any(problem.what == "machine" for problem in self.problems):
            return 5
        return 4 if self.problems else 0

    def add(self, path: str, what: str, text: str, hint: str) -> None:
        """Add a problem; ``text`` follows the path."""
        self.problems.append(Problem(path, what, f"{shown(path)}: {text}", hint))

    def warn(self, path: str, text: str) -> None:
        """Add a warning."""
        self.warnings.append(Problem(path, "warning", f"{shown(path)}: {text}", ""))

    def add_unreadable(self, path: str, error: OSError) -> None:
        """Add a problem: this machine cannot read a file."""
        hint = "check this disk and the file's permissions; copy the file again if it is readable at its origin"
        self.add(path, "machine", f"cannot be read: {shown(error.strerror or str(error))}", hint)


def lines(report: Report) -> list[str]:
    """The report as lines for people, problems first; a shared hint follows the last of its problems."""
    found = [f"warning: {text}" for text in _few(report.warnings)]
    for number, problem in enumerate(report.problems):
        found.append(f"error: {problem.text}")
        last = number + 1 == len(report.problems) or report.problems[number + 1].hint != problem.hint
        if problem.hint and last:
            found.append(f"  {problem.hint}")
    if report.manifest_sha256:
        found.append(f"manifest sha256: {report.manifest_sha256}")
    if report.problems:
        verdict = "must not be used" if report.exit_code == 4 else "this machine failed"
        found.append("{}: {}".format(verdict, _count(len(report.problems), "problem")))
        return found
    if report.unlooked:
        packages = _count(len(report.unlooked), ".conda package")
        found.append(f"warning: {packages} not inspected: this Python has no zstandard, conda's own has")
    if report.trust == "signature":
        found.append(f"trust: signed by {shown(report.signer)}")
    elif report.trust == "digest":
        found.append("trust: the manifest has the given digest")
    else:
        found.append(
            "trust: only accidental damage is detected: an attacker could change the list too. Against that, compare "
            "the digest that `bundle create` printed (--manifest-sha256) or check a signature (--allowed-signers)"
        )
    found.append("verified: {}, {}".format(_count(len(report.verified), "file"), show_bytes(report.bytes)))
    return found


def _few(warnings: list[Problem]) -> list[str]:
    """The first warnings of each kind, and the number of the others."""
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
