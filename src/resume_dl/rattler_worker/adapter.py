"""Adapter for py-rattler 0.23 to 0.28, which hides the differences between its versions.

Channel priority *flexible* and ``add_pip_as_python_dependency`` were added in 0.26, ``MultiSource`` in 0.27;
``Platform`` became ``Subdir`` in 0.27, and a virtual package's build became a ``BuildString`` in 0.28. Features are
detected; versions are not compared. (0.23, 0.24, 0.25, 0.26, 0.27.1 and 0.28 pass the same tests.)
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import rattler
from rattler import (
    Channel,
    ChannelPriority,
    GenericVirtualPackage,
    MatchSpec,
    PackageFormatSelection,
    PackageName,
    PrefixRecord,
    RepoDataRecord,
    SparseRepoData,
    Version,
    VirtualPackage,
)
from rattler.exceptions import InvalidMatchSpecError, SolverError
from rattler.package import IndexJson
from rattler.package_streaming import extract as extract_archive
from rattler.solver import solve_with_sparse_repodata

from resume_dl.errors import ConfigurationError

__all__ = [
    "InvalidMatchSpecError",
    "MatchSpec",
    "RepoDataRecord",
    "SolverError",
    "SparseRepoData",
    "Version",
    "appeared",
    "check_cutoff",
    "detect_virtual_packages",
    "extract_archive",
    "host_subdir",
    "load_repodata",
    "match_spec",
    "read_index_json",
    "read_prefix_record",
    "selection",
    "solve",
]

_PARAMETERS = inspect.signature(solve_with_sparse_repodata).parameters
HAS_FLEXIBLE = hasattr(ChannelPriority, "Flexible")
HAS_ADD_PIP = "add_pip_as_python_dependency" in _PARAMETERS
HAS_CUTOFF = "timestamp_policy" in _PARAMETERS
"""Older versions do not read ``indexed_timestamp`` and differ in what they do with a record without a timestamp."""
HAS_REVISIONS = hasattr(SparseRepoData, "repodata_revisions")
"""Older versions know no extras and flags in the section ``v3`` of a repodata.json (CEP 48); they read conditions."""
_MultiSource: Any = getattr(rattler, "MultiSource", None)
_BuildString: Any = getattr(rattler, "BuildString", str)


def match_spec(text: str, *, strict: bool = True) -> Any:
    """Parse a MatchSpec. Raises InvalidMatchSpecError."""
    return MatchSpec(text, strict)


def load_repodata(base: str, subdir: str, path: Path) -> Any:
    """Open a repodata.json, which is read lazily. Raises OSError if it is missing or is not repodata."""
    return SparseRepoData(Channel(base), subdir, str(path))


def read_prefix_record(path: Path) -> Any:
    """Read a record of ``conda-meta``. Raises OSError or ValueError."""
    return PrefixRecord.from_path(path)


def read_index_json(path: Path) -> dict[str, Any]:
    """Read an archive's ``info/index.json`` as the fields of a repodata record. Raises rattler's errors."""
    index = IndexJson.from_package_archive(path)
    noarch, when = index.noarch, index.timestamp
    found = {
        "name": index.name.source,
        "version": str(index.version),
        "build": str(index.build),
        "build_number": index.build_number,
        "depends": list(index.depends),
        "constrains": list(index.constrains),
        "license": index.license,
        "license_family": index.license_family,
        "noarch": "python" if noarch.python else "generic" if noarch.generic else None,
        "subdir": index.subdir,
        "timestamp": None if when is None else round(when.timestamp() * 1000),
        "track_features": " ".join(index.track_features),
        "features": index.features,
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def selection(*, only_tar_bz2: bool) -> Any:
    """Return the archive formats to use: conda prefers .conda unless ``use_only_tar_bz2``."""
    return PackageFormatSelection.ONLY_TAR_BZ2 if only_tar_bz2 else PackageFormatSelection.PREFER_CONDA


def check_cutoff() -> None:
    """Raise ConfigurationError if the solver cannot leave out packages by their date."""
    if not HAS_CUTOFF:
        raise ConfigurationError(
            "this version of py-rattler cannot leave out packages by their date", hint="pip install -U py-rattler"
        )


def appeared(record: Any) -> datetime | None:
    """When a record entered its channel, else when it was built; None if it says neither. Only if HAS_CUTOFF."""
    found: datetime | None = record.indexed_timestamp or record.timestamp
    if found is not None and found.tzinfo is None:
        return found.replace(tzinfo=timezone.utc)
    return found


def host_subdir() -> str:
    """Return this machine's conda platform, such as ``linux-64``."""
    # Newer versions keep the old name, with a deprecation warning.
    platform: Any = rattler.Subdir if "Subdir" in vars(rattler) else rattler.Platform
    return str(platform.current())


def detect_virtual_packages() -> list[list[str]]:
    """Return this machine's virtual packages as ``[name, version, build]``, without any override."""
    found = []
    for package in VirtualPackage.detect():
        name, version, build = str(package.into_generic()).split("=", 2)
        found.append([name, version, build])
    return found


def _virtual_package(name: str, version: str, build: str) -> Any:
    return GenericVirtualPackage(PackageName(name), Version(version), _BuildString(build))


def solve(
    specs: Sequence[Any],
    repodata: Sequence[tuple[str, Any]],
    *,
    priority: str,
    constraints: Sequence[Any] = (),
    locked: Sequence[Any] = (),
    pinned: Sequence[Any] = (),
    virtual_packages: Sequence[tuple[str, str, str]] = (),
    add_pip: bool = True,
    only_tar_bz2: bool = False,
    exclude_newer: datetime | None = None,
) -> list[Any]:
    """Run the solver once. Raises SolverError with rattler's explanation.

    ``repodata`` is in order of priority, each with its multichannel's name or ``""``. ``flexible`` is rattler's own
    if this version has it, else strict and then disabled.
    """
    options: dict[str, Any] = {
        "constraints": list(constraints),
        "locked_packages": list(locked),
        "pinned_packages": list(pinned),
        "virtual_packages": [_virtual_package(*package) for package in virtual_packages],
        "package_format_selection": selection(only_tar_bz2=only_tar_bz2),
    }
    if exclude_newer is not None:
        options |= {"exclude_newer": exclude_newer, "timestamp_policy": "allow-missing"}  # as conda
    if HAS_ADD_PIP:
        options["add_pip_as_python_dependency"] = add_pip
    sources = _grouped(repodata)

    def run(specs: Sequence[Any], name: str) -> list[Any]:
        level = getattr(ChannelPriority, name)
        return asyncio.run(
            solve_with_sparse_repodata(specs=list(specs), sparse_repodata=sources, channel_priority=level, **options)
        )

    def with_priority(specs: Sequence[Any]) -> list[Any]:
        if priority != "flexible":
            return run(specs, priority.capitalize())
        if HAS_FLEXIBLE:
            return run(specs, "Flexible")
        try:
            return run(specs, "Strict")
        except SolverError:
            return run(specs, "Disabled")

    records = with_priority(specs)
    if add_pip and not HAS_ADD_PIP:
        names = {record.name.normalized for record in records}
        if "python" in names and "pip" not in names:
            return with_priority([*specs, match_spec("pip")])
    return records


def _grouped(repodata: Sequence[tuple[str, Any]]) -> list[Any]:
    """Group members of a multichannel, which conda ranks equally; without ``MultiSource`` they rank in order."""
    if _MultiSource is None:
        return [source for _, source in repodata]
    groups: dict[str, list[Any]] = {}
    for index, (group, source) in enumerate(repodata):
        groups.setdefault(group or f"\0{index}", []).append(source)
    return [members[0] if group.startswith("\0") else _MultiSource(group, members) for group, members in groups.items()]


def describe(record: Any) -> dict[str, Any]:
    """Return a record's fields in rattler's form, as JSON values, if the repodata file lacks the record."""
    fields: Mapping[str, Any] = json.loads(record.to_json())
    return {name: value for name, value in fields.items() if name not in {"fn", "url", "channel"}}
