"""What must stand once stands once: safe open, lock, file-name check, size format (removal: ``test_removals``)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import resume_dl

ROOT = Path(resume_dl.__file__).parent
NAMED = {
    "safe open": (
        {"O_NOFOLLOW", "O_EXCL"},
        {
            "fs/regular.py",
            "fs/removal.py",
            "fs/system.py",
            "store/platform.py",  # opens what packages brought, only to sync it
        },
    ),
    "options of a Python that is run": (
        {"-I", "-X"},
        {"python_command.py", "offline_tools/verification/ssh_signature.py"},
    ),
    "decoder of people's texts": ({"BOM_UTF8", "BOM_UTF16_LE", "getpreferredencoding"}, {"text_encoding.py"}),
    "quoting for a shell": ({"quote_word", "list2cmdline"}, {"shell_commands.py", "store/work_folder.py"}),
    "lock": (
        {"flock", "lockf", "locking", "LockFileEx"},
        {"fs/lock.py", "caches/conda/partial.py"},  # conda's own lock on its own files
    ),
}
"""Mechanism -> what only its definition names, and where that may be."""
WRITTEN = {
    "file-name check": (re.compile(r"\b(CON|PRN|AUX|NUL|LPT|CONIN)\b|\blpt\[|\bcon\|"), {"file_names.py"}),
    "size format": (
        re.compile(r"^\s?[kKMGT]i?B$"),
        {"byte_units.py", "progress/layout.py"},  # layout: how many figures a bar shows of a unit
    ),
}
"""Mechanism -> what is written in the strings of its definition alone (docstrings do not count), and where."""


def names(source: str, wanted: set[str]) -> list[int]:
    """Lines that use one of these names: as an attribute, imported, or as a string for ``getattr``."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            used = {node.attr}
        elif isinstance(node, ast.Name):
            used = {node.id}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            used = {node.value}
        elif isinstance(node, ast.ImportFrom):
            used = {each.name for each in node.names}
        else:
            continue
        if used & wanted:
            found.append(node.lineno)
    return sorted(found)


def strings(source: str, pattern: re.Pattern[str]) -> list[int]:
    """Lines with a string that ``pattern`` finds, docstrings and texts below names left out."""
    tree = ast.parse(source)
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return sorted(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in texts
        and pattern.search(node.value)
    )


def sources() -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}


@pytest.mark.parametrize("mechanism", NAMED)
def test_mechanisms_stand_once(mechanism):
    wanted, places = NAMED[mechanism]
    found = {name for name, source in sources().items() if names(source, wanted)}
    assert found <= places, "use the one that is there"
    assert found == places, "what is left of the list may go"


@pytest.mark.parametrize("mechanism", WRITTEN)
def test_formats_and_checks_stand_once(mechanism):
    pattern, places = WRITTEN[mechanism]
    assert {name for name, source in sources().items() if strings(source, pattern)} == places


def test_second_definitions_are_seen():
    assert names("import os\nos.open(a, os.O_NOFOLLOW)", {"O_NOFOLLOW"}) == [2]
    assert names("getattr(os, 'O_NOFOLLOW', 0)", {"O_NOFOLLOW"}) == [1]
    assert names("from fcntl import flock", {"flock"}) == [1]
    reserved, unit = WRITTEN["file-name check"][0], WRITTEN["size format"][0]
    assert strings("RESERVED = {'CON', 'NUL'}", reserved) == [1, 1]
    assert strings("re.compile(r'(con|prn|aux)')", reserved) == [1]
    assert strings("f'{count / 1e6:.1f} MB'", unit) == [1]
    assert strings("for unit in ('kB', 'MB'): pass", unit) == [1, 1]
    assert strings('"""A docstring of 5 MB, and CON."""', reserved) == []
