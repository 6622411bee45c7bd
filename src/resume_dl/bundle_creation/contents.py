"""Contents of a bundle: the results of a fetch as the manifest's packages and platforms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from resume_dl.bundle.licenses import license_of_metadata, license_of_record
from resume_dl.bundle.metadata import read_metadata
from resume_dl.bundle.requested import Reasons, all_reasons, conda_reasons, pip_reasons
from resume_dl.bundle_creation.public_text import public, public_url
from resume_dl.bundle_creation.request_files import ListedFile, PublicRequest
from resume_dl.bundle_creation.target_description import Held
from resume_dl.errors import required
from resume_dl.model.artifact import Artifact
from resume_dl.model.bundle import CHANNEL, WHEELS, BundlePackage, BundlePlatform
from resume_dl.model.pip import PipSolution
from resume_dl.resolve.pylock import marker_environment
from resume_dl.store.part import hash_file
from resume_dl.transfer.report import ArtifactResult, Resolved

if TYPE_CHECKING:
    from packaging.metadata import RawMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The contents of a bundle, sorted by path."""

    packages: tuple[BundlePackage, ...]
    platforms: tuple[BundlePlatform, ...]
    records: Mapping[str, Mapping[str, Any]]
    """Path of a conda package -> its channel's record."""
    requires_python: Mapping[str, str]
    """Path of a wheel -> its Requires-Python, if it has one."""
    depends: Mapping[str, Iterable[str]] = field(default_factory=dict)
    """Path -> paths of its direct dependencies."""


def path_of(artifact: Artifact) -> str:
    """The path of an artifact in the bundle."""
    if artifact.kind == "conda":
        return f"{CHANNEL}/{artifact.subdir}/{artifact.filename}"
    return f"{WHEELS}/{artifact.filename}"


def contents_of(
    results: Sequence[ArtifactResult],
    resolved: Resolved,
    requested: PublicRequest,
    *,
    platforms: Sequence[str],
    held: Callable[[Artifact], Held | None],
    record_of: Callable[[Path], Mapping[str, Any]],
    add_pip: bool,
    cancelled: Callable[[], bool],
) -> Contents:
    """``held``: the target's copies of left-out packages. ``record_of``: the record inside an archive of a list.

    Reads the metadata of wheels, and hashes files whose record has no sha256. Raises OSError, what ``record_of``
    raises, and Interrupted once ``cancelled``.
    """
    packages: dict[str, BundlePackage] = {}
    records: dict[str, Mapping[str, Any]] = {}
    metadata: dict[str, RawMetadata] = {}
    for result in results:
        artifact, path = result.artifact, path_of(result.artifact)
        if path in packages:
            continue
        if artifact.kind == "conda":
            records[path] = artifact.record or ({} if result.path is None else record_of(result.path))
            license_ = license_of_record(records[path])
        else:
            metadata[path] = read_metadata(result.path) if result.path is not None else {}
            license_ = license_of_metadata(metadata[path])
        packages[path] = _package(result, path, license_, held, cancelled)
    solved = dict(resolved.conda)
    by_pip: dict[str, list[PipSolution]] = {}
    for each in resolved.pip:
        by_pip.setdefault(each.platform, []).append(each)
    found, reasons = [], []
    for platform in platforms:
        solution, pips = solved.get(platform), by_pip.get(platform, [])
        lists = [each for each in requested.lists if each.platform == platform]
        conda = _chosen([] if solution is None else solution.artifacts, *(each.artifacts for each in lists))
        wheels = _chosen(*(each.artifacts for each in pips))
        python = next((packages[path].version for path in conda if packages[path].name == "python"), "")
        python = python or next((each.python for each in pips), "")
        reasons.append(_conda_reasons(packages, records, conda, requested, lists, add_pip=add_pip))
        if pips:
            reasons.append(_pip_reasons(packages, metadata, wheels, requested, _markers(platform, python)))
        found.append(
            BundlePlatform(
                platform=platform,
                python=python,
                virtual_packages=_with_glibc(() if solution is None else solution.virtual_packages, pips),
                conda=conda,
                pip=wheels,
                explicit=f"explicit/{platform}.txt" if conda else "",
                requirements=f"requirements/{platform}.txt" if wheels else "",
                exclude_newer="" if solution is None else solution.exclude_newer,
                pip_exclude_newer=next((each.exclude_newer for each in pips if each.exclude_newer), ""),
            )
        )
    why = all_reasons(reasons)
    return Contents(
        packages=tuple(
            changed(packages[path], requested_by=tuple(why.requested_by.get(path, ()))) for path in sorted(packages)
        ),
        platforms=tuple(sorted(found, key=lambda each: each.platform)),
        records=records,
        requires_python={path: each["requires_python"] for path, each in metadata.items() if "requires_python" in each},
        depends=why.depends,
    )


def _markers(platform: str, python: str) -> Mapping[str, str]:
    return cast("Mapping[str, str]", marker_environment(platform, python))  # all its values are texts


def _with_glibc(virtual_packages: Sequence[str], pips: Iterable[PipSolution]) -> tuple[str, ...]:
    """Raise ``__glibc`` to the version that the wheels were chosen for, if conda's packages need an older one.

    Wheels for any machine (``-any``) need none.
    """
    wanted = [
        each.glibc
        for each in pips
        if each.glibc is not None
        and any(one.kind == "wheel" and not one.filename.endswith("-any.whl") for one in each.artifacts)
    ]
    own = next((each for each in virtual_packages if each.startswith("__glibc=")), "")
    newest = max(wanted, default=(0, 0))
    if newest <= tuple(int(part) for part in re.findall(r"\d+", own)[:2]) or not wanted:
        return tuple(virtual_packages)
    others = (each for each in virtual_packages if each != own)
    return tuple(sorted((*others, f"__glibc={newest[0]}.{newest[1]}=0")))


def _chosen(*several: Iterable[Artifact]) -> tuple[str, ...]:
    return tuple(sorted({path_of(artifact) for artifacts in several for artifact in artifacts}))


def _package(
    result: ArtifactResult,
    path: str,
    license_: str,
    held: Callable[[Artifact], Held | None],
    cancelled: Callable[[], bool],
) -> BundlePackage:
    artifact = result.artifact
    own = held(artifact) if result.status == "left-out" else None
    if own is not None:
        size, sha256, md5 = own.size, own.sha256, artifact.md5 or own.md5
    else:
        file = required(result.path, "the path of a fetched file")
        size, md5 = file.stat().st_size, artifact.md5
        sha256 = artifact.sha256 or hash_file(file, "sha256", cancelled)
        if md5 is None and artifact.kind == "conda":  # lists for conda before 24.9 support only md5
            md5 = hash_file(file, "md5", cancelled)
    return BundlePackage(
        path=path,
        kind=artifact.kind,
        name=artifact.name,
        version=artifact.version,
        url=public_url(artifact.url),
        size=size,
        sha256=sha256,
        md5=md5,
        build=artifact.build,
        subdir=artifact.subdir,
        channel=public(artifact.channel),
        license=license_,
        included=own is None,
    )


def _conda_reasons(
    packages: Mapping[str, BundlePackage],
    records: Mapping[str, Mapping[str, Any]],
    paths: Iterable[str],
    requested: PublicRequest,
    lists: Iterable[ListedFile],
    *,
    add_pip: bool,
) -> Reasons:
    listed = {each.name: _chosen(each.artifacts) for each in lists}
    return conda_reasons(
        [packages[path] for path in paths], records, asked=requested.conda, listed=listed, add_pip=add_pip
    )


def _pip_reasons(
    packages: Mapping[str, BundlePackage],
    metadata: Mapping[str, RawMetadata],
    paths: Iterable[str],
    requested: PublicRequest,
    environment: Mapping[str, str],
) -> Reasons:
    return pip_reasons([packages[path] for path in paths], metadata, asked=requested.pip, environment=environment)
