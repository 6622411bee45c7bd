"""Chinese pages say what the English ones say: a change to one side alone is found."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
_SPEC = importlib.util.spec_from_file_location("translations", PROJECT / "docs" / "translations.py")
assert _SPEC is not None
assert _SPEC.loader is not None
translations = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(translations)
PAGES = translations.translated()
_FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^```(?:yaml|toml|dockerfile|powershell)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""Blocks that are the same in both languages, as a whole."""


def commands(page: Path) -> list[str]:
    """The commands of a page's blocks, in order, without comments."""
    lines = "\n".join(_FENCE.findall(page.read_text(encoding="utf-8"))).splitlines()
    return [line.split(" #")[0].strip() for line in lines if re.match(r"\$ |!|PS |[A-Z]:\\|until ", line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_chinese_page_was_compared_with_its_english_one(page):
    """Renew the digest with ``python docs/translations.py`` after the Chinese page was changed too."""
    assert translations.problem(page) == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_both_languages_have_the_same_commands_and_sections(page):
    source = translations.english(page)
    assert commands(page) == commands(source)
    files = [_FILE.findall(each.read_text(encoding="utf-8")) for each in (page, source)]
    assert files[0] == files[1]
    levels = [
        re.findall(r"^(#+) ", _FENCE.sub("", each.read_text(encoding="utf-8")), re.MULTILINE) for each in (page, source)
    ]
    assert levels[0] == levels[1]


def test_the_pages_link_to_each_other():
    for page in PAGES:
        source = translations.english(page)
        assert f"]({source.name})" in page.read_text(encoding="utf-8")
        assert f"]({page.name})" in source.read_text(encoding="utf-8")


def test_readme_is_short_and_has_an_equal():
    assert {"README.zh-CN.md"} <= {page.name for page in PAGES}
    for name in ("README.md", "README.zh-CN.md"):
        assert len((PROJECT / name).read_text(encoding="utf-8").splitlines()) <= 150


def test_the_comparison_is_the_same_in_readme_and_on_its_page():
    tables = []
    for name in ("README.md", "docs/comparison.md"):
        blocks = (PROJECT / name).read_text(encoding="utf-8").split("\n\n")
        tables.append([block for block in blocks if block.startswith(("| | conda |", "¹"))])
    assert tables[0] == tables[1]
    assert len(tables[0]) == 2


@pytest.mark.parametrize("name", ["troubleshooting.md", "troubleshooting.zh-CN.md"])
@pytest.mark.parametrize(
    "message",
    ["CondaHTTPError: HTTP 000", "IncompleteRead", "ChecksumMismatchError", "ReadTimeoutError", "403 Forbidden",
     "THESE PACKAGES DO NOT MATCH THE HASHES", "Shard Index … not available"],
)  # fmt: skip
def test_a_message_that_people_paste_is_a_heading(name, message):
    text = (PROJECT / "docs" / name).read_text(encoding="utf-8")
    assert any(message in heading for heading in re.findall(r"^## .*$", text, re.MULTILINE))


def test_a_change_on_one_side_is_found(tmp_path):
    source, page = tmp_path / "a.md", tmp_path / "a.zh-CN.md"
    source.write_text("# A\n", encoding="utf-8")
    page.write_text("# 甲\n", encoding="utf-8")
    assert "does not name" in translations.problem(page)
    translations.renew(page)
    assert translations.problem(page) == ""
    source.write_text("# B\n", encoding="utf-8")
    assert translations.problem(page) == "a.md has changed since a.zh-CN.md was compared with it"
    source.unlink()
    assert translations.problem(page) == "a.zh-CN.md: there is no a.md"


def test_the_recording_is_drawn_from_its_screens(tmp_path):
    """The picture of the README is what the script draws of the kept screens: no scripts, nothing from elsewhere."""
    drawn = tmp_path / "recording.svg"
    script, screens = PROJECT / "docs" / "recording.py", PROJECT / "docs" / "recording.json"
    subprocess.run([sys.executable, str(script), "draw", str(screens), str(drawn)], check=True, timeout=120)
    picture = (PROJECT / "docs" / "recording.svg").read_text(encoding="utf-8")
    assert picture == drawn.read_text(encoding="utf-8")
    assert len(picture) < 200_000
    assert not re.search(r"<script|<image|https?://(?!www\.w3\.org/2000/svg)|@import|url\((?!#)", picture)


def recorded():
    """The lines of each screen of the recording."""
    text = (PROJECT / "docs" / "recording.json").read_text(encoding="utf-8")
    return [screen["lines"] for screen in json.loads(text)["screens"]]


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_the_readme_quotes_the_recording(name):
    """What it gives as the output of the second run is on the recording's screens, where lines are wrapped."""
    text = (PROJECT / name).read_text(encoding="utf-8")
    quoted = next(block for block in _FENCE.findall(text) if " resumed, " in block)
    shown = [" ".join(line.strip() for line in screen) for screen in recorded()]
    parts = [part.strip() for line in quoted.splitlines() for part in re.split(r"…|(?<=files:)", line) if part.strip()]
    assert [part[:6] for part in parts] == ["12 pac", "from: ", "saved:", "To use", "conda "]
    assert [part for part in parts if not any(part in screen for screen in shown)] == []


def test_the_recording_shows_conda_link_what_was_fetched():
    """conda names no package to download, and no path but those of the recording's own folder is shown."""
    lines = [line for screen in recorded() for line in screen]
    assert "Killed" in lines
    assert any(line.startswith("$ conda create ") for line in lines)
    assert not any("will be downloaded" in line for line in lines)
    assert "Executing transaction: done" in recorded()[-1]
    paths = re.findall(r"(?<![\w/.:])/[\w.-][\w./-]*", "\n".join(lines))
    assert {path for path in paths if not path.startswith("/tmp/demo/")} == set()
    assert paths
