"""What conda tells below its own words when a package could not be downloaded: the one command that goes on.

conda asks for hints (``conda_error_hints``, since 26) where it shows an error of its own. A body that broke off ends in
an exception of ``requests``, for which it calls no plugin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from conda.exceptions import ChecksumMismatchError, CondaHTTPError
from conda.models.channel import Channel
from conda.plugins.types import CondaErrorHint

from resume_dl.app.health import unfinished
from resume_dl.caches.conda.lookup import stem
from resume_dl.conda_plugin import compat
from resume_dl.conda_plugin.preferences import NEVER, PREFETCH
from resume_dl.model.units import show_bytes
from resume_dl.model.url import redact
from resume_dl.progress.console import presentable
from resume_dl.shell_commands import Step, command_line

CODE = "resume_dl_continue"
_MAY_PASS = {408, 429}
"""Answers of the 4xx kind after which the same request may succeed."""


def hints(error: Any) -> Iterator[CondaErrorHint]:
    """At most one, and only for an archive: other files are not ours to bring."""
    if isinstance(error, (CondaHTTPError, ChecksumMismatchError)):
        details = error.dump_map()
        url = str(details.get("url") or "").partition("#")[0]
        command = _fetch(url)
        if command is not None:
            again = _may_pass(error, details) and not _is_switched_off()
            text = _same_command() if again else _instead(command)
            yield CondaErrorHint(text=presentable(text), hint_code=CODE)


def _same_command() -> str:
    kept = sum(each.actual for each in unfinished(compat.package_caches()) if isinstance(each.actual, int))
    safe = f"{show_bytes(kept)} of unfinished downloads are safe on disk, and " if kept else ""
    return f"Run the same command again: {safe}resume-dl asks every mirror for the rest."


def _instead(command: str) -> str:
    return (
        f"Run `{command}`: it asks every mirror, believes only what the newest index says, and puts the package into "
        "conda's cache; the same conda command then finds it there."
    )


def _fetch(url: str) -> str | None:
    """The command that brings this package; None for what is no package. Shows no login."""
    filename = url.rpartition("/")[2]
    try:
        name, version, build = stem(filename).rsplit("-", 2)
    except ValueError:
        return None
    channel = redact(str(Channel(url).canonical_name))
    words = ("conda", "resume-dl", "fetch", "--no-deps", "-c", channel, f"{name}={version}={build}")
    return command_line([Step(words)])


def _may_pass(error: Any, details: Mapping[str, Any]) -> bool:
    """Whether trying again may help: not where the bytes were wrong, nor after a refusal."""
    if isinstance(error, ChecksumMismatchError):
        return False
    status = details.get("status_code")
    return not (isinstance(status, int) and 400 <= status < 500 and status not in _MAY_PASS)


def _is_switched_off() -> bool:
    """Whether the user wants nothing fetched ahead: then the same command asks the same server again."""
    try:
        return str(compat.plugin_setting(PREFETCH)).strip().lower() == NEVER
    except ValueError:
        return False
