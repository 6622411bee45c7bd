"""The result of a run for the user: finished files, then unfinished ones, then totals, then the command to type."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from resume_dl.cli.page import Page, page_of
from resume_dl.cli.run import say, say_shown
from resume_dl.model.mirror import GIVEN, UPSTREAM
from resume_dl.model.units import show_bytes, show_part
from resume_dl.progress.colours import Tone
from resume_dl.progress.console import duration_text, presentable
from resume_dl.shell_commands import command_line

if TYPE_CHECKING:
    from resume_dl.transfer.report import ArtifactResult, RunResult

_LAST = {"planned": 1, "stopped": 2, "failed": 3}
"""Outcome -> its place in the list: what needs attention comes last, where it stays on the screen."""
_NAMED = 4
"""Most mirrors in one line."""


def say_summary(result: RunResult, *, verbose: bool = False) -> None:
    """A line for each file, and one for all of them; files that were cached are counted, and listed if ``verbose``."""
    page = page_of(sys.stdout)
    _say_list([each for each in result.artifacts if verbose or each.outcome != "cached"], _names, page)
    _say_sums(result, "package")
    say_indexes(result)
    say_next(result, "To use exactly these files:")


def say_next(result: RunResult, label: str) -> None:
    """The command to type next, if there is one."""
    if result.next_steps:
        _say_command(label, command_line(result.next_steps), page_of(sys.stdout))


def say_indexes(result: RunResult) -> None:
    """A line for each channel: where its index is from, and why it is trusted."""
    if result.indexes:
        from resume_dl.model.index_report import index_lines

        for line in index_lines(result.indexes):
            say(line)


def say_files(result: RunResult) -> None:
    """The summary of ``get``: each file with its path."""
    _say_list(result.artifacts, _paths, page_of(sys.stdout), cut_start=True)
    _say_sums(result, "file")


def _say_sums(result: RunResult, noun: str) -> None:
    for line in filter(None, (sums(result, noun), origins(result), savings(result))):
        say(line)


def _say_command(label: str, command: str, page: Page) -> None:
    """The command whole, so that it can be copied; on a line of its own if it does not fit beside its label."""
    shown = presentable(command)
    between = " " if page.fits(f"{label} {shown}") else "\n  "
    say_shown(label + between + page.paint(shown, Tone.NAME))


def _size(each: ArtifactResult) -> str:
    return "?" if each.artifact.size is None else show_bytes(each.artifact.size)


def _names(each: ArtifactResult) -> tuple[str, str]:
    """The longer and the shorter name of a package."""
    artifact = each.artifact
    if artifact.kind == "conda":
        return f"{artifact.channel}/{artifact.subdir}/{artifact.filename}", artifact.filename
    return (artifact.filename if each.path is None else str(each.path)), artifact.filename


def _paths(each: ArtifactResult) -> tuple[str, str]:
    """The path of a file, and the one from the current folder if it is below it."""
    if each.path is None:
        return each.artifact.filename, each.artifact.filename
    short = each.path
    with suppress(ValueError):  # elsewhere
        short = short.relative_to(Path.cwd())
    return str(each.path), str(short)


def _say_list(
    results: Sequence[ArtifactResult], forms: Callable[[ArtifactResult], tuple[str, str]], page: Page, **cut: bool
) -> None:
    """A line for each file, with the longer of its ``forms`` if those of all fit."""
    rows = [(each, _start(each), forms(each)) for each in results]
    is_wide = all(page.fits(f"{start}{presentable(long)}{_safe(each)}") for each, start, (long, _) in rows)
    for each, start, (long, short) in sorted(rows, key=lambda row: _LAST.get(row[0].outcome, 0)):
        say_shown(_line(start, each, presentable(long if is_wide else short), page, **cut))


def _start(each: ArtifactResult) -> str:
    return f"{each.outcome:<10} {_size(each):>9}  "


def _line(start: str, each: ArtifactResult, name: str, page: Page, *, cut_start: bool = False) -> str:
    """One line of a file; if it is too long, without what is safe on disk, then with its name cut."""
    remark = _safe(each) if page.fits(start + name + _safe(each)) else ""
    if not page.fits(start + name):
        name = page.cut(name, page.room(start), start=cut_start)
    folder, mark, own = name.rpartition(os.sep if each.artifact.kind != "conda" else "/")
    return f"{page.paint_first(start, each.outcome)}{folder}{mark}{page.paint(own, Tone.NAME)}{remark}"


def _safe(each: ArtifactResult) -> str:
    if each.is_still_packed:
        return "  (verified and safe on disk, not unpacked)"
    safe = 0 if each.error is None else each.error.resumable_bytes
    return f"  ({show_bytes(safe)} safe on disk)" if safe else ""


def origins(result: RunResult) -> str:
    """``from: tuna 20.0 MB, ustc 7.6 MB``: the mirrors, or other hosts, of what was downloaded."""
    counts: Counter[str] = Counter()
    for each in result.artifacts:
        hosts = {source.mirror: source.url.host or "this machine" for source in each.artifact.sources}
        for source in each.sources if each.downloaded else ():
            is_named = source.mirror != UPSTREAM and not source.mirror.startswith(GIVEN)
            counts[source.mirror if is_named else hosts.get(source.mirror, source.mirror)] += source.bytes
    named = [f"{name} {show_bytes(count)}" for name, count in counts.most_common() if count]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"from: {', '.join(named[:_NAMED])}{more}" if named else ""


def savings(result: RunResult) -> str:
    """``saved: 56.9 of 84.4 MB, by resuming and the cache``: what a run that downloads did not have to; else empty."""
    totals = result.as_json()["totals"]
    ways = [way for way, kind in (("resuming", "resumed"), ("the cache", "cached")) if totals[kind]]
    if not ways or not totals["downloaded"]:
        return ""
    saved = totals["resumed"] + totals["cached"]
    of = totals["bytes"] if totals["bytes"] >= saved else None
    return f"saved: {show_part(saved, of)}, by {' and '.join(ways)}"


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
