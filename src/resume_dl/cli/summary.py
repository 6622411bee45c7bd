"""The result of a run for the user: finished files, then unfinished ones, then totals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resume_dl.cli.run import say
from resume_dl.model.units import show_bytes
from resume_dl.progress.console import duration_text
from resume_dl.shell_commands import command_line

if TYPE_CHECKING:
    from resume_dl.transfer.report import ArtifactResult, RunResult

_LAST = {"planned": 1, "stopped": 2, "failed": 3}
"""Outcome -> its place in the list: what needs attention comes last, where it stays on the screen."""


def say_summary(result: RunResult, *, verbose: bool = False) -> None:
    """A line for each file, and one for all of them; files that were cached are counted, and listed if ``verbose``."""
    shown = [each for each in result.artifacts if verbose or each.outcome != "cached"]
    for each in sorted(shown, key=lambda each: _LAST.get(each.outcome, 0)):
        say(_line(each))
    say(sums(result, "package"))
    say_indexes(result)
    if result.next_steps:
        say(f"To use exactly these files: {command_line(result.next_steps)}")


def say_indexes(result: RunResult) -> None:
    """A line for each channel: where its index is from, and why it is trusted."""
    if result.indexes:
        from resume_dl.model.index_report import index_lines

        for line in index_lines(result.indexes):
            say(line)


def say_files(result: RunResult) -> None:
    """The summary of ``get``: each file with its path."""
    for each in sorted(result.artifacts, key=lambda each: _LAST.get(each.outcome, 0)):
        where = each.artifact.filename if each.path is None else each.path
        say(f"{each.outcome:<10} {_size(each):>9}  {where}{_safe(each)}")
    say(sums(result, "file"))


def _size(each: ArtifactResult) -> str:
    return "?" if each.artifact.size is None else show_bytes(each.artifact.size)


def _line(each: ArtifactResult) -> str:
    artifact = each.artifact
    where = f"{artifact.channel}/{artifact.subdir}/{artifact.filename}"
    if artifact.kind != "conda":
        where = artifact.filename if each.path is None else str(each.path)
    return f"{each.outcome:<10} {_size(each):>9}  {where}{_safe(each)}"


def _safe(each: ArtifactResult) -> str:
    if each.is_still_packed:
        return "  (verified and safe on disk, not unpacked)"
    safe = 0 if each.error is None else each.error.resumable_bytes
    return f"  ({show_bytes(safe)} safe on disk)" if safe else ""


def sums(result: RunResult, noun: str) -> str:
    """``9 packages, 812.3 MB: 400.0 MB downloaded (3.2 MB/s), 6 cached (20.1 MB), 1 failed; 2 min 5 s``."""
    totals = result.as_json()["totals"]
    parts = []
    if totals["downloaded"]:
        seconds = result.transfer_seconds
        speed = f" ({show_bytes(round(totals['downloaded'] / seconds))}/s)" if seconds > 0 else ""
        parts.append(f"{show_bytes(totals['downloaded'])} downloaded{speed}")
    parts += [f"{show_bytes(totals[kind])} {kind}" for kind in ("resumed", "wasted") if totals[kind]]
    for outcome in ("cached", "left-out", "planned", "stopped", "failed"):
        found = [each for each in result.artifacts if each.outcome == outcome]
        if found:
            size = sum(each.artifact.size or 0 for each in found)
            safe = sum(each.error.resumable_bytes for each in found if each.error is not None)
            more = ([show_bytes(size)] if size else []) + ([f"{show_bytes(safe)} safe on disk"] if safe else [])
            of_these = f" ({', '.join(more)})" if more else ""
            parts.append(f"{len(found)} {outcome}{of_these}")
    count = totals["artifacts"]
    head = f"{count} {noun}{'' if count == 1 else 's'}"
    if totals["bytes"] or not count:  # else their sizes are not known
        head += f", {show_bytes(totals['bytes'])}"
    index = f"; index: {show_bytes(result.index_bytes)}" if result.index_bytes else ""
    return f"{head}{': ' if parts else ''}{', '.join(parts)}{index}; {duration_text(result.elapsed)}"
