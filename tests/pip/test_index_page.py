"""Pages as indexes, mirrors and people write them."""

from __future__ import annotations

import json

import pytest

from resume_dl.resolve.index_page import (
    HTML_TYPE,
    JSON_TYPE,
    ListedFile,
    PageError,
    parse_page,
    placeholder,
    render_html,
    render_json,
)

BASE = "https://index.example/simple/demo/"
HEX = "ab" * 32


def html(text: str, base: str = BASE) -> tuple[ListedFile, ...]:
    return parse_page("text/html; charset=utf-8", text.encode(), base).files


def one(text: str, base: str = BASE) -> ListedFile:
    (file,) = html(text, base)
    return file


def from_json(*files: object, **page: object) -> tuple[ListedFile, ...]:
    document = {"meta": {"api-version": "1.0"}, "name": "demo", "files": files, **page}
    return parse_page(JSON_TYPE, json.dumps(document).encode(), BASE).files


def test_every_attribute():
    file = one(
        f'<a href="../../packages/ab/demo-1.0-py3-none-any.whl#sha256={HEX.upper()}" data-gpg-sig="true" '
        'data-requires-python="&gt;=3.8,&lt;4" data-yanked="it &amp; that" '
        'data-dist-info-metadata="true">demo</a>'
    )
    assert file == ListedFile(
        filename="demo-1.0-py3-none-any.whl",
        url="https://index.example/packages/ab/demo-1.0-py3-none-any.whl",
        hashes={"sha256": HEX},
        requires_python=">=3.8,<4",
        yanked="it & that",
        metadata={},
    )


@pytest.mark.parametrize(
    ("attribute", "metadata"),
    [
        ("", None),
        ('data-core-metadata="true"', {}),
        ("data-core-metadata", None),
        ('data-core-metadata="false"', None),
        (f'data-core-metadata="sha256={HEX}"', {"sha256": HEX}),
        (f'data-core-metadata="false" data-dist-info-metadata="sha256={HEX}"', None),
    ],
)
def test_core_metadata(attribute, metadata):
    """PEP 714: the new name wins over the old one; only what promises something is taken as a promise."""
    assert one(f'<a href="demo-1.0-py3-none-any.whl" {attribute}>x</a>').metadata == metadata


@pytest.mark.parametrize(
    ("href", "url", "filename"),
    [
        (
            "cu101/torch-1.6.0%2Bcu101-cp37-cp37m-linux_x86_64.whl",
            "https://w.example/whl/cu101/torch-1.6.0%2Bcu101-cp37-cp37m-linux_x86_64.whl",
            "torch-1.6.0+cu101-cp37-cp37m-linux_x86_64.whl",
        ),
        (
            "/torch-1.6.0+cu101-cp37-cp37m-linux_x86_64.whl",
            "https://w.example/torch-1.6.0+cu101-cp37-cp37m-linux_x86_64.whl",
            "torch-1.6.0+cu101-cp37-cp37m-linux_x86_64.whl",
        ),
        ("http://else.example/a b/demo-1.0.tar.gz", "http://else.example/a%20b/demo-1.0.tar.gz", "demo-1.0.tar.gz"),
        (" demo-1.0.zip?sig=a%2Fb \n", "https://w.example/whl/demo-1.0.zip?sig=a%2Fb", "demo-1.0.zip"),
    ],
)
def test_links(href, url, filename):
    file = one(f'<a href="{href}">x</a>', "https://w.example/whl/torch_stable.html")
    assert (file.url, file.filename) == (url, filename)


def test_base_and_noise():
    """A <base>, links that are no files, unclosed tags."""
    text = '<base href="https://b.example/x/"><a href="../">..</a><a>no</a><a href="ftp://h/demo-2.0.zip">f</a>'
    text += '<a href="http://[bad/demo-3.0.zip"><a href="demo-1.0.zip">'
    assert one(text).url == "https://b.example/x/demo-1.0.zip"


def test_yanked_without_a_reason():
    assert one('<a href="demo-1.0.zip" data-yanked>x</a>').yanked is True
    assert one('<a href="demo-1.0.zip" data-yanked="">x</a>').yanked is True
    assert one('<a href="demo-1.0.zip">x</a>').yanked is False


def test_a_page_declares_itself_an_index():
    """An empty project is told apart from a login page so."""
    page = parse_page("text/html", b'<meta name="pypi:repository-version" content="1.3"><body></body>', BASE)
    assert (page.is_index, page.files) == (True, ())
    assert not parse_page("text/html", b"<h1>Please log in</h1>", BASE).is_index


@pytest.mark.parametrize(
    "page", [b'<meta name="pypi:repository-version" content="2.0">', b'{"meta": {"api-version": "2.0"}, "files": []}']
)
def test_another_major_version_is_refused(page):
    """PEP 629."""
    with pytest.raises(PageError, match=r"version 2\.0"):
        parse_page(JSON_TYPE if page[:1] == b"{" else HTML_TYPE, page, BASE)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"meta": {"api-version": "1.0"}, "files": {}}', '{"files": []}'])
def test_json_that_is_not_a_page_is_refused(text):
    with pytest.raises(PageError):
        parse_page(JSON_TYPE, text.encode(), BASE)


def test_every_field_of_json():
    (file,) = from_json(
        {
            "filename": "demo-1.0-py3-none-any.whl",
            "url": "/files/demo-1.0-py3-none-any.whl",
            "hashes": {"SHA256": HEX.upper(), "blake2b": "aa"},
            "size": 17,
            "requires-python": ">=3.8",
            "yanked": "broken",
            "core-metadata": {"sha256": HEX},
            "gpg-sig": True,
        }
    )
    assert file == ListedFile(
        filename="demo-1.0-py3-none-any.whl",
        url="https://index.example/files/demo-1.0-py3-none-any.whl",
        hashes={"sha256": HEX, "blake2b": "aa"},
        size=17,
        requires_python=">=3.8",
        yanked="broken",
        metadata={"sha256": HEX},
    )


def test_invalid_json_fields_affect_no_other_file():
    """What is of another kind is left out; an entry without an address is none."""
    odd = {"url": "demo-1.0.zip", "hashes": [], "size": True, "requires-python": None, "yanked": "", "filename": None}
    files = from_json("x", {}, {"url": 3}, {"url": "ftp://h/demo-1.0.zip"}, odd)
    assert files == (ListedFile("demo-1.0.zip", BASE + "demo-1.0.zip"),)


def test_json_without_its_own_type():
    """A plain web server calls index.json by another type, or by none."""
    body = b' {"meta": {"api-version": "1.1"}, "files": [{"url": "demo-1.0.zip"}]}'
    assert len(parse_page("application/octet-stream", body, BASE).files) == 1
    assert len(parse_page("", body, BASE).files) == 1


FILES = (
    ListedFile("a-1.0-py3-none-any.whl", "http://h/a?x=1&y=2", {"sha256": HEX}, 5, ">=3.8,<4", "it's & that", {}),
    ListedFile("a-1.0.tar.gz", "http://h/a-1.0.tar.gz", {"sha256": HEX}, None, "", True),
)


def test_rendered_pages_can_be_parsed():
    assert parse_page(JSON_TYPE, render_json("a", FILES), BASE).files == FILES
    links = [
        ListedFile(
            "a-1.0-py3-none-any.whl", "http://h/a-1.0-py3-none-any.whl", {"sha256": HEX}, None, ">=3", "<b>", {}
        ),
        FILES[1],
    ]
    assert list(parse_page(HTML_TYPE, render_html(links), BASE).files) == links


def test_placeholders_belong_to_an_address():
    assert placeholder("http://a") == placeholder("http://a") != placeholder("http://b")
    assert len(placeholder("http://a")) == 64
