"""The site: built without a warning, every link leads somewhere, and no page loads anything from another host."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from resume_dl.cli.group import COMMANDS
from support.chromium import Chromium

PROJECT = Path(__file__).resolve().parents[2]
_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}
_IN_STYLES = re.compile(r"""(?:@import\s+|url\(\s*)["']?((?:https?:)?//[^"')\s]+)""")


class Page(HTMLParser):
    """What a page of HTML links to, loads and can be linked to by."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = _IN_STYLES.findall(text)
        self.anchors: set[str] = set()
        self.language = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "html":
            self.language = values.get("lang", "")
        if tag in _LOADED and _LOADED[tag] in values:
            self.loaded.append(values[_LOADED[tag]])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])


@cache
def page(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def is_elsewhere(link: str) -> bool:
    parts = urlsplit(link)
    return bool(parts.netloc) or parts.scheme not in {"", "data"}


def broken(path: Path) -> list[str]:
    """Links and loaded files of a page that do not exist beside it, and anchors that their page lacks."""
    found = []
    for link in [*page(path).links, *page(path).loaded]:
        parts = urlsplit(link)
        if is_elsewhere(link) or parts.scheme:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        is_page = target.suffix == ".html" and target.is_file()
        if not target.is_file() or (is_page and parts.fragment and unquote(parts.fragment) not in page(target).anchors):
            found.append(link)
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for name in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(name, reason="the dependency group docs is not installed: pip install --group docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(PROJECT / "docs" / "website.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False, timeout=600)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def test_every_link_of_the_site_has_a_target(site):
    pages = sorted(site.rglob("*.html"))
    assert {path.relative_to(site).as_posix(): lost for path in pages if (lost := broken(path))} == {}
    assert sum(len(page(path).links) for path in pages) > 1000


def test_the_site_loads_nothing_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    loaded = {link for path in pages for link in page(path).loaded if is_elsewhere(link)}
    styles = [*site.rglob("*.css"), *site.rglob("*.svg")]
    loaded |= {link for path in styles for link in _IN_STYLES.findall(path.read_text(encoding="utf-8"))}
    assert loaded == set()


def test_the_site_holds_every_page(site):
    """README is the first page; pages of docs/ have their own paths; commands, codes and tables come from the code."""
    kept = {path.relative_to(PROJECT / "docs").with_suffix(".html") for path in (PROJECT / "docs").rglob("*.md")}
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert kept <= built
    assert {Path("index.html"), Path("index.zh-CN.html"), Path("ARCHITECTURE.html")} <= built
    assert {f"resume-dl-{name}" for name in COMMANDS} <= page(site / "reference" / "command-line.html").anchors
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (site / "reference").glob("*.html")}
    assert "--give-up-after" in texts["command-line"]
    assert "CaptivePortalError" in texts["exit-codes"]
    assert "limit_rate" in texts["config"]
    assert "pkgs/main" in texts["mirrors"]
    assert "TUNA blocks subnets" in texts["limits"]


def test_chinese_pages_are_marked_as_chinese_and_lead_to_chinese_pages(site):
    for path in site.rglob("*.html"):
        assert page(path).language == ("zh-CN" if path.stem.endswith(".zh-CN") else "en")
    chinese = {path.name for path in site.rglob("*.zh-CN.html")}
    for path in site.rglob("*.zh-CN.html"):
        assert chinese <= {link.rpartition("/")[2] for link in page(path).links} | {path.name}
        text = path.read_text(encoding="utf-8")
        assert ("操作指南" in text, 'caption-text">How to' in text) == (True, False)


@pytest.fixture(scope="module")
def browser():
    with Chromium() as browser:
        yield browser


def test_no_word_of_a_table_is_torn_and_nothing_is_clipped(site, browser):
    """At 320, 400 and 1000 px: a table that is too wide scrolls in its own box; the page around it never does."""
    torn, clipped = {}, {}
    for path in sorted(site.rglob("*.html")):
        browser.load(path, width=1000)
        for width in (1000, 400, 320):
            if width != 1000:
                browser.resize(width)
            name = path.relative_to(site).as_posix(), width
            torn[name] = browser.torn("td, th")
            clipped[name] = browser.clipped("article", scrolled=True)
    assert len(torn) > 100
    found = [{name: texts for name, texts in each.items() if texts} for each in (torn, clipped)]
    assert found == [{}, {}]


def test_a_text_that_its_box_scrolls_to_is_not_clipped(browser, tmp_path):
    """The test above sees what it is for."""
    table = "<table><td style='white-space:nowrap'>a row that is wider than the box around it</table>"
    boxes = [f"<div style='width:{width}; overflow-x:{kind}'>{table}</div>" for width, kind in
             (("9em", "auto"), ("9em", "hidden"), ("500px", "auto"))]  # fmt: skip
    for box, clipped in zip(boxes, (0, 1, 1), strict=True):
        (tmp_path / "page.html").write_text(box, encoding="utf-8")
        browser.load(tmp_path / "page.html", width=400)
        assert (len(browser.clipped(scrolled=True)) > 0) == clipped
        assert browser.clipped() != []
    browser.load(tmp_path / "page.html", width=1000)
    assert browser.clipped() == []
    browser.resize(400)
    assert browser.clipped() != []


def test_a_broken_link_and_a_foreign_font_are_found(tmp_path):
    """The tests above see what they are for."""
    text = """<html lang="en"><link href="//fonts.example/a.css"><style>@import 'https://example.org/b.css';</style>
    <a id="here" href="#here"></a><a href="#there"></a><a href="none.html"></a><a href="https://example.org/"></a>"""
    (tmp_path / "a.html").write_text(text, encoding="utf-8")
    assert broken(tmp_path / "a.html") == ["#there", "none.html"]
    loaded = page(tmp_path / "a.html").loaded
    assert [link for link in loaded if is_elsewhere(link)] == ["https://example.org/b.css", "//fonts.example/a.css"]
