"""Parser of specs as conda understands them, which reports the invalid part of a malformed one.

rattler's strict parser rejects some forms that conda's command line has always accepted (``pytorch=1.7.*``,
``numpy 1.19``, ``pytorch=1.7.1=py3.8_cpu_0``), and its lenient one accepts anything (``a b c d``). A spec that the
strict parser rejects is accepted only if the lenient parser finds a well-formed version and build.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from resume_dl.errors import InvalidSpecError
from resume_dl.rattler_worker.adapter import InvalidMatchSpecError, match_spec

_BUILD = re.compile(r"[\w.+*!^$()|-]+")
_BOUNDARY = re.compile(r"\s+|(?<![=<>!~,|])[=<>!~\[,|]")
_OPERATORS = "=<>!~,|"
_SECOND = re.compile(r"\s(?P<spec>[A-Za-z_][\w.-]*\s*[=<>!~].*)")
"""The start of another spec, after a space."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A spec as given and as parsed by rattler."""

    text: str
    match: Any

    @property
    def name(self) -> str:
        """The package's name in its normal form (lower case)."""
        return str(self.match.name.normalized)

    @property
    def channel(self) -> str | None:
        """The channel's base URL, with a trailing slash, or None."""
        channel = self.match.channel
        return None if channel is None else str(channel.base_url)

    def parts(self) -> dict[str, Any]:
        """Return the spec's parts as JSON values; absent parts are None."""
        return {
            "text": self.text,
            "name": self.name,
            "version": self.match.version,
            "build": self.match.build,
            "channel": self.channel,
            "subdir": self.match.subdir,
        }


def parse_spec(text: str, *, base: str = "", shown: str = "") -> Spec:
    """Parse a spec; with ``base`` it matches only packages of that channel (``<base>::<text>``).

    ``shown`` is what the user wrote. Raises InvalidSpecError; its ``part`` is the invalid text.
    """
    shown = shown or text
    text = text.strip()
    match = _read(text, base)
    if match is not None:
        return Spec(shown, match)
    part = _refused_part(text)
    reason = _reason(text)
    hint = "a spec is name, name=1.7, 'name>=1.7,<2', name=1.7.1=build or channel::name"
    second = _SECOND.search(text)
    if second is not None and _read(text[: second.start()]) is not None:
        part, reason = second["spec"], "one spec ends before it"
        hint = f"pass each spec as a separate argument: '{text[: second.start()].strip()}' '{part}'"
    raise InvalidSpecError(f"the spec {shown!r} is malformed at {part!r}: {reason}", part=part, hint=hint)


def _read(text: str, base: str = "") -> Any:
    whole = f"{base}::{text}" if base else text
    if not text:
        return None
    try:
        match = match_spec(whole)
    except InvalidMatchSpecError:
        match = None
    if match is None:
        try:
            match = match_spec(whole, strict=False)
        except InvalidMatchSpecError:
            return None
        outside = text.partition("[")[0].rstrip()
        version, build = match.version or "", match.build or ""
        if (
            outside[-1:] in _OPERATORS
            or (build and not _BUILD.fullmatch(build))
            or (version and not any(c.isdigit() or c == "*" for c in version))
        ):
            return None
    return match if getattr(match.name, "normalized", None) else None


def _refused_part(text: str) -> str:
    """Return the text after its longest valid prefix."""
    for end in sorted((found.start() for found in _BOUNDARY.finditer(text)), reverse=True):
        if _read(text[:end]) is not None:
            return text[end:].strip()
    return text


def _reason(text: str) -> str:
    for strict in (False, True):
        try:
            match_spec(text, strict=strict)
        except InvalidMatchSpecError as error:
            return str(error).splitlines()[0]
    return "this is not a version or build"
