"""Read a trace file into a timeline; a truncated file is read up to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from resume_dl.errors import ConfigurationError
from resume_dl.trace.timeline import Timeline

KNOWN = 1
"""The newest format that can be read."""


def read_trace(path: Path) -> Timeline:
    """Read a trace. Raises ConfigurationError for a file that is not a trace or cannot be read."""
    try:
        with path.open("rb") as file:
            lines = _objects(file)
            head = next(lines, None)
            if head is None or not isinstance(head.get("trace"), int):
                raise ConfigurationError(
                    f"{path} is not a trace", hint="write one with resume-dl get --debug-trace FILE"
                )
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
    """The JSON object of each line; None if the line is malformed, as the last one of a killed process may be."""
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        yield found if isinstance(found, dict) else None
