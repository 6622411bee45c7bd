"""Sizes are said in one way, by our commands and by the offline tools."""

from __future__ import annotations

from resume_dl.byte_units import show_bytes

SHOWN = {
    0: "0 B",
    999: "999 B",
    1000: "1.0 kB",
    999_949: "999.9 kB",
    999_950: "1.0 MB",
    812_345_678: "812.3 MB",
    999_949_999: "999.9 MB",
    999_950_000: "1.0 GB",
    4_200_000_000: "4.2 GB",
    7_000_000_000_000: "7000.0 GB",
}


def test_sizes_are_powers_of_ten_with_one_figure():
    """Never 1000.0 of a unit, never a MiB."""
    assert {count: show_bytes(count) for count in SHOWN} == SHOWN


def test_fractions_of_bytes_are_rounded():
    """As a speed may be: a byte in seven seconds, and almost a thousand in one."""
    assert [show_bytes(count) for count in (0.14, 999.4, 999.6)] == ["0 B", "999 B", "1.0 kB"]
