"""The start tags of an HTML page and their attributes, in time that grows with the page's length and no faster. Pure.

The rules are those of the tokenizer of the HTML Living Standard ("13.2.5 Tokenization"), as far as they decide what a
start tag is: comments, end tags, quoted attributes, and elements with text content. No page is invalid; one cut
off inside a tag or comment has no further tags.

Python's own html.parser needs time by the square of a page's length before 3.13.6 (36 KB of ``<a `` took half a
minute), and ends in an AssertionError for ``<![ >``. pip reads pages by it; uv has a tokenizer of its own, as this is.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

_SPACE = r"[ \t\n\r\f]"
_TAG = re.compile(r"<(?:([A-Za-z][^ \t\n\r\f/>]*)|(!--)|[!?/])")
_ATTRIBUTE = re.compile(rf"[ \t\n\r\f/]*([^ \t\n\r\f/>][^ \t\n\r\f/>=]*)(?:{_SPACE}*(=){_SPACE}*)?")
_BEFORE_END = re.compile(r"[ \t\n\r\f/]*>")
_UNQUOTED = re.compile(r"[^ \t\n\r\f>]*")
_COMMENT_END = re.compile(r"--!?>")
_OF_TEXT = {
    name: re.compile(rf"</{name}(?=[ \t\n\r\f/>])", re.IGNORECASE)
    for name in ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes")
}
"""Elements whose content is text up to their end tag, whatever it looks like."""
_MOST_ATTRIBUTES = 64
"""Of one tag; further ones are passed over."""

Attributes = dict[str, str | None]
"""Lower-case name -> value without its quotes and character references; None where there is no ``=``."""


def start_tags(page: str) -> Iterator[tuple[str, Attributes]]:
    """Each start tag in order: lower-case name and attributes; of one that stands twice, the last.

    Raises ValueError for a character reference of thousands of digits.
    """
    at = 0
    while (found := _TAG.search(page, at)) is not None:
        name, is_comment = found.group(1), found.group(2)
        if name is None:
            end = _end_of_comment(page, found.end()) if is_comment else page.find(">", found.end()) + 1
            if end <= 0:
                return
            at = end
            continue
        attributes: Attributes = {}
        end = _read_attributes(page, found.end(), attributes)
        if end < 0:
            return
        at = end
        name = name.lower()
        yield name, attributes
        if name in _OF_TEXT:
            text_end = _OF_TEXT[name].search(page, at)
            if text_end is None:
                return
            at = text_end.start()


def _end_of_comment(page: str, at: int) -> int:
    """Behind a comment whose text begins at ``at``; -1 where it does not end. ``<!-->`` and ``<!--->`` are whole."""
    for whole in (">", "->"):
        if page.startswith(whole, at):
            return at + len(whole)
    found = _COMMENT_END.search(page, at)
    return found.end() if found is not None else -1


def _read_attributes(page: str, at: int, attributes: Attributes) -> int:
    """Behind the ``>`` that ends the tag; -1 where it does not end."""
    while (end := _BEFORE_END.match(page, at)) is None:
        found = _ATTRIBUTE.match(page, at)
        if found is None:
            return -1
        at = found.end()
        value: str | None = None
        if found.group(2):
            quote = page[at : at + 1]
            if quote in ('"', "'"):
                close = page.find(quote, at + 1)
                if close < 0:
                    return -1
                value, at = page[at + 1 : close], close + 1
            else:
                unquoted = _UNQUOTED.match(page, at)
                value = unquoted.group() if unquoted is not None else ""
                at += len(value)
        name = found.group(1).lower()
        if len(attributes) >= _MOST_ATTRIBUTES and name not in attributes:
            continue
        attributes[name] = html.unescape(value) if value and "&" in value else value
    return end.end()
