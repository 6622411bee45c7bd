"""Shards and shard indexes that were fetched before, in a folder that only this user can write to.

A shard's name is its digest and it is verified whenever it is read, so it is kept for ever and never synced: one that a
power cut has spoilt is fetched again. An index is one file with what its server said of it, synced before it has its
name; when that was said last is the file's time. Of an address that has no index a note alone is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from resume_dl import fs
from resume_dl.errors import UntrustedFolderError
from resume_dl.indexes.copies import Note, read_note
from resume_dl.indexes.shards.index import LARGEST_INDEX
from resume_dl.indexes.shards.shard import LARGEST_SHARD
from resume_dl.model.url import RedactedUrl
from resume_dl.store.platform import write_durably
from resume_dl.store.work_folder import make_work_folder

_LARGEST_NOTE = 4096
_KEPT = re.compile(r"[0-9a-f]{64}\.(?:msgpack\.zst|index|absent)(?:\.[0-9a-f]{8})?")
"""A shard, an index, a note that there is none, or what a killed run has left of writing one."""
_RUN = re.compile(r"run-\w+")
_TOUCHED_SECONDS = 24 * 3600.0
_UNUSED_SECONDS = 30 * 24 * 3600.0
_ABANDONED_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class KeptIndex:
    """An index as it came, and what its server said with it."""

    data: bytes
    note: Note


class ShardStore:
    """The folder ``folder``; where it cannot be written, or others can write to it, nothing is kept."""

    def __init__(self, folder: Path, *, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._now = now
        self._usable: bool | None = None

    def read(self, digest: str) -> bytes | None:
        """The shard of this SHA-256 (hex); None where it is not kept. One with other bytes is removed."""
        path = self._shard(digest)
        try:
            data = fs.read_regular(path, LARGEST_SHARD)
        except OSError:
            return None
        if hashlib.sha256(data).hexdigest() == digest:
            self._touch(path)
            return data
        with suppress(OSError):
            path.unlink()
        return None

    def keep(self, digest: str, data: bytes) -> None:
        """Keep a shard whose digest was verified; a folder that cannot be written costs the next run its bytes."""
        if not self._is_usable():
            return
        path = self._shard(digest)
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        try:
            fs.write_file(temporary, data)
            fs.replace(temporary, path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()

    def index(self, url: RedactedUrl) -> KeptIndex | None:
        """The index that is kept of an address; None where there is none that can be read."""
        if not self._is_usable():
            return None
        path = self._index(url)
        try:
            data = fs.read_regular(path, LARGEST_INDEX + _LARGEST_NOTE)
            checked = path.stat().st_mtime
            line, _, body = data.partition(b"\n")
            return KeptIndex(body, replace(read_note(json.loads(line), checked), checked=checked))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def keep_index(self, url: RedactedUrl, index: KeptIndex) -> None:
        """Keep an index that was parsed, as of now."""
        if not self._is_usable():
            return
        line = json.dumps(index.note.fields()).encode()
        if len(line) >= _LARGEST_NOTE:
            return
        with suppress(OSError):
            self._absent(url).unlink(missing_ok=True)
            write_durably(self._index(url), line + b"\n" + index.data)

    def confirm_index(self, url: RedactedUrl, index: KeptIndex, note: Note) -> None:
        """Note that the server has called the kept ``index`` current; ``note``: what holds of it from now on."""
        if note.said != index.note.said:
            self.keep_index(url, replace(index, note=note))
            return
        now = self._now()
        with suppress(OSError):
            os.utime(self._index(url), (now, now))

    def forget_index(self, url: RedactedUrl) -> None:
        """Remove an index that cannot be used."""
        with suppress(OSError):
            self._index(url).unlink()

    def absence(self, url: RedactedUrl) -> Note | None:
        """What ``keep_absence`` was given for this address; None where it was given nothing."""
        if not self._is_usable():
            return None
        path = self._absent(url)
        try:
            return read_note(json.loads(fs.read_regular(path, _LARGEST_NOTE)), path.stat().st_mtime)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def keep_absence(self, url: RedactedUrl, note: Note) -> None:
        """Remember that the server has answered for this address: there is no index."""
        line = json.dumps(note.fields()).encode()
        if self._is_usable() and len(line) < _LARGEST_NOTE:
            with suppress(OSError):
                write_durably(self._absent(url), line)

    def make_temporary(self) -> Path:
        """A new private folder for one run, which it removes."""
        if self._is_usable():
            with suppress(OSError):
                return Path(tempfile.mkdtemp(prefix="run-", dir=self._folder))
        return Path(tempfile.mkdtemp(prefix="resume-dl-"))

    def clean(self) -> int:
        """Remove what no run has used for 30 days, and the rest of runs that were killed; the bytes that it freed."""
        freed, now = 0, self._now()
        try:
            fs.check_private(self._folder)
            found = [*os.scandir(self._folder)]
        except OSError:
            return 0
        for entry in found:
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                unused = now - status.st_mtime
                if _RUN.fullmatch(entry.name) and unused > _ABANDONED_SECONDS:
                    freed += sum(path.stat().st_size for path in Path(entry.path).iterdir())
                    fs.remove(entry.path)
                elif _KEPT.fullmatch(entry.name) and unused > _UNUSED_SECONDS:
                    Path(entry.path).unlink()
                    freed += status.st_size
        return freed

    def _shard(self, digest: str) -> Path:
        return self._folder / f"{digest}.msgpack.zst"

    def _index(self, url: RedactedUrl) -> Path:
        return self._folder / f"{url.fingerprint}.index"

    def _absent(self, url: RedactedUrl) -> Path:
        return self._folder / f"{url.fingerprint}.absent"

    def _touch(self, path: Path) -> None:
        """Note that it was used, once a day."""
        now = self._now()
        with suppress(OSError):
            if now - path.stat().st_mtime > _TOUCHED_SECONDS:
                os.utime(path, (now, now))

    def _is_usable(self) -> bool:
        if self._usable is None:
            try:
                make_work_folder(self._folder)
                self._usable = True
            except (OSError, UntrustedFolderError):
                self._usable = False
        return self._usable
