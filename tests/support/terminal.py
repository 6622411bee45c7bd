"""A real terminal that a test types into and looks at: tmux, detached, of a given size.

    with Terminal(tmp_path, columns=80, lines=24, env=user.environment()) as terminal:
        terminal.type("resume-dl get http://...")   # as a person types it, at the prompt of a shell
        terminal.wait_for("left")                   # until the text is on the screen
        terminal.press("C-c")
        terminal.wait_for_prompt()
        terminal.screen()                           # the lines that a person sees, without blanks at their ends
        terminal.history()                          # the same with what has scrolled away

Nothing waits for time: the screen is looked at until it shows what is waited for, ``patience`` seconds at most.
``tape`` keeps each different screen that was looked at, for assertions on what stood there while a command ran.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import final

TMUX_HINT = "tmux is not installed: `apt-get install tmux` (or your system's package) to run the tests that need it"
PROMPT = "READY>"
_CONFIG = """\
set -g status off
set -g history-limit 5000
set -g default-terminal "screen-256color"
set -g remain-on-exit on
set -g escape-time 0
set -s exit-empty off
"""


def find_tmux() -> str | None:
    """The tmux binary, where this machine has one."""
    return None if sys.platform == "win32" else shutil.which("tmux")


@final
class Terminal:
    """A shell in a terminal of ``columns`` by ``lines``; used from one thread."""

    def __init__(
        self, folder: Path, *, columns: int = 80, lines: int = 24, env: Mapping[str, str], patience: float = 60.0
    ) -> None:
        self.columns, self.lines = columns, lines
        self._patience = patience
        self.tape: list[list[str]] = []
        """Every screen that differs from the one before, as far as it was looked at."""
        self._place = Path(tempfile.mkdtemp(prefix="tmux-"))  # a socket's path may have some 100 characters
        config = self._place / "conf"
        config.write_text(_CONFIG, encoding="utf-8")
        self._tmux = [find_tmux() or "tmux", "-u", "-f", str(config), "-S", str(self._place / "s")]
        bin_dir = Path(sys.executable).parent
        self._env = {**env, "PATH": f"{bin_dir}{os.pathsep}{env.get('PATH', os.defpath)}", "PS1": f"{PROMPT} "}
        self._env |= {"LC_ALL": "C.UTF-8", "TERM": "screen-256color"}
        shell = ["env", "-i", *(f"{name}={value}" for name, value in self._env.items()), "sh"]
        self._call("new-session", "-d", "-x", str(columns), "-y", str(lines), "-c", str(folder), *shell)
        self.wait_for_prompt()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        self._call("kill-server")
        shutil.rmtree(self._place, ignore_errors=True)

    # --- the keyboard -----------------------------------------------------------------------------------------------

    def type(self, command: str) -> None:
        """Type a line and press Enter, on an empty screen."""
        self.clear()
        self._call("send-keys", "-l", command)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names: ``C-c``, ``Enter``."""
        self._call("send-keys", *keys)

    def clear(self) -> None:
        """Empty the screen and what has scrolled away; the prompt is shown anew."""
        self._call("send-keys", r"printf '\033c'", "Enter")
        self.wait(lambda: self.screen() == [PROMPT], "an empty screen")
        self._call("clear-history")
        self.tape.clear()

    # --- the screen -------------------------------------------------------------------------------------------------

    def screen(self) -> list[str]:
        """What stands there now: a line each, blank ones at the end left out. ``tape`` keeps it."""
        shown = _lines(self._call("capture-pane", "-p"))
        if not self.tape or self.tape[-1] != shown:
            self.tape.append(shown)
        return shown

    def history(self) -> list[str]:
        """The same with all lines that have scrolled away before it."""
        return _lines(self._call("capture-pane", "-p", "-S", "-"))

    def unwrapped(self) -> list[str]:
        """``history``, each line in one piece that was too long for the screen."""
        return _lines(self._call("capture-pane", "-p", "-J", "-S", "-"))

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        """Look again and again until it holds."""
        ends = time.monotonic() + self._patience
        while not holds():
            self.screen()
            assert time.monotonic() < ends, f"waited for {what}; the screen:\n" + "\n".join(self.history())
            time.sleep(0.02)

    def wait_for(self, text: str) -> None:
        """Until ``text`` is seen."""
        self.wait(lambda: any(text in line for line in self.screen()), repr(text))

    def wait_for_prompt(self) -> None:
        """Until the shell waits for the next command."""
        self.wait(lambda: self.screen()[-1:] == [PROMPT] and len(self.screen()) != 0, "the prompt")

    def _call(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True, encoding="utf-8")
        return done.stdout


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines
