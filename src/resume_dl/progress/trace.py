"""The trace of a run as JSON lines (docs/trace.md): the core's events and actions."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Any, TextIO

from resume_dl import __version__
from resume_dl.errors import NotWritableError
from resume_dl.model.url import scrub

FORMAT = 1
"""Version of the format; rises if older readers would misread it."""
FLUSH_EVERY = 0.25
"""Seconds between flushes, which bounds what a killed process loses; four writes a second cost nothing."""

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False, allow_nan=False).encode


class TraceWriter:
    """A ``ports.Tracer`` into a file, which it replaces and owns until ``close``.

    ``clock`` must be the engine's: a line's time counts from the writer's creation. A write error ends the trace, never
    the run: ``trouble`` then says why. Raises NotWritableError.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.trouble = ""
        self._path = path
        self._clock = clock
        self._shapes: dict[type, tuple[str, tuple[str, ...]]] = {}
        self._began = self._flushed = clock()
        try:
            # with fixed newlines, so that a trace is the same on every system
            self._file: TextIO | None = path.open("w", encoding="ascii", newline="\n")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            hint = "choose another file with --debug-trace"
            raise NotWritableError(f"{path} cannot be written: {why}", hint=hint) from error
        started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        self._put(_encode({"trace": FORMAT, "version": __version__, "started": started}))
        self._flush(self._began)

    def begin(self, now: float, key: str, filename: str, size: int | None, sources: Sequence[str]) -> None:
        """Record a new file."""
        self._line(now, key, "begin", {"filename": filename, "size": size, "sources": list(sources)})

    def note(self, now: float, key: str | None, what: object) -> None:
        """Record an event or an action: any dataclass."""
        kind, names = self._shape(type(what))
        self._line(now, key, kind, {name: getattr(what, name) for name in names})

    def close(self) -> None:
        """Write the rest and close the file. Never raises."""
        self._put('{"t":%.6f,"file":null,"kind":"end"}' % (self._clock() - self._began))
        if self._file is not None:
            file, self._file = self._file, None
            try:
                file.close()
            except OSError as error:
                self._give_up(error)

    def _line(self, now: float, key: str | None, kind: str, more: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        record: dict[str, Any] = {"t": round(now - self._began, 6), "file": key, "kind": kind}
        for name, value in more.items():
            record[name] = value if type(value) is int else _shown(value)  # nearly all values are counts
        self._put(_encode(record))
        if now - self._flushed >= FLUSH_EVERY:
            self._flush(now)

    def _shape(self, kind: type) -> tuple[str, tuple[str, ...]]:
        found = self._shapes.get(kind)
        if found is None:
            found = self._shapes[kind] = (_WORD.sub("_", kind.__name__).lower(), _names(kind))
        return found

    def _put(self, line: str) -> None:
        if self._file is not None:
            try:
                self._file.write(line + "\n")
            except OSError as error:
                self._give_up(error)

    def _flush(self, now: float) -> None:
        self._flushed = now
        if self._file is not None:
            try:
                self._file.flush()
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.trouble = f"the trace in {self._path} is incomplete: {error.strerror or error}"
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # the error is recorded already
                file.close()


def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def _shown(value: Any) -> Any:
    """``value`` as JSON values without secrets; of an exception only the name, as its text may quote anything."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, BaseException):
        return type(value).__name__
    if isinstance(value, (tuple, list)):
        return [_shown(one) for one in value]
    names = _names(type(value))
    return {name: _shown(getattr(value, name)) for name in names} if names else scrub(str(value))
