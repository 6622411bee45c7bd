"""Where artifacts go, and whether that can be written: found out before anything is downloaded."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from resume_dl import fs
from resume_dl.errors import ConfigurationError, NotWritableError
from resume_dl.model.artifact import Artifact
from resume_dl.model.bundle import CHANNEL
from resume_dl.model.channel import SUBDIR
from resume_dl.ports import PlannedFile
from resume_dl.transfer.plan import Planned, Space
from resume_dl.transfer.report import ArtifactResult
from resume_dl.transfer.watched_engine import WatchedEngine


class Destination(Protocol):
    """Where artifacts go, and how they come to lie there."""

    def plan(self, artifacts: Sequence[Artifact], *, touch: bool) -> list[Planned]:
        """What is there already; with ``touch`` False nothing on the disk is changed to find that out."""

    def spaces(self, planned: Sequence[Planned]) -> list[Space]:
        """What the rest needs on each disk."""

    def files(self, planned: Sequence[Planned]) -> list[PlannedFile]:
        """The same for a reporter, with the bytes that unfinished downloads have."""

    def fetch(
        self, planned: Sequence[Planned], engine: WatchedEngine, *, thorough: Container[str]
    ) -> list[ArtifactResult]:
        """Download, verify and publish; one result for each, in order. ``thorough`` as in ``Wanted``."""


def check_folder(folder: Path, option: str) -> Path:
    """``folder``, absolute, where it can be written or made. Raises NotWritableError, which names the option."""
    folder = fs.roomy(folder.absolute())
    refuse_others_link(folder, f"choose another folder with {option}")
    if not can_make(folder):
        raise NotWritableError(f"{folder} cannot be written", hint=f"choose another folder with {option}")
    return folder


def refuse_others_link(path: Path, hint: str) -> None:
    """Raise NotWritableError where another user's link, on the way to ``path``, says where it is written."""
    link = fs.others_link_on(path)
    if link is not None:
        why = "is a link that another user made: what is written would go where it leads"
        raise NotWritableError(f"{link} {why}", hint=hint)


def check_lock(lock: Path) -> None:
    """Refuse a list that could not be written after all was downloaded. Raises NotWritableError."""
    if lock.is_dir():
        why = "it is a folder"
    elif lock.exists():
        why = "" if os.access(lock, os.W_OK) else "no permission"
    else:
        why = "" if can_make(lock.parent) else "its folder cannot be written"
    if why:
        raise NotWritableError(f"{lock} cannot be written: {why}", hint="choose another file with --lock")


def can_make(folder: Path) -> bool:
    """Whether ``folder`` can be written, or be made."""
    place = folder
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def write_list(lock: Path, text: str) -> NotWritableError | None:
    """Write a list that was asked for; the error where it cannot be."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.write_text(text, encoding="utf-8")
    except OSError as error:
        why = f"{lock} cannot be written: {error.strerror}"
        return NotWritableError(why, hint="choose another file with --lock")
    return None


def channel_path(root: Path, artifact: Artifact) -> Path:
    """Its place in the bundle at ``root``. Raises ConfigurationError for an address that says no platform."""
    if not re.fullmatch(SUBDIR, artifact.subdir):
        raise ConfigurationError(
            f"{artifact.url} does not say which platform it is for",
            hint="list it as …/linux-64/name-version-build.conda",
        )
    return root / CHANNEL / artifact.subdir / artifact.filename


def clash(artifacts: Iterable[Artifact], *, by_subdir: bool = False) -> tuple[Artifact, Artifact] | None:
    """Two that have one name and other bytes, which one folder cannot hold; None where there are none.

    ``by_subdir``: each platform has a folder of its own.
    """
    named: dict[tuple[str, str], Artifact] = {}
    for artifact in artifacts:
        other = named.setdefault((artifact.subdir if by_subdir else "", artifact.filename), artifact)
        if other.key != artifact.key:
            return artifact, other
    return None
