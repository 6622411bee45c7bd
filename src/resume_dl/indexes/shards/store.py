"""Store of fetched shards and shard indexes, in a folder that only this user can write to.

A shard is named by its digest and verified on each read. So it never expires and is not synced: one damaged by a power
cut is fetched again. An index is a file that includes its server's cache headers, synced before it gets its name; the
file's time is that of the last confirmation. For a URL without an index, only a note is kept.
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
from resume_dl.fs.private import check_private
from resume_dl.fs.removal import remove
from resume_dl.indexes.copies import Note, read_note
from resume_dl.indexes.shards.index import LARGEST_INDEX
from resume_dl.indexes.shards.shard import LARGEST_SHARD
from resume_dl.model.url import RedactedUrl
from resume_dl.store.platform import write_durably
from resume_dl.store.work_folder import make_work_folder

_LARGEST_NOTE = 4096
_KEPT = re.compile(r"[0-9a-f]{64}\.(?:msgpack\.zst|index|absent)(?:\.[0-9a-f]{8})?")
"""Names of shards, indexes, notes of absence, and temporary files of killed runs."""
_SHARD = ".msgpack.zst"
_RUN = re.compile(r"run-\w+")
_TOUCHED_SECONDS = 24 * 3600.0
_UNUSED_SECONDS = 30 * 24 * 3600.0
_ABANDONED_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class KeptIndex:
    """An index as served, and its server's cache headers."""

    data: bytes
    note: Note


class ShardStore:
    """Stores files in ``folder``; nothing is kept if it is not writable, or writable by others."""

    def __init__(self, folder: Path, *, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._now = now
        self._usable: bool | None = None

    def digests(self) -> frozenset[str]:
        """List the SHA-256 (hex) of each kept shard, in one pass: to open each missing one takes longer."""
        try:
            names = [path.name for path in self._folder.iterdir()]
        except OSError:
            return frozenset()
        return frozenset(name.removesuffix(_SHARD) for name in names if name.endswith(_SHARD))

    def read(self, digest: str) -> bytes | None:
        """Return the shard of this SHA-256 (hex), or None. A shard with a wrong digest is removed."""
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
        """Keep a verified shard; if the folder cannot be written, the next run downloads it again."""
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
        """Return the kept index of a URL; None if there is no readable one."""
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
        """Keep an index that was parsed, with the current time."""
        if not self._is_usable():
            return
        line = json.dumps(index.note.fields()).encode()
        if len(line) >= _LARGEST_NOTE:
            return
        with suppress(OSError):
            self._absent(url).unlink(missing_ok=True)
            write_durably(self._index(url), line + b"\n" + index.data)

    def confirm_index(self, url: RedactedUrl, index: KeptIndex, note: Note) -> None:
        """Record that the server has confirmed the kept ``index``; ``note`` is the new note."""
        if note.said != index.note.said:
            self.keep_index(url, replace(index, note=note))
            return
        now = self._now()
        with suppress(OSError):
            os.utime(self._index(url), (now, now))

    def forget_index(self, url: RedactedUrl) -> None:
        """Remove an unusable index."""
        with suppress(OSError):
            self._index(url).unlink()

    def absence(self, url: RedactedUrl) -> Note | None:
        """Return the note that ``keep_absence`` stored for this URL, or None."""
        if not self._is_usable():
            return None
        path = self._absent(url)
        try:
            return read_note(json.loads(fs.read_regular(path, _LARGEST_NOTE)), path.stat().st_mtime)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def keep_absence(self, url: RedactedUrl, note: Note) -> None:
        """Record that the server has no index at this URL."""
        line = json.dumps(note.fields()).encode()
        if self._is_usable() and len(line) < _LARGEST_NOTE:
            with suppress(OSError):
                write_durably(self._absent(url), line)

    def make_temporary(self) -> Path:
        """Create a private folder for one run, which has to remove it."""
        if self._is_usable():
            with suppress(OSError):
                return Path(tempfile.mkdtemp(prefix="run-", dir=self._folder))
        return Path(tempfile.mkdtemp(prefix="resume-dl-"))

    def clean(self) -> int:
        """Remove files unused for 30 days and leftovers of killed runs; return the bytes freed."""
        freed, now = 0, self._now()
        try:
            check_private(self._folder)
            found = [*os.scandir(self._folder)]
        except OSError:
            return 0
        for entry in found:
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                unused = now - status.st_mtime
                if _RUN.fullmatch(entry.name) and unused > _ABANDONED_SECONDS:
                    freed += sum(path.stat().st_size for path in Path(entry.path).iterdir())
                    remove(entry.path)
                elif _KEPT.fullmatch(entry.name) and unused > _UNUSED_SECONDS:
                    Path(entry.path).unlink()
                    freed += status.st_size
        return freed

    def _shard(self, digest: str) -> Path:
        return self._folder / f"{digest}{_SHARD}"

    def _index(self, url: RedactedUrl) -> Path:
        return self._folder / f"{url.fingerprint}.index"

    def _absent(self, url: RedactedUrl) -> Path:
        return self._folder / f"{url.fingerprint}.absent"

    def _touch(self, path: Path) -> None:
        """Update the file's time of last use, at most once a day."""
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
