"""Merged index of the records on which mirrors of different operators agree, for clients that solve on a whole file.

In our own solves, ``agreement`` checks the records that were chosen. A client chooses later and on its own, so its file
must not contain any record that only one operator states.
"""

from __future__ import annotations

import json
import mmap
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec

from resume_dl.errors import IntegrityError, Interrupted
from resume_dl.indexes.operators import Operators
from resume_dl.indexes.shards.closure import Closure
from resume_dl.indexes.trust import Stated, compare
from resume_dl.model.artifact import Artifact, safe_filename
from resume_dl.model.spec_name import name_of
from resume_dl.model.url import RedactedUrl

_SECTIONS = ("packages", "packages.conda")
_NOWHERE = RedactedUrl("")
_DIGESTS = {"sha256": re.compile(r"[0-9a-f]{64}"), "md5": re.compile(r"[0-9a-f]{32}")}
_INTEGERS = ("build_number", "size", "timestamp")
"""Keys that clients read as integers; some clients cannot read a file with another type there."""
_ArchiveName = Annotated[str, msgspec.Meta(pattern=r"^$|\.(conda|tar\.bz2)$", max_length=255)]
_MOST_OBJECTS = 2_000_000
"""Limit per section for records and the objects in them; the largest real section has 700,000."""
_FEW_OBJECTS = 10_000
_SMALLEST_RECORD = 100
"""Smallest valid record in bytes: name, version, build, digest and file name need more. Without this limit a small file
could contain enough tiny records to exhaust memory."""
_LARGEST_RECORD = 1 << 20
_PIECE = 1 << 20
_ASK_EVERY = 1000
"""Records between two checks for cancellation; comparing them takes about 10 ms."""
_LINKED = ("noarch", "python_site_packages_path", "size", "subdir")
_SOLVED = ("constrains", "depends", "features", "track_features")
_EXACT = (*_LINKED, *_SOLVED)
"""Keys that affect a solve but that ``compare`` compares loosely or not at all."""


class _Sections(msgspec.Struct, rename={"conda": "packages.conda"}):
    packages: msgspec.Raw = msgspec.Raw(b"{}")
    conda: msgspec.Raw = msgspec.Raw(b"{}")


class _Record(msgspec.Struct, gc=False):
    """Any object; its members are skipped."""


class _Identity(msgspec.Struct):
    """The members that every record must have, with their types."""

    name: str
    version: str
    build: str
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None


class _Dependent(msgspec.Struct):
    depends: list[str] = []


_as_dependent = msgspec.json.Decoder(_Dependent).decode
_check_records = msgspec.json.Decoder(dict[_ArchiveName, _Record]).decode
_as_records = msgspec.json.Decoder(dict[_ArchiveName, msgspec.Raw]).decode
_as_identity = msgspec.json.Decoder(_Identity).decode


@dataclass(frozen=True, slots=True)
class MirrorCopy:
    """A mirror's uncompressed index."""

    mirror: str
    operators: Operators
    path: Path


class UnreadableCopyError(IntegrityError):
    """The index of ``mirror`` is unreadable; those of other mirrors may be fine."""

    def __init__(self, mirror: str, why: object) -> None:
        super().__init__(f"the index of {mirror} cannot be read: {why}", hint="run it again")
        self.mirror = mirror


@dataclass(frozen=True, slots=True)
class Merged:
    """The content of a merged index."""

    records: int
    unstated: int
    """The number of records that no second operator confirms."""
    contradicted: tuple[str, ...]
    """The number of files for which two mirrors state different digests."""
    alone: frozenset[str]
    """Names of packages that have records at a mirror but none in the merged index."""
    depends: Mapping[str, Collection[str]]
    """Name in the merged index -> the names that its records depend on."""


def lacking(merged: Collection[Merged], names: Iterable[str]) -> frozenset[str]:
    """Return those of ``names`` and their transitive dependencies that only one operator has."""
    stated = frozenset(name for each in merged for name in each.depends)
    closure = Closure()
    found: set[str] = set()
    left = [*closure.add(names)]
    while left:
        name = left.pop()
        if name not in stated and any(name in each.alone for each in merged):
            found.add(name)
        for each in merged:
            left += closure.add(each.depends.get(name, ()))
    return frozenset(found)


def write_merged(
    copies: Sequence[MirrorCopy],
    target: Path,
    subdir: str,
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> Merged:
    """Write the records of ``copies`` on which two operators agree to ``target``, which is overwritten.

    A file for which any two mirrors state different digests is left out. Members that only one side states (a licence,
    a timestamp) are left out of a record, as is ``base_url``: files are below the channel's own URL. Memory is needed
    for the keys and positions of all records; copies are memory-mapped. ``cancelled`` is called regularly. Raises
    Interrupted, UnreadableCopyError, or OSError if ``target`` cannot be written.
    """
    tables = [_tables(copy) for copy in copies]
    pairs = {(a, b) for a, b in combinations(range(len(copies)), 2) if not copies[a].operators & copies[b].operators}
    count = _Count()
    with target.open("wb") as file:
        file.write(b'{"info":' + json.dumps({"subdir": subdir}).encode())
        for number, section in enumerate(_SECTIONS):
            file.write(b"," + json.dumps(section).encode() + b":{")
            _write_section([table[number] for table in tables], pairs, file, count, cancelled)
            file.write(b"}")
        file.write(b',"removed":[],"repodata_version":1}')
    alone = frozenset(count.seen - count.depends.keys())
    return Merged(count.records, count.unstated, tuple(count.contradicted), alone, count.depends)


@dataclass(slots=True)
class _Count:
    """Counters while sections are written; ``seen`` are the names with records in any copy."""

    records: int = 0
    unstated: int = 0
    contradicted: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    depends: dict[str, set[str]] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    """Spec -> its name; a cache, as most specs occur in many records."""

    def add(self, names: Iterable[str], record: bytes) -> None:
        """Count a written record of packages with these names."""
        self.records += 1
        try:
            specs = _as_dependent(record).depends
        except msgspec.MsgspecError:
            specs = []  # clients cannot read them either
        mentioned = {self._names.setdefault(spec, "") or self._named(spec) for spec in specs}
        for name in names:
            self.depends.setdefault(name.lower(), set()).update(mentioned)

    def _named(self, spec: str) -> str:
        name = self._names[spec] = sys.intern(name_of(spec))
        return name


_Table = Mapping[str, msgspec.Raw]
_Pairs = Collection[tuple[int, int]]
"""Pairs of copies of different operators, by number."""


def _tables(copy: MirrorCopy) -> tuple[_Table, _Table]:
    """Return the undecoded records of both sections, by file name."""
    try:
        with copy.path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # closed with the last record that refers to it
        sections = msgspec.json.decode(data, type=_Sections)
        return _records(sections.packages), _records(sections.conda)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise UnreadableCopyError(copy.mirror, error) from error


def _records(section: msgspec.Raw) -> _Table:
    """Return the records of a section. Raises ValueError or MsgspecError.

    Memory is bounded before it is allocated: there are at most as many records as braces, and decoding stops at the
    first value that is not an object.
    """
    text = memoryview(section)
    objects = sum(bytes(text[at : at + _PIECE]).count(b"{") for at in range(0, len(text), _PIECE))
    if objects > _MOST_OBJECTS:
        raise ValueError(f"a section has more than {_MOST_OBJECTS:,} objects")
    if objects > _FEW_OBJECTS and objects * _SMALLEST_RECORD > len(text):
        raise ValueError(f"a section of {len(text):,} bytes cannot hold {objects:,} records")
    _check_records(section)
    return _as_records(section)


def _write_section(
    tables: Sequence[_Table], pairs: _Pairs, file: IO[bytes], count: _Count, cancelled: Callable[[], bool]
) -> None:
    first = True
    for done, filename in enumerate(_filenames(tables)):
        if done % _ASK_EVERY == 0 and cancelled():
            raise Interrupted("stopped while comparing indexes of mirrors")
        found = [(number, _text(table[filename])) for number, table in enumerate(tables) if filename in table]
        names, verdict, record = _stated(found, pairs)
        count.seen.update(name.lower() for name in names)
        if verdict is Stated.ALIKE and _is_safe(filename):
            file.write((b"" if first else b",") + json.dumps(filename).encode() + b":" + record)
            first = False
            count.add(names, record)
        else:
            count.unstated += 1
            if verdict is Stated.OTHERWISE:
                count.contradicted.append(filename)


def _text(record: msgspec.Raw) -> bytes:
    """Return the undecoded record; empty if it is too large, so that it has no identity."""
    return bytes(record) if len(memoryview(record)) <= _LARGEST_RECORD else b""


def _filenames(tables: Sequence[_Table]) -> Iterator[str]:
    """Yield the file names of all tables, without duplicates."""
    for number, table in enumerate(tables):
        earlier = tables[:number]
        for filename in table:
            if not any(filename in other for other in earlier):
                yield filename


def _stated(found: Sequence[tuple[int, bytes]], pairs: _Pairs) -> tuple[frozenset[str], Stated, bytes]:
    """Compare the mirrors' records of one file; return its package names, the verdict, and the common record."""
    known = {text: _identity(text) for _, text in found}
    names = frozenset(identity.name for identity in known.values() if identity is not None)
    stated, record = Stated.ABSENT, b""
    for (a, own), (b, theirs) in combinations(found, 2):
        if (a, b) not in pairs or known[own] is None or known[theirs] is None:
            continue
        verdict, agreed = _compared(own, theirs)
        if verdict is Stated.OTHERWISE:
            return names, verdict, b""
        if verdict is Stated.ALIKE and stated is Stated.ABSENT:
            stated, record = verdict, agreed
    return names, stated, record


def _identity(text: bytes) -> _Identity | None:
    """Return a record's identity; None if it has no digest or a member has the wrong type."""
    try:
        identity = _as_identity(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return identity if identity.sha256 or identity.md5 else None


def _compared(own: bytes, theirs: bytes) -> tuple[Stated, bytes]:
    """Compare two mirrors' records of one file; return the verdict and the common record."""
    try:
        if own == theirs:  # true for nearly every record
            return _stated_alike(_lowered(msgspec.json.decode(own)))
        return _compared_values(_lowered(msgspec.json.decode(own)), _lowered(msgspec.json.decode(theirs)))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Stated.ABSENT, b""


def _compared_values(own: dict[str, Any], theirs: dict[str, Any]) -> tuple[Stated, bytes]:
    verdicts = {compare(_artifact(own), theirs), compare(_artifact(theirs), own)}
    if Stated.OTHERWISE in verdicts:
        return Stated.OTHERWISE, b""
    same = all(_is_same(own.get(key) or None, theirs.get(key) or None) for key in _EXACT)
    if verdicts != {Stated.ALIKE} or not same or not _is_same(own.get("build_number"), theirs.get("build_number")):
        return Stated.ABSENT, b""
    return _stated_alike({key: own[key] for key in own if key in theirs and _is_same(theirs[key], own[key])})


def _stated_alike(both: dict[str, Any]) -> tuple[Stated, bytes]:
    """Return the part of a common record that clients get, which expect the right types."""
    for key in _INTEGERS:
        if key in both and type(both[key]) is not int:
            if key == "build_number":
                return Stated.ABSENT, b""
            del both[key]
    for key, form in _DIGESTS.items():
        if not form.fullmatch(both.get(key) or ""):
            both.pop(key, None)
    return (Stated.ALIKE, msgspec.json.encode(both)) if both.keys() & _DIGESTS.keys() else (Stated.ABSENT, b"")


def _is_same(own: object, theirs: object) -> bool:
    """Whether values and types are equal at any depth; Python has ``False == 0 == 0.0``."""
    return msgspec.json.encode(own, order="sorted") == msgspec.json.encode(theirs, order="sorted")


def _lowered(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with digests in lower case."""
    return {**record, **{key: value.lower() for key in _DIGESTS if isinstance(value := record.get(key), str)}}


def _artifact(record: Mapping[str, Any]) -> Artifact:
    known = {key: record.get(key) for key in ("name", "version", "build", "sha256", "md5", "size")}
    return Artifact(kind="conda", filename="record-", url=_NOWHERE, record=record, **known)  # type: ignore[arg-type]  # checked before


def _is_safe(filename: str) -> bool:
    try:
        safe_filename(filename)
    except ValueError:
        return False
    return True
