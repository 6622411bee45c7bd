"""The folder that one environment's installation works in."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import final

from resume_dl import fs
from resume_dl.fs.private import UntrustedFolderError
from resume_dl.fs.removal import remove
from resume_dl.offline_tools.installation.options import InstallError, first_few
from resume_dl.offline_tools.installation.plan import Plan
from resume_dl.offline_tools.installation.stage_places import locked, stage_places, unlock
from resume_dl.offline_tools.installation.unfinished_environment import (
    BEGUN,
    MAKING,
    foreign_file,
    marked_stage,
    remove_environment,
)
from resume_dl.offline_tools.machine.programs import WINDOWS
from resume_dl.offline_tools.verification.layout import UNFINISHED

_UNREADABLE_IN_A_LIST = set(",[]{}#'\"" + os.pathsep)
"""Characters at which conda or mamba splits CONDA_PKGS_DIRS."""


@final
class Stage:
    """A locked, temporary folder for one environment's installation: conda's cache and the lists.

    It lies in the first place that is writable and has a name that conda reads literally. It is private and its name
    cannot be guessed, so other users cannot prepare it. A killed run leaves it behind; the next run for the same
    environment, under the same lock, takes it over.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.prefix = plan.prefix
        self.place = stage_places(plan)[-1]
        self.folder = self.place.new()
        self.refused: list[str] = []
        """Places that other users may have written to, and why they are not used."""
        self._begun = False
        self._lock = -1

    @property
    def descriptors(self) -> tuple[int, ...]:
        """File descriptors that a child process inherits."""
        return () if WINDOWS else (self._lock,)

    def __enter__(self) -> Stage:
        for place in stage_places(self.plan):
            if not _is_read_as_it_is(place.folder / place.name):
                continue
            try:
                self._lock = locked(place.lock)
            except UntrustedFolderError as error:
                self.refused.append(f"{error}; it is not used")
                continue
            except OSError:
                continue
            self.place = place
            break
        else:
            tried = (str(place.folder / place.name) for place in stage_places(self.plan))
            text = "no folder is writable and readable by conda: tried " + first_few(tried)
            text = "\n".join([text, *self.refused])
            raise InstallError(text, "set CONDA_PKGS_DIRS to a folder of yours, and run it again", 5)
        if self._lock < 0:
            text = f"another process installs into {self.prefix}"
            raise InstallError(text, "wait until it ends, then run the same command again", 5)
        left = self.place.left()
        marked = marked_stage(self.plan)
        self.folder = marked if marked is not None and marked in left else [*left, self.place.new()][0]
        return self

    def begin(self) -> None:
        """Take over the folder of a killed run: remove all but the mark."""
        self._begun = True
        for each in self.place.left():
            if each != self.folder:
                remove(each)
        try:
            self.folder.mkdir(mode=0o700)
        except FileExistsError:
            for each in list(self.folder.iterdir()):
                if each.name != MAKING:
                    remove(each)

    def mark(self, token: str) -> None:
        """Mark the environment as unfinished, so that a later run may remove it; make a token if none is given."""
        data = (token or os.urandom(16).hex()).encode("ascii")
        fs.write_file(self.folder / MAKING, data)
        self.prefix.mkdir(parents=True, exist_ok=True)
        fs.write_file(self.prefix / BEGUN, data)

    def unmark(self) -> None:
        """Mark the environment as finished."""
        for place in (self.prefix / BEGUN, self.folder / MAKING):
            with suppress(FileNotFoundError):
                place.unlink()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._begun:
            if kind is not None and marked_stage(self.plan) == self.folder:
                # conda rolls back, and may leave the record of a package without its files (24.7)
                with suppress(OSError):
                    if not foreign_file(self.plan, self.folder):
                        remove_environment(self.prefix)
            if marked_stage(self.plan) != self.folder:  # else the next run needs it to recognise our files
                remove(self.folder)
        unlock(self._lock, self.place.lock)
        with suppress(OSError):
            if self.folder.parent.name == UNFINISHED:
                self.folder.parent.rmdir()


def _is_read_as_it_is(place: Path) -> bool:
    text = str(place)
    return os.path.expandvars(text) == text and not _UNREADABLE_IN_A_LIST & set(text)
