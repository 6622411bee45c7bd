"""The pre-command action: put packages that conda installs without a solve into its cache, verified, beforehand.

These are the lines of ``@EXPLICIT`` lists, the packages of lock files, and URLs on the command line. conda uses such a
package without a download if its cache has an extracted entry of the same URL, and of the line's digest if it states
one (measured with 24.7 and 26.7; a complete ``.partial`` is never used here). A line without a digest takes that of its
channel's index; if the index has no digest either, the line is left to conda. Local archives are compared with the line
or the index, because conda compares them with nothing.

Only KeyboardInterrupt and LocalArchiveMismatchError reach conda.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from resume_dl.caches.conda.lookup import Entry, State, stem
from resume_dl.caches.conda.record import RECORD, client_url, read_info
from resume_dl.conda_plugin import compat
from resume_dl.conda_plugin.compat import Listed
from resume_dl.conda_plugin.messages import in_one_line, say
from resume_dl.conda_plugin.preferences import NEVER, read_preferences
from resume_dl.errors import InvalidSpecError, ResumeDLError
from resume_dl.model.artifact import Artifact
from resume_dl.resolve.explicit import parse_line
from resume_dl.resolve.repodata import find_record

_OF_LOCKS = {".yml", ".yaml", ".lock"}
"""The suffixes of lock files of conda packages."""


def before_command(command: str) -> None:
    """Supply what ``command`` will install without a solve. Raises LocalArchiveMismatchError."""
    if compat.is_dry_run():
        return
    files, locked = compat.files_of(command), list[Listed]()
    if any(file.suffix in _OF_LOCKS for file in files):
        from resume_dl.conda_plugin.lock_files import locked_packages, locks_among

        locks = locks_among(files)
        locked = locked_packages(locks)
        files = [file for file in files if file not in locks]
    listed = compat.listed_packages(files) + locked
    if not listed:
        return
    _check_local([each for each in listed if each.url.startswith("file:")])
    try:
        _supply(listed)
    except Exception as error:  # noqa: BLE001 - whatever it is, conda goes on and downloads by itself
        say(f"nothing was fetched ahead of conda ({in_one_line(error)}); conda continues on its own")


def _check_local(listed: Sequence[Listed]) -> None:
    """Compare local archives with their line's digest, else with the index in their folder."""
    if not listed:
        return
    from resume_dl.conda_plugin.local_channels import check_local

    check_local([asdict(each) for each in listed if each.digest], said_in="line")
    check_local([record for each in listed if not each.digest and (record := _indexed(each))])


def _indexed(listed: Listed) -> dict[str, Any] | None:
    """The record of an archive in the index of its own folder; None if there is no such record."""
    index = compat.local_path(listed.url).parent / "repodata.json"
    try:
        record = find_record(index, listed.fn) if index.is_file() else None
    except ResumeDLError:
        return None
    return None if record is None else {**record, "url": listed.url}


def _supply(listed: Sequence[Listed]) -> None:
    """Hand over or fetch what conda's caches lack."""
    from resume_dl.conda_plugin.post_solve import supply

    artifacts, by_url = _artifacts(listed)
    caches = compat.package_caches()
    known = _with_digests([each for each in artifacts if not _is_known(each, caches)])
    supply([each for each in known if each.digest is not None], by_url)
    for artifact in artifacts:
        if artifact.url.has_secret:
            compat.remember_with_login(by_url[client_url(artifact)])


def _artifacts(listed: Sequence[Listed]) -> tuple[list[Artifact], dict[str, Listed]]:
    """The packages that conda would download, and their lines by ``client_url``.

    Left to conda: a file whose name is percent-encoded in its URL, and the second of two files of the same name.
    """
    found: dict[str, Artifact] = {}
    by_url: dict[str, Listed] = {}
    for each in listed:
        try:
            artifact = parse_line(f"{each.url}#{each.digest}" if each.digest else each.url)
        except InvalidSpecError:
            continue
        if each.url.startswith("file:") or artifact.filename != each.fn or each.fn in found:
            continue
        found[each.fn] = artifact
        by_url[client_url(artifact)] = each
    return list(found.values()), by_url


def _is_known(artifact: Artifact, caches: Sequence[Path]) -> bool:
    """Whether conda will use a cached entry for a line that states a URL only."""
    if artifact.digest is not None:
        return False
    for cache in caches:
        folder = cache / stem(artifact.filename)
        record = read_info(folder, RECORD)
        if record is not None and Entry(cache, State.EXTRACTED, None, folder, record).is_for(artifact):
            return True
    return False


def _with_digests(artifacts: Sequence[Artifact]) -> Sequence[Artifact]:
    """Add the digests of the channel's index to the artifacts that have no digest, as far as it can be read."""
    if all(artifact.digest is not None for artifact in artifacts):
        return artifacts
    from resume_dl.cli.run import Stop
    from resume_dl.conda_plugin.missing_packages import load_plugin_setup
    from resume_dl.progress.choose import choose
    from resume_dl.resolution.explicit_addresses import look_up

    preferences = read_preferences()
    offline = compat.is_offline() or preferences.prefetch == NEVER
    stop = Stop()
    reporter = choose(None, sys.stderr, quiet=True)  # conda's user did not ask for an index
    try:
        with stop.listening():
            return look_up(
                artifacts, load_plugin_setup(preferences), reporter, offline=offline, cancelled=stop.cancelled
            )
    except ResumeDLError as error:
        if not stop.number:
            say(f"no index was read ({in_one_line(error)}); conda continues on its own")
        return artifacts
    finally:
        reporter.close()
        if stop.number:
            signal.raise_signal(stop.number)  # conda ends as if we had not caught the signal
