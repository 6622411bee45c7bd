"""Parser of a shard (CEP 16), the records of one package name, into repodata.json's form. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from resume_dl.indexes.shards.index import digest_bytes
from resume_dl.indexes.shards.packed import NOTHING, PARTS, BadShardsError, decoded, entries, quoted, unpacked
from resume_dl.model.artifact import safe_filename
from resume_dl.model.spec_name import name_of

LARGEST_SHARD = 16 << 20
"""Limit in bytes, packed and unpacked, as in conda; conda-forge's largest shard has a tenth of it."""
_LARGEST_RECORD = 1 << 20
"""Limit in bytes; records with thousands of dependencies have less than a tenth of it."""
_BATCH = 1 << 18
"""Bytes of MessagePack to convert at once: Python objects may take a hundred times as much memory."""
_MOST_RECORDS = 100_000
_MOST_SECTIONS = 16
_DIGESTS = (("sha256", 32), ("md5", 16))
"""Digest algorithms and their sizes in bytes."""
_ONLY_IN_SHARDS = "run_exports"
"""The member that only records of shards have (CEP 21); without it a record equals that of repodata.json."""


class _Shard(msgspec.Struct, rename={"conda": "packages.conda"}):
    packages: msgspec.Raw = NOTHING
    conda: msgspec.Raw = NOTHING
    removed: msgspec.Raw = NOTHING
    v3: msgspec.Raw = NOTHING


class _Dependencies(msgspec.Struct):
    depends: list[str] | None = None
    extra_depends: dict[str, list[str]] | None = None


_SHARD: Final = msgspec.msgpack.Decoder(_Shard)
_RECORD: Final = msgspec.msgpack.Decoder(dict[str, Any])
_NAMES: Final = msgspec.msgpack.Decoder(list[str])
_DEPENDENCIES: Final = msgspec.msgpack.Decoder(dict[str, _Dependencies])


@dataclass(frozen=True, slots=True)
class Shard:
    """The records of a name, as members of repodata.json's maps, and the names that they mention."""

    members: Mapping[str, bytes]
    """``packages``, ``packages.conda`` or ``v3/<type>`` -> ``"<file name>":{<record>},...`` in JSON, names in order."""
    mentioned: frozenset[str]
    """The names of the records' dependencies."""


def parse_shard(data: bytes, *, name: str) -> Shard:
    """Parse the shard of a package name; its digest must have been verified. Raises BadShardsError.

    Names in ``constrains`` do not count as mentioned: a package enters a solution only as a dependency.
    """
    shard = decoded(unpacked(data, largest=LARGEST_SHARD), _SHARD)
    removed = _removed(shard.removed)
    members: dict[str, bytes] = {}
    specs: set[str] = set()
    left = _MOST_RECORDS
    for section, raw in _sections(shard):
        count = entries(raw, left)
        left -= count
        texts = [_json(batch, name) for batch in _batches(raw, name, removed, specs)] if count else []
        members[section] = b",".join(texts)
    if not all(isinstance(spec, str) for spec in specs):
        raise BadShardsError("a dependency is not a string")
    return Shard(members, frozenset(filter(None, map(name_of, specs))))


def mentioned_names(data: bytes) -> frozenset[str]:
    """Return what ``Shard.mentioned`` would, and names of removed records, in a tenth of the time.

    Without further checks, for shards that another client already has. Raises BadShardsError.
    """
    shard = decoded(unpacked(data, largest=LARGEST_SHARD), _SHARD)
    specs: set[str] = set()
    left = _MOST_RECORDS
    for _, raw in _sections(shard):
        count = entries(raw, left)
        left -= count
        for record in decoded(raw, _DEPENDENCIES).values() if count else ():
            specs.update(record.depends or ())
            for extra in (record.extra_depends or {}).values():
                specs.update(extra)
    return frozenset(filter(None, map(name_of, specs)))


def _sections(shard: _Shard) -> Iterator[tuple[str, msgspec.Raw]]:
    yield "packages", shard.packages
    yield "packages.conda", shard.conda
    if entries(shard.v3, _MOST_SECTIONS):  # https://github.com/conda/ceps/pull/146
        for kind, raw in decoded(shard.v3, PARTS).items():
            yield f"v3/{kind}", raw


def _batches(
    raw: msgspec.Raw, name: str, removed: Collection[str], specs: set[str]
) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield records by file name, in batches of ``_BATCH`` bytes; add their dependencies to ``specs``."""
    batch: dict[str, dict[str, Any]] = {}
    size = 0
    for filename, packed in sorted(decoded(raw, PARTS).items()):
        _check_filename(filename)
        length = len(memoryview(packed))
        if length > _LARGEST_RECORD:
            raise BadShardsError(f"the record of {quoted(filename)} is larger than {_LARGEST_RECORD} bytes")
        size += length
        if size > _BATCH and batch:
            yield batch
            batch, size = {}, length
        record = decoded(packed, _RECORD)
        given = record.get("name")
        if given != name and not (isinstance(given, str) and given.lower() == name.lower()):
            raise BadShardsError(f"it is not only for {quoted(name)}: {quoted(filename)} is of {quoted(repr(given))}")
        record.pop(_ONLY_IN_SHARDS, None)
        for algorithm, length in _DIGESTS:
            digest = record.get(algorithm)
            if digest is None:
                continue
            if type(digest) is not bytes:  # hex from some servers
                digest = digest_bytes(digest)
            if digest is None or len(digest) != length:
                raise BadShardsError(f"the {algorithm} of {quoted(filename)} is not a digest")
            record[algorithm] = digest.hex()
        if bytes in map(type, record.values()):  # legacy_bz2_md5
            record = {key: each.hex() if isinstance(each, bytes) else each for key, each in record.items()}
        if filename not in removed:
            _add_dependencies(specs, record)
            batch[filename] = record
    if batch:
        yield batch


def _check_filename(filename: str) -> None:
    try:
        safe_filename(filename)
    except ValueError:
        raise BadShardsError(f"it names the file {quoted(repr(filename))}") from None


def _add_dependencies(specs: set[str], record: Mapping[str, Any]) -> None:
    """Add the specs of a record that may add packages: ``depends``, and ``extra_depends`` of v3."""
    try:
        specs.update(record.get("depends") or ())
        for extra in (record.get("extra_depends") or {}).values():
            specs.update(extra)
    except (TypeError, AttributeError):
        raise BadShardsError(f"the dependencies of {quoted(record['name'])} are not a list") from None


def _removed(raw: msgspec.Raw) -> frozenset[str]:
    return frozenset(decoded(raw, _NAMES) if entries(raw, _MOST_RECORDS) else ())


def _json(records: Mapping[str, Mapping[str, Any]], name: str) -> bytes:
    """Return records in JSON, as members of an object."""
    try:
        return msgspec.json.encode(records)[1:-1]
    except (TypeError, ValueError, RecursionError) as error:
        raise BadShardsError(f"a record of {quoted(name)} cannot be read: {quoted(error)}") from error
