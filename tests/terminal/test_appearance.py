"""Colours and characters: where a terminal shows them, and nowhere else; and what two Ctrl-C do."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.behaviours import Ok, Stall, Status
from faults.server import FaultServer
from resume_dl.cli import run
from resume_dl.engine.engine import Engine
from support.emulator import PATIENCE, EmulatedTerminal
from support.fetching import User

RED, YELLOW, GREEN = "1;31", "33", "32"


@pytest.fixture
def server(fault_server) -> FaultServer:
    server = fault_server()
    server.put("/data.bin", bytes(3_000_000))
    server.put("/gone.bin", b"x")
    server.always(0, Status(404), path="/gone.bin")
    return server


@pytest.fixture
def home(tmp_path: Path, at_home: Callable[..., None]) -> Callable[..., None]:
    user = User(tmp_path / "user")
    at_home(user)
    return lambda **more: at_home(user, **more)


def stop_at(terminal: EmulatedTerminal, *texts: str) -> Callable[[], None]:
    def person() -> None:
        terminal.wait_for(*texts)
        terminal.press_ctrl_c()

    return person


def test_words_that_say_how_it_went_are_coloured(server, home):
    """Green for what came, red for an error, yellow for a warning; without them the screen is the same."""
    screens = []
    for more in ({}, {"NO_COLOR": "1"}):
        home(**more)
        with EmulatedTerminal() as terminal:
            assert terminal.run(["get", f"{server.base()}/data.bin"]) == 0
            came, raw = terminal.layout.colours, terminal.raw
            screens.append([line for line in terminal.shown() if line.startswith(("downloaded", "warning"))])
            assert terminal.run(["get", f"{server.base()}/gone.bin", "--give-up-after", "1s"]) == 1
            failed = terminal.raw
        if more:
            assert not came
            assert not terminal.layout.colours
            assert "\x1b[" in raw, "the bar is drawn all the same"
        else:
            assert {GREEN, YELLOW} <= came
            assert f"\x1b[{GREEN}mdownloaded\x1b[0m" in raw
            assert f"\x1b[{YELLOW}mwarning\x1b[0m: data.bin" in raw
            assert f"\x1b[{RED}merror\x1b[0m: gone.bin" in failed
            assert f"\x1b[{RED}mfailed\x1b[0m" in failed
        Path("data.bin").unlink()
    assert screens[0] == screens[1]


def test_an_empty_no_color_forbids_nothing(server, home):
    """no-color.org: "when present and not an empty string"."""
    home(NO_COLOR="")
    with EmulatedTerminal() as terminal:
        assert terminal.run(["get", f"{server.base()}/data.bin"]) == 0
        assert GREEN in terminal.layout.colours


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ([], {"TERM": "dumb"}),
        (["--quiet"], {}),
        (["--progress", "none"], {}),
        (["--progress", "plain"], {}),
        (["--progress", "json"], {}),
        ([], {"RESUME_DL_QUIET": "1"}),
    ],
)
def test_no_escape_sequence_at_all(server, home, options, more):
    """Where nothing may be drawn, not one byte of a control sequence comes, of files that come and that fail."""
    home(**more)
    with EmulatedTerminal(40) as terminal:
        for name, code in (("data.bin", 0), ("gone.bin", 1)):
            assert terminal.run(["get", f"{server.base()}/{name}", "--give-up-after", "1s", *options]) == code
            assert "\x1b" not in terminal.raw
            assert "\ufffd" not in terminal.raw


def test_json_on_a_terminal_is_the_whole_object(server, home):
    """No colour, and no line broken where it ends."""
    home()
    with EmulatedTerminal(40) as terminal:
        assert terminal.run(["get", f"{server.base()}/data.bin", "--json", "--progress", "none", "-q"]) == 0
        assert json.loads(terminal.raw)["totals"]["downloaded"] == 3_000_000
        assert "\x1b" not in terminal.raw


@pytest.mark.parametrize("variable", ["LC_ALL", "LANG"])
def test_the_c_locale_gets_ascii(server, home, variable):
    """Python writes UTF-8 there (PEP 540), which the terminal may not understand."""
    home(**{variable: "C"})
    server.script(None, [Stall(after=1_000_000), Stall()], path="/data.bin")
    with EmulatedTerminal() as terminal:
        assert terminal.run(["get", f"{server.base()}/data.bin"], stop_at(terminal, "33%")) == 130
        assert terminal.raw.isascii()
        assert "|####" in terminal.raw


@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "ascii"])
def test_a_stopped_file_is_named_with_its_size(server, home, encoding):
    """As a source said it; in this run, and in one that never hears of it again. Chinese names take two columns."""
    home()
    server.put("/%E6%95%B0%E6%8D%AE%E9%9B%86.bin", bytes(3_000_000))
    url = f"{server.base()}/%E6%95%B0%E6%8D%AE%E9%9B%86.bin"
    name = "数据集.bin" if encoding != "ascii" else r"\u6570\u636e\u96c6.bin"
    with EmulatedTerminal(60, encoding=encoding) as terminal:
        for _ in range(2):
            server.script(None, [Stall(after=1_000_000), Stall()])
            assert terminal.run(["get", url], stop_at(terminal, "33%")) == 130
            text = "\n".join(terminal.shown())
            assert f"stopped       3.0 MB  {name}" in text
            assert "1 file, 3.0 MB: " in text
            assert "\ufffd" not in terminal.raw
        server.always(None, Ok())
        server.drop_connections()
        assert terminal.run(["get", url]) == 0
        assert re.search(rf"^resumed       3\.0 MB  \S*{re.escape(name)}$", "\n".join(terminal.shown()), re.MULTILINE)


def test_the_second_ctrl_c_ends_at_once(server, home, monkeypatch):
    """The first says so, and is still busy; the second does not wait for it."""
    home()
    ended, never = [], threading.Event()

    def end() -> None:
        ended.append(True)
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_end_at_once", end)
    monkeypatch.setattr(Engine, "_stop_hashing", lambda self: ended or never.wait(PATIENCE))
    server.script(None, [Stall(after=1_000_000), Stall()])
    with EmulatedTerminal() as terminal:

        def person() -> None:
            terminal.wait_for("33%")
            terminal.press_ctrl_c()
            terminal.wait_for("stopping; press Ctrl-C again to end at once")
            terminal.press_ctrl_c()

        assert terminal.run(["get", f"{server.base()}/data.bin"], person) == 130
    assert ended


def test_nothing_delays_the_second_ctrl_c():
    """Neither a thread that never ends nor a clean-up; what is safe is said."""
    code = """
import signal, threading
from resume_dl.cli.run import Stop

threading.Thread(target=threading.Event().wait).start()
stop = Stop(at_once=True)
with stop.listening():
    signal.raise_signal(signal.SIGINT)
    assert stop.cancelled()
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        print("cleaned up", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "stopped at once: what is on disk is kept; run the same command again\n"


def test_programs_get_their_object_after_two_ctrl_c():
    """With --json and in conda the second one is Python's own."""
    stop = run.Stop()
    with stop.listening():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
