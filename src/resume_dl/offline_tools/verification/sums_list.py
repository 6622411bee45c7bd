"""SHA256SUMS: parsed, and compared with what the manifest says."""

from __future__ import annotations

import re

from resume_dl.offline_tools.verification.bundle_source import Expected
from resume_dl.offline_tools.verification.file_names import unsafe_path
from resume_dl.offline_tools.verification.layout import MANIFEST, OWN_FILES, SUMS

_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<path>.+)")


def is_damaged_copy(one: str, other: str) -> bool:
    """Whether one digest is the other with some damage; two that have nothing in common agree in 4 digits of 64."""
    return 2 * sum(a == b for a, b in zip(one, other)) > len(other)


def parse_sums(listed: bytes | None) -> tuple[dict[str, str], str]:
    """Digest by path, and what is wrong with it; the lines that can be read are given even so."""
    sums: dict[str, str] = {}
    unclear = ""
    for number, line in enumerate((listed or b"").split(b"\n")[:-1], 1):
        found = _LINE.fullmatch(line.decode("utf-8", "replace"))
        if found is None or found["path"] in sums or (found["path"] not in OWN_FILES and unsafe_path(found["path"])):
            unclear = unclear or f"line {number} is none of `sha256sum`, or names no file of a bundle"
        else:
            sums[found["path"]] = found["sha256"]
    if listed is not None and not listed.endswith(b"\n"):
        unclear = unclear or "its last line is cut off"
    return sums, unclear


def listed_in_sums(sums: dict[str, str], unclear: str) -> list[Expected]:
    """What SHA256SUMS lists, but the manifest; nothing where some of its lines cannot be read."""
    if unclear:
        return []
    return [Expected(path, None, sums[path], "") for path in sorted(sums) if path not in (MANIFEST, SUMS)]


def first_difference(listed: bytes, expected: list[Expected]) -> int:
    """The line of SHA256SUMS, from 1, that is another than it must be; 0 where every byte is right."""
    right = [f"{each.sha256}  {each.path}".encode() for each in sorted(expected)]
    right.append(b"")
    found = listed.split(b"\n")
    if found == right:
        return 0
    return next((n for n, (a, b) in enumerate(zip(found, right), 1) if a != b), min(len(found), len(right)))
