"""The emulated terminal shows what a real one shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.emulator import Layout
from support.terminal import TMUX_HINT, Terminal, find_tmux

OUTPUT = (
    "a line that is wider than forty columns is broken by the terminal itself\r\n"
    "exactly forty columns, and then a return\r\nthe next\r\n"
    "数据集数据集数据集数据集数据集数据集数据集数据集\r\n"
    "e\u0301\ttab\r\n"
    "\x1b[1;31merror\x1b[0m: one\r\ntwo\r\nthree\r\n\r\x1b[2Anew\x1b[K\r\n\x1b[Jlast\rLA"
)


def test_it_agrees_with_tmux(tmp_path: Path) -> None:
    """Wrapping, wide letters, marks, tabs, the cursor going up, what is cleared."""
    if find_tmux() is None:
        pytest.skip(TMUX_HINT)
    (tmp_path / "output").write_bytes(OUTPUT.encode())
    layout = Layout(40)
    layout.feed(OUTPUT)
    with Terminal(tmp_path, columns=40, lines=24, env=dict(os.environ)) as terminal:
        terminal.type("clear; cat output; read x")
        terminal.wait_for("LAst")
        assert terminal.screen() == layout.shown()
    assert layout.colours == {"1;31", "0"}
    assert len(layout.wrapped) == 2


def test_a_control_sequence_may_come_in_two_reads() -> None:
    for cut in range(len(OUTPUT)):
        whole, divided = Layout(40), Layout(40)
        whole.feed(OUTPUT)
        divided.feed(OUTPUT[:cut])
        divided.feed(OUTPUT[cut:])
        assert divided.shown() == whole.shown()
        assert divided.colours == whole.colours


def test_what_it_does_not_understand_is_seen() -> None:
    layout = Layout(40)
    for text in ("\x1b[2;3H", "\x07"):
        with pytest.raises(AssertionError, match="unexpected"):
            layout.feed(text)


def test_an_ambiguous_letter_takes_two_columns_on_a_chinese_console() -> None:
    layout = Layout(40, ambiguous=2)
    layout.feed("█" * 21)
    assert layout.wrapped == {1}
