"""Fetch the packages that conda would download next: from every mirror, resumable, verified.

A failure is reported in one line, then conda downloads as it does without the plugin; what is on the disk stays for the
next run. Ctrl-C ends the command as it ends any conda command.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace as changed
from typing import TYPE_CHECKING, Any

from resume_dl.app.reuse import survey
from resume_dl.caches.conda.lookup import is_package
from resume_dl.caches.conda.prefetched import Prefetched, note_prefetched, read_prefetched
from resume_dl.caches.conda.record import client_url
from resume_dl.conda_plugin import compat
from resume_dl.conda_plugin.handover import hand_over_all, tell_conda
from resume_dl.conda_plugin.messages import flush_stderr, in_one_line, say, say_failure
from resume_dl.conda_plugin.preferences import ALWAYS, NEVER, Preferences, read_preferences
from resume_dl.errors import Interrupted, required
from resume_dl.model.artifact import Artifact
from resume_dl.model.units import show_bytes

if TYPE_CHECKING:
    from resume_dl.app.prefetch import Prefetch
    from resume_dl.cli.run import Stop
    from resume_dl.core.reachability import Reachability
    from resume_dl.transfer.plan import Plan
    from resume_dl.transfer.report import ArtifactResult
    from resume_dl.transfer.setup import Setup


GIVE_UP_AFTER = 120.0
"""Seconds without progress after which conda continues on its own, unless the user sets ``give_up_after``. Shorter than
for ``fetch``, because conda itself may still succeed and its user waits for the plan."""

_network: list[Reachability] = []
"""What this process knows of the network: it waits for a silent server once a command, not once a solve."""


def fetch_missing(artifacts: Sequence[Artifact], records: Mapping[str, Any]) -> None:
    """Fetch missing packages as the user's preferences allow, and register them with conda.

    ``records`` are conda's, by ``client_url``.

    Raises KeyboardInterrupt only.
    """
    preferences = read_preferences()
    sizes = [artifact.size for artifact in artifacts]
    is_small = None not in sizes and sum(size or 0 for size in sizes) < preferences.min_size
    if preferences.prefetch == NEVER or is_small:
        return
    from resume_dl.cli.run import Stop

    stop = Stop()
    try:
        full = [compat.in_full(artifact, records[client_url(artifact)]) for artifact in artifacts]
        _fetch(full, records, preferences, stop)
    except Exception as error:  # noqa: BLE001 - whatever it is, conda goes on and downloads by itself
        say_failure(f"nothing was fetched ahead of conda ({in_one_line(error)}); conda continues on its own", error)
    flush_stderr()
    if stop.number:
        signal.raise_signal(stop.number)  # conda ends as if we had not caught the signal


def _fetch(artifacts: Sequence[Artifact], records: Mapping[str, Any], preferences: Preferences, stop: Stop) -> None:
    """Plan, prompt, fetch, register with conda, report failures."""
    from resume_dl.app.prefetch import Prefetch
    from resume_dl.progress.choose import choose
    from resume_dl.transfer.report import RunResult

    setup, pkgs_dir = load_plugin_setup(preferences), compat.first_writable()
    reporter = choose(None, sys.stderr, quiet=not compat.is_talkative())
    with closing(Prefetch(artifacts, setup, reporter, stop.cancelled, pkgs_dir=pkgs_dir)) as batch:
        plan = batch.plan(batch.resolve())
        if preferences.prefetch != ALWAYS and compat.may_ask(records.values()) and not _agreed(batch, plan):
            return
        result = RunResult("prefetch")
        try:
            with stop.listening():
                batch.carry_out(plan, result)
        finally:
            reporter.close()
    _hand_over(result.artifacts, records)
    _say_failures(result.artifacts)


def load_plugin_setup(preferences: Preferences, give_up_after: float = GIVE_UP_AFTER) -> Setup:
    """Load settings as ``resume-dl fetch`` does, with conda's taken from this process. Raises ConfigurationError.

    ``give_up_after`` (seconds) applies unless the user has set one.
    """
    from resume_dl.cli.options import default_transfer
    from resume_dl.conda_plugin.access import conda_access
    from resume_dl.conda_plugin.context import conda_settings
    from resume_dl.core.policy import DEFAULTS
    from resume_dl.transfer.setup import load_setup

    options = default_transfer(os.environ, mirrors=preferences.mirrors)
    if options.give_up_after is None:
        options = changed(options, give_up_after=give_up_after, unreached_give_up=DEFAULTS.unreached_give_up)
    setup = load_setup(options, os.environ, conda=conda_settings(), access=conda_access())
    if not _network:
        _network.append(setup.network)
    return changed(setup, network=_network[0])


def _agreed(batch: Prefetch, plan: Plan) -> bool:
    """Prompt once on the terminal, before conda's own plan and prompt."""
    missing = [each.artifact for each in plan.planned if each.state == "missing"]
    if not missing:
        return True
    for artifact in missing:
        size = "?" if artifact.size is None else show_bytes(artifact.size)
        say(f"  {size:>9}  {artifact.filename}")
    total = show_bytes(sum(artifact.size or 0 for artifact in missing))
    on_disk = batch.here(plan)
    here = f", {show_bytes(on_disk)} of it already on disk" if on_disk else ""
    say(f"{len(missing)} package{'' if len(missing) == 1 else 's'} to fetch, {total}{here}; to {batch.pkgs_dir}")
    sys.stderr.write("resume-dl: fetch them now, before conda's own plan? ([y]/n) ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:  # the end of input (Ctrl-D) means no
        sys.stderr.write("\n")
    return bool(answer) and answer.strip().lower() in {"", "y", "yes"}


def _hand_over(results: Sequence[ArtifactResult], records: Mapping[str, Any]) -> None:
    """Register every complete entry with conda; give it the archive of what was not unpacked, as of a wheel."""
    waiting: list[Prefetched] = []
    packed: list[Artifact] = []
    for result in results:
        artifact = result.artifact
        if result.error is None and not is_package(artifact.filename):
            packed.append(artifact)
        elif result.error is None and result.path is not None:
            if tell_conda(result.path.parent, artifact.filename, records[client_url(artifact)]):
                prefix = compat.target_prefix()
                waiting.append(Prefetched(result.path.parent, artifact.filename, artifact.size or 0, prefix))
        elif not isinstance(result.error, Interrupted):
            packed.append(artifact)
    note_prefetched(waiting)
    for pkgs_dir in {each.pkgs_dir for each in waiting}:
        atexit.register(read_prefetched, pkgs_dir)  # drops the notes of packages that conda has installed by then
    handed = hand_over_all(survey(packed, compat.package_caches()).at_hand, records)
    urls = {client_url(artifact) for artifact in handed.has}
    for result in results:
        if client_url(result.artifact) in urls:
            result.error = None


def _say_failures(results: Sequence[ArtifactResult]) -> None:
    """Print one line for all failures; after Ctrl-C, how to continue."""
    failed = [result for result in results if result.error is not None]
    if not failed:
        return
    safe = sum(result.error.resumable_bytes for result in failed if result.error is not None)
    kept = f"; {show_bytes(safe)} are safe on disk" if safe else ""
    if any(isinstance(result.error, Interrupted) for result in failed):
        say(f"stopped{kept}; run the same conda command again to continue")
        return
    first = required(failed[0].error, "the error of a failed package")
    many = "" if len(failed) == 1 else f" ({len(failed)} of {len(results)} packages were not fetched)"
    say(f"{in_one_line(first)}{many}{kept}; conda continues on its own")
