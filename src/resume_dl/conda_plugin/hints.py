"""The hint below conda's error when a package could not be downloaded: the command to continue with.

conda calls ``conda_error_hints`` (since 26) for its own errors only. A response that breaks off ends in an exception of
``requests``, for which it calls no plugin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from conda.exceptions import ChecksumMismatchError, CondaHTTPError
from conda.models.channel import Channel
from conda.plugins.types import CondaErrorHint

from resume_dl.app.health import unfinished
from resume_dl.caches.conda.lookup import is_package, stem
from resume_dl.conda_plugin import compat
from resume_dl.conda_plugin.preferences import NEVER, PREFETCH
from resume_dl.model.units import show_bytes
from resume_dl.model.url import redact
from resume_dl.progress.console import presentable
from resume_dl.shell_commands import Step, command_line

CODE = "resume_dl_continue"
_MAY_PASS = {408, 429}
"""Client errors (4xx) after which the same request may succeed."""


def hints(error: Any) -> Iterator[CondaErrorHint]:
    """Yield one hint if the error concerns a package archive."""
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
    return f"Run the same command again: {safe}resume-dl fetches the rest from every mirror."


def _instead(command: str) -> str:
    return (
        f"Run `{command}`: it fetches the package from every mirror, verifies it against the newest index and puts it "
        "into conda's cache. Then run the same conda command again."
    )


def _fetch(url: str) -> str | None:
    """The command that fetches this package, without a login; None if the URL does not name a package."""
    filename = url.rpartition("/")[2]
    if not is_package(filename):
        return None
    try:
        name, version, build = stem(filename).rsplit("-", 2)
    except ValueError:
        return None
    channel = redact(str(Channel(url).canonical_name))
    words = ("conda", "resume-dl", "fetch", "--no-deps", "-c", channel, f"{name}={version}={build}")
    return command_line([Step(words)])


def _may_pass(error: Any, details: Mapping[str, Any]) -> bool:
    """Whether a retry may help: not after wrong bytes or a refusal."""
    if isinstance(error, ChecksumMismatchError):
        return False
    status = details.get("status_code")
    return not (isinstance(status, int) and 400 <= status < 500 and status not in _MAY_PASS)


def _is_switched_off() -> bool:
    """Whether the plugin fetches nothing, so that the same command would only ask the same server again."""
    try:
        return str(compat.plugin_setting(PREFETCH)).strip().lower() == NEVER
    except ValueError:
        return False
