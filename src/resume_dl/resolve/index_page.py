"""Parser and writer of package index pages (PEP 503 in HTML, PEP 691 in JSON) and find-links pages. Pure.

Attributes: PEP 592 (yanked), 658 and 714 (core metadata), 700 (sizes, upload times). Existing libraries for this depend
on an HTTP client of their own. Pages are untrusted: time and memory are linear in a page's length, and any error is a
PageError.
"""

from __future__ import annotations

import functools
import hashlib
import html
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from resume_dl.model.exclude_newer import time_of
from resume_dl.resolve.start_tags import start_tags

JSON_TYPE = "application/vnd.pypi.simple.v1+json"
HTML_TYPE = "text/html"
ACCEPT = f"{JSON_TYPE}, application/vnd.pypi.simple.v1+html;q=0.2, {HTML_TYPE};q=0.01"
"""The header that pip and uv send: JSON first (it has sizes), any HTML last."""

_ENDINGS = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz", ".tar.Z", ".tar", ".egg")
_FRAGMENT_HASH = re.compile(r"(?:^|&)(md5|sha1|sha224|sha256|sha384|sha512)=([0-9a-fA-F]+)")
_MANY_SEPARATORS = re.compile(r"[-_.]+")
_MOST_FILES = 100_000
"""Per page; the longest known pages list 30,000 files."""
_TOO_MANY = f"its page lists more than {_MOST_FILES:,} files"
_MOST_OBJECTS, _MOST_VALUES = 5 * _MOST_FILES, 20 * _MOST_FILES
"""Per JSON page, counted by braces and commas before it is parsed; one file has about 3 objects and 12 values."""
LONGEST_ADDRESS = 8192
"""Characters; a length that servers accept (RFC 9110 4.1)."""
_LONGEST_NAME = 255
_MOST_TAGS = 512
"""Per wheel name, which stands for every combination of its Pythons, ABIs and platforms (PEP 425)."""
_LONGEST_NUMBER = 18
_HEX_DIGITS = {"md5": 32, "sha1": 40, "sha224": 56, "sha256": 64, "sha384": 96, "sha512": 128}
_HEX = frozenset("0123456789abcdef")
_OTHER_SCHEME = "an http(s) page may link only to http(s)"
_UNREADABLE = "an address cannot be read"
_UNUSABLE_NAME = "a file name is too long or expands to too many tags"


class PageError(ValueError):
    """A response is not a page of files; the message gives the reason and contains no part of a URL."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file of a page. ``url`` is absolute, without a fragment; it may contain a login."""

    filename: str
    url: str
    hashes: Mapping[str, str] = field(default_factory=dict)
    """Algorithm -> lower-case hex, as the page has them; may be empty."""
    size: int | None = None
    requires_python: str = ""
    yanked: str | bool = False
    """The reason, or True if none is given."""
    metadata: Mapping[str, str] | None = None
    """The hashes (may be empty) of ``<url>.metadata``; None if the index has no such file."""
    stated: str | None = None
    """The URL from the index's authority; None if that is ``url``, empty if no authority gave one."""
    uploaded: datetime | None = None
    """In UTC; None if the page does not say it."""

    @property
    def is_wheel(self) -> bool:
        """Whether it is a wheel."""
        return self.filename.endswith(".whl")

    @property
    def is_identified(self) -> bool:
        """Whether a digest identifies the bytes, so that any source may deliver them."""
        return bool(verifiable(self.hashes))


@dataclass(frozen=True, slots=True)
class IndexPage:
    """The files of one page."""

    files: tuple[ListedFile, ...]
    is_index: bool
    """Whether the page declares itself an index page; else it may be any page with links."""
    refused: tuple[str, ...] = ()
    """The reasons why links to package files were left out, without duplicates."""


def verifiable(hashes: Mapping[str, str]) -> dict[str, str]:
    """Return the usable hashes: those with a known algorithm and a digest of the right length."""
    return {
        name: value for name, value in hashes.items() if len(value) == _HEX_DIGITS.get(name) and _HEX.issuperset(value)
    }


def normalized(name: str) -> str:
    """Return a project's normalized name (PEP 503)."""
    return _MANY_SEPARATORS.sub("-", name).lower()


def parse_page(content_type: str, body: bytes, base: str) -> IndexPage:
    """Parse a page that was served as ``content_type`` from ``base``, its URL after redirects. Raises PageError.

    Links of an http(s) page to other schemes are refused, so that a remote page cannot refer to local files.
    """
    kind = content_type.partition(";")[0].strip().lower()
    # A plain web server sends index.json as application/json, or without a type.
    looks_like_json = body.lstrip()[:1] == b"{"
    try:
        if kind.endswith("json") or (not kind.endswith("html") and looks_like_json):
            return _from_json(body, base)
        return _from_html(body, base)
    except PageError:
        raise
    except (
        Exception
    ) as error:  # parsers may fail in any way on malicious bytes, which counts as a failure of this source
        raise PageError(f"its page cannot be read ({type(error).__name__})") from error


def _from_json(body: bytes, base: str) -> IndexPage:
    if body.count(b"{") + body.count(b"[") > _MOST_OBJECTS or body.count(b",") > _MOST_VALUES:
        raise PageError(_TOO_MANY)
    try:
        document = json.loads(body, parse_int=_number)
        version = str(document["meta"]["api-version"])
        entries = document["files"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PageError("its JSON is not an index page") from error
    if version.partition(".")[0] != "1":
        raise PageError(
            f"its page has API version {version[:10]}; only version 1 is supported"
        )  # PEP 629: refuse others
    if not isinstance(entries, list):
        raise PageError("its JSON is not an index page")
    allowed = _schemes_of(base)
    if len(entries) > _MOST_FILES:
        raise PageError(_TOO_MANY)
    files = [file for entry in entries if (file := _json_file(entry, base, allowed)) is not None]
    return IndexPage(tuple(files), is_index=True)


def _number(digits: str) -> int:
    """Parse a number; 0 if it has more digits than any size, as parsing takes quadratic time."""
    return int(digits) if len(digits) <= _LONGEST_NUMBER else 0


def _json_file(entry: Any, base: str, allowed: frozenset[str]) -> ListedFile | None:
    """Parse an entry; None if it is unusable, so that the other files of the page still count."""
    if not isinstance(entry, dict) or not isinstance(entry.get("url"), str):
        return None
    link = _absolute(base, entry["url"], allowed)
    if link is None:
        return None
    url, _ = link
    filename = _text(entry.get("filename")) or _name_of(url)
    if not _is_sane(filename):
        return None
    metadata = entry.get("core-metadata", entry.get("dist-info-metadata", False))
    size, yanked = entry.get("size"), entry.get("yanked", False)
    return ListedFile(
        filename=filename,
        url=url,
        hashes=_hashes(entry.get("hashes")),
        size=size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None,
        requires_python=_text(entry.get("requires-python")),
        yanked=_text(yanked) or bool(yanked),
        metadata=_hashes(metadata) if metadata else None,
        uploaded=time_of(_text(entry.get("upload-time"))),
    )


def _text(value: Any) -> str:
    """Return a string that can be encoded; empty for anything else (JSON may contain lone surrogates)."""
    if not isinstance(value, str):
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:
        return ""
    return value


def _hashes(found: Any) -> dict[str, str]:
    if not isinstance(found, dict):
        return {}
    return {name.lower(): value.lower() for name, value in found.items() if _text(name) and _text(value)}


def _from_html(body: bytes, base: str) -> IndexPage:
    """Return every link whose last path component is a package file that pip accepts."""
    allowed, files, is_index = _schemes_of(base), list[ListedFile](), False
    refused: dict[str, None] = {}
    has_base = False
    for tag, attributes in start_tags(body.decode("utf-8", "replace")):
        if tag == "a":
            file = _linked_file(base, attributes, allowed)
            if isinstance(file, ListedFile):
                files.append(file)
            elif file:
                refused[file] = None
            if len(files) > _MOST_FILES:
                raise PageError(_TOO_MANY)
        elif tag == "base" and attributes.get("href") and not has_base:
            has_base = True  # later ones are ignored (HTML Living Standard, 4.2.3)
            base = _joined(base, (attributes["href"] or "")[:LONGEST_ADDRESS], allowed) or base
        elif tag == "meta" and attributes.get("name") == "pypi:repository-version":
            version = attributes.get("content") or ""
            if version.partition(".")[0] != "1":
                raise PageError(f"its pages are of version {version[:10]}, known is 1")
            is_index = True
    return IndexPage(tuple(files), is_index, tuple(refused))


def _linked_file(base: str, attributes: Mapping[str, str | None], allowed: frozenset[str]) -> ListedFile | str | None:
    """Return the file of a link; None for other links, the reason as a string if a package file is refused."""
    href = (attributes.get("href") or "").strip()
    link = _absolute(base, href, allowed)
    if link is None:
        return _why_refused(href, allowed) if href.partition("#")[0].endswith(_ENDINGS) else None
    url, fragment = link
    filename = _name_of(url)
    if not filename.endswith(_ENDINGS):
        return None
    if not _is_sane(filename):
        return _UNUSABLE_NAME
    metadata = next(
        (attributes[name] for name in ("data-core-metadata", "data-dist-info-metadata") if name in attributes), ""
    )
    return ListedFile(
        filename=filename,
        url=url,
        hashes=_fragment_hashes(fragment),
        requires_python=attributes.get("data-requires-python") or "",
        yanked=(attributes["data-yanked"] or True) if "data-yanked" in attributes else False,
        metadata=_fragment_hashes(metadata) if metadata and metadata != "false" else None,
    )


def _why_refused(href: str, allowed: frozenset[str]) -> str:
    scheme, colon, _ = href[:_LONGEST_NUMBER].partition(":")
    return _OTHER_SCHEME if colon and scheme.lower() not in allowed else _UNREADABLE


def _schemes_of(page: str) -> frozenset[str]:
    """Return the URL schemes that links of a page may have."""
    web = frozenset({"http", "https"})
    return web | {"file"} if page[:5].lower() == "file:" else web


def _is_sane(filename: str) -> bool:
    """Whether a file name has a valid length and is cheap to parse: a wheel's tag sets multiply."""
    if len(filename) > _LONGEST_NAME:
        return False
    return not filename.endswith(".whl") or _tags(filename) <= _MOST_TAGS


def _tags(wheel: str) -> int:
    return math.prod(part.count(".") + 1 for part in wheel.removesuffix(".whl").split("-")[-3:])


def _absolute(base: str, href: str, allowed: frozenset[str]) -> tuple[str, str] | None:
    """Return ``href`` as an absolute, quoted URL and its fragment; None if it is malformed."""
    if not href or len(href) > LONGEST_ADDRESS:
        return None
    address, _, fragment = href.partition("#")
    folder, slash, name = address.rpartition("/")
    if not slash or not name or "?" in address or name in {".", ".."}:
        folder, name = address, ""
    else:
        folder += slash
    found = _joined(base, folder, allowed)
    try:
        return None if found is None else (found + _quoted(name), fragment)
    except UnicodeEncodeError:
        return None


@functools.lru_cache(maxsize=4096)
def _joined(base: str, href: str, allowed: frozenset[str]) -> str | None:
    """Join base and link, with a cache: joining is slow, and pages of 20,000 links have a dozen folders."""
    try:
        url = urljoin(base, href)
        parts = urlsplit(url)
        usable = parts.scheme in allowed and (parts.hostname or parts.scheme == "file") and parts.port != 0
        return _quoted(url) if usable else None
    except ValueError:  # an invalid port, or a lone surrogate
        return None


def _quoted(text: str) -> str:
    return quote(text, safe="%/:=&?~#+!$,;'@()*[]")


def _name_of(url: str) -> str:
    return unquote(urlsplit(url).path.rpartition("/")[2])


def _fragment_hashes(fragment: str) -> dict[str, str]:
    return {name: value.lower() for name, value in _FRAGMENT_HASH.findall(fragment)}


def render_json(project: str, files: Iterable[ListedFile], *, meta: Mapping[str, Any] = MappingProxyType({})) -> bytes:
    """Return a PEP 691 page of these files; ``meta`` has further members of its ``meta`` object."""
    page = {"meta": {"api-version": "1.0", **meta}, "name": project, "files": [_as_json(file) for file in files]}
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
    if file.uploaded is not None:
        entry["upload-time"] = f"{file.uploaded:%Y-%m-%dT%H:%M:%S.%fZ}"
    return entry


def render_html(files: Iterable[ListedFile]) -> bytes:
    """Return an HTML page of links with the same content, for find-links."""
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
    """Return a made-up sha256 for a file without a known digest, derived from its URL.

    A resolver that writes a lock needs a digest of each file, and would otherwise download the file for it.
    """
    return hashlib.sha256(b"no digest is known of " + url.encode()).hexdigest()
