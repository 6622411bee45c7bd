"""Where the stage of an installation may be, and the lock that holds it."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from resume_dl import fs
from resume_dl.offline_tools.file_lock import lock
from resume_dl.offline_tools.installation.plan import Plan
from resume_dl.offline_tools.machine.programs import WINDOWS
from resume_dl.offline_tools.verification.layout import UNFINISHED


class StagePlace(NamedTuple):
    """A folder in which the stage of one environment may be, and how the stage's name begins there."""

    folder: Path
    name: str

    @property
    def lock(self) -> Path:
        """The same for each run, so that only one works on that environment."""
        return self.folder / (self.name + ".lock")

    def new(self) -> Path:
        """The path of a stage that is not there: its name cannot be guessed."""
        return self.folder / f"{self.name}-{os.urandom(8).hex()}"

    def left(self) -> list[Path]:
        """The stages that earlier runs of this user left; what another user made, or may have written into, is none."""
        form = re.compile(re.escape(self.name) + "(-[0-9a-f]{16})?")  # earlier versions added nothing
        try:
            return sorted(path for path in self.folder.iterdir() if form.fullmatch(path.name) and is_own_stage(path))
        except OSError:
            return []


def stage_places(plan: Plan) -> list[StagePlace]:
    """Where the stage may be: in conda's caches, so that what it unpacks is linked and later moved, else beside."""
    name = "bundle-" + hashlib.sha256(str(plan.prefix).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    caches = plan.info.pkgs_dirs if plan.info is not None and plan.conda else ()
    return [
        *(StagePlace(Path(cache, UNFINISHED), name) for cache in caches),
        StagePlace(plan.prefix.parent, "." + name),
    ]


def is_own_stage(folder: Path) -> bool:
    """Whether this user alone can have written into it."""
    try:
        fs.check_private(folder, alone=True)
    except OSError:
        return False
    return True


def locked(path: Path) -> int:
    """A descriptor that holds the lock of this file, which is made; -1 where another has it. Raises OSError."""
    while True:
        if path.parent.name == UNFINISHED:
            fs.make_private(path.parent)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = fs.open_regular(path, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            if path.parent.is_dir():
                raise
            continue  # its last owner has removed the folder
        if not lock(descriptor):
            os.close(descriptor)
            return -1
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.lstat()):
                return descriptor
        os.close(descriptor)  # its last owner removed the file between our open and our lock


def unlock(descriptor: int, path: Path) -> None:
    """Let go, and remove the file: POSIX while it is held, Windows where nobody else has it open."""
    if not WINDOWS:
        with suppress(OSError):
            path.unlink()
    os.close(descriptor)
    if WINDOWS:
        with suppress(OSError):
            path.unlink()
