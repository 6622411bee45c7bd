"""The destination of artifacts, and checks, before any download, that it can be written."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from resume_dl import fs
from resume_dl.errors import ConfigurationError, NotWritableError
from resume_dl.fs.others_links import others_link_on
from resume_dl.model.artifact import Artifact
from resume_dl.model.bundle import CHANNEL
from resume_dl.model.channel import SUBDIR
from resume_dl.ports import PlannedFile
from resume_dl.transfer.plan import Planned, Space
from resume_dl.transfer.report import ArtifactResult
from resume_dl.transfer.watched_engine import WatchedEngine


class Destination(Protocol):
    """A place that artifacts are downloaded to."""

    def plan(self, artifacts: Sequence[Artifact], *, touch: bool) -> list[Planned]:
        """Find which artifacts are there already; with ``touch`` False, without changing anything on disk."""

    def spaces(self, planned: Sequence[Planned]) -> list[Space]:
        """Compute the space that the missing artifacts need on each disk."""

    def files(self, planned: Sequence[Planned]) -> list[PlannedFile]:
        """Return the planned files for a reporter, with the bytes that unfinished downloads have."""

    def fetch(
        self, planned: Sequence[Planned], engine: WatchedEngine, *, thorough: Container[str]
    ) -> list[ArtifactResult]:
        """Download, verify and publish; one result per artifact, in order. ``thorough`` as in ``Wanted``."""


def check_folder(folder: Path, option: str) -> Path:
    """Return ``folder`` as an absolute path if it can be written or created.

    Raises NotWritableError, which names ``option``.
    """
    folder = fs.roomy(folder.absolute())
    refuse_others_link(folder, f"choose another folder with {option}")
    if not can_make(folder):
        raise NotWritableError(f"{folder} cannot be written", hint=f"choose another folder with {option}")
    return folder


def refuse_others_link(path: Path, hint: str) -> None:
    """Raise NotWritableError if a component of ``path`` is a link of another user, who would choose where we write."""
    link = others_link_on(path)
    if link is not None:
        why = "is a link that another user made: what is written would go where it leads"
        raise NotWritableError(f"{link} {why}", hint=hint)


def check_lock(lock: Path) -> None:
    """Raise NotWritableError if the list for ``--lock`` cannot be written: better now than after the download."""
    refuse_others_link(lock, "choose another file with --lock")
    if lock.is_dir():
        why = "it is a folder"
    elif lock.exists():
        why = "" if os.access(lock, os.W_OK) else "no permission"
    else:
        why = "" if can_make(lock.parent) else "its folder cannot be written"
    if why:
        raise NotWritableError(f"{lock} cannot be written: {why}", hint="choose another file with --lock")


def can_make(folder: Path) -> bool:
    """Whether ``folder`` can be written or created."""
    place = folder
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def write_list(lock: Path, text: str) -> NotWritableError | None:
    """Write the list of ``--lock``. Returns the error, if any."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.write_text(text, encoding="utf-8")
    except OSError as error:
        why = f"{lock} cannot be written: {error.strerror}"
        return NotWritableError(why, hint="choose another file with --lock")
    return None


def channel_path(root: Path, artifact: Artifact) -> Path:
    """Return the artifact's path in the bundle at ``root``. Raises ConfigurationError for a URL without a platform."""
    if not re.fullmatch(SUBDIR, artifact.subdir):
        raise ConfigurationError(
            f"{artifact.url} does not name its platform",
            hint="list it as …/linux-64/name-version-build.conda",
        )
    return root / CHANNEL / artifact.subdir / artifact.filename


def clash(artifacts: Iterable[Artifact], *, by_subdir: bool = False) -> tuple[Artifact, Artifact] | None:
    """Find two artifacts with the same file name and different content, which one folder cannot hold; else None.

    ``by_subdir``: each platform has its own folder.
    """
    named: dict[tuple[str, str], Artifact] = {}
    for artifact in artifacts:
        other = named.setdefault((artifact.subdir if by_subdir else "", artifact.filename), artifact)
        if other.key != artifact.key:
            return artifact, other
    return None


def check_names(artifacts: Sequence[Artifact], *, of_bundle: bool) -> None:
    """Raise ConfigurationError for two different files of the same name: all platforms share a folder."""
    if (two := clash(artifacts)) is not None:
        artifact, other = two
        raise ConfigurationError(
            f"{artifact.url} and {other.url} are different files of the same name, and one folder cannot hold both",
            hint="make a bundle of each"
            if of_bundle
            else "fetch them one after another, each into a folder of its own (--wheel-dir)",
        )
