"""Nothing that is written can fail, drive a terminal, or show a credential."""

from __future__ import annotations

import io
import os
import sys

import pytest

from resume_dl.fs.system import reader_has_gone
from resume_dl.model.units import show_bytes
from resume_dl.offline_tools.console import show_unencodable_by_number
from resume_dl.progress.console import Console, draws_blocks, duration_text, presentable


def test_a_stream_whose_reader_went_away_is_given_up_silently():
    """A broken pipe is met once and then left alone."""
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w", encoding="utf-8")
    console = Console(stream)
    console.line("one")
    console.line("two")
    with pytest.raises(OSError, match=r".") as caught:
        stream.close()
    assert reader_has_gone(caught.value)


def test_a_closed_stream_is_given_up_silently():
    """Also one that was closed before."""
    stream = io.StringIO()
    stream.close()
    Console(stream).line("one")


def test_characters_that_the_stream_cannot_show_are_replaced():
    """An ASCII log gets the letter's number, not an exception."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    console = Console(stream)
    console.line("grün \udcff")
    assert raw.getvalue() == rb"gr\xfcn \ufffd" + os.linesep.encode()
    assert not console.draws_blocks()


def test_bars_are_ascii_where_a_block_takes_two_columns():
    """The code pages of Japan, China, Korea and Taiwan; and any encoding that is not Unicode."""
    assert draws_blocks("utf-8", 0)
    assert draws_blocks("UTF-8", 65001)
    assert draws_blocks("utf-8", 1252)
    assert not any(draws_blocks("utf-8", code_page) for code_page in (932, 936, 949, 950))
    assert not any(draws_blocks(encoding, 0) for encoding in ("gbk", "cp932", "ascii", ""))


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("gbk", rb"\U0001f4e6-\xf8"),
        ("cp1252", b"\\U0001f4e6-\xf8"),
        ("cp850", b"\\U0001f4e6-\x9b"),
        ("ascii", rb"\U0001f4e6-\xf8"),
    ],
)
def test_standard_output_shows_what_its_encoding_lacks_by_number(monkeypatch, encoding, said):
    """Python calls each 8-bit code page "charmap" in its errors, so the encoding is not known from them."""
    raw = {name: io.BytesIO() for name in ("stdout", "stderr")}
    for name, stream in raw.items():
        monkeypatch.setattr(sys, name, io.TextIOWrapper(stream, encoding=encoding))
    show_unencodable_by_number()
    print("📦-ø", end="")
    print("📦-ø", end="", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    assert raw["stdout"].getvalue() == raw["stderr"].getvalue() == said


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb\rc\x07", "a�[2Jb�c�"),
        ("right\u202eleft", "right�left"),
        ("two\n\tlines", "two\n\tlines"),
        ("see https://me:SECRET@h/f, now", "see https://***@h/f, now"),
        ("(https://h/t/SECRET/f)", "(https://h/t/***/f)"),
        ("https://h/f?token=SECRET#x", "https://h/f?token=***"),
        ("https://docs.example/page#part", "https://docs.example/page#part"),
    ],
)
def test_what_is_shown_is_safe(text, shown):
    """Control characters and credentials in addresses are replaced; the rest stays as it is."""
    assert presentable(text) == shown


def test_sizes_and_durations():
    """Decimal units with one figure, and never 1000.0 of one."""
    assert [show_bytes(n) for n in (0, 999, 1000, 999_949, 999_950, 812_345_678, 4_200_000_000)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "999.9 kB",
        "1.0 MB",
        "812.3 MB",
        "4.2 GB",
    ]
    assert [duration_text(s) for s in (0, 59.4, 59.6, 3599, 7500)] == [
        "0 s",
        "59 s",
        "1 min 0 s",
        "59 min 59 s",
        "2 h 5 min",
    ]
