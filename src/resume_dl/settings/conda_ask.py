"""Query of conda's settings: ``conda config --show --json`` in a child process with a time-out."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from resume_dl.model.conda_settings import CondaSettings
from resume_dl.settings.child_process import ChildNotStartedError, ChildProcess
from resume_dl.settings.conda_answer import CondaAnswerError, parse_answer
from resume_dl.settings.conda_find import CondaCommand

MOST_BYTES = 4 << 20
"""Most of an answer that is read; a real one has some kilobytes."""


def ask_conda(
    command: CondaCommand, env: Mapping[str, str], *, timeout: float
) -> tuple[CondaSettings, tuple[Path, ...]]:
    """The settings that this conda reports, and the files that it read.

    Both queries run at once; only the first must succeed. Raises CondaAnswerError.
    """
    with tempfile.TemporaryFile() as shown, tempfile.TemporaryFile() as read_from:
        deadline = time.monotonic() + timeout
        try:
            with (
                ChildProcess([*command.line, "config", "--show", "--json"], env, shown) as show,
                ChildProcess([*command.line, "config", "--show-sources", "--json"], env, read_from) as sources,
            ):
                code = show.wait(deadline)
                sources.wait(min(deadline, time.monotonic() + timeout / 6))
        except ChildNotStartedError as error:
            raise CondaAnswerError(str(error)) from error
        answer = _json(shown)
        if code is None:
            raise CondaAnswerError(f"did not answer within {timeout:g} s")
        if code != 0 or not isinstance(answer, dict) or "pkgs_dirs" not in answer:
            raise CondaAnswerError(_reason(answer, code))
        files = _json(read_from)
        try:
            settings = parse_answer(answer, command)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CondaAnswerError(f"its answer has an unexpected form ({type(error).__name__})") from error
    named = [Path(name) for name in files if Path(name).is_absolute()] if isinstance(files, dict) else []
    return settings, tuple(named)


def _json(file: IO[bytes]) -> Any:
    file.seek(0)
    text = file.read(MOST_BYTES).decode("utf-8", "replace")
    start = text.find("{")  # a plugin or a wrapper may have printed a line before
    try:
        return json.JSONDecoder().raw_decode(text, start)[0] if start >= 0 else None
    except ValueError:
        return None


def _reason(answer: object, code: int) -> str:
    if code:
        name = answer.get("exception_name") if isinstance(answer, dict) else None
        return f"`conda config` ended with exit code {code}" + (f" ({name})" if name else "")
    return "`conda config --show --json` gave no settings"
