"""The outcome of the command group: messages, the JSON object and an exit code."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import redirect_stderr, suppress
from typing import Any

import click
from click.core import ParameterSource

from resume_dl.cli.group import COMMANDS, cli
from resume_dl.cli.run import as_error, give_up_stdout, say_json, show_error, stopped, tell
from resume_dl.errors import ConfigurationError, ResumeDLError
from resume_dl.fs.system import reader_has_gone

COMPLETE = "_RESUME_DL_COMPLETE"
_TRUE = {"1", "true", "t", "yes", "y", "on"}


def outcome(given: Sequence[str], *, noted: Sequence[str] | None = None) -> int:
    """The exit code of interface.md; errors are shown.

    ``noted``: the words by which notes of unfinished downloads name this command, if others than ``given``.
    """
    if COMPLETE in os.environ:
        return _complete()
    error: ResumeDLError
    try:
        _refuse_other_encodings(given)
        code = cli.main(args=list(given), prog_name="resume-dl", standalone_mode=False, obj=noted or given)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as caught:
        error = _shown(caught)
    except (click.Abort, KeyboardInterrupt):
        error = stopped()
        tell(error.message)
    except SystemExit:  # click's answer to a closed pipe; commands return their codes
        return 0
    except Exception as caught:  # noqa: BLE001 - an internal error is one line, with its exit code
        if isinstance(caught, OSError) and caught.filename is None and reader_has_gone(caught):
            give_up_stdout(caught)
            return 0
        # commands have mapped their own: without a file's name it is stdout that did not take click's help text
        error = give_up_stdout(caught) if isinstance(caught, OSError) and caught.filename is None else as_error(caught)
        show_error(error)
    return _say_outcome(given, error)


def _complete() -> int:
    """Answer the shell, which asks by a variable; what goes wrong completes nothing and prints nothing."""
    from resume_dl.cli.powershell import register

    register()
    with redirect_stderr(io.StringIO()), suppress(Exception, SystemExit):
        cli.main(args=[], prog_name="resume-dl", standalone_mode=False)
    return 0


def _refuse_other_encodings(given: Sequence[str]) -> None:
    """Raise ConfigurationError for an argument that is not valid UTF-8."""
    words = {f"argument {number}": word for number, word in enumerate(given, 1)}
    words.update((name, value) for name, value in os.environ.items() if name.startswith("RESUME_DL_"))
    for name, word in words.items():
        if not word.isascii():
            try:
                word.encode()
            except UnicodeEncodeError as error:
                seen = word.encode("ascii", "backslashreplace").decode()
                raise ConfigurationError(f"{name} is not UTF-8: {seen}", hint="write it in UTF-8") from error


def _shown(caught: click.ClickException) -> ConfigurationError:
    """The error for click's message, naming config.toml if the value is from there."""
    from resume_dl.settings.paths import find_paths

    where = ""
    if isinstance(caught, click.BadParameter) and caught.ctx is not None and caught.param is not None:
        name = caught.param.name
        if name is not None and caught.ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP:
            where = f" (in {find_paths(os.environ).config_file})"
    text = io.StringIO()
    caught.show(file=text)
    tell(text.getvalue().rstrip("\n") + where)
    return ConfigurationError(caught.format_message() + where)


def _say_outcome(given: Sequence[str], error: ResumeDLError) -> int:
    """Show an error and return its exit code; with --json as an object too."""
    if _wants_json(given):
        try:
            say_json(_as_json(_command_of(given), error))
        except ResumeDLError as unsaid:
            show_error(unsaid)
            return unsaid.exit_code
    return error.exit_code


def _command_of(given: Sequence[str]) -> str:
    """``fetch``, ``bundle split``: the name in its JSON object; empty if ``given`` has none."""
    command = next((word for word in given if word in COMMANDS), "")
    from resume_dl.cli.bundle import COMMANDS as OF_BUNDLE

    if command != "bundle":
        return command
    later = given[given.index(command) + 1 :]
    return " ".join([command, *(word for word in later if word in OF_BUNDLE)][:2])


def _as_json(command: str, error: ResumeDLError) -> dict[str, Any]:
    """The object of a failed run; for commands without downloads only the common part."""
    from resume_dl.transfer.report import RunResult, error_json

    if command.startswith("bundle ") and command != "bundle create":
        common = {"schema": 1, "command": command, "ok": False, "exit_code": error.exit_code}
        return {**common, "error": error_json(error)}
    made = {"bundle": None} if command == "bundle create" else {}
    return {**RunResult(command, error=error).as_json(), **made}


def _wants_json(given: Sequence[str]) -> bool:
    if "--json" in given:
        return True
    variable = os.environ.get("RESUME_DL_JSON")
    if variable is not None:
        return variable.strip().lower() in _TRUE
    from resume_dl.settings.config import load_config
    from resume_dl.settings.paths import find_paths

    try:
        return load_config(find_paths(os.environ).config_file).get("json") is True
    except ConfigurationError:
        return False
