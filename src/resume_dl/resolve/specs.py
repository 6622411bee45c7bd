"""Parser of a spec's name and channel, without a solver. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from resume_dl.model.url import redact

_BEFORE = re.compile(r"\s*(?P<channel>[^\s\[]+?)::(?P<rest>.*)", re.DOTALL)
_INSIDE = re.compile(r"""\s*\bchannel\s*=\s*(?:'(?P<a>[^']*)'|"(?P<b>[^"]*)"|(?P<c>[^'",\]\s]+))\s*""")
_SUBDIR = re.compile(r"(?P<channel>.+)/(?P<subdir>noarch|(?:linux|osx|win|freebsd|emscripten|wasi|zos)-[a-z0-9]+)")
_NAME = re.compile(r"\s*(?P<name>[\w.-]+)")


@dataclass(frozen=True, slots=True)
class SplitSpec:
    """A spec split into channel and rest; ``shown`` is the whole spec without secrets."""

    text: str
    channel: str | None
    subdir: str | None
    shown: str

    @property
    def name(self) -> str:
        """The package's name, lower case; empty if missing."""
        found = _NAME.match(self.text)
        return found["name"].lower() if found else ""


def split_spec(spec: str) -> SplitSpec:
    """Split off a spec's channel (and subdir), as in ``channel/subdir::name`` or ``name[channel=…]``."""
    channel: str | None = None
    rest, shown = spec, spec
    if before := _BEFORE.fullmatch(spec):
        channel, rest = before["channel"], before["rest"]
        shown = f"{redact(channel)}::{rest}"
    elif "[" in spec and (inside := _INSIDE.search(spec, spec.index("["))):
        channel = inside["a"] or inside["b"] or inside["c"]
        head, tail = spec[: inside.start()].rstrip(" ,"), spec[inside.end() :].lstrip(" ,")
        # "[channel=x,build=y]" and "[build=y,channel=x]" keep their other keys.
        rest = head + tail if head.endswith("[") or tail.startswith("]") else f"{head},{tail}"
        rest = rest.removesuffix("[]")
        shown = f"{rest}[channel={redact(channel)}]"
    subdir = None
    if channel and (found := _SUBDIR.fullmatch(channel.rstrip("/"))):
        channel, subdir = found["channel"], found["subdir"]
    return SplitSpec(rest, channel, subdir, shown)


def channels_of_specs(specs: tuple[str, ...]) -> tuple[str, ...]:
    """Return the channels named in specs, without duplicates; conda searches these after the given ones."""
    named = (split_spec(spec).channel for spec in specs)
    return tuple(dict.fromkeys(channel for channel in named if channel))
