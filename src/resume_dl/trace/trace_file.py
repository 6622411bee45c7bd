"""A trace's lines to its timeline; a torn end is read as far as it goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from resume_dl.errors import ConfigurationError
from resume_dl.trace.timeline import Timeline

KNOWN = 1
"""The newest format that can be read."""


def read_story(path: Path) -> Timeline:
    """Raises ConfigurationError for a file that is no trace, or cannot be read."""
    try:
        with path.open("rb") as file:
            lines = _objects(file)
            head = next(lines, None)
            if head is None or not isinstance(head.get("trace"), int):
                raise ConfigurationError(f"{path} is no trace", hint="write one with resume-dl get --debug-trace FILE")
            if head["trace"] > KNOWN:
                raise ConfigurationError(f"{path} is a trace of a newer resume-dl", hint="draw it with that one")
            timeline = Timeline(str(head.get("version", "")), str(head.get("started", "")))
            for line in lines:
                try:
                    timeline.take(line or {})
                except (KeyError, TypeError, ValueError, AttributeError):
                    timeline.unread += 1
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}", hint="name a trace") from error
    return timeline


def _objects(lines: Any) -> Iterator[dict[str, Any] | None]:
    """Each line's object; None for one that is none, as the last of a process that was killed may be."""
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        yield found if isinstance(found, dict) else None
