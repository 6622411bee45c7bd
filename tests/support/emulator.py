"""A terminal without a window: a pseudo-terminal of some size whose output is decoded and laid out as xterm does.

    with EmulatedTerminal(80, 24, encoding="gbk") as terminal:
        code = terminal.run(["get", url], meanwhile=lambda: terminal.wait_for("33%") or terminal.press_ctrl_c())
        terminal.shown()            # all lines, those that have scrolled away too

The command runs in this process, in its main thread, as from the console script. In a GBK terminal characters of
ambiguous width (UAX 11) take two columns, as on a Chinese console. Bytes that the encoding lacks become U+FFFD.
``tests/terminal/test_emulator.py`` compares it with tmux.
"""

from __future__ import annotations

import codecs
import os
import re
import signal
import struct
import sys
import threading
import time
import traceback
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, TextIO, final

import pytest

from resume_dl.cli.main import main

fcntl = pytest.importorskip("fcntl", reason="pseudo-terminals are POSIX's")
termios = pytest.importorskip("termios", reason="pseudo-terminals are POSIX's")

_CONTROL = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")
_BEGUN = re.compile(r"\x1b(\[[0-9;]*)?\Z")
"""A control sequence whose rest comes with the next read."""
_END = "\x05"
"""Written behind a command's output, so that all of it has been laid out."""
PATIENCE = 120.0


@final
class Layout:
    """Lines of cells. Only what our programs write is understood: anything else is an assertion's failure."""

    def __init__(self, columns: int, *, ambiguous: int = 1) -> None:
        self.columns = columns
        self._ambiguous = ambiguous
        self.lines: list[list[str]] = [[]]
        """A cell each; the second cell of a wide letter is empty."""
        self.wrapped: set[int] = set()
        """Numbers of the lines that the terminal itself began, because the one before was full."""
        self.colours: set[str] = set()
        self._row = self._column = 0
        self._begun = ""

    def feed(self, text: str) -> None:
        text = self._begun + text
        begun = _BEGUN.search(text)
        self._begun = begun[0] if begun else ""
        text = text.removesuffix(self._begun)
        at = 0
        while at < len(text):
            found = _CONTROL.match(text, at)
            if found:
                self._obey(found[2], found[1])
                at = found.end()
            else:
                self._put(text[at])
                at += 1

    def _obey(self, kind: str, parameters: str) -> None:
        assert kind in "AJKm", f"unexpected control sequence {kind}"
        if kind == "m":
            self.colours.add(parameters)
        elif kind == "A":
            self._row = max(0, self._row - int(parameters or 1))
        else:
            del self.lines[self._row][self._column :]
            if kind == "J":
                del self.lines[self._row + 1 :]
                self.wrapped = {row for row in self.wrapped if row <= self._row}

    def _put(self, letter: str) -> None:
        if letter == "\r":
            self._column = 0
        elif letter == "\n":
            self._down()
        elif letter == "\t":
            self._column = min(self.columns - 1, self._column // 8 * 8 + 8)
        else:
            assert letter >= " ", f"unexpected control character {letter!r}"
            self._write(letter, self._width(letter))

    def _write(self, letter: str, width: int) -> None:
        if self._column + width > self.columns:  # the last column is left only by the letter behind it
            self._down()
            self._column = 0
            self.wrapped.add(self._row)
        line = self.lines[self._row]
        line.extend(" " * (self._column + width - len(line)))
        if width:
            line[self._column : self._column + width] = [letter, *[""] * (width - 1)]
        else:
            line[self._column - 1] += letter
        self._column += width

    def _down(self) -> None:
        self._row += 1
        self.wrapped.discard(self._row)
        while len(self.lines) <= self._row:
            self.lines.append([])

    def _width(self, letter: str) -> int:
        if unicodedata.category(letter) in {"Mn", "Me", "Cf"}:
            return 0
        kind = unicodedata.east_asian_width(letter)
        return 2 if kind in "WF" else self._ambiguous if kind == "A" else 1

    def shown(self) -> list[str]:
        lines = ["".join(line).rstrip() for line in self.lines]
        while lines and not lines[-1]:
            lines.pop()
        return lines


@final
class EmulatedTerminal:
    """A terminal of ``columns`` by ``lines`` in which commands run one after the other."""

    def __init__(self, columns: int = 80, lines: int = 24, *, encoding: str = "utf-8") -> None:
        self.columns, self.encoding = columns, encoding
        self._ours, self._theirs = os.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        modes = termios.tcgetattr(self._theirs)
        modes[3] |= termios.NOFLSH  # else Ctrl-C discards what was written and is not yet read here
        termios.tcsetattr(self._theirs, termios.TCSANOW, modes)
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._changed = threading.Condition()
        self._ended = False
        self.clear()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> EmulatedTerminal:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._theirs)
        self._reader.join(PATIENCE)
        os.close(self._ours)

    def clear(self) -> None:
        """An empty screen."""
        with self._changed:
            self.layout = Layout(self.columns, ambiguous=2 if self.encoding == "gbk" else 1)
            self.raw = ""
            self.tape: list[list[str]] = []
            """The lines after each drawing that was seen."""

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._ours, 1 << 16)
            except OSError:  # EIO: the other side is closed
                return
            text = self._decoder.decode(data)
            with self._changed:
                self.raw += text.replace(_END, "")
                try:
                    self.layout.feed(text.replace(_END, ""))
                except AssertionError as error:  # not understood: shown to whoever looks
                    self.layout.feed(f"\ufffd{error}")
                if self.raw.endswith(("\n", "\x1b[J")):  # else a part of a drawing
                    self.tape.append(self.layout.shown())
                self._ended = self._ended or _END in text
                self._changed.notify_all()

    # --- a command --------------------------------------------------------------------------------------------------

    def run(self, arguments: Sequence[str], meanwhile: Callable[[], Any] = lambda: None) -> int:
        """The exit code of ``resume-dl``; ``meanwhile`` runs in another thread, as the person at the keys."""
        failures: list[BaseException] = []

        def act() -> None:
            try:
                meanwhile()
            except BaseException as error:  # noqa: BLE001  raised again below
                failures.append(error)
                os.kill(os.getpid(), signal.SIGINT)

        person = threading.Thread(target=act, daemon=True)
        before = sys.stdin, sys.stdout, sys.stderr
        out, err = self._stream("strict"), self._stream("backslashreplace")
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(os.dup(self._theirs), encoding=self.encoding), out, err
        self.clear()
        self._ended = False
        try:
            person.start()
            code = main(list(arguments))
            err.flush()
            out.write(_END)
            out.flush()
        finally:
            for stream in (sys.stdin, out, err):
                stream.close()
            sys.stdin, sys.stdout, sys.stderr = before
        person.join(PATIENCE)
        if failures:
            raise failures[0]
        self._wait(lambda: self._ended, "the end of the output")
        return code

    def _stream(self, errors: str) -> TextIO:
        """As Python opens it for a terminal."""
        return os.fdopen(os.dup(self._theirs), "w", buffering=1, encoding=self.encoding, errors=errors)

    def press_ctrl_c(self) -> None:
        """The key: the terminal echoes it, and the process in front gets the signal.

        As in a real one the echo comes before what the process answers: the kernel handles the key in its own time.
        """
        with self._changed:
            before = self.raw.count("^C")
        os.write(self._ours, b"\x03")
        self._wait(lambda: self.raw.count("^C") > before, "the echo of Ctrl-C")
        os.kill(os.getpid(), signal.SIGINT)

    # --- the screen -------------------------------------------------------------------------------------------------

    def shown(self) -> list[str]:
        """All lines since the command was typed."""
        with self._changed:
            return self.layout.shown()

    def wait_for(self, *texts: str) -> None:
        """Until one line has all these texts."""
        self.wait(lambda lines: any(all(text in line for text in texts) for line in lines), repr(texts))

    def wait(self, holds: Callable[[list[str]], bool], what: str) -> None:
        """Until it holds for the lines."""
        self._wait(lambda: holds(self.layout.shown()), what)

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        ends = time.monotonic() + PATIENCE
        with self._changed:
            while not holds():
                self._changed.wait(max(0.0, ends - time.monotonic()))
                if time.monotonic() >= ends:
                    main_thread = sys._current_frames()[threading.main_thread().ident or 0]
                    doing = "".join(traceback.format_stack(main_thread)[-8:])
                    shown = "\n".join(self.layout.shown())
                    raise AssertionError(f"waited for {what}; the screen:\n{shown}\nthe command:\n{doing}")
