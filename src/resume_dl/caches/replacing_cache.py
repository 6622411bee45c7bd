"""A package cache in which damaged packages are replaced, however complete their folders look."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from resume_dl.caches.conda.extraction_folders import REPLACED, remove
from resume_dl.caches.conda.lookup import same_bytes
from resume_dl.caches.conda.publish import Unplaced
from resume_dl.caches.conda.record import RECORD, read_info
from resume_dl.caches.package_caches import Cache
from resume_dl.errors import StoreError
from resume_dl.model.artifact import Artifact
from resume_dl.store.disk_errors import store_error
from resume_dl.store.part import FOLDER
from resume_dl.store.platform import replace
from resume_dl.store.work_folder import make_work_folder


@dataclass(frozen=True, slots=True)
class ReplacingCache:
    """``cache``, whose ``damaged`` folders (by file name) are moved away just before their replacement is placed.

    Until then conda has what it had; a kill between the two steps leaves no folder, and the staged archive.
    """

    cache: Cache
    damaged: Mapping[str, Path]

    @property
    def folder(self) -> Path:
        """The cache's folder."""
        return self.cache.folder

    def place_of(self, artifact: Artifact) -> Path:
        """Return the path of the published artifact."""
        return self.cache.place_of(artifact)

    def has(self, artifact: Artifact) -> bool:
        """Whether the client would use ``artifact`` and it is not a damaged one."""
        return artifact.filename not in self.damaged and self.cache.has(artifact)

    def add_record(self, artifact: Artifact, extracted: Path) -> None:
        """Write the client's record into an unpacked archive. Raises StoreError."""
        self.cache.add_record(artifact, extracted)

    def sync(self, extracted: Sequence[Path]) -> None:
        """Wait until unpacked folders are on the disk. Raises StoreError."""
        self.cache.sync(extracted)

    def place(self, entries: Sequence[Unplaced]) -> list[StoreError | None]:
        """Move the damaged folders away and place ``entries``; returns the error of each."""
        failed: dict[int, StoreError] = {}
        moved: list[Path] = []
        for number, each in enumerate(entries):
            try:
                moved += self._move_away(each.artifact)
            except StoreError as error:
                failed[number] = error
            except OSError as error:
                failed[number] = store_error(error, self.folder, hint="check the folder and its permissions")
        rest = iter(self.cache.place([each for number, each in enumerate(entries) if number not in failed]))
        for path in moved:
            remove(path)
        return [failed[number] if number in failed else next(rest) for number in range(len(entries))]

    def _move_away(self, artifact: Artifact) -> list[Path]:
        """Move the damaged folder of ``artifact`` into the work folder, unless it is another package's by now."""
        folder = self.damaged.get(artifact.filename)
        if folder is None or folder.is_symlink() or not folder.is_dir():
            return []
        record = read_info(folder, RECORD)
        if record is not None and record.get("fn") is not None and not same_bytes(record, artifact):
            return []
        make_work_folder(self.folder / FOLDER)
        target = self.folder / FOLDER / f"{REPLACED}{secrets.token_hex(8)}"
        with suppress(FileNotFoundError):
            replace(folder, target)
            return [target]
        return []
