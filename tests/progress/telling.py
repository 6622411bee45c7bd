"""A run as reporters are told it, and a screen to see it on."""

from __future__ import annotations

import hashlib
import re

from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import ArtifactProgress, PlannedFile

MB = 1_000_000
_ESCAPE = re.compile(r"\x1b\[(\d*)([AJK])|\x1b\[[\d;]*(m)")


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def artifact(name: str, size: int | None) -> Artifact:
    url = RedactedUrl(f"https://host.example/t/SECRET/{name}")
    return Artifact(kind="conda", filename=name, url=url, size=size, sha256=hashlib.sha256(name.encode()).hexdigest())


def told(one: Artifact, done: int, *, state: str = "downloading", resumed: int = 0, note: str = "", size: int = 0):
    return ArtifactProgress(one.key, one.filename, one.size or size or None, done, resumed, state, note)


def planned(*artifacts: Artifact, here: int = 0, whole: bool = False) -> list[PlannedFile]:
    """A plan of these files; ``here`` and ``whole`` hold for each of them."""
    return [PlannedFile(one, here, whole) for one in artifacts]


class Screen:
    """What a terminal shows after some output: CR, LF, the cursor going up, a line and what is below cleared, colours.

    ``cli/test_screen.py`` looks at a real one; here every other control sequence is an error.
    """

    def __init__(self) -> None:
        self.lines: list[list[str]] = [[]]
        self._row = self._column = 0
        self.widest = 0

    def feed(self, text: str) -> Screen:
        at = 0
        while at < len(text):
            escape = _ESCAPE.match(text, at)
            if escape:
                if not escape[3]:  # a colour takes no room
                    self._obey(escape[2], int(escape[1] or 1))
                at = escape.end()
                continue
            self._put(text[at])
            at += 1
        return self

    def _obey(self, kind: str, count: int) -> None:
        if kind == "A":
            self._row = max(0, self._row - count)
            return
        del self.lines[self._row][self._column :]
        if kind == "J":
            del self.lines[self._row + 1 :]

    def _put(self, char: str) -> None:
        if char == "\r":
            self._column = 0
        elif char == "\n":  # the terminal's line discipline adds the return
            self._row += 1
            self._column = 0
        else:
            assert char >= " ", f"unexpected control character {char!r}"
            line = self.lines[self._row]
            line.extend(" " * (self._column + 1 - len(line)))
            line[self._column] = char
            self._column += 1
            self.widest = max(self.widest, self._column)
        while len(self.lines) <= self._row:
            self.lines.append([])

    def shown(self) -> list[str]:
        return [line for line in ("".join(line).rstrip() for line in self.lines) if line]
