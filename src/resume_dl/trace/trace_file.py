"""Reads a trace file into a timeline; a truncated last line is skipped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from resume_dl.errors import ConfigurationError
from resume_dl.trace.replay import apply
from resume_dl.trace.timeline import Timeline

KNOWN = 1
"""The newest format that can be read."""


def read_trace(path: Path) -> Timeline:
    """Return the timeline of a trace. Raises ConfigurationError if the file is not a trace or cannot be read."""
    try:
        with path.open("rb") as file:
            lines = _objects(file)
            head = next(lines, None)
            if head is None or not isinstance(head.get("trace"), int):
                hint = "write one with resume-dl get --debug-trace FILE"
                raise ConfigurationError(f"{path} is not a trace", hint=hint)
            if head["trace"] > KNOWN:
                raise ConfigurationError(f"{path} is a trace of a newer resume-dl", hint="draw it with that one")
            timeline = Timeline(str(head.get("version", "")), str(head.get("started", "")))
            for line in lines:
                try:
                    apply(timeline, line or {})
                except (KeyError, TypeError, ValueError, AttributeError):
                    timeline.unread += 1
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}", hint="name a trace") from error
    return timeline


def _objects(lines: Any) -> Iterator[dict[str, Any] | None]:
    """Each line's object; None for a malformed line, such as the last one of a killed process."""
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        yield found if isinstance(found, dict) else None
