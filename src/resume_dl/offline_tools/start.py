"""The start of the tool that the archive is named after, once the archive agrees with SHA256SUMS beside it."""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

_LONGEST_SUMS = 256 << 20


def start(words: list[str]) -> int:
    """Run a tool; ``words`` are ``sys.argv``. Returns its exit code.

    The tool is the one that the file is named after (``verify.py``, also ``verify (1).py``), else the first argument;
    an archive holds one tool and those that it starts.
    """
    script = Path(os.path.abspath(words[0]))  # noqa: PTH100 - resolve() follows links
    if not _is_listed(script):
        hint = f"copy {ascii(script.name)[1:-1]} and SHA256SUMS again"
        _complain(script, "is not the file that SHA256SUMS lists; nothing was started", hint)
        return 4
    # after the archive was checked:
    from resume_dl.offline_tools.console import settle, show_unencodable_by_number  # noqa: PLC0415 - see above
    from resume_dl.offline_tools.tool_names import INSIDE, TOOLS  # noqa: PLC0415 - see above

    show_unencodable_by_number()
    arguments = words[1:]
    tools = [tool for tool in TOOLS if find_spec(f"resume_dl.offline_tools.commands.{tool}") is not None]
    tool = next((tool for tool in tools if script.name.lower().startswith(tool)), "")
    if arguments[:1] == [INSIDE]:
        tool = "verify"
    elif not tool and arguments[:1] and arguments[0] in tools:
        tool, arguments = arguments[0], arguments[1:]
    try:
        if not tool:
            _complain(script, "is not the name of a tool in it", f"rename it to one of {'.py or '.join(tools)}.py")
            return 2
        code: int = import_module(f"resume_dl.offline_tools.commands.{tool}").main(arguments, script)
        return code
    finally:
        settle()


def _is_listed(script: Path) -> bool:
    """Whether each line of SHA256SUMS for this file has its digest; True without such a list.

    The archive runs before the bundle is verified. This finds accidents only: an attacker who can change the archive
    can change SHA256SUMS.
    """
    listed: list[bytes] = []
    sums = script.with_name("SHA256SUMS")
    with suppress(OSError):
        if sums.is_file() and sums.stat().st_size <= _LONGEST_SUMS:  # opening a pipe would block
            name = b"  " + os.fsencode(script.name)
            listed = [line[: -len(name)] for line in sums.read_bytes().splitlines() if line.endswith(name)]
    return not listed or {*listed} == {hashlib.sha256(script.read_bytes()).hexdigest().encode("ascii")}


def _complain(script: Path, problem: str, hint: str) -> None:
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"error: {ascii(script.name)[1:-1]} {problem}\n  {hint}\n")
        sys.stderr.flush()
