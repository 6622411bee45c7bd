"""``verify --repair``: fetch again what ``verify`` has found damaged, and put it into the place of the damaged one.

A package is identified by the record in its folder (address and digests), or, where that is gone, by its address in
``urls.txt`` and the digest in the index of that address's own host. An archive that is right is only unpacked again. A
wrong one is the start of the download: what its checksums prove right is kept. The damaged package stays in place until
its replacement is verified, unpacked and synced. Files that belong to no package are never changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from resume_dl.app.cache_verification import Flaw, Verification, check_package
from resume_dl.app.health import is_link
from resume_dl.app.pipeline import Batch, run
from resume_dl.caches.conda.lookup import stem
from resume_dl.caches.conda.record import RECORD, check_fields, read_info
from resume_dl.caches.conda.urls import origin_of
from resume_dl.errors import IntegrityError, Interrupted, InvalidSpecError, ResumeDLError
from resume_dl.model.artifact import Artifact
from resume_dl.ports import Reporter
from resume_dl.resolution.explicit_addresses import look_up
from resume_dl.resolve.explicit import parse_line
from resume_dl.settings.rattler_cache import rattler_packages_dir
from resume_dl.transfer.plan import Wanted
from resume_dl.transfer.repaired_packages import RepairedPackages
from resume_dl.transfer.report import ArtifactResult, RunResult
from resume_dl.transfer.setup import Setup

_ARCHIVES = (".conda", ".tar.bz2")
_REMOVE = "remove it and its archive; conda fetches the package again when it needs it"


@dataclass(frozen=True, slots=True)
class Unrepaired:
    """A damaged path that is left as it is: why, and what to do."""

    path: Path
    message: str
    hint: str


@dataclass(slots=True)
class RepairResult(RunResult):
    """The result of ``verify --repair``."""

    found: Verification = field(default_factory=lambda: Verification(0, ()))
    repaired: tuple[Path, ...] = ()
    unrepaired: tuple[Unrepaired, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        return {
            **RunResult.as_json(self),
            **self.found.as_json(),
            "repaired": [str(path) for path in self.repaired],
            "unrepaired": [
                {"path": str(each.path), "message": each.message, "hint": each.hint} for each in self.unrepaired
            ],
        }


@dataclass(slots=True)
class _Damaged:
    """A damaged package: its folder, its archives, and whether the folder itself has to be replaced."""

    folder: Path
    flaws: list[Flaw]
    artifact: Artifact | None = None

    @property
    def pkgs_dir(self) -> Path:
        return self.folder.parent

    @property
    def replaces_folder(self) -> bool:
        return any(each.path == self.folder for each in self.flaws)


class CacheRepair(Batch):
    """The damaged packages of one package cache."""

    def __init__(
        self,
        damaged: Sequence[_Damaged],
        setup: Setup,
        reporter: Reporter,
        cancelled: Callable[[], bool],
    ) -> None:
        super().__init__(setup, reporter, cancelled)
        self._artifacts = [each.artifact for each in damaged if each.artifact is not None]
        pkgs_dir = damaged[0].pkgs_dir
        self.destination = RepairedPackages(
            folder=pkgs_dir,
            reporter=reporter,
            cancelled=cancelled,
            unpack=True,
            offline=setup.options.offline or setup.conda.offline,
            damaged={
                each.artifact.filename: each.folder
                for each in damaged
                if each.artifact is not None and each.replaces_folder
            },
            is_rattlers=pkgs_dir == rattler_packages_dir(setup.env),
        )

    def resolve(self) -> Wanted:
        """Add sources to what the records say. Raises ConfigurationError for an unknown mirror."""
        places = self.setup.places
        wanted = [replace(artifact, sources=places.of(artifact.url)) for artifact in self._artifacts]
        return Wanted(wanted, thorough={artifact.key for artifact in wanted})  # there is no index to ask again

    def report(self, result: RunResult, done: Sequence[ArtifactResult]) -> None:
        """Add nothing: the caller verifies what was replaced."""


def repair(
    found: Verification,
    setup: Setup,
    reporter: Reporter,
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> RepairResult:
    """Repair what ``found`` names as damaged. Errors of single packages are in the result, others are raised."""
    started = time.monotonic()
    result = RepairResult("verify", found=found)
    packages, unrepaired = _packages(found.damaged)
    _identify(packages, setup, reporter, cancelled)
    for each in packages:
        if each.artifact is None:
            unrepaired += [_unknown(flaw) for flaw in each.flaws]
    repaired: list[Path] = []
    for pkgs_dir in dict.fromkeys(each.pkgs_dir for each in packages if each.artifact is not None):
        those = [each for each in packages if each.pkgs_dir == pkgs_dir and each.artifact is not None]
        errors = _repair_cache(those, setup, reporter, cancelled, result)
        for each in those:
            _conclude(each, errors.get(each.folder), repaired, unrepaired)
    result.repaired, result.unrepaired = tuple(repaired), tuple(unrepaired)
    if unrepaired and result.exit_code == 0:
        result.error = _left(unrepaired)
    result.elapsed = time.monotonic() - started
    return result


def _repair_cache(
    damaged: Sequence[_Damaged],
    setup: Setup,
    reporter: Reporter,
    cancelled: Callable[[], bool],
    result: RepairResult,
) -> dict[Path, ResumeDLError]:
    """Repair the packages of one cache; returns the errors by folder."""
    if cancelled():
        result.error = Interrupted("stopped", hint="run the same command again: what is on disk is kept")
        return {each.folder: result.error for each in damaged}
    before = len(result.artifacts)
    run([CacheRepair(damaged, setup, reporter, cancelled)], result)
    done = {each.artifact.filename: each.error for each in result.artifacts[before:]}
    errors = {each.folder: done.get(each.artifact.filename) for each in damaged if each.artifact is not None}
    return {folder: error for folder, error in errors.items() if error is not None}


def _packages(flaws: Iterable[Flaw]) -> tuple[list[_Damaged], list[Unrepaired]]:
    """The flaws by package; those of wheels, which name no address, are not repaired."""
    packages: dict[Path, _Damaged] = {}
    others = []
    for flaw in flaws:
        if flaw.path.name.endswith((".whl", ".tar.gz")):
            hint = "remove it, and run the command again that fetched it"
            others.append(Unrepaired(flaw.path, "a wheel does not say where it came from", hint))
            continue
        folder = flaw.path.parent / stem(flaw.path.name) if flaw.path.name.endswith(_ARCHIVES) else flaw.path
        packages.setdefault(folder, _Damaged(folder, [])).flaws.append(flaw)
    return list(packages.values()), others


def _identify(packages: Sequence[_Damaged], setup: Setup, reporter: Reporter, cancelled: Callable[[], bool]) -> None:
    """Set the artifact of each package whose address and digest are known."""
    without_digest: list[tuple[_Damaged, Artifact]] = []
    for each in packages:
        if is_link(each.folder):
            continue  # made since it was verified: what it leads to is not the cache's
        record = read_info(each.folder, RECORD)
        artifact = _by_record(each.folder, record, setup) if record is not None else _by_address(each.folder, setup)
        if artifact is not None and artifact.digest is None:
            without_digest.append((each, artifact))
        else:
            each.artifact = artifact
    if without_digest:
        offline = setup.options.offline or setup.conda.offline
        known = look_up([one for _, one in without_digest], setup, reporter, offline=offline, cancelled=cancelled)
        for (each, _), artifact in zip(without_digest, known, strict=True):
            each.artifact = artifact if artifact.digest is not None else None


def _by_record(folder: Path, record: dict[str, Any], setup: Setup) -> Artifact | None:
    """The artifact that a record describes; None if it is malformed or another package's."""
    try:
        check_fields(record, folder.name)
        artifact = parse_line(str(record["url"]), canonical=setup.table.canonical)
        if record.get("fn") != artifact.filename or stem(artifact.filename) != folder.name:
            return None
        known = replace(
            artifact, sha256=record.get("sha256"), md5=record.get("md5"), size=record.get("size"), record=record
        )
        return known if known.digest is not None else artifact
    except (KeyError, ValueError, IntegrityError, InvalidSpecError):
        return None


def _by_address(folder: Path, setup: Setup) -> Artifact | None:
    """The artifact of a package without a record, by its last address in ``urls.txt``; its digest is not known."""
    for suffix in _ARCHIVES:
        address = origin_of(folder.parent, f"{folder.name}{suffix}")
        if address is not None:
            try:
                return parse_line(address, canonical=setup.table.canonical)
            except InvalidSpecError:
                return None
    return None


def _unknown(flaw: Flaw) -> Unrepaired:
    if is_link(flaw.path):
        return Unrepaired(flaw.path, "it is a link, which is not followed", "remove the link")
    return Unrepaired(flaw.path, "no record, and no index that can be asked, states its address and digest", _REMOVE)


def _conclude(
    package: _Damaged,
    error: ResumeDLError | None,
    repaired: list[Path],
    unrepaired: list[Unrepaired],
) -> None:
    """Hash what was replaced: it is repaired if it is right now."""
    if error is not None:
        unrepaired += [Unrepaired(flaw.path, error.message, error.hint) for flaw in package.flaws]
        return
    archives = [path for suffix in _ARCHIVES if (path := Path(f"{package.folder}{suffix}")).is_file()]
    left = [flaw for flaw in check_package(package.folder, archives, lambda: False) if flaw.is_damage]
    wrong = {flaw.path for flaw in left}
    repaired += [flaw.path for flaw in package.flaws if flaw.path not in wrong]
    unrepaired += [Unrepaired(flaw.path, f"it is wrong again: {flaw.message}", "check the disk") for flaw in left]


def _left(unrepaired: Sequence[Unrepaired]) -> IntegrityError:
    count = len(unrepaired)
    return IntegrityError(
        f"{count} damaged {'package is' if count == 1 else 'packages are'} not repaired",
        hint="the reasons and what to do are listed above",
    )
