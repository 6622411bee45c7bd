"""Pages that list files: an index's (PEP 503 in HTML, PEP 691 in JSON), and plain find-links pages. Pure.

What the attributes mean: PEP 592 (yanked), 658 and 714 (core metadata), 700 (sizes). The HTML form is so small that
the standard library's parser reads it; the libraries that know it bring an HTTP client of their own.
"""

from __future__ import annotations

import functools
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

JSON_TYPE = "application/vnd.pypi.simple.v1+json"
HTML_TYPE = "text/html"
ACCEPT = f"{JSON_TYPE}, application/vnd.pypi.simple.v1+html;q=0.2, {HTML_TYPE};q=0.01"
"""What pip and uv send: JSON first (it has sizes), any HTML last."""

_ENDINGS = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz", ".tar.Z", ".tar", ".egg")
_FRAGMENT_HASH = re.compile(r"(?:^|&)(md5|sha1|sha224|sha256|sha384|sha512)=([0-9a-fA-F]+)")
_MANY_SEPARATORS = re.compile(r"[-_.]+")


class PageError(ValueError):
    """What came is no page of files; the message says why in a few words, without any part of an address."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file of a page. ``url`` is absolute, without a fragment; it may hold a login."""

    filename: str
    url: str
    hashes: Mapping[str, str] = field(default_factory=dict)
    """Algorithm -> lower-case hex, as the page has them; perhaps none."""
    size: int | None = None
    requires_python: str = ""
    yanked: str | bool = False
    """The reason, or True where none is given."""
    metadata: Mapping[str, str] | None = None
    """The hashes (perhaps none) of ``<url>.metadata`` where the index has it; None where it has not."""

    @property
    def is_wheel(self) -> bool:
        """Whether it is a wheel."""
        return self.filename.endswith(".whl")


@dataclass(frozen=True, slots=True)
class IndexPage:
    """What one page lists."""

    files: tuple[ListedFile, ...]
    is_index: bool
    """Whether it says of itself that it is an index's page; else it may be anything with links."""


def normalized(name: str) -> str:
    """A project's name as indexes write it (PEP 503)."""
    return _MANY_SEPARATORS.sub("-", name).lower()


def parse_page(content_type: str, body: bytes, base: str) -> IndexPage:
    """The page that came with ``content_type`` from ``base``, its address after redirects. Raises PageError."""
    kind = content_type.partition(";")[0].strip().lower()
    # A web server that knows nothing of indexes calls index.json by its plain name, or nothing at all.
    looks_like_json = body.lstrip()[:1] == b"{"
    if kind.endswith("json") or (not kind.endswith("html") and looks_like_json):
        return _from_json(body, base)
    reader = _Links(base)
    reader.feed(body.decode("utf-8", "replace"))
    reader.close()
    return IndexPage(tuple(reader.files), reader.is_index)


def _from_json(body: bytes, base: str) -> IndexPage:
    try:
        document = json.loads(body)
        version = str(document["meta"]["api-version"])
        entries = document["files"]
    except (ValueError, KeyError, TypeError) as error:
        raise PageError("its JSON is no page of an index") from error
    if version.partition(".")[0] != "1":
        raise PageError(f"its pages are of version {version[:10]}, known is 1")  # PEP 629: refuse another major one
    if not isinstance(entries, list):
        raise PageError("its JSON is no page of an index")
    return IndexPage(tuple(file for entry in entries if (file := _json_file(entry, base)) is not None), is_index=True)


def _json_file(entry: Any, base: str) -> ListedFile | None:
    """One entry; None for what nobody could use, which harms no other file."""
    if not isinstance(entry, dict) or not isinstance(entry.get("url"), str):
        return None
    link = _absolute(base, entry["url"])
    if link is None:
        return None
    url, _ = link
    filename = entry.get("filename")
    metadata = entry.get("core-metadata", entry.get("dist-info-metadata", False))
    size, yanked, python = entry.get("size"), entry.get("yanked", False), entry.get("requires-python")
    return ListedFile(
        filename=filename if isinstance(filename, str) else _name_of(url),
        url=url,
        hashes=_hashes(entry.get("hashes")),
        size=size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None,
        requires_python=python if isinstance(python, str) else "",
        yanked=yanked if isinstance(yanked, str) and yanked else bool(yanked),
        metadata=_hashes(metadata) if metadata else None,
    )


def _hashes(found: Any) -> dict[str, str]:
    if not isinstance(found, dict):
        return {}
    return {str(name).lower(): value.lower() for name, value in found.items() if isinstance(value, str)}


class _Links(HTMLParser):
    """Every link of a page whose last part is a file that pip would take."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self._base = base
        self.files: list[ListedFile] = []
        self.is_index = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for each tag."""
        said = dict(attrs)
        if tag == "base" and said.get("href"):
            self._base = urljoin(self._base, said["href"] or "")
        elif tag == "meta" and said.get("name") == "pypi:repository-version":
            version = said.get("content") or ""
            if version.partition(".")[0] != "1":
                raise PageError(f"its pages are of version {version[:10]}, known is 1")
            self.is_index = True
        elif tag == "a" and said.get("href"):
            self._take(said["href"] or "", said)

    def _take(self, href: str, said: Mapping[str, str | None]) -> None:
        link = _absolute(self._base, href.strip())
        if link is None:
            return
        url, fragment = link
        filename = _name_of(url)
        if not filename.endswith(_ENDINGS):
            return
        metadata = next((said[name] for name in ("data-core-metadata", "data-dist-info-metadata") if name in said), "")
        self.files.append(
            ListedFile(
                filename=filename,
                url=url,
                hashes=_fragment_hashes(fragment),
                requires_python=said.get("data-requires-python") or "",
                yanked=(said["data-yanked"] or True) if "data-yanked" in said else False,
                metadata=_fragment_hashes(metadata) if metadata and metadata != "false" else None,
            )
        )


def _absolute(base: str, href: str) -> tuple[str, str] | None:
    """``href`` as an absolute URL and its fragment, its odd characters quoted; None for one that cannot be read."""
    address, _, fragment = href.partition("#")
    folder, slash, name = address.rpartition("/")
    if not slash or not name or "?" in address or name in {".", ".."}:
        folder, name = address, ""
    else:
        folder += slash
    found = _joined(base, folder)
    return None if found is None else (found + _quoted(name), fragment)


@functools.lru_cache(maxsize=4096)
def _joined(base: str, href: str) -> str | None:
    """The two of them as one address. Pages of twenty thousand links have a dozen folders, and joining is slow."""
    try:
        url = urljoin(base, href)
        scheme = urlsplit(url).scheme
    except ValueError:
        return None
    return _quoted(url) if scheme in {"http", "https", "file"} else None


def _quoted(text: str) -> str:
    return quote(text, safe="%/:=&?~#+!$,;'@()*[]")


def _name_of(url: str) -> str:
    return unquote(urlsplit(url).path.rpartition("/")[2])


def _fragment_hashes(fragment: str) -> dict[str, str]:
    return {name: value.lower() for name, value in _FRAGMENT_HASH.findall(fragment)}


def render_json(project: str, files: Iterable[ListedFile]) -> bytes:
    """A PEP 691 page of these files."""
    page = {"meta": {"api-version": "1.0"}, "name": project, "files": [_as_json(file) for file in files]}
    return json.dumps(page).encode()


def _as_json(file: ListedFile) -> dict[str, Any]:
    entry: dict[str, Any] = {"filename": file.filename, "url": file.url, "hashes": dict(file.hashes)}
    if file.size is not None:
        entry["size"] = file.size
    if file.requires_python:
        entry["requires-python"] = file.requires_python
    if file.yanked:
        entry["yanked"] = file.yanked
    if file.metadata is not None:
        entry["core-metadata"] = dict(file.metadata) or True
    return entry


def render_html(files: Iterable[ListedFile]) -> bytes:
    """A page of links with the same content, for who asks for find-links."""
    lines = []
    for file in files:
        fragment = "".join(f"#{name}={value}" for name, value in [*file.hashes.items()][:1])
        more = f' data-requires-python="{html.escape(file.requires_python)}"' if file.requires_python else ""
        if file.yanked:
            more += f' data-yanked="{html.escape(file.yanked if isinstance(file.yanked, str) else "")}"'
        if file.metadata is not None:
            more += ' data-core-metadata="true"'
        lines.append(f'<a href="{html.escape(file.url + fragment)}"{more}>{html.escape(file.filename)}</a><br>\n')
    return f"<!DOCTYPE html>\n<html><body>\n{''.join(lines)}</body></html>\n".encode()


def placeholder(url: str) -> str:
    """A sha256 that stands for "none is known": 64 hex digits that belong to this address and to no file.

    Whoever locks files wants a digest for each, and would download a file whole to have one.
    """
    return hashlib.sha256(b"no digest is known of " + url.encode()).hexdigest()
