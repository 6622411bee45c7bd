"""Parser of a subdir's shard index, ``repodata_shards.msgpack.zst`` (CEP 16). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urljoin, urlsplit

import msgspec

from resume_dl.indexes.shards.packed import PARTS, BadShardsError, decoded, entries, quoted, unpacked
from resume_dl.model.artifact import Source
from resume_dl.model.private_address import is_private_host
from resume_dl.model.url import RedactedUrl

LARGEST_INDEX = 64 << 20
"""Limit in bytes, packed and unpacked. conda-forge's index has 2 MB, conda's own limit is 128 MiB. For a larger one the
whole index is used, so that refusing a malicious one takes less than 300 MB of memory."""
MOST_NAMES = 500_000
"""Limit for package names of one subdir; conda-forge has 30,000, PyPI 700,000."""
VERSION = 1
_DIGEST = 32
"""Size of a SHA-256 digest in bytes."""
_LARGEST_HASH = 128
"""Limit in bytes for a hash in any encoding."""
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){1,64}")
_NAME = re.compile(r"[^\s/\\\x00-\x1f\x7f]{1,255}")
"""A package name; not the full syntax, only that it is not a path and fits on one line."""
_DOTS = re.compile(r"(?i)(?:\.|%2e){2}")


class _Info(msgspec.Struct):
    subdir: str
    base_url: str | None = None
    shards_base_url: str | None = None


class _Index(msgspec.Struct):
    info: _Info
    shards: msgspec.Raw
    version: int = VERSION
    repodata_version: int | None = None


_INDEX: Final = msgspec.msgpack.Decoder(_Index)
_HASHES: Final = msgspec.msgpack.Decoder(dict[str, bytes])
_ANYTHING: Final = msgspec.msgpack.Decoder()


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """Package name -> SHA-256 (32 bytes) of its compressed shard.

    ``base_url`` is the location of the archives as the channel states it (empty: beside the index); ``shards_base_url``
    that of the shards, relative to the index or absolute.
    """

    subdir: str
    base_url: str
    shards_base_url: str
    hashes: Mapping[str, bytes]

    def digest_of(self, name: str) -> str | None:
        """Return the SHA-256 of a name's shard in hex; None if the subdir lacks the name."""
        found = self.hashes.get(name)
        return None if found is None else found.hex()

    def shards_of(self, index: Source) -> ShardFolder:
        """Return the location of the shards at the source of an index (or at a mirror of it).

        An absolute ``shards_base_url`` is the same for every source. The request headers of ``index`` (a login) are
        sent only to its own host.
        """
        base = urljoin(index.url.reveal(), self.shards_base_url or "./")
        base = base if base.endswith("/") else f"{base}/"
        if _place(base) == _place(index.url.reveal()):
            return ShardFolder(index.mirror, base, index.connections, index.headers)
        return ShardFolder(urlsplit(base).hostname or index.mirror, base)


@dataclass(frozen=True, slots=True)
class ShardFolder:
    """The location of an index's shards at one source."""

    mirror: str
    _base: str = field(repr=False)
    connections: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    def shard(self, digest: str) -> Source:
        """Return the source of the shard with this SHA-256 (hex)."""
        return Source(self.mirror, RedactedUrl(f"{self._base}{digest}.msgpack.zst"), self.connections, self.headers)


def parse_index(data: bytes, *, subdir: str, url: str) -> ShardIndex:
    """Parse the index of ``subdir`` from ``url``. Raises BadShardsError; the message does not name the source."""
    index = decoded(unpacked(data, largest=LARGEST_INDEX), _INDEX)
    if index.version != VERSION:
        raise BadShardsError(f"its version is {index.version}; only {VERSION} is supported")
    if index.info.subdir != subdir:
        raise BadShardsError(f"it is for the subdir {quoted(repr(index.info.subdir))}")
    base, shards_base = index.info.base_url or "", index.info.shards_base_url or ""
    _check_place("base_url", base, url)
    _check_place("shards_base_url", shards_base, url, climbs=True)
    hashes = _hashes(index.shards)
    for name, digest in hashes.items():
        if not _NAME.fullmatch(name) or ".." in name:
            raise BadShardsError(f"it names the package {quoted(repr(name))}")
        if len(digest) != _DIGEST:
            raise BadShardsError(f"the hash of {quoted(name)} is not a SHA-256 digest")
    folder = url.rpartition("/")[0] + "/"
    # below the index, as at each mirror
    base, shards_base = (
        f"./{each.removeprefix(folder)}" if each.startswith(folder) else each for each in (base, shards_base)
    )
    return ShardIndex(subdir, base, shards_base, hashes)


def _hashes(shards: msgspec.Raw) -> dict[str, bytes]:
    entries(shards, MOST_NAMES)
    try:
        return _HASHES.decode(shards)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass  # hex or numbers, or damaged: decode one by one, so that none can be larger than a digest
    found = {}
    for name, packed in decoded(shards, PARTS).items():
        short = len(memoryview(packed)) <= _LARGEST_HASH
        found[name] = (digest_bytes(decoded(packed, _ANYTHING)) if short else None) or b""
    return found


def digest_bytes(given: object) -> bytes | None:
    """Decode a digest of any length in servers' encodings (bytes, hex, a list of numbers); None if it is invalid."""
    if isinstance(given, bytes):
        return given
    try:
        if isinstance(given, str):
            return bytes.fromhex(given) if _HEX.fullmatch(given) else None
        return bytes(given) if isinstance(given, list) else None
    except (ValueError, TypeError):
        return None


def _check_place(what: str, base: str, url: str, *, climbs: bool = False) -> None:
    """Refuse a URL with another scheme than http(s), a downgrade to http, or a step into a private network.

    ``climbs``: allow ``..``, as no local file is named after it.
    """
    if not base:
        return
    try:
        parts, own = urlsplit(urljoin(url, base)), urlsplit(url)
        own_host, host, _ = own.hostname or "", parts.hostname or "", parts.port
    except ValueError:
        raise BadShardsError(f"its {what} is not a valid URL") from None
    said = f"its {what} leads to {quoted(RedactedUrl(base))}"
    if parts.scheme not in {"https", own.scheme} or not host:
        raise BadShardsError(f"{said}: another scheme")
    if is_private_host(host) and not is_private_host(own_host):
        raise BadShardsError(f"{said}: a private network")
    if parts.query or parts.fragment or ("@" in parts.netloc and parts.netloc != own.netloc):
        raise BadShardsError(f"{said}: not a plain folder")
    if "\\" in base or (not climbs and any(_DOTS.fullmatch(part) for part in urlsplit(base).path.split("/"))):
        raise BadShardsError(f"{said}: outside its folder")


def _place(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
