"""Fetch the channel indexes that conda is about to request into conda's own index cache.

Before a solve these are the solver's channels and subdirs, and the channels of ``channel::name`` specs. The classic
solver runs with ``current_repodata.json`` first and, if that has no solution, again with the whole index. ``conda
search`` and ``env create --dry-run`` (before 26) call no pre-solve hook; they are handled before the command.

Only http(s) indexes that are stale by conda's own rule are fetched, and none offline. Mirrors stand in for a server
that cannot be reached (docs/indexes.md). A failure is reported in one line, and conda requests the index itself.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conda.base.constants import REPODATA_FN
from conda.base.context import context
from conda.exceptions import CondaError
from conda.models.channel import all_channel_urls
from conda.models.match_spec import MatchSpec

from resume_dl.conda_plugin.index_cache import CondaIndex
from resume_dl.conda_plugin.index_hold import hold_stored
from resume_dl.conda_plugin.solver import Closure, root_names, running_solver, takes_shards

if TYPE_CHECKING:  # no other module of ours is loaded if every index is fresh
    from resume_dl.cli.run import Stop
    from resume_dl.conda_plugin.preferences import Preferences
    from resume_dl.indexes.client_channels import Brought
    from resume_dl.indexes.client_mirrors import Mirrored, Missed
    from resume_dl.transfer.setup import Setup

TWO = 2
"""Operators that have to agree."""
GIVE_UP_AFTER = 45.0
"""Seconds without progress after which conda requests its indexes itself. Shorter than for packages: conda has printed
nothing yet, and its own message for a server that refuses is better than ours."""
_tried: set[tuple[str, str]] = set()
"""Indexes that were fetched, or could not be: each is requested once a command."""
_said: set[str] = set()


def fetch_for_solver(specs_to_add: Collection[Any], specs_to_remove: Collection[Any] = ()) -> None:
    """Fetch what the running solver will request. Raises KeyboardInterrupt only."""
    if _is_off():
        return
    solver = running_solver()
    if solver is None:
        return
    named = [channel for spec in specs_to_add if (channel := spec.get_exact_value("channel")) is not None]
    urls = all_channel_urls([*solver.channels, *named], solver.subdirs)
    names = {name for spec in specs_to_add if (name := spec.get_exact_value("name")) is not None}
    shards: Closure | None = None
    if takes_shards(solver):
        shards = Closure(lambda: root_names(solver, specs_to_add or specs_to_remove), follow=True)
    _fetch(urls, solver._repodata_fn, shards=shards, names=names)  # noqa: SLF001 - it has no other name


def fetch_for_command(command: str, arguments: Mapping[str, Any]) -> None:
    """Fetch what ``search`` or ``env_create --dry-run`` will request. Raises KeyboardInterrupt only."""
    if _is_off():
        return
    if command == "search" and not arguments.get("envs"):
        try:
            spec = MatchSpec(arguments.get("match_spec") or "*")
        except CondaError:
            return  # conda will parse it and report the error itself
        channel, subdir = spec.get_exact_value("channel"), spec.get_exact_value("subdir")
        urls = all_channel_urls([channel] if channel else context.channels, [subdir] if subdir else context.subdirs)
        name = spec.get_exact_value("name")
        names = set() if name is None else {name}
        sharded = bool(getattr(context, "repodata_use_shards", False))
        shards = Closure(lambda: names, follow=False) if sharded else None
        _fetch(urls, REPODATA_FN, shards=shards, names=names)
    elif command == "env_create" and context.dry_run:
        _fetch(all_channel_urls(_channels_of_file(arguments), context.subdirs), REPODATA_FN)


def _channels_of_file(arguments: Mapping[str, Any]) -> list[str]:
    """The channels that ``env create`` before 26 requests: those of the environment file, then the configured ones."""
    from resume_dl.resolve.environment_file import read_environment_file
    from resume_dl.settings.channels import NODEFAULTS

    file = Path(str(arguments.get("file") or ""))
    if not file.is_file():
        return []  # a URL, or missing: conda handles it
    named = read_environment_file(file).channels
    return [*(name for name in named if name != NODEFAULTS), *(() if NODEFAULTS in named else context.channels)]


def _is_off() -> bool:
    return bool(context.offline or context.use_index_cache)


def _fetch(
    urls: Iterable[str], repodata_fn: str, *, shards: Closure | None = None, names: Collection[str] = ()
) -> None:
    """Fetch the stale indexes below ``urls``, and ``shards`` (None if conda reads no shards).

    ``names``: of the requested packages.
    """
    wanted = [url for url in urls if url.startswith(("http://", "https://"))]
    indexes = [CondaIndex(url, repodata_fn, sharded=shards is not None) for url in wanted]
    stale = [index for index in indexes if index.key not in _tried and not index.is_fresh()]
    if not stale and (shards is None or not any(index.has_shards() for index in indexes)):
        return
    from resume_dl.conda_plugin.preferences import NEVER, read_preferences

    preferences = read_preferences()
    if NEVER in {preferences.prefetch, preferences.index}:
        return
    _tried.update(index.key for index in stale)
    from resume_dl.cli.run import Stop
    from resume_dl.conda_plugin.messages import flush_stderr, in_one_line, say_failure

    stop = Stop()
    try:
        _fetch_stale(stale, indexes, shards, names, preferences, stop)
    except Exception as error:  # noqa: BLE001 - whatever it is, conda goes on and asks by itself
        say_failure(f"nothing was fetched ahead of conda ({in_one_line(error)}); conda continues on its own", error)
    flush_stderr()
    if stop.number:
        signal.raise_signal(stop.number)  # conda ends as if we had not caught the signal


def _fetch_stale(  # noqa: PLR0917  one command's whole work
    stale: Sequence[CondaIndex],
    indexes: Sequence[CondaIndex],
    shards: Closure | None,
    names: Collection[str],
    preferences: Preferences,
    stop: Stop,
) -> None:
    from resume_dl.conda_plugin import compat
    from resume_dl.conda_plugin.messages import say, say_failure
    from resume_dl.progress.choose import choose

    @cache
    def setup() -> Setup:
        from resume_dl.conda_plugin.missing_packages import load_plugin_setup

        return load_plugin_setup(preferences, GIVE_UP_AFTER)

    brought: Brought | None = None
    reporter = choose(None, sys.stderr, quiet=not compat.is_talkative())
    try:
        with stop.listening():
            if stale:
                from resume_dl.indexes.client_channels import fetch_indexes_ahead

                brought = fetch_indexes_ahead(stale, setup(), reporter, cancelled=stop.cancelled, names=names)
            if shards is not None and not stop.cancelled():
                from resume_dl.conda_plugin.solver_shards import fetch_solver_shards

                fetch_solver_shards(indexes, shards, setup, reporter, stop)
    finally:
        reporter.close()
        hold_stored()
    if stop.cancelled():
        say("stopped; what was fetched of the channel indexes is safe on disk; run the same command again to continue")
        return
    if brought is None:
        return
    for text in _describe_mirrored(brought.mirrored, talkative=compat.is_talkative()):
        if text not in _said:  # said already for current_repodata.json
            _said.add(text)
            say(text)
    if brought.missed:
        say_failure(_describe(brought.missed), brought.missed[0].error)


def _describe_mirrored(mirrored: Sequence[Mirrored], *, talkative: bool) -> list[str]:
    """One line for each channel and the source of its index."""
    lines: dict[str, list[str]] = {}
    for each in mirrored:
        names, channel = " and ".join(each.carried_by), each.channel
        if each.vouched.value == "named":
            if talkative:  # the user's own choice; the other lines are warnings
                lines.setdefault(f"index of {channel} from {names}, as index_from says", [])
            continue
        how = f"its index comes from {names}, where the channel is now"
        if each.vouched.value == "agreement":
            of = "which" if len(each.carried_by) <= TWO else "which two of"
            how = f"records on {of} {names} agree"
        lines.setdefault(f"index of {channel}: {each.host} cannot be reached; {how}", []).extend(each.contradicted)
    return [f"{line}{_describe_contradicted(files)}" for line, files in lines.items()]


def _describe_contradicted(files: Sequence[str]) -> str:
    if not files:
        return ""
    more = f" and {len(files) - 1} more" if files[1:] else ""
    return f"; ignoring records on which they disagree: {files[0]}{more}"


def _describe(missed: Sequence[Missed]) -> str:
    """One line for all failures."""
    from resume_dl.conda_plugin.messages import in_one_line

    first = missed[0]
    more = f", and {len(missed) - 1} more," if missed[1:] else ""
    what = f"the index of {first.index.channel}/{first.index.subdir}{more} was not fetched ahead of conda"
    note = f"; {first.note}" if first.note else ""
    return f"{what} ({in_one_line(first.error)}{note}); conda continues on its own"
