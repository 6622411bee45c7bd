"""Trees are removed at one place, which follows no link."""

from __future__ import annotations

import ast
from pathlib import Path

import resume_dl

ROOT = Path(resume_dl.__file__).parent
FORBIDDEN = {"rmtree", "removedirs"}
"""Python's ways to remove a tree (CVE-2023-6597 was one's). ``fs.removal`` needs neither."""


def removals(source: str) -> list[int]:
    """Lines that name one of them, whether it is called there, imported or handed on."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.Name):
            names = [node.id]
        elif isinstance(node, ast.ImportFrom):
            names = [each.name for each in node.names]
        else:
            continue
        if FORBIDDEN & {*names}:
            found.append(node.lineno)
    return sorted(found)


def test_trees_are_removed_by_the_one_function():
    """Any other way may follow a link that was put into the tree, or change modes through one."""
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in sorted(ROOT.rglob("*.py"))
        if (lines := removals(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_the_check_sees_removals():
    """Every spelling is found."""
    text = "import shutil\nshutil.rmtree(a)\nfrom shutil import rmtree as r\ncall(shutil.rmtree)\nos.removedirs(a)"
    assert removals(text) == [2, 3, 4, 5]
