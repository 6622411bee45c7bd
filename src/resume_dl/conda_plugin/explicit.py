"""The pre-command action: what conda installs without a solve is verified and in its cache before conda looks.

These are the lines of ``@EXPLICIT`` lists, and addresses on the command line. conda takes such a package without a
download where its cache has an extracted entry of that very address, and of the line's digest if it has one (measured
with 24.7 and 26.7; a complete ``.partial`` is never taken here). A line without a digest gets that of its channel's
index; where there is none, it is left to conda. Local archives are compared with what the line or the index says:
conda compares nothing there.

KeyboardInterrupt passes, and LocalArchiveMismatchError; nothing else of ours stops conda.
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
from resume_dl.conda_plugin.preferences import NEVER, read_preferences
from resume_dl.conda_plugin.saying import in_one_line, say
from resume_dl.errors import InvalidSpecError, ResumeDLError
from resume_dl.model.artifact import Artifact
from resume_dl.resolve.explicit import parse_line
from resume_dl.resolve.repodata import find_record


def before_command(command: str) -> None:
    """Bring what ``command`` will install without a solve. Raises LocalArchiveMismatchError."""
    if compat.is_dry_run():
        return
    listed = compat.listed_packages(command)
    if not listed:
        return
    _check_local([each for each in listed if each.url.startswith("file:")])
    try:
        _supply(listed)
    except Exception as error:  # noqa: BLE001 - whatever it is, conda goes on and downloads by itself
        say(f"nothing is fetched ahead ({in_one_line(error)}); conda goes on by itself")


def _check_local(listed: Sequence[Listed]) -> None:
    """Compare local archives with their line's digest, else with what the index beside them says."""
    if not listed:
        return
    from resume_dl.conda_plugin.local_channels import check_local

    check_local([asdict(each) for each in listed if each.digest], said_in="line")
    check_local([record for each in listed if not each.digest and (record := _indexed(each))])


def _indexed(listed: Listed) -> dict[str, Any] | None:
    """What the index in the archive's own folder says of it."""
    index = compat.local_path(listed.url).parent / "repodata.json"
    try:
        record = find_record(index, listed.fn) if index.is_file() else None
    except ResumeDLError:
        return None
    return None if record is None else {**record, "url": listed.url}


def _supply(listed: Sequence[Listed]) -> None:
    """Hand over and fetch what conda will not find by itself."""
    from resume_dl.conda_plugin.post_solve import supply

    artifacts, by_url = _artifacts(listed)
    caches = compat.package_caches()
    known = _with_digests([each for each in artifacts if not _is_known(each, caches)])
    supply([each for each in known if each.digest is not None], by_url)
    for artifact in artifacts:
        if artifact.url.has_secret:
            compat.remember_with_login(by_url[client_url(artifact)])


def _artifacts(listed: Sequence[Listed]) -> tuple[list[Artifact], dict[str, Listed]]:
    """The packages that conda would fetch from a network, and their lines by ``client_url``.

    Left to conda is what goes by a name that is written otherwise in its address, and the second of two of one name.
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
    """Whether conda will take an entry for a line without a digest, which names nothing but an address."""
    if artifact.digest is not None:
        return False
    for cache in caches:
        folder = cache / stem(artifact.filename)
        record = read_info(folder, RECORD)
        if record is not None and Entry(cache, State.EXTRACTED, None, folder, record).is_for(artifact):
            return True
    return False


def _with_digests(artifacts: Sequence[Artifact]) -> Sequence[Artifact]:
    """Those without a digest with the one in their channel's index, where it can be had."""
    if all(artifact.digest is not None for artifact in artifacts):
        return artifacts
    from resume_dl.cli.run import Stop
    from resume_dl.conda_plugin.ahead import load_ours
    from resume_dl.progress.choose import choose
    from resume_dl.resolution.explicit_addresses import look_up

    wishes = read_preferences()
    offline = compat.is_offline() or wishes.prefetch == NEVER
    stop = Stop()
    reporter = choose(None, sys.stderr, quiet=True)  # an index that is not had is nothing that conda's user asked for
    try:
        with stop.listening():
            return look_up(artifacts, load_ours(wishes), reporter, offline=offline, cancelled=stop.cancelled)
    except ResumeDLError as error:
        if not stop.number:
            say(f"no index was read ({in_one_line(error)}); conda goes on by itself")
        return artifacts
    finally:
        reporter.close()
        if stop.number:
            signal.raise_signal(stop.number)  # as if we had never caught it: conda ends as it does
