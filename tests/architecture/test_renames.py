"""Files and folders are renamed at one place, which has patience with other processes' handles."""

from __future__ import annotations

import ast
from pathlib import Path

import resume_dl

ROOT = Path(resume_dl.__file__).parent
CALLS = {"rename", "renames", "move", "replace"}
ALLOWED = {
    "fs/busy_names.py",  # the one
    "fs/removal.py",  # POSIX alone: relative to an open folder
    "conda_plugin/index_cache.py",  # conda's own RepodataCache.replace
    "demo/package.py",  # of the demo's own folder
}


def renames(source: str) -> list[int]:
    """Lines that rename by ``os``, ``shutil`` or a Path; ``str.replace`` has two arguments, dataclasses' is a name."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS):
            continue
        owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
        count = len(node.args) + len(node.keywords)
        of_module = owner in {"os", "shutil"}
        of_path = owner != "fs" and node.func.attr != "move" and len(node.args) == 1 and count == 1
        if of_module or of_path:
            found.append(node.lineno)
    return sorted(found)


def test_renames_go_through_the_one_function():
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in sorted(ROOT.rglob("*.py"))
        if (lines := renames(path.read_text(encoding="utf-8")))
    }
    assert {name: lines for name, lines in found.items() if name not in ALLOWED} == {}


def test_the_check_sees_renames():
    source = (
        "a.replace(b)\nPath(a).rename(b)\nos.replace(a, b)\nshutil.move(a, b)\na.replace('x', 'y')\nfs.replace(a, b)"
    )
    assert renames(source) == [1, 2, 3, 4]
