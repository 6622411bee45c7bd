"""Places for the stage of an installation, and its lock."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from resume_dl.fs.lock import open_lock
from resume_dl.fs.private import check_private, make_private
from resume_dl.offline_tools.file_lock import lock
from resume_dl.offline_tools.installation.plan import Plan
from resume_dl.offline_tools.machine.programs import WINDOWS
from resume_dl.offline_tools.verification.layout import UNFINISHED


class StagePlace(NamedTuple):
    """A folder for the stage of one environment, and the prefix of the stage's name."""

    folder: Path
    name: str

    @property
    def lock(self) -> Path:
        """The lock file, the same for every run on that environment."""
        return self.folder / (self.name + ".lock")

    def new(self) -> Path:
        """A new path with a name that cannot be guessed."""
        return self.folder / f"{self.name}-{os.urandom(8).hex()}"

    def left(self) -> list[Path]:
        """Stages left by earlier runs of this user; never one that another user made or may have written to."""
        form = re.compile(re.escape(self.name) + "(-[0-9a-f]{16})?")  # earlier versions added nothing
        try:
            return sorted(path for path in self.folder.iterdir() if form.fullmatch(path.name) and is_own_stage(path))
        except OSError:
            return []


def stage_places(plan: Plan) -> list[StagePlace]:
    """Places for the stage: conda's caches, where packages can be linked and moved, else beside the environment."""
    name = "bundle-" + hashlib.sha256(str(plan.prefix).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    caches = plan.info.pkgs_dirs if plan.info is not None and plan.conda else ()
    return [
        *(StagePlace(Path(cache, UNFINISHED), name) for cache in caches),
        StagePlace(plan.prefix.parent, "." + name),
    ]


def is_own_stage(folder: Path) -> bool:
    """Whether only this user can have written to the folder."""
    try:
        check_private(folder, alone=True)
    except OSError:
        return False
    return True


def locked(path: Path) -> int:
    """Make and lock a file, and return its descriptor; -1 if another process holds it. Raises OSError."""
    while True:
        if path.parent.name == UNFINISHED:
            make_private(path.parent)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = open_lock(path, 0o600)
        except FileNotFoundError:
            if path.parent.is_dir():
                raise
            continue  # the previous owner has removed the folder
        if not lock(descriptor):
            os.close(descriptor)
            return -1
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.lstat()):
                return descriptor
        os.close(descriptor)  # the previous owner removed the file between our open and our lock


def unlock(descriptor: int, path: Path) -> None:
    """Unlock and remove the file: while locked on POSIX, on Windows unless another process has it open."""
    if not WINDOWS:
        with suppress(OSError):
            path.unlink()
    os.close(descriptor)
    if WINDOWS:
        with suppress(OSError):
            path.unlink()
