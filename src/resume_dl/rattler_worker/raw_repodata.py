"""A repodata.json as bytes: original records of single packages, and a check of all file names.

A repodata.json may have 150 MB; parsing it whole in Python would take a gigabyte for a dozen records.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, final

from resume_dl.errors import IntegrityError
from resume_dl.model.artifact import safe_filename
from resume_dl.model.repodata_forms import NewerForms, read_newer_forms

_KEY_END = re.compile(rb'\.(?:conda|tar\.bz2|whl)"\s*:\s*')
"""The end of a key that names an archive. It begins behind the quotation mark before it, JSON escapes not decoded."""
_CHUNK = 1 << 13
_LARGEST_RECORD = 1 << 24
_MOST_HITS = 100
"""Upper limit for occurrences of one file name as a key; a record and its signatures make two or three."""
_IDENTITY = ("name", "version", "build", "sha256", "md5")


@final
class RawRepodata:
    """A memory-mapped repodata.json and a context manager; ``index`` is the channel's name and the subdir."""

    def __init__(self, path: Path, index: tuple[str, str]) -> None:
        self.index = index
        with path.open("rb") as file:
            try:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:
                raise IntegrityError(
                    f"the repodata of {'/'.join(index)} is empty",
                    index=index,
                    hint="run it again, with --mirror NAME to use another copy",
                ) from None

    def __enter__(self) -> RawRepodata:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._map.close()

    @cached_property
    def newer(self) -> NewerForms:
        """The sections of revisions, whose keys have no extension. Raises ValueError."""
        return read_newer_forms(self._map)

    def filenames(self) -> Iterator[str]:
        """Yield every archive's name: keys that end as one verbatim (JSON escapes are not decoded), and newer forms'.

        Raises ValueError.
        """
        for key, _ in self._keys():
            yield key.decode("utf-8", "replace")
        yield from self.newer.filenames()

    def check_filenames(self) -> None:
        """Raise IntegrityError if any archive's name is not a single plain path component on every platform.

        A key with a JSON escape contains a backslash here and is refused too; no real name has one. Raises ValueError
        for sections that cannot be read.
        """
        for name in self.filenames():
            try:
                safe_filename(name)
            except ValueError:
                raise refused(self.index, f"it names the file {name!r}") from None

    def records(self, wanted: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the channel's original records by file name; missing ones are left out.

        ``wanted``: file name -> the known values that its record must have (name, version, build, digests). All are
        found in one pass over the file.
        """
        identities = {filename.encode(): identity for filename, identity in wanted.items()}
        left = dict.fromkeys(identities, _MOST_HITS)
        records: dict[str, dict[str, Any]] = {}
        for key, end in self._keys() if wanted else ():
            if not left.get(key):
                continue
            left[key] -= 1
            record, identity = self._object(end), identities[key]
            if record is not None and _is(record, identity):
                records[key.decode()] = record
                del left[key]
                if not left:
                    break
        with suppress(ValueError):  # no JSON: nothing more is found in it
            for filename in wanted.keys() - records.keys():
                found = [each for each in self.newer.find(filename) if _is(each, wanted[filename])]
                if found:
                    records[filename] = found[0]
        return records

    def _keys(self) -> Iterator[tuple[bytes, int]]:
        """Each key that names an archive, and where its value begins; linear in the length of the file."""
        text, last = self._map, 0
        for found in _KEY_END.finditer(text):
            end = found.end()
            start = text.rfind(b'"', last, found.start()) + 1
            last = end
            if start:
                yield text[start : text.find(b'"', found.start())], end

    def _object(self, start: int) -> dict[str, Any] | None:
        length = _CHUNK
        while True:
            text = self._map[start : start + length].decode("utf-8", "ignore")
            try:
                value = json.JSONDecoder().raw_decode(text)[0]
            except (ValueError, RecursionError):
                if length > _LARGEST_RECORD or start + length >= len(self._map):
                    return None
                length *= 4
                continue
            return value if isinstance(value, dict) else None


def _is(record: Mapping[str, Any], identity: Mapping[str, Any]) -> bool:
    return all(record.get(name) == identity[name] for name in _IDENTITY if identity.get(name) is not None)


def refused(index: tuple[str, str], why: str) -> IntegrityError:
    """Return the error for an index that refers to places outside its channel."""
    return IntegrityError(
        f"the repodata of {'/'.join(index)} is refused: {why}",
        index=index,
        hint="it may be malicious: leave out the channel or the mirror, and report it to its operator",
    )
