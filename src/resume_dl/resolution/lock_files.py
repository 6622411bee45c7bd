"""Lock files of a request as artifacts: the packages of its platforms and environments. No index, no solve."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from resume_dl.errors import ConfigurationError
from resume_dl.model.artifact import Artifact
from resume_dl.resolve.locks.conda_lock import read_conda_lock
from resume_dl.resolve.locks.lock_format import LockFormat, check_supported, lock_format, read_lock_text
from resume_dl.resolve.locks.locked_files import Canonical, LockedPackage, LockedPackages
from resume_dl.resolve.locks.pixi_lock import read_pixi_lock
from resume_dl.resolve.locks.uv_lock import export_uv_lock
from resume_dl.resolve.worker import RattlerWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSelection:
    """What one lock file has for one platform and the requested environments; artifacts without sources."""

    platform: str
    conda: tuple[Artifact, ...]
    pip: tuple[Artifact, ...]
    left: tuple[str, ...]
    """Names of packages at version control or local paths, which are not fetched."""
    note: str
    """What is taken, and what is ignored, in one line."""


def is_conda_lock(path: Path) -> bool:
    """Whether a ``--file`` is a lock file with conda packages; pip may read it too."""
    found = lock_format(path)
    return found is not None and found.has_conda_packages


def read_conda_locks(
    path: Path, *, platforms: Sequence[str], environments: Sequence[str], canonical: Callable[[str], str]
) -> list[LockSelection]:
    """Return a selection for each platform, in order.

    Raises ConfigurationError for a malformed file or another format, and for a platform or environment that it
    does not have.
    """
    found = lock_format(path)
    if found is not None:
        check_supported(path, found)
    text = read_lock_text(path)
    if found is LockFormat.CONDA_LOCK:
        locked = read_conda_lock(text, str(path), canonical)
    elif found is LockFormat.PIXI:
        locked = _read_pixi_lock(text, str(path), canonical)
    else:
        raise ConfigurationError(f"{path} is not a lock file with conda packages", hint="check --file")
    return [_select(locked, path, platform, environments) for platform in platforms]


def exported(
    path: Path, environments: Sequence[str], env: Mapping[str, str], cancelled: Callable[[], bool]
) -> str | None:
    """Return a uv.lock as a pylock.toml; None for a file that is one. Raises ConfigurationError and Interrupted."""
    if lock_format(path) is not LockFormat.UV:
        return None
    return export_uv_lock(read_lock_text(path), str(path), environments=environments, env=env, cancelled=cancelled)


@lru_cache(maxsize=4)  # a file is read for conda and again for pip, and a process takes a while to start
def _read_pixi_lock(text: str, where: str, canonical: Canonical) -> LockedPackages:
    with RattlerWorker() as worker:
        return read_pixi_lock(text, where, canonical, worker)


def _select(locked: LockedPackages, path: Path, platform: str, environments: Sequence[str]) -> LockSelection:
    if platform not in locked.platforms:
        raise ConfigurationError(
            f"{path} has no packages for {platform}, but for {', '.join(locked.platforms) or 'no platform'}",
            hint="choose one of its platforms with --platform, or create the lock file again with yours",
        )
    groups = locked.always.union(environments) if environments else locked.default
    if unknown := [name for name in environments if name not in locked.groups]:
        raise ConfigurationError(
            f"{path} has no {locked.group_word} {unknown[0]!r}, but {', '.join(locked.groups)}",
            hint="choose one of them with --environment",
        )
    mine = [each for each in locked.packages if each.platform == platform and each.groups & groups]
    if not groups.intersection(locked.groups):
        raise ConfigurationError(
            f"{path} has no {locked.group_word} {', '.join(sorted(groups))}, but {', '.join(locked.groups)}",
            hint="choose one of them with --environment",
        )
    _check_agreement(path, mine, locked.group_word)
    artifacts = list({each.artifact.key: each.artifact for each in mine if each.artifact is not None}.values())
    conda = tuple(each for each in artifacts if each.kind == "conda")
    pip = tuple(each for each in artifacts if each.kind != "conda")
    left = tuple(dict.fromkeys(each.name for each in mine if each.artifact is None))
    others = [name for name in locked.groups if name not in groups]
    ignored = [
        f"{locked.group_word} {', '.join(others)}" if others else "",
        f"platform {', '.join(each for each in locked.platforms if each != platform)}" if locked.platforms[1:] else "",
        f"{', '.join(left)} (version control or local paths)" if left else "",
    ]
    counts = [_count(len(each), kind) for each, kind in ((conda, "conda"), (pip, "pip")) if each]
    taken = f"{path.name}: {' and '.join(counts) or 'no packages'} for {platform}"
    named = f", {locked.group_word} {', '.join(each for each in locked.groups if each in groups)}"
    ignoring = ", ".join(filter(None, ignored))
    note = f"{taken}{named}" + (f"; ignored: {ignoring}" if ignoring else "")
    return LockSelection(platform=platform, conda=conda, pip=pip, left=left, note=note)


def _check_agreement(path: Path, packages: Sequence[LockedPackage], word: str) -> None:
    """Raise ConfigurationError if groups, which may be alternatives, have different files of one package.

    Two digests of one file name are two files as well.
    """
    known: dict[tuple[bool, str], tuple[Artifact, LockedPackage]] = {}
    for each in packages:
        if (artifact := each.artifact) is None:
            continue
        first, package = known.setdefault((artifact.kind == "conda", artifact.name), (artifact, each))
        if first.filename != artifact.filename:
            both = " and ".join(sorted({*package.groups, *each.groups}))
            raise ConfigurationError(
                f"{path}: {word} {both} differ: {first.filename} and {artifact.filename}",
                hint=f"fetch one {word} with each command",
            )
        digests = (first.sha256, artifact.sha256), (first.md5, artifact.md5)
        if any(one and other and one != other for one, other in digests):
            raise ConfigurationError(
                f"{path} has two digests of {artifact.filename}", hint="create the lock file again"
            )


def _count(number: int, kind: str) -> str:
    return f"{number} {kind} package{'' if number == 1 else 's'}"
