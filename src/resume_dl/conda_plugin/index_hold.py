"""How long conda takes what was brought into its index cache for fresh, and what its cache is like afterwards.

The server has been asked a moment ago; a conda that asks once more gets a 304 at best, the whole body from a server
that knows no conditional requests, and nothing from one that cannot be reached. So each index counts as fresh until
the solve has read it. Then one that mirrors gave (docs/indexes.md) is stale, or what was there before is put back.
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
"""Seconds that may pass from the end of our downloads until conda has read the indexes."""
SHARDS_KEY = "has_shards"
"""conda's note of whether the server has an index of shards."""
_STALE = 1
"""Nanoseconds since 1970; conda takes 0 for now."""


@dataclass(frozen=True, slots=True)
class Before:
    """What an index from mirrors has replaced: conda's notes, and conda's copy, which lies at ``aside``.

    Without a copy (None) the notes are of the index of shards; without notes there was nothing to put back.
    """

    state: Mapping[str, Any]
    aside: Path | None


NOTHING_BEFORE = Before({}, None)


@dataclass(frozen=True, slots=True)
class _Brought:
    cache: Any
    sharded: bool
    before: Before | None


@dataclass(frozen=True, slots=True)
class _Held:
    """An index that counts as fresh ``until`` (ns since 1970); it was ``refreshed`` then."""

    brought: _Brought
    until: int
    refreshed: int


@dataclass(slots=True)
class _Process:
    """What this conda was brought, and what of it is held."""

    brought: list[_Brought] = field(default_factory=list)
    held: list[_Held] = field(default_factory=list)


_here = _Process()


def note_brought(cache: Any, *, sharded: bool, before: Before | None = None) -> None:
    """Have ``hold_brought`` hold an index; ``before`` for one that mirrors gave."""
    _here.brought.append(_Brought(cache, sharded, before))


def is_brought(cache: Any) -> bool:
    """Whether ``hold_brought`` will hold this index, or holds it."""
    own = cache.cache_path_state
    return any(each.cache.cache_path_state == own for each in (*_here.brought, *(one.brought for one in _here.held)))


def set_aside(cache: Any) -> Before:
    """Keep conda's copy from being lost; ``cache.state`` has been read. Raises no OSError."""
    state = cache.state
    if not (state.etag or state.mod or state.cache_control):
        return NOTHING_BEFORE  # no copy, one that would be asked for whole anyway, or one that mirrors gave
    copy: Path = cache.cache_path_json
    aside = copy.with_suffix(".aside")  # one name: after a kill the next one takes its place
    with suppress(OSError):
        aside.unlink()
    try:
        os.link(copy, aside)
    except FileNotFoundError:
        return Before(dict(state), None)
    except OSError:  # a file system without hard links
        return NOTHING_BEFORE
    return Before(dict(state), aside)


def hold_brought() -> None:
    """Let conda take every index that was brought, without asking for it again, until ``end_hold``.

    Nothing is changed where conda calls the index fresh by itself.
    """
    for each in _here.brought:
        load_state(each.cache, sharded=each.sharded)
        refreshed = each.cache.state.get("refresh_ns", 0)
        if each.before is not None or each.cache.stale():
            held = time.time_ns() + int(HELD * 1e9)
            each.cache.refresh(refresh_ns=held)
            if not _here.held:
                atexit.register(end_hold)
            _here.held.append(_Held(each, held, refreshed))
    _here.brought.clear()


def end_hold() -> None:
    """Give each index that is held its true age again, unless another process has refreshed it since. Never raises."""
    while _here.held:
        each = _here.held.pop()
        cache, before = each.brought.cache, each.brought.before
        with suppress(Exception):  # conda has what it needs, and nothing of ours may be in its way
            load_state(cache, sharded=each.brought.sharded)
            if cache.state.get("refresh_ns") != each.until:
                continue
            if before is None:
                cache.refresh(refresh_ns=each.refreshed)
            else:
                _put_back(cache, before)


def _put_back(cache: Any, before: Before) -> None:
    """Conda's own copy and notes as they were; where it had none, the index from mirrors stays, and is stale."""
    with suppress(OSError):
        if before.state:
            _restore(cache, before)
            return
    cache.state.pop(SHARDS_KEY, None)
    cache.refresh(refresh_ns=_STALE)


def _restore(cache: Any, before: Before) -> None:
    with cache.lock() as file:
        if before.aside is None:
            cache.cache_path_json.unlink()
        else:
            fs.replace(before.aside, cache.cache_path_json)
        file.seek(0)
        file.truncate()
        file.write(json.dumps(dict(before.state), indent=2))


def load_state(cache: Any, *, sharded: bool) -> None:
    """Read the state. ``cache.load_state`` clears it where the file of the other form is the one that it describes."""
    if not sharded:
        cache.load_state()
        return
    state: dict[str, Any] = {}
    with suppress(FileNotFoundError, ValueError), cache.lock("r+") as file:
        state = json.loads(file.read())
    cache.state.clear()
    if isinstance(state, dict):
        cache.state.update(state)
