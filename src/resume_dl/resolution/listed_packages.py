"""Look-up of conda packages by file name, in the indexes of a request's channels and platforms.

One name may be listed by several channels with other bytes: all are returned, in the channels' order, and the digest
of a file decides which of them it is. A record that only carriers state must be agreed on, as for a solve.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urljoin

from resume_dl.errors import IntegrityError
from resume_dl.model.artifact import Artifact
from resume_dl.model.download_name import CONDA
from resume_dl.resolution.conda_resolution import Resolver
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.resolve.artifacts import conda_artifact
from resume_dl.resolve.repodata import base_url, find_record
from resume_dl.resolve.request import RepodataFile, Solution
from resume_dl.settings.channels import requested_channels
from resume_dl.transfer.setup import Setup


def listed_packages(
    filenames: Collection[str], request: FetchRequest, setup: Setup, resolver: Resolver
) -> dict[str, list[Artifact]]:
    """Return file name -> the artifacts, with sources, that the indexes list under it, the first channel's first.

    Names that no index lists are left out. Raises what ``CondaIndexes.fetch`` and ``CondaIndexes.solved`` raise.
    """
    named = {filename: name for filename in filenames if (name := package_of(filename))}
    platforms = resolver.platforms()
    resolver.check_targets(platforms)
    found: dict[str, list[Artifact]] = {}
    if not named:
        return found
    names = requested_channels(request.channels, setup.conda, override=request.override_channels)
    for platform in platforms:
        subdirs = dict.fromkeys((platform, "noarch"))
        wanted = [(channel, subdir) for channel in resolver.channels(names, platform) for subdir in subdirs]
        files = resolver.indexes.fetch(wanted, frozenset(named.values()))
        solution = resolver.indexes.solved(files, lambda files: Solution(artifacts=_listed(files, [*named])))
        for artifact in solution.artifacts:
            known = found.setdefault(artifact.filename, [])
            if artifact.key not in {each.key for each in known}:
                known.append(replace(artifact, sources=setup.places.of(artifact.url)))
    return found


def package_of(filename: str) -> str:
    """Return the package's name in ``NAME-VERSION-BUILD.conda``; empty if the file name is no package's."""
    ending = next((each for each in CONDA if filename.endswith(each)), "")
    parts = filename.removesuffix(ending).rsplit("-", 2)
    return parts[0] if ending and len(parts) == 3 and all(parts) else ""


def _listed(files: Sequence[RepodataFile], filenames: Collection[str]) -> tuple[Artifact, ...]:
    found = []
    for file in files:
        records = {name: record for name in filenames if (record := find_record(file.path, name)) is not None}
        base = _base(file) if records else None
        found += [_artifact(file, name, record, base) for name, record in records.items()]
    return tuple(found)


def _base(file: RepodataFile) -> str | None:
    """Return the folder of the index's packages as ``conda_artifact`` takes it; None if they are beside the index."""
    given = base_url(file.path)
    if given is None:
        return None
    channel = file.channel.canonical_base.reveal().rstrip("/")
    folder = urljoin(f"{channel}/{file.subdir}/", given).rstrip("/")
    if folder == f"{channel}/{file.subdir}":
        return None
    return folder.removeprefix(channel) if folder.startswith(f"{channel}/") else folder


def _artifact(file: RepodataFile, filename: str, record: dict[str, Any], base: str | None) -> Artifact:
    texts = {name: record.get(name) for name in ("name", "version", "build", "sha256", "md5")}
    required = all(isinstance(texts[name], str) for name in ("name", "version", "build"))
    if not required or not all(value is None or isinstance(value, str) for value in texts.values()):
        index = file.channel.name, file.subdir
        why = f"the repodata of {'/'.join(index)} has no valid record of {filename}"
        raise IntegrityError(why, index=index, hint="run it again with --refresh")
    fields = {"filename": filename, "subdir": record.get("subdir", file.subdir), "size": record.get("size")}
    return conda_artifact(file.channel, {**fields, **texts, "record": record, "base": base})
