"""Bars on a real pseudo-terminal, seen as a person sees them."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple, TextIO

import pytest

from progress.telling import MB, Clock, Screen, artifact, planned, told
from resume_dl.progress.bars import BarReporter
from resume_dl.progress.choose import choose
from resume_dl.progress.console import Console
from resume_dl.progress.plain import PlainReporter
from resume_dl.progress.text_width import width

fcntl = pytest.importorskip("fcntl", reason="pseudo-terminals are POSIX's")
termios = pytest.importorskip("termios", reason="pseudo-terminals are POSIX's")

BIG, SMALL = artifact("big-1-0.conda", 80 * MB), artifact("small-2-0.conda", 20 * MB)


class Terminal(NamedTuple):
    stream: TextIO
    output: Callable[[], str]
    """Ends the terminal and gives all that was written to it."""


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    with ExitStack() as stack:

        def make(columns: int = 100, lines: int = 30, encoding: str = "utf-8") -> Terminal:
            import pty

            master, slave = pty.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            stream = os.fdopen(slave, "w", encoding=encoding, newline="")
            got: list[bytes] = []

            def read() -> None:
                try:
                    while data := os.read(master, 65536):
                        got.append(data)
                except OSError:  # EIO: the other side is closed
                    pass

            reader = threading.Thread(target=read, daemon=True)
            reader.start()

            def ended() -> None:
                stream.close()
                reader.join(timeout=60)
                assert not reader.is_alive()

            def output() -> str:
                ended()
                return b"".join(got).decode(encoding)

            stack.callback(os.close, master)
            # Before the descriptor is closed: its number is soon another terminal's, whose output a reader
            # that has not ended would take.
            stack.callback(ended)
            return Terminal(stream, output)

        yield make


def test_a_terminal_gets_bars_and_a_dumb_one_lines(terminal, monkeypatch):
    """Auto means bars where they can be drawn."""
    made = terminal()
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(choose(None, made.stream), BarReporter)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(choose(None, made.stream), PlainReporter)


def test_each_file_in_flight_and_the_total_have_a_bar(terminal):
    """Resumed bytes are done from the start and are no speed."""
    made = terminal()
    reporter = BarReporter(Console(made.stream), clock=Clock())
    reporter.plan(planned(BIG, SMALL))
    reporter.progress(told(SMALL, 0, state="waiting"))
    reporter.progress(told(BIG, 60 * MB, resumed=60 * MB))
    shown = Screen().feed(made.output()).shown()
    assert len(shown) == 2
    assert shown[0].startswith("0/2 files ")
    assert " 60% |" in shown[0]
    assert "60.0/100.0 MB" in shown[0]
    assert "/s" not in shown[0], "nothing came in this run: no speed"
    assert "left" not in shown[0]
    assert shown[1].startswith("big-1-0.conda ")
    assert " 75% |" in shown[1]


def test_bars_of_finished_files_go_away_and_the_total_stays(terminal):
    """At the end one line is left, under it a fresh one."""
    made = terminal()
    reporter = BarReporter(Console(made.stream), clock=Clock())
    reporter.plan(planned(BIG, SMALL))
    for one in (BIG, SMALL):
        reporter.progress(told(one, 1 * MB))
    reporter.progress(told(BIG, 80 * MB, state="verifying"))
    reporter.progress(told(BIG, 80 * MB, state="downloaded"))
    reporter.progress(told(SMALL, 20 * MB, state="resumed"))
    reporter.close()
    output = made.output()
    shown = Screen().feed(output).shown()
    assert len(shown) == 1
    assert shown[0].startswith("2/2 files ")
    assert " 100% |" in shown[0]
    assert "100.0/100.0 MB" in shown[0]
    assert output.endswith("\n\x1b[J"), "the cursor waits at the start of an empty line"


def test_states_and_waiting_are_shown_beside_the_bar(terminal):
    """Whoever looks sees why no bytes come."""
    made = terminal(columns=140)
    reporter = BarReporter(Console(made.stream), clock=Clock())
    reporter.plan(planned(BIG, SMALL))
    reporter.progress(told(BIG, 80 * MB, state="extracting"))
    reporter.progress(told(SMALL, 0, state="locked", note="waits for process 12"))
    shown = Screen().feed(made.output()).shown()
    assert "extracting" in shown[1]
    assert "waits for process 12" in shown[2]


def test_messages_stand_above_the_bars(terminal):
    """A line is not written into a bar, and the bars are drawn again under it."""
    made = terminal()
    reporter = BarReporter(Console(made.stream), clock=Clock())
    reporter.plan(planned(BIG, SMALL))
    reporter.progress(told(BIG, 10 * MB))
    reporter.message("tuna does not have it", level="warning")
    shown = Screen().feed(made.output()).shown()
    assert shown[0] == "warning: tuna does not have it"
    assert shown[1].startswith("0/2 files ")
    assert " 10% |" in shown[1]
    assert shown[2].startswith("big-1-0.conda ")


def test_a_run_of_one_file_has_one_bar(terminal):
    """Its name, not "0/1 files", with the time that is left; nothing of it stands there twice."""
    made, clock = terminal(), Clock()
    reporter = BarReporter(Console(made.stream), clock=clock)
    reporter.plan(planned(BIG))
    reporter.progress(told(BIG, 0))
    clock.now = 4
    reporter.progress(told(BIG, 16 * MB))
    (line,) = Screen().feed(made.output()).shown()
    assert line.startswith("big-1-0.conda ")
    assert line.endswith(" 16.0/80.0 MB   4.0 MB/s    00:16 left")


def test_time_left_is_by_what_this_run_brought(terminal):
    """Sixty of a hundred were there: the other forty take as long as this run's speed says."""
    made, clock = terminal(), Clock()
    reporter = BarReporter(Console(made.stream), clock=clock)
    reporter.plan([*planned(BIG, here=60 * MB), *planned(SMALL)])
    reporter.progress(told(BIG, 60 * MB, resumed=60 * MB))
    clock.now = 2
    reporter.progress(told(BIG, 64 * MB, resumed=60 * MB))
    shown = Screen().feed(made.output()).shown()
    assert shown[0].startswith("0/2 files, 00:18 left ")
    assert shown[0].endswith(" 64.0/100.0 MB   2.0 MB/s")


def test_wide_letters_and_marks_have_the_columns_that_they_take(terminal):
    """Names of East Asian letters and of letters with marks align with others, and wrap nowhere."""
    names = ["plain-1-0.conda", "包裹名称很长很长很长很长很长很长很长-1-0.conda", "e\u0301a\u0308-1-0.conda"]
    files = [artifact(name, 80 * MB) for name in names]
    for columns in (40, 80, 200):
        made = terminal(columns=columns)
        reporter = BarReporter(Console(made.stream), clock=Clock())
        reporter.plan(planned(*files))
        for one in files:
            reporter.progress(told(one, 40 * MB))
        shown = Screen().feed(made.output()).shown()
        assert max(map(width, shown)) < columns
        assert len({width(line.partition("50%")[0]) for line in shown[1:]}) == 1


def test_the_cursor_waits_below_the_bars(terminal):
    """So that what others write there, the terminal's ^C or a shell's prompt, begins a line and leaves nothing."""
    made = terminal()
    reporter = BarReporter(Console(made.stream), clock=Clock())
    reporter.plan(planned(BIG, SMALL))
    reporter.progress(told(BIG, 8 * MB))
    made.stream.write("^C")
    reporter.progress(told(SMALL, 8 * MB))
    reporter.close()
    made.stream.write("$ ")
    shown = Screen().feed(made.output()).shown()
    assert len(shown) == 2
    assert shown[0].startswith("0/2 files ")
    assert shown[1] == "$"


def test_no_more_bars_than_ten_or_than_the_terminal_has_lines(terminal):
    """Others get theirs when a line becomes free."""
    many = [artifact(f"p{number}-1-0.conda", MB) for number in range(16)]
    for lines, most in ((50, 10), (8, 6), (4, 2)):
        made = terminal(lines=lines)
        reporter = BarReporter(Console(made.stream), clock=Clock())
        reporter.plan(planned(*many))
        for one in many:
            reporter.progress(told(one, 1000))
        reporter.progress(told(many[0], MB, state="downloaded"))
        reporter.progress(told(many[1], 2000))
        shown = Screen().feed(made.output()).shown()
        assert len(shown) == most
        assert [line.split()[0] for line in shown[1:]] == [one.filename for one in many[1:most]]


@pytest.mark.parametrize("columns", [20, 40, 60])
def test_a_narrow_terminal_is_never_overrun(terminal, columns):
    """A line that wraps would break everything above it."""
    long = artifact("pytorch-1.7.1-py3.8_cuda11.0.221_cudnn8.0.5_0.tar.bz2", 80 * MB)
    made = terminal(columns=columns)
    reporter = BarReporter(Console(made.stream), clock=Clock())
    reporter.plan(planned(long, SMALL))
    reporter.progress(told(long, 8 * MB, state="locked", note="waits for process 123456 on a host with a long name"))
    screen = Screen().feed(made.output())
    assert screen.widest <= columns
    assert len(screen.shown()) == 2


def test_a_terminal_without_a_size_has_eighty_columns(terminal):
    """Where the window says 0 by 0, as under script, the bars are drawn all the same."""
    made = terminal(columns=0, lines=0)
    reporter = BarReporter(Console(made.stream), clock=Clock())
    reporter.plan(planned(BIG, SMALL))
    reporter.progress(told(BIG, 8 * MB))
    screen = Screen().feed(made.output())
    assert len(screen.shown()) == 2
    assert 55 < screen.widest <= 80


@pytest.mark.parametrize("encoding", ["ascii", "gbk", "cp1252"])
def test_a_console_without_unicode_gets_ascii(terminal, encoding):
    """No bar character that it cannot show, not even as a question mark, nor one that it shows in two columns."""
    long = artifact("pytorch-1.7.1-py3.8_cuda11.0.221_cudnn8.0.5_0.tar.bz2", 80 * MB)
    made = terminal(encoding=encoding, columns=80)
    reporter = BarReporter(Console(made.stream), clock=Clock())
    reporter.plan(planned(long, SMALL))
    reporter.progress(told(long, 40 * MB, resumed=1))
    shown = Screen().feed(made.output()).shown()
    assert "####" in shown[1]
    assert "?" not in shown[1]
    assert "..  50% " in shown[1]


def test_no_thread_is_left_behind(terminal):
    """tqdm's monitor thread is not started: one thread draws."""
    before = threading.active_count()
    made = terminal()
    reporter = BarReporter(Console(made.stream), clock=Clock())
    reporter.plan(planned(BIG))
    reporter.progress(told(BIG, 8 * MB))
    assert threading.active_count() == before + 1, "the test's own reader"
    reporter.close()


def test_a_terminal_that_goes_away_does_not_end_the_run(terminal):
    """A closed window is no reason to stop."""
    made = terminal()
    reporter = BarReporter(Console(made.stream), clock=Clock())
    reporter.plan(planned(BIG))
    reporter.progress(told(BIG, 8 * MB))
    made.output()
    for done in range(9, 80):
        reporter.progress(told(BIG, done * MB))
    reporter.message("x", level="error")
    reporter.close()


def test_a_hostile_name_cannot_drive_the_terminal(terminal):
    """Notes come from servers; the screen asserts that no control sequence but ours is written."""
    made = terminal()
    reporter = BarReporter(Console(made.stream), clock=Clock())
    reporter.plan(planned(BIG))
    reporter.progress(told(BIG, 8 * MB, state="locked", note="\x1b[2J\x1b]0;title\x07"))
    reporter.message("\x1b[31mred", level="error")
    assert len(Screen().feed(made.output()).shown()) == 2
