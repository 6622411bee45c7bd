"""The licence that a package states: one line of text, empty if missing. Pure.

conda's records have ``license``, which newer recipes write as an SPDX expression; METADATA has ``License-Expression``
(PEP 639), ``License`` with any text, even a whole one, and classifiers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from resume_dl.model.url import scrub

if TYPE_CHECKING:
    from packaging.metadata import RawMetadata

_NAME = 100
"""Longest licence name in characters; a longer one is the start of its text."""
_LONGEST = 1000
"""Characters kept: an expression for everything linked into a program can have some hundred."""
_NOTHING = frozenset({"", "unknown", "none", "n/a", "see license file", "license", "license.txt", "license.md"})
_VAGUE = frozenset({"OSI Approved", "DFSG approved"})
"""Classifiers that name no particular licence."""


def license_of_record(record: Mapping[str, Any]) -> str:
    """The licence of a conda package, from its record in repodata."""
    return next((line for key in ("license", "license_family") if (line := _line(record.get(key)))), "")


def license_of_metadata(metadata: RawMetadata) -> str:
    """The licence of a wheel or source archive (``bundle/metadata.py``); of a full text at most the first line."""
    if expression := _line(metadata.get("license_expression")):
        return expression
    lines = [line for each in metadata.get("license", "").splitlines() if (line := _line(each))]
    if len(lines) == 1 and len(lines[0]) <= _NAME:
        return lines[0]
    licenses = (each for each in metadata.get("classifiers", []) if each.startswith("License ::"))
    listed = (each.rpartition("::")[2].strip() for each in licenses)
    named = _line(", ".join(dict.fromkeys(each for each in listed if each not in _VAGUE)))
    return named or (lines[0][:_NAME] if lines else "")


def _line(text: object) -> str:
    """The text as one line; empty if it is not a string or means "unknown"."""
    if not isinstance(text, str):
        return ""
    line = scrub(" ".join(text.split()))
    if line.lower() in _NOTHING:
        return ""
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "…"  # not an expression with another meaning
