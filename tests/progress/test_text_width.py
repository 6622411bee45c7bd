"""Texts in the columns of a terminal."""

from __future__ import annotations

import pytest

from resume_dl.progress.console import draws_blocks
from resume_dl.progress.text_width import cut_start, fitted, width


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("as it is", ["as it is"]),
        ("index of pytorch from tuna, as said", ["index of pytorch", "  from tuna, as", "  said"]),
        ("    in a folder of words", ["    in a folder of", "      words"]),
        ("a number is 71.1 GB free", ["a number is", "  71.1 GB free"]),
        ("run conda create --name NAME --file list", ["run conda create --name NAME --file list"]),
        ("two lines\nof a text of some words", ["two lines", "of a text of some", "  words"]),
        ("数据集 数据集 数据集 数据集", ["数据集 数据集", "  数据集 数据集"]),
    ],
)
def test_lines_break_at_blanks(text: str, shown: list[str]) -> None:
    """Numbers keep their units, and what may be a command stays whole, for copying."""
    assert fitted(text, 18).split("\n") == shown


def test_a_word_that_no_line_holds_begins_where_it_stands() -> None:
    """It is not moved to a line that it overruns too."""
    long = "pytorch-1.7.1-py3.8_cuda11.0.221:"
    assert fitted(long, 18) == long
    assert fitted(f"error: {long} so", 18).startswith(f"error: {long}")


def test_a_colour_takes_no_column() -> None:
    assert width("\x1b[1;31merror\x1b[0m: x") == 8


def test_the_end_of_a_path_stays() -> None:
    assert cut_start("/home/me/data.bin", 10) == "…/data.bin"
    assert cut_start("/home/me/data.bin", 10, "..") == "..data.bin"
    assert cut_start("data.bin", 10) == "data.bin"
    assert width(cut_start("目录/数据集.bin", 9)) <= 9


@pytest.mark.parametrize(
    ("env", "blocks"),
    [
        ({}, True),
        ({"LANG": "C"}, False),
        ({"LC_ALL": "POSIX", "LANG": "zh_CN.UTF-8"}, False),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "C"}, False),
        ({"LC_CTYPE": "en_US.UTF-8", "LANG": "C"}, True),
        ({"LC_CTYPE": "C.UTF-8"}, True),
        ({"LANG": "C.UTF-8"}, True),
    ],
)
def test_the_locale_c_promises_ascii_only(env: dict[str, str], blocks: bool) -> None:
    """Python sets LC_CTYPE to C.UTF-8 there itself (PEP 538)."""
    assert draws_blocks("utf-8", 0, env) is blocks
