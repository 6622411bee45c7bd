"""The post-solve action: hand verified packages that are on the disk to conda, and fetch the rest.

A failure of one package does not affect the others: conda downloads it as it does without the plugin. ``--dry-run``
changes nothing. Only KeyboardInterrupt and LocalArchiveMismatchError reach conda.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from resume_dl.app.reuse import survey
from resume_dl.caches.conda.lookup import is_package
from resume_dl.caches.conda.partial import withdraw_orphans
from resume_dl.conda_plugin import compat
from resume_dl.conda_plugin.handover import hand_over_all
from resume_dl.conda_plugin.messages import say
from resume_dl.model.artifact import Artifact


def after_solve(records: Iterable[Any]) -> None:
    """Supply the packages of ``records`` (conda's ``link_precs``), so that conda need not download them."""
    if compat.is_dry_run():
        return
    records = tuple(records)
    if any(str(record.get("url") or "").startswith("file:") for record in records):
        from resume_dl.conda_plugin.local_channels import check_local

        check_local(records)
    artifacts, by_url = compat.artifacts(records)
    supply(artifacts, by_url)


def supply(artifacts: Sequence[Artifact], by_url: Mapping[str, Any]) -> None:
    """Hand over or fetch what conda's caches lack; ``by_url``: its records, by ``client_url``."""
    caches = compat.package_caches()
    for cache in caches:
        withdraw_orphans(cache)
    seen = survey(artifacts, caches)
    handed = hand_over_all(seen.at_hand, by_url)
    if handed.has and compat.is_talkative():
        what = handed.has[0].filename if len(handed.has) == 1 else f"{len(handed.has)} packages"
        say(f"{what}: verified and at hand, no download needed")
    absent = [artifact for artifact in (*handed.wanted, *seen.absent) if _can_be_handed_over(artifact)]
    if absent and not compat.is_offline():
        from resume_dl.conda_plugin.missing_packages import fetch_missing

        fetch_missing(absent, by_url)


def _can_be_handed_over(artifact: Artifact) -> bool:
    """Whether conda will use what we fetch: an archive of another form than its own only by a record with a size."""
    return artifact.digest is not None and (artifact.size is not None or is_package(artifact.filename))
