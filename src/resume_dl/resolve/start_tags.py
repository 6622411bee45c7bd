"""Linear-time tokenizer for the start tags of an HTML page and their attributes. Pure.

It follows the HTML Living Standard ("13.2.5 Tokenization") as far as that decides what a start tag is: comments, end
tags, quoted attributes, and elements with text content. No page is invalid; a page that is cut off inside a tag or
comment has no further tags.

Python's html.parser, which pip uses, takes quadratic time before 3.13.6 (half a minute for 36 KB of ``<a ``) and
raises AssertionError for ``<![ >``. uv has its own tokenizer, too.
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
"""Elements whose content is text up to their end tag."""
_MOST_ATTRIBUTES = 64
"""Attributes per tag; further ones are ignored."""

Attributes = dict[str, str | None]
"""Lower-case name -> value, unquoted and with character references replaced; None if there is no ``=``."""


def start_tags(page: str) -> Iterator[tuple[str, Attributes]]:
    """Yield each start tag in order: lower-case name and attributes; the last of duplicate attributes.

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
    """Return the end of a comment whose text begins at ``at``, or -1. ``<!-->`` and ``<!--->`` are complete."""
    for whole in (">", "->"):
        if page.startswith(whole, at):
            return at + len(whole)
    found = _COMMENT_END.search(page, at)
    return found.end() if found is not None else -1


def _read_attributes(page: str, at: int, attributes: Attributes) -> int:
    """Read a tag's attributes; return the position after its ``>``, or -1 if the tag has no end."""
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
