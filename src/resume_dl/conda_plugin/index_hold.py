"""Keep indexes that we stored in conda's cache fresh until conda has read them, then restore their true age.

We have just asked the server. A second request by conda would get a 304 at best, the whole body from a server without
conditional requests, and an error from one that cannot be reached. So each index counts as fresh until the solve has
read it. Then an index from mirrors (docs/indexes.md) becomes stale, or is replaced by conda's previous copy.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resume_dl import fs

HELD = 60.0
"""Seconds within which conda is expected to read the indexes after our downloads have ended."""
SHARDS_KEY = "has_shards"
"""conda's note of whether the server has a shard index."""
_STALE = 1
"""Nanoseconds since 1970; 0 would mean now to conda."""


@dataclass(frozen=True, slots=True)
class Before:
    """What an index from mirrors replaced: conda's state, and conda's copy, which is kept at ``replaced``.

    If ``replaced`` is None, the state describes the shard index; if the state is empty, there is nothing to restore.
    """

    state: Mapping[str, Any]
    replaced: Path | None


NOTHING_BEFORE = Before({}, None)


@dataclass(frozen=True, slots=True)
class _Stored:
    cache: Any
    sharded: bool
    before: Before | None


@dataclass(frozen=True, slots=True)
class _Held:
    """An index that counts as fresh ``until`` a time (ns since 1970); it was last ``refreshed`` at another."""

    stored: _Stored
    until: int
    refreshed: int


@dataclass(slots=True)
class _Process:
    """The indexes that were stored in this process, and those that are held."""

    stored: list[_Stored] = field(default_factory=list)
    held: list[_Held] = field(default_factory=list)


_here = _Process()


def note_stored(cache: Any, *, sharded: bool, before: Before | None = None) -> None:
    """Have ``hold_stored`` hold an index; ``before`` if it came from mirrors."""
    _here.stored.append(_Stored(cache, sharded, before))


def is_stored(cache: Any) -> bool:
    """Whether ``hold_stored`` will hold this index, or holds it."""
    own = cache.cache_path_state
    return any(each.cache.cache_path_state == own for each in (*_here.stored, *(one.stored for one in _here.held)))


def preserve(cache: Any) -> Before:
    """Keep conda's copy and state for ``end_hold`` to restore; ``cache.state`` has been read. Raises no OSError."""
    state = cache.state
    if not (state.etag or state.mod or state.cache_control):
        return NOTHING_BEFORE  # no copy, one that conda would download whole anyway, or one from mirrors
    copy: Path = cache.cache_path_json
    replaced = copy.with_suffix(".aside")  # a fixed name: what a killed process left is overwritten
    with suppress(OSError):
        replaced.unlink()
    try:
        os.link(copy, replaced)
    except FileNotFoundError:
        return Before(dict(state), None)
    except OSError:  # a file system without hard links
        return NOTHING_BEFORE
    return Before(dict(state), replaced)


def hold_stored() -> None:
    """Make every stored index count as fresh, so that conda sends no request for it, until ``end_hold``.

    An index that is fresh by conda's own rule is not changed.
    """
    for each in _here.stored:
        load_state(each.cache, sharded=each.sharded)
        refreshed = each.cache.state.get("refresh_ns", 0)
        if each.before is not None or each.cache.stale():
            held = time.time_ns() + int(HELD * 1e9)
            each.cache.refresh(refresh_ns=held)
            if not _here.held:
                atexit.register(end_hold)
            _here.held.append(_Held(each, held, refreshed))
    _here.stored.clear()


def end_hold() -> None:
    """Restore the true age of each held index, unless another process has refreshed it since. Never raises."""
    while _here.held:
        each = _here.held.pop()
        cache, before = each.stored.cache, each.stored.before
        with suppress(Exception):  # conda has what it needs; a failure here must not stop it
            load_state(cache, sharded=each.stored.sharded)
            if cache.state.get("refresh_ns") != each.until:
                continue
            if before is None:
                cache.refresh(refresh_ns=each.refreshed)
            else:
                _put_back(cache, before)


def _put_back(cache: Any, before: Before) -> None:
    """Restore conda's copy and state; if it had none, keep the index from mirrors and make it stale."""
    with suppress(OSError):
        if before.state:
            _restore(cache, before)
            return
    cache.state.pop(SHARDS_KEY, None)
    cache.refresh(refresh_ns=_STALE)


def _restore(cache: Any, before: Before) -> None:
    with cache.lock() as file:
        if before.replaced is None:
            cache.cache_path_json.unlink()
        else:
            fs.replace(before.replaced, cache.cache_path_json)
        file.seek(0)
        file.truncate()
        file.write(json.dumps(dict(before.state), indent=2))


def load_state(cache: Any, *, sharded: bool) -> None:
    """Read conda's state. ``cache.load_state`` would clear the state of a shard index as not matching the JSON."""
    if not sharded:
        cache.load_state()
        return
    state: dict[str, Any] = {}
    with suppress(FileNotFoundError, ValueError), cache.lock("r+") as file:
        state = json.loads(file.read())
    cache.state.clear()
    if isinstance(state, dict):
        cache.state.update(state)
