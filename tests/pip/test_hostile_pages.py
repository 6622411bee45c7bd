"""Index pages that were made to harm: time and memory stay in bounds, and the next mirror is asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.behaviours import Page
from faults.server import Answer
from resume_dl.errors import ResumeDLError
from resume_dl.resolve.index_page import HTML_TYPE, JSON_TYPE, PageError, parse_page
from resume_dl.resolve.start_tags import start_tags
from support.pip_index import build_wheel, write_index
from support.pip_resolving import Resolving, names

BASE = "https://index.example/simple/demo/"
WHEEL = "demo-1.0-py3-none-any.whl"


@pytest.fixture
def user(tmp_path: Path) -> Resolving:
    return Resolving(tmp_path)


# --- time -------------------------------------------------------------------------------------------------------------

REPEATED = {
    "tags without an end": "<a ",
    "tags without an end, with a quote": '<a x="',
    "attributes": "a ",
    "quotes of both kinds": "<a x=\"'",
    "equals signs": "<a =",
    "blanks": " ",
    "opened": "<",
    "end tags without an end": "</a ",
    "comments without an end": "<!--",
    "declarations": "<!",
    "marked sections": "<![",
    "instructions": "<?",
    "dashes": "-",
    "scripts without an end": "<script>",
    "titles without an end": "<title></titl",
    "references": "&amp",
    "numbers of letters": "&#1",
    "slashes": "<a / / ",
    "links": '<a href="a.zip">',
    "bases": '<base href="x/">',
}
BEFORE = ("", "<a ", '<a href="', "<!--")


def seconds(page: bytes, content_type: str = HTML_TYPE) -> float:
    """Of this process's own work, whatever else runs on the machine; the best of three."""
    best = 1e9
    for _ in range(3):
        start = time.process_time()
        with suppress(PageError):
            parse_page(content_type, page, BASE)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("piece", REPEATED.values(), ids=REPEATED)
def test_the_time_grows_linearly_in_html(piece: str, before: str) -> None:
    """Eight times the page: about eight times the work, by the square it would be 64 times."""
    short = (before + piece * (24_000 // len(piece))).encode()
    long = (before + piece * (192_000 // len(piece))).encode()
    assert seconds(long) < 24 * max(seconds(short), 0.0005)


@pytest.mark.parametrize("piece", ["[", "{", '{"a":', "1", '"', "9", "[1,", '{"url": "a.zip"},'])
@pytest.mark.parametrize("before", ["", '{"meta": {"api-version": "1.0"}, "files": ['])
def test_the_time_grows_linearly_in_json(piece: str, before: str) -> None:
    short = (before + piece * (24_000 // len(piece))).encode()
    long = (before + piece * (192_000 // len(piece))).encode()
    assert seconds(long, JSON_TYPE) < 24 * max(seconds(short, JSON_TYPE), 0.0005)


def test_the_page_of_the_report_is_read_at_once() -> None:
    """36 KB of ``<a `` took 31 s; in a process of its own, which is ended where it takes a minute."""
    code = (
        "from resume_dl.resolve.index_page import parse_page\n"
        "page = parse_page('text/html', b'<a ' * 12000, 'https://h/')\n"
        "import time; assert time.process_time() < 10; print(len(page.files))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_name_that_stands_for_a_million_wheels_is_passed_over() -> None:
    """A wheel's tags multiply (PEP 425): forty of each kind are 64,000."""
    name = "demo-1.0-{0}-{0}-{0}.whl".format(".".join("a" * 40))
    other = "demo-2.0-py2.py3-none-any.whl"
    links = "".join(
        f'<a href="{each}">x</a>' for each in (name, "a" * 300 + ".zip", WHEEL, "demo-2.0-py2.py3-none-any.whl")
    )
    page = {"meta": {"api-version": "1.0"}, "files": [{"url": name}, {"url": "x", "filename": name}, {"url": WHEEL}]}
    assert [file.filename for file in parse_page(HTML_TYPE, links.encode(), BASE).files] == [
        WHEEL,
        other,
    ]
    assert [file.filename for file in parse_page(JSON_TYPE, json.dumps(page).encode(), BASE).files] == [WHEEL]


# --- memory -----------------------------------------------------------------------------------------------------------

BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "empty objects": (JSON_TYPE, lambda: b'{"meta": {"api-version": "1.0"}, "files": [' + b"{}," * 5_000_000),
    "empty lists": (JSON_TYPE, lambda: b'{"a": [' + b"[]," * 5_000_000),
    "numbers": (JSON_TYPE, lambda: b'{"a": [' + b"1," * 8_000_000),
    "links": (HTML_TYPE, lambda: b"<a href=/a.zip>" * 400_000),
    "attributes": (HTML_TYPE, lambda: b"<a " + b" ".join(b"%x" % n for n in range(700_000)) + b">"),
}
"""Made when they are needed: every process of a test run imports this file."""


@pytest.mark.parametrize("kind", BOMBS)
def test_a_page_of_the_longest_kind_costs_bounded_memory(kind: str) -> None:
    """What its bytes come to is bounded, and not by their number alone."""
    pytest.importorskip("resource", reason="this system does not say how much memory a process took")
    content_type, make_page = BOMBS[kind]
    code = (
        "import resource, sys\n"
        "from resume_dl.resolve.index_page import PageError, parse_page\n"
        "page = sys.stdin.buffer.read()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    parse_page(sys.argv[1], page, 'https://h/'); said = 'read'\n"
        "except PageError as error:\n    said = str(error)\n"
        "print(said, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, sep='|')"
    )
    command = [sys.executable, "-c", code, content_type]
    done = subprocess.run(command, input=make_page(), capture_output=True, timeout=300, check=True)
    said, _, megabytes = done.stdout.decode().partition("|")
    assert said == ("read" if kind == "attributes" else "its page lists more than 100,000 files")
    assert int(megabytes) < 200


# --- every failure of a parser is a PageError -------------------------------------------------------------------------

BROKEN = {
    "a marked section": (HTML_TYPE, b"<![ >"),
    "deep JSON": (JSON_TYPE, b"[" * 200_000),
    "deep JSON in its version": (
        JSON_TYPE,
        b'{"meta": {"api-version": ' + b"[" * 900 + b"]" * 900 + b'}, "files": []}',
    ),
    "a long reference": (HTML_TYPE, b'<a href="&#' + b"9" * 5000 + b';a.zip">'),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_bytes_that_break_a_parser_are_a_page_error(kind: str) -> None:
    content_type, body = BROKEN[kind]
    if kind == "a marked section":
        assert parse_page(content_type, body, BASE).files == ()
        return
    with pytest.raises(PageError) as caught:
        parse_page(content_type, body, BASE)
    assert len(str(caught.value)) < 100


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.sampled_from([HTML_TYPE, JSON_TYPE, ""]),
    st.one_of(
        st.binary(),
        st.lists(st.sampled_from(["<a ", "href=", '"', "'", ">", "<!--", "-->", "<![", "[", "{", '"files":', "a.zip",
                                  "http://[", "file:///", "<base ", "&#x", ";", "\0", "\ud800", "://h:99999999/",
                                  "<script>", "</script", "=", "/", "..", "#sha256="])).map(
            lambda pieces: "".join(pieces).encode("utf-8", "surrogatepass")
        ),
    ),
)  # fmt: skip
def test_any_bytes_are_a_page_or_a_page_error(content_type: str, body: bytes) -> None:
    try:
        page = parse_page(content_type, body, BASE)
    except PageError:
        return
    assert all(file.url.startswith(("http://", "https://")) for file in page.files)


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just("\ud800"), st.just("file:///etc/passwd"),
    st.just("http://h:x/a.zip"), st.just("//[/a.zip"), st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
)  # fmt: skip


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["url", "filename", "hashes", "size", "requires-python", "yanked", "core-metadata"]), ODD
        )
    )
)
def test_invalid_entries_affect_no_other_entry(entries: list[object]) -> None:
    """And what is taken of them can be written down again."""
    document = {"meta": {"api-version": "1.0"}, "files": [*entries, {"url": WHEEL}]}
    files = parse_page(JSON_TYPE, json.dumps(document).encode(), BASE).files
    assert files[-1].filename == WHEEL
    for file in files:
        assert file.url.startswith(("http://", "https://"))
        f"{file}{file.yanked}".encode()


# --- the same tags as a browser sees ----------------------------------------------------------------------------------


class ByTheStandardLibrary(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


ATTRIBUTES = st.sampled_from(
    ['href="a.zip"', "href='b.zip#sha256=00'", "href=c.zip", 'HREF = "d&amp;e.zip"', "data-yanked", 'data-yanked=""',
     'data-requires-python="&gt;=3"', 'title="a > b"', "title='<a href=x>'", 'x=""', "disabled"]
)  # fmt: skip
TAGS = st.builds(
    lambda name, attributes, blank, end: f"<{name}{''.join(blank + each for each in attributes)}{end}",
    st.sampled_from(["a", "A", "base", "meta", "br", "h1"]),
    st.lists(ATTRIBUTES, max_size=3),
    st.sampled_from([" ", "\n", "  \t"]),
    st.sampled_from([">", " >", " />"]),
)
MARKUP = st.sampled_from(
    ["text & more", "</a>", "</A >", "<!-- <a href=x.zip> -->", "<!DOCTYPE html>", "<?xml version='1.0'?>", "1 < 2",
     "<script>'<a href=y.zip>'</script>", "<style>a > b</style>", "\n"]
)  # fmt: skip


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.lists(st.one_of(TAGS, MARKUP), max_size=12))
def test_well_formed_pages_have_the_tags_that_pip_sees(pieces: list[str]) -> None:
    page = "".join(pieces)
    reader = ByTheStandardLibrary()
    reader.feed(page)
    reader.close()
    assert list(start_tags(page)) == reader.found


@pytest.mark.parametrize(
    ("page", "tags"),
    [
        ("<title><a href=x></title><a>", ["title", "a"]),
        ("<!--><a><!---><b><!-- --!><i><!-- --><u>", ["a", "b", "i", "u"]),
        ("<a<b>", ["a<b"]),
        ("<a href=x", []),
        ("<a href='x><b>", []),
        ("<!-- <a>", []),
        ("<script><a></scripture><a></SCRIPT ><b>", ["script", "b"]),
        ("<![CDATA[<a>]]><b>", ["b"]),
        ("</a <b> <i>", ["i"]),
        ("<1><é><a/><b/ / x>", ["a", "b"]),
    ],
)
def test_odd_pages_have_the_tags_that_a_browser_sees(page: str, tags: list[str]) -> None:
    """HTML Living Standard, 13.2.5."""
    assert [tag for tag, _ in start_tags(page)] == tags


def test_odd_attributes() -> None:
    page = "<a =x y==z z='1'w=2 y=\"3\" u= v v=&lt;&quot/>"
    ((_, attributes),) = start_tags(page)
    assert attributes == {"=x": None, "y": "3", "z": "1", "w": "2", "u": "v", "v": '<"/'}


# --- where links may lead ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "link", ["file:///srv/{0}", "FILE:/srv/{0}", "file:{0}", "ftp://h/{0}", "//h:0/{0}", "http:///{0}"]
)
@pytest.mark.parametrize("base", ["", "file:///srv/", "ftp://h/"])
def test_an_http_page_lists_only_http_files(link: str, base: str) -> None:
    address = link.format(WHEEL)
    entry = {"meta": {"api-version": "1.0"}, "files": [{"url": address}]}
    page = f'<base href="{base}"><a href="{address}">x</a>'
    assert parse_page(JSON_TYPE, json.dumps(entry).encode(), BASE).files == ()
    assert parse_page(HTML_TYPE, page.encode(), BASE).files == ()


def test_a_file_base_on_an_http_page_is_ignored() -> None:
    page = f'<base href="file:///srv/"><base href="http://[bad/"><a href="{WHEEL}">x</a>'.encode()
    assert [file.url for file in parse_page(HTML_TYPE, page, BASE).files] == [BASE + WHEEL]


def test_a_local_page_lists_local_and_http_files() -> None:
    page = f'<a href="{WHEEL}">x</a><a href="https://h/{WHEEL}">x</a>'.encode()
    urls = [file.url for file in parse_page(HTML_TYPE, page, "file:///srv/page.html").files]
    assert urls == [f"file:///srv/{WHEEL}", f"https://h/{WHEEL}"]


# --- a whole resolution -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Typed:
    """The file as a page of this type."""

    content_type: str

    def apply(self, answer: Answer) -> None:
        answer.headers["Content-Type"] = self.content_type


@pytest.mark.parametrize("kind", ["deep JSON", "a long reference", "a marked section"])
def test_the_next_mirror_is_asked(tmp_path: Path, nginx_mirrors, fault_server, user: Resolving, kind: str) -> None:
    """Each was the end of the run: exit 70, with a traceback."""
    wheel = build_wheel(tmp_path / "built", "demo", "1.0")
    write_index(tmp_path / "root", [wheel])
    nginx = nginx_mirrors([tmp_path / "root"])
    server = fault_server()
    content_type, body = BROKEN[kind]
    server.put("/simple/demo/", body)
    server.always(0, Typed(content_type), path="*")
    user.mirror("hostile", pypi_simple=f"{server.base()}/simple")
    user.mirror("good", pypi_simple=f"{nginx.base()}/simple")
    user.origins["pypi:simple"] = "http://127.0.0.1:9/simple"
    user.options["index_from"] = ("hostile", "good")
    assert names(user.resolve("demo", index=f"{server.base()}/simple")) == {wheel.filename}
    assert server.requests()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_page_that_links_to_a_pipe_of_this_machine(tmp_path: Path, fault_server, user: Resolving) -> None:
    """It was opened, and the run waited for ever; a file in its place was taken for the wheel."""
    os.mkfifo(tmp_path / WHEEL)
    server = fault_server()
    server.always(0, Page(f'<a href="{(tmp_path / WHEEL).as_uri()}">{WHEEL}</a>'.encode()), path="*")
    with pytest.raises(ResumeDLError) as caught:
        user.resolve("demo", index=f"{server.base()}/simple")
    assert caught.value.exit_code in (3, 6)
