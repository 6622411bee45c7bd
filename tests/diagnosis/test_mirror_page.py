"""The page of ``mirrors test --html`` in a real browser: no word is torn and nothing is clipped, at any width."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from resume_dl.diagnosis.mirror_page import page
from resume_dl.diagnosis.mirror_row import MirrorReport, MirrorRow, Place
from resume_dl.model.artifact import Source
from resume_dl.model.url import RedactedUrl
from support.chromium import Chromium

WIDTHS = (320, 400, 560, 721, 800, 1000, 1320)
NOW = 1_700_000_000.0
DAY = 86400.0


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


def row(mirror: str, origin: str = "conda:conda-forge", platform: str = "linux-64", **values: object) -> MirrorRow:
    place = Place(origin, platform, Source(mirror, RedactedUrl(f"https://{mirror}.example/x")))
    return MirrorRow(place, **values)  # type: ignore[arg-type]  # each test names fields of the row


def good(mirror: str, speed: float, **values: object) -> MirrorRow:
    return row(mirror, status=206, speed=speed, first_byte=0.42, **{"ranges": True, "behind": 0.0, **values})


ORDINARY = MirrorReport(
    (
        good("tuna", 12.3e6, synced=NOW - 7200),
        good("ustc", 999.9e3, behind=2 * DAY),
        good("nju", 512.0, ranges=False, behind=130 * DAY, host="mirrors-redirected.internal.example.edu.cn"),
        good("sjtu", 8.2e6, behind=None),
        good("upstream", 1.1e6),
        row("bfsu", failure="blocked", text="it has blocked this machine; --mirror bfsu tests it again"),
        row("aliyun", failure="unreachable", text="cannot connect: connection refused by 203.0.113.7 port 443"),
        row("origin-with-a-longer-name", failure="lacks the file", text="status 404"),
        good("tuna", 3.3e6, origin="pypi:simple", platform=""),
    ),
    NOW,
    12.4,
)
"""Rows of every kind, with names and reasons as they come."""

HOSTILE = MirrorReport(
    (
        good("a" * 90, 1e6, host="h" * 250, behind=9e9, synced=0.0),
        row("<b>" + "b" * 90, failure="broken", text="c" * 400 + " https://example.org/" + "d/" * 100),
        good("镜像" * 40, 2e9, origin="conda:" + "o" * 200),
    ),
    NOW,
)
"""Words that no screen holds."""


@pytest.mark.parametrize("width", WIDTHS)
def test_no_word_is_torn_and_nothing_clipped(browser, tmp_path, width):
    path = tmp_path / "mirrors.html"
    path.write_text(page(ORDINARY), encoding="utf-8")
    browser.load(path, width=width)
    assert (browser.torn(), browser.clipped()) == ([], [])
    for words in ("origin-with-a-longer-name", "130 days behind", "12.3 MB/s", "yes", "Status 404"):
        assert words in browser.text()


@pytest.mark.parametrize("width", WIDTHS)
def test_words_that_no_line_holds_are_broken_and_not_clipped(browser, tmp_path, width):
    path = tmp_path / "mirrors.html"
    path.write_text(page(HOSTILE), encoding="utf-8")
    browser.load(path, width=width)
    assert browser.clipped() == []
    assert [text for text in browser.torn() if len(text.partition(" in ")[0]) < 80] == []


def test_torn_and_clipped_words_are_found(browser, tmp_path):
    """The tests above see what they are for."""
    path = tmp_path / "page.html"
    path.write_text(
        '<meta charset="utf-8"><p style="width:2ch; overflow-wrap:anywhere">yes</p>'
        '<p style="width:3em; overflow:hidden; white-space:nowrap">ends at the edge</p>'
        '<table style="width:10px; table-layout:fixed"><td>cell<td>x</table><p style="width:3em">镜像站 good-word</p>',
        encoding="utf-8",
    )
    browser.load(path, width=400)
    assert browser.torn() == ["yes in yes"]
    assert browser.clipped() == ["ends at the edge (P)", "cell (TD)", "x (TD)"]
    path.write_text('<div style="width:900px; text-align:right">beyond</div>', encoding="utf-8")
    browser.load(path, width=400, dark=True)
    assert browser.clipped() == ["the page is wider than the window", "beyond (window)"]
