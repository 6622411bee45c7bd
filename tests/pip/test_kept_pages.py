"""Pages that were read before: asked for only when they may have changed, and then by their validators."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from resume_dl.indexes.copies import Freshness, Note
from resume_dl.indexes.pip.kept_pages import KeptPage, KeptPages
from resume_dl.model.http import CacheHeaders
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.index_page import ListedFile
from support.pip_index import build_wheel, write_index
from support.pip_resolving import Resolving, names

URL = RedactedUrl("https://index.example/simple/demo/")


@pytest.fixture
def user(tmp_path: Path) -> Resolving:
    return Resolving(tmp_path)


@pytest.fixture
def index(tmp_path, nginx_mirrors):
    """An index with two projects, one of them without METADATA beside its wheel."""
    demo = build_wheel(tmp_path / "built", "demo", "1.0", requires=["other"])
    write_index(tmp_path / "root", [demo], core_metadata=False)
    write_index(tmp_path / "root", [build_wheel(tmp_path / "built", "other", "1.0")])
    return nginx_mirrors([tmp_path / "root"])


def test_a_second_run_loads_nothing_again(tmp_path, index, user):
    """Pages are revalidated (304), METADATA is known by digests: not a byte of a body comes."""
    first = user.resolve("demo", index=f"{index.base()}/simple")
    assert index.body_bytes() > 500
    index.reset_log()
    assert names(user.resolve("demo", index=f"{index.base()}/simple")) == names(first)
    assert {request.status for request in index.requests()} == {304}
    assert index.body_bytes() == 0
    new = build_wheel(tmp_path / "built", "demo", "2.0")
    write_index(tmp_path / "root", [new])
    assert names(user.resolve("demo", index=f"{index.base()}/simple")) == {new.filename}


def test_a_fresh_page_is_not_asked_for(index, user):
    """By its server's max-age, or the user's; ``--refresh`` asks all the same."""
    index.change(0, max_age=600)
    wanted = {"index": f"{index.base()}/simple"}
    user.resolve("demo", **wanted)
    index.reset_log()
    user.resolve("demo", **wanted)
    assert index.requests() == []
    assert any("kept pages of up to" in line for line in user.told.lines)
    user.options["refresh"] = True
    user.resolve("demo", **wanted)
    assert {request.uri for request in index.requests()} == {"/simple/demo/", "/simple/other/"}
    index.reset_log()
    user.options |= {"refresh": False, "index_max_age": 0.0}
    user.resolve("demo", **wanted)
    assert len(index.requests()) == 2


def test_a_304_says_how_long_it_is_fresh(index, user):
    """What goes with the answer counts from then on, in both directions."""
    wanted = {"index": f"{index.base()}/simple"}
    user.resolve("demo", **wanted)
    index.change(0, max_age=600)
    user.resolve("demo", **wanted)
    index.reset_log()
    user.resolve("demo", **wanted)
    assert index.requests() == []
    index.change(0, max_age=0)
    user.options["refresh"] = True
    user.resolve("demo", **wanted)
    assert {request.status for request in index.requests()} == {304}
    index.reset_log()
    user.options["refresh"] = False
    user.resolve("demo", **wanted)
    assert {request.uri for request in index.requests()} == {"/simple/demo/", "/simple/other/"}


@pytest.mark.parametrize(
    ("age", "freshness", "fresh"),
    [
        (5.0, Freshness(), True),
        (15.0, Freshness(), False),
        (-5.0, Freshness(), False),  # from the future
        (15.0, Freshness(max_age=20.0), True),
        (5.0, Freshness(refresh=True), False),
    ],
)
def test_how_long_a_page_is_fresh(age, freshness, fresh):
    note = Note(str(URL), CacheHeaders(max_age=10.0), checked=1000.0)
    assert KeptPage((), note, age).is_fresh(freshness) is fresh
    assert not KeptPage(None, note, age).is_fresh(freshness)


def test_content_of_kept_pages(tmp_path):
    """Validators beside the files, no login; a link that holds a secret cannot be used again, so the page is asked."""
    kept = KeptPages(tmp_path)
    file = ListedFile("demo-1.0-py3-none-any.whl", "https://me:pw@index.example/demo-1.0-py3-none-any.whl")
    plain = ListedFile("demo-1.0-py3-none-any.whl", "https://index.example/demo-1.0-py3-none-any.whl")
    said = CacheHeaders('"1"', "", 60.0)
    kept.keep_page(URL, [plain], said)
    found = kept.page(URL)
    assert (found.files, found.note.said) == ((plain,), said)
    place = next(tmp_path.iterdir())
    os.utime(place, (1.0, 1.0))
    assert kept.page(URL).age > 10**6
    kept.confirm(URL, found, CacheHeaders())
    assert abs(kept.page(URL).age) < 60.0
    assert kept.page(URL).note.said == said, "what a 304 leaves out stays"
    os.utime(place, (1.0, 1.0))
    kept.confirm(URL, found, CacheHeaders('"2"', "", 90.0))
    assert abs(kept.page(URL).age) < 60.0
    assert (kept.page(URL).files, kept.page(URL).note.said) == ((plain,), CacheHeaders('"1"', "", 90.0))
    kept.keep_page(URL, [file], said)
    found = kept.page(URL)
    assert (found.files, found.note.said) == ((plain,), CacheHeaders())
    kept.keep_page(URL, None)
    assert kept.page(URL).files is None


@pytest.mark.parametrize(
    "text",
    [b"null", b"", b"[]", b'{"meta": {"api-version": "1.0"}, "files": []}', b'{"meta": {"_kept": 1}, "files": []}'],
)
def test_pages_kept_by_another_version_or_damaged_are_not_used(tmp_path, text):
    """Earlier versions kept what any mirror had said."""
    kept = KeptPages(tmp_path, now=time.time)
    kept.keep(URL, text)
    with pytest.raises(KeyError):
        kept.page(URL)
