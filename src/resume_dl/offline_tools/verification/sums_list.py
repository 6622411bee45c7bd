"""Parser of SHA256SUMS, and its comparison with the manifest."""

from __future__ import annotations

import re

from resume_dl.offline_tools.verification.bundle_source import Expected
from resume_dl.offline_tools.verification.file_names import unsafe_path
from resume_dl.offline_tools.verification.layout import MANIFEST, OWN_FILES, SUMS

_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<path>.+)")


def is_damaged_copy(one: str, other: str) -> bool:
    """Whether one digest is a damaged copy of the other; unrelated ones agree in about 4 of 64 digits."""
    return 2 * sum(a == b for a, b in zip(one, other)) > len(other)


def parse_sums(listed: bytes | None) -> tuple[dict[str, str], str]:
    """Digest by path of the valid lines, and what is wrong with the list."""
    sums: dict[str, str] = {}
    unclear = ""
    for number, line in enumerate((listed or b"").split(b"\n")[:-1], 1):
        found = _LINE.fullmatch(line.decode("utf-8", "replace"))
        if found is None or found["path"] in sums or (found["path"] not in OWN_FILES and unsafe_path(found["path"])):
            unclear = unclear or f"line {number} is not valid sha256sum output, or does not name a file of a bundle"
        else:
            sums[found["path"]] = found["sha256"]
    if listed is not None and not listed.endswith(b"\n"):
        unclear = unclear or "its last line is cut off"
    return sums, unclear


def listed_in_sums(sums: dict[str, str], unclear: str) -> list[Expected]:
    """The files in SHA256SUMS without the manifest; empty if a line is invalid."""
    if unclear:
        return []
    return [Expected(path, None, sums[path], "") for path in sorted(sums) if path not in (MANIFEST, SUMS)]


def first_difference(listed: bytes, expected: list[Expected]) -> int:
    """The first wrong line of SHA256SUMS, from 1; 0 if every byte is right."""
    right = [f"{each.sha256}  {each.path}".encode() for each in sorted(expected)]
    right.append(b"")
    found = listed.split(b"\n")
    if found == right:
        return 0
    return next((n for n, (a, b) in enumerate(zip(found, right), 1) if a != b), min(len(found), len(right)))
