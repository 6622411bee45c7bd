"""A file cut into parts that fit on a stick or through a mail gate: ``X.tar.001`` …, ``X.tar.parts.json``, ``join.py``.

``offline_tools/parts/parts_list.read_list`` documents the list. Parts get their names only when all are complete, and
the list comes last: a folder with the list has them all. A killed run's leftovers are found by the names it noted.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from resume_dl import fs
from resume_dl.bundle.tar import MTIME, Cancelled, Member, read_chunks, tar_blocks, tar_size
from resume_dl.bundle.unfinished import SUFFIX, Unfinished, check_room, remove_stale, writing
from resume_dl.errors import ConfigurationError, Interrupted, SizeMismatchError, StoreError
from resume_dl.offline_tools.archive import write_archive
from resume_dl.offline_tools.parts.parts_list import (
    KIND,
    LIST,
    MOST_PARTS,
    SCHEMA,
    SCRIPT,
    JoinError,
    Parts,
    is_plain,
    part_name,
    read_list,
    self_digest,
)

DEFAULT_SIZE = 4 * 1024**3
_MOST_SCRIPT = 16 << 20
_OUR_SCRIPT = b"Puts the parts of a file together again: resume-dl's join.py"
"""Text in every version of ``join.py``, which marks an older one as replaceable."""
Progress = Callable[[int], object]


def most_of(size: int) -> int:
    """The largest part for ``size``: one byte less for 4 GiB, the limit of FAT32."""
    return size - 1 if size == DEFAULT_SIZE else size


def split_members(
    members: Sequence[Member],
    folder: Path,
    name: str,
    *,
    size: int,
    mtime: int = MTIME,
    progress: Progress = lambda _: None,
    cancelled: Cancelled = lambda: False,
) -> Parts:
    """Write the tar of ``members`` as parts of at most ``size`` bytes; raises as ``write_parts`` and ``tar_blocks``."""
    return write_parts(
        tar_blocks(members, mtime=mtime, cancelled=cancelled),
        tar_size(members),
        folder,
        name,
        size=size,
        progress=progress,
    )


def split_file(
    path: Path, folder: Path, *, size: int, progress: Progress = lambda _: None, cancelled: Cancelled = lambda: False
) -> Parts:
    """Split an existing file, which is kept. Raises as ``write_parts``, and Interrupted."""
    try:
        total = path.stat().st_size
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error
    return write_parts(_blocks(path, total, cancelled), total, folder, path.name, size=size, progress=progress)


def write_parts(
    blocks: Iterable[bytes | memoryview],
    total: int,
    folder: Path,
    name: str,
    *,
    size: int,
    progress: Progress = lambda _: None,
) -> Parts:
    """Write ``blocks``, ``total`` bytes in all, as parts of file ``name`` into ``folder``.

    Parts of an earlier split of that name are replaced, at the end; other files are not. ``progress`` gets the
    number of bytes with each piece. Raises ConfigurationError, StoreError, OutOfSpaceError, NotWritableError, and what
    ``blocks`` raise; nothing is left then.
    """
    most = most_of(size)
    sizes = _sizes(name, total, most)
    names = [part_name(name, number, len(sizes)) for number in range(1, len(sizes) + 1)]
    document = folder / f"{name}{LIST}"
    files_of_this_run: list[Unfinished] = []

    def begin(path: Path) -> Unfinished:
        files_of_this_run.append(Unfinished(path))
        return files_of_this_run[-1]

    with writing(folder):
        _remove_leftovers(folder, name)
        earlier = _listed(document, name)
        _refuse_others(folder, [*names, document.name], earlier)
        check_room(folder, total)
        try:
            whole, rows, pieces = hashlib.sha256(), [], _Pieces(blocks)
            for part_file, part_size in zip(names, sizes, strict=True):
                part, digest = begin(folder / part_file), hashlib.sha256()
                for piece in pieces.take(part_size):
                    whole.update(piece)
                    digest.update(piece)
                    part.write(piece)
                    progress(len(piece))
                part.finish()
                rows.append({"name": part_file, "size": part_size, "sha256": digest.hexdigest()})
            pieces.end()
            texts = {folder / SCRIPT: script(), document: _text(name, total, whole.hexdigest(), rows)}
            for path, text in texts.items():
                file = begin(path)
                file.write(text)
                file.finish()
            for old in earlier:
                (folder / old).unlink(missing_ok=True)
            for file in files_of_this_run:
                file.publish()
        except BaseException:
            for file in files_of_this_run:
                file.withdraw()
            raise
    return read_list(document)


def check_parts(folder: Path, name: str) -> None:
    """Check that parts of ``name`` would not replace other files. Raises StoreError."""
    document = folder / f"{name}{LIST}"
    noted = [] if document.exists() else _listed(document.with_name(document.name + SUFFIX), name)
    part = re.compile(re.escape(name) + r"\.[0-9]{3,4}")
    there = sorted(path.name for path in folder.iterdir() if part.fullmatch(path.name)) if folder.is_dir() else []
    _refuse_others(folder, [*there, document.name], [*_listed(document, name), *noted])


@functools.cache
def script() -> bytes:
    """The content of ``join.py``."""
    return write_archive("join")


class _Pieces:
    """Blocks, cut at the ends of parts."""

    def __init__(self, blocks: Iterable[bytes | memoryview]) -> None:
        self._blocks = iter(blocks)
        self._rest = memoryview(b"")

    def take(self, count: int) -> Iterator[memoryview]:
        """The next ``count`` bytes."""
        while count:
            if not self._rest:
                self._rest = memoryview(next(self._blocks))
            piece = self._rest[:count]
            self._rest = self._rest[len(piece) :]
            count -= len(piece)
            yield piece

    def end(self) -> None:
        """Read to the end of the blocks, which detects a file that has grown."""
        for block in self._blocks:
            if block:
                raise AssertionError("more bytes than expected")


def _blocks(path: Path, total: int, cancelled: Cancelled) -> Iterator[memoryview]:
    left = total
    for chunk in read_chunks(path):
        if cancelled():
            raise Interrupted("stopped", hint="run the same command again")
        left -= len(chunk)
        if left < 0:
            break
        yield chunk
    if left:
        raise SizeMismatchError(
            f"{path} changes while it is read", expected=total, actual=total - left, hint="wait until it is complete"
        )


def _sizes(name: str, total: int, most: int) -> list[int]:
    """The bytes of each part; raises ConfigurationError."""
    if not is_plain(name):
        raise ConfigurationError(f"{name} is not a valid file name on every platform", hint="rename it, and try again")
    if total == 0:
        raise ConfigurationError(f"{name} is empty", hint="name the tar of a bundle")
    if most < 1 or total > most * MOST_PARTS:
        raise ConfigurationError(
            f"{name} has {total:,} bytes: parts of {max(most, 0):,} would be more than {MOST_PARTS}",
            hint="choose larger parts",
        )
    return [min(most, total - offset) for offset in range(0, total, most)]


def _text(name: str, total: int, sha256: str, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The list as text, one part a line."""
    document = {"schema": SCHEMA, "kind": KIND, "name": name, "size": total, "sha256": sha256, "parts": rows}
    fields = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items() if key != "parts"]
    fields.append('"parts": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]")
    fields.append(f'"digest": "{self_digest(document)}"')
    return ("{" + ",\n".join(fields) + "}\n").encode()


def _listed(document: Path, name: str) -> list[str]:
    """The parts of ``name`` in its list, and the list; empty if it is damaged or not ours."""
    with suppress(JoinError):
        whole = read_list(document)
        if whole.name == name:
            return [*(part.name for part in whole.parts), f"{name}{LIST}"]
    return []


def _remove_leftovers(folder: Path, name: str) -> None:
    """Remove a killed run's files: unfinished parts, and those already renamed."""
    document = folder / f"{name}{LIST}"
    noted = document.with_name(document.name + SUFFIX)
    if not document.exists():
        for part in _listed(noted, name):
            (folder / part).unlink(missing_ok=True)
    remove_stale(noted, document)
    unfinished = re.compile(re.escape(name) + r"\.[0-9]{3,4}" + re.escape(SUFFIX))
    for path in folder.iterdir():
        if unfinished.fullmatch(path.name):
            remove_stale(path, path.with_name(path.name[: -len(SUFFIX)]))


def _refuse_others(folder: Path, names: Sequence[str], earlier: Sequence[str]) -> None:
    """Raise StoreError for an existing file that no split of this name has made."""
    others = [each for each in names if each not in earlier and os.path.lexists(folder / each)]
    with suppress(FileNotFoundError):
        if _OUR_SCRIPT not in fs.read_regular(folder / SCRIPT, _MOST_SCRIPT):
            others.append(SCRIPT)
    if others:
        raise StoreError(
            f"{folder / others[0]} exists already, and is not from an earlier split",
            hint="move it away, or choose another folder with -o",
        )
