"""The licence of a package, as it says it itself: one line of text, empty where it says nothing. Pure.

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
"""Characters of what may be a licence's name; more is the beginning of its text."""
_LONGEST = 1000
"""Characters that are kept: an expression for all that is linked into one program can have some hundred."""
_NOTHING = frozenset({"", "unknown", "none", "n/a", "see license file", "license", "license.txt", "license.md"})
_VAGUE = frozenset({"OSI Approved", "DFSG approved"})
"""What classifiers say of a licence without naming it."""


def license_of_record(record: Mapping[str, Any]) -> str:
    """Of a conda package, from its record in repodata."""
    return next((line for key in ("license", "license_family") if (line := _line(record.get(key)))), "")


def license_of_metadata(metadata: RawMetadata) -> str:
    """Of a wheel or a source archive (``bundle/metadata.py``); where it has a whole text, its first line at worst."""
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
    """One line; empty for what is no text, or says that nothing is known."""
    if not isinstance(text, str):
        return ""
    line = scrub(" ".join(text.split()))
    if line.lower() in _NOTHING:
        return ""
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "…"  # no expression of another meaning
