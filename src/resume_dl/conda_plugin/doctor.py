"""The check of ``conda doctor`` for damaged packages and unfinished downloads in conda's package caches."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from conda.plugins.types import CondaHealthCheck

from resume_dl.app.health import Finding, Health, Trouble, examine
from resume_dl.conda_plugin import compat
from resume_dl.model.units import show_bytes
from resume_dl.progress.console import Console

OK_MARK, X_MARK = "\N{WHITE HEAVY CHECK MARK}", "\N{CROSS MARK}"
"""The marks that conda's own checks print."""
_WHAT = {
    Trouble.DAMAGED: "some of its files are missing or have the wrong size",
    Trouble.HALF_EXTRACTED: "partly extracted",
}


def health_check() -> CondaHealthCheck:
    """Make the check with the fields that this conda supports: 24 and 25 have a name and an action only."""
    known = getattr(CondaHealthCheck, "__dataclass_fields__", {})
    more = {"summary": "Detect damaged packages and unfinished downloads in the package caches"}
    return CondaHealthCheck(name="package-cache", action=report, **(more if "summary" in known else {}))


def report(prefix: str, verbose: bool) -> None:  # noqa: FBT001 - conda calls it so
    """Print the findings to stdout, as conda's checks do; with ``verbose`` every archive is read and hashed."""
    del prefix
    health = examine(compat.package_caches(), hashing=verbose)
    console = Console(sys.stdout)
    for line in (*describe(health, verbose=verbose), ""):
        console.line(line)


def describe(health: Health, *, verbose: bool) -> list[str]:
    """The report's lines."""
    looked = _count(health.packages, "package")
    if verbose:
        looked += f", {_count(health.hashed, 'archive')} hashed"
    if not health.damage:
        lines = [f"{OK_MARK} The package cache has no damaged packages ({looked})."]
        return lines + _unfinished(health.unfinished, verbose=verbose)
    return [
        f"{X_MARK} Package cache ({looked}):",
        "",
        *(f"  {each.path}: {_what(each)}" for each in health.damage),
        "",
        "  Remove what is named here, an archive together with the folder of the same name: conda downloads it",
        "  again when it is needed. Environments that were created from it may be damaged too.",
        *_unfinished(health.unfinished, verbose=verbose),
    ]


def _what(found: Finding) -> str:
    if found.trouble is Trouble.WRONG_SIZE:
        return f"has {found.actual} bytes, its record says {found.expected}"
    if found.trouble is Trouble.WRONG_DIGEST:
        return f"has {found.actual}, its record says {found.expected}"
    return _WHAT[found.trouble]


def _unfinished(found: Sequence[Finding], *, verbose: bool) -> list[str]:
    if not found:
        return []
    kept = show_bytes(sum(_bytes(each) for each in found))
    lines = ["", f"  {_count(len(found), 'unfinished download')}, {kept}; run the same command again to continue."]
    if any(each.trouble is Trouble.PARTIAL for each in found):
        lines.append("  Files that end in .partial are conda's own; remove them only while conda is not running.")
    if any(each.trouble is not Trouble.PARTIAL for each in found):
        lines.append("  `conda resume-dl status` lists downloads of resume-dl, `conda resume-dl clean` removes them.")
    if verbose:
        lines += [f"  {show_bytes(_bytes(each)):>9}  {each.path}{_busy(each)}" for each in found]
    return lines


def _bytes(found: Finding) -> int:
    return found.actual if isinstance(found.actual, int) else 0


def _busy(found: Finding) -> str:
    return "  (in use by another process)" if found.busy else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
