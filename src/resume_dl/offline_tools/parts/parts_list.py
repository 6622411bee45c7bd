"""``X.tar.parts.json``: the parts of a file and their digests."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from resume_dl.offline_tools.verification.file_names import unsafe_path

SCHEMA = 1
KIND = "resume-dl parts"
LIST = ".parts.json"
JOINING = ".joining"
SCRIPT = "join.py"
MOST_PARTS = 9999
_LONGEST_LIST = 16 * 1024 * 1024
"""Ten times the size of a list of 9999 parts."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
MISSING, USAGE, DAMAGED, MACHINE, STOPPED = 1, 2, 4, 5, 130


class JoinError(Exception):
    """An error that ends a join: message, hint and exit code."""

    def __init__(self, message: str, hint: str, exit_code: int) -> None:
        super().__init__(message)
        self.message = printable(message)
        self.hint = printable(hint)
        self.exit_code = exit_code


class Part(NamedTuple):
    """One part: its file name, where it begins in the whole, its bytes and their sha256."""

    name: str
    offset: int
    size: int
    sha256: str


class Parts(NamedTuple):
    """A file and the parts that it was cut into, in order; sizes in bytes, digests in lower-case hex."""

    name: str
    size: int
    sha256: str
    parts: tuple[Part, ...]


def part_name(name: str, number: int, count: int) -> str:
    """The name of part ``number`` (from 1) of ``count``: ``X.tar.001``, with four digits if needed."""
    return f"{name}.{number:0{max(3, len(str(count)))}d}"


def self_digest(document: dict[str, Any]) -> str:
    """The ``digest`` of a list: sha256 of its other content, independent of line ends."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_list(path: Path) -> Parts:
    """Read ``X.tar.parts.json``; raises JoinError for one that is damaged or invalid.

    ``{"schema": 1, "kind": "resume-dl parts", "name", "size", "sha256", "parts": [{"name", "size", "sha256"}, ...],
    "digest"}``: bytes, lower-case hex, ``digest`` as ``self_digest``.
    """
    try:
        if path.exists() and not path.is_file():  # opening a pipe would block
            raise JoinError(f"{path} is not a file", "move it away, and copy the list again", DAMAGED)
        with path.open("rb") as file:
            text = file.read(_LONGEST_LIST + 1)
    except OSError as error:
        raise JoinError(describe_error(path, error), "check this file and its permissions", MACHINE) from error
    name = path.name
    again = f"copy {name} again from where the parts were made"
    try:
        document = json.loads(text.decode("utf-8")) if len(text) <= _LONGEST_LIST else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise JoinError(f"{name} is damaged: it is not a JSON object", again, DAMAGED)
    if document.get("kind") != KIND:
        raise JoinError(f"{name} is not a parts list of resume-dl", again, DAMAGED)
    if document.get("digest") != self_digest(document):
        raise JoinError(f"{name} is damaged: its digest differs from the one it states", again, DAMAGED)
    if document.get("schema") != SCHEMA:
        hint = "use the join.py that was made with the parts"
        raise JoinError(f"{name} has a newer schema than this script knows", hint, USAGE)
    wrong = _wrong_with(document)
    if wrong:
        hint = "do not use it; " + again
        raise JoinError(f"{name} is invalid: {wrong}", hint, DAMAGED)
    parts, offset = [], 0
    for each in document["parts"]:
        parts.append(Part(each["name"], offset, each["size"], each["sha256"]))
        offset += each["size"]
    return Parts(document["name"], document["size"], document["sha256"], tuple(parts))


def _wrong_with(document: dict[str, Any]) -> str:
    name, parts = document.get("name"), document.get("parts")
    if not isinstance(name, str) or not is_plain(name):
        return f"{name!r} is not a plain file name"
    if not isinstance(parts, list) or not 0 < len(parts) <= MOST_PARTS:
        return f"it lists no parts, or more than {MOST_PARTS}"
    for number, each in enumerate(parts, 1):
        expected = part_name(name, number, len(parts))
        if not isinstance(each, dict) or each.get("name") != expected:
            return f"its part {number} is not called {expected}"
    for each in [document, *parts]:
        if type(each.get("size")) is not int or each["size"] <= 0:
            return "the size of {} is not a number of bytes".format(each["name"])
        if not isinstance(each.get("sha256"), str) or not _DIGEST.fullmatch(each["sha256"]):
            return "the sha256 of {} is invalid".format(each["name"])
    if sum(each["size"] for each in parts) != document["size"]:
        return "the sizes of its parts do not add up to its size"
    return ""


def is_plain(name: str) -> bool:
    """Whether ``name`` is a printable file name without folders, valid on every platform."""
    return len(name) <= 240 and name.isprintable() and "/" not in name and not unsafe_path(name)


def printable(text: str) -> str:
    """Replace control characters: file names are untrusted."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def describe_error(path: object, error: OSError) -> str:
    """The path and the system's error text."""
    return f"{path}: {error.strerror or error}"
