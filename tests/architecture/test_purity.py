"""What import-linter cannot see: builtin I/O, clocks and chance in the rooms that must be pure."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PACKAGE = PROJECT / "src" / "resume_dl"
PURE = sorted(
    [
        *(PACKAGE / "core").rglob("*.py"),
        *(PACKAGE / "model").rglob("*.py"),
        PACKAGE / "errors.py",
        PACKAGE / "ports.py",
    ]
)
BUILTINS = {"open", "input", "print", "exec", "eval", "compile", "__import__", "breakpoint"}
MODULES = {"time", "random", "secrets", "uuid", "os", "sys", "socket", "logging", "importlib", "builtins"}
METHODS = {
    # clocks
    *("now", "utcnow", "today"),
    # pathlib's ways to the disk (its pure half is fine)
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "exists", "is_file", "is_dir", "stat", "lstat"),
    *(
        "mkdir",
        "rmdir",
        "unlink",
        "touch",
        "rename",
        "iterdir",
        "glob",
        "rglob",
        "resolve",
        "expanduser",
        "cwd",
        "home",
    ),
}


def impure(source: str) -> list[str]:
    """Each impure import and call in ``source`` as ``line: name``."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.partition(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module] if (node.module or "").partition(".")[0] in MODULES else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names = [node.func.id] if node.func.id in BUILTINS else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            names = [ast.unparse(node.func)] if node.func.attr in METHODS else []
        else:
            names = []
        found += [f"{node.lineno}: {name}" for name in names]
    return found


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_pure_modules_touch_nothing_outside(path):
    """The core, the model, the ports and the errors neither read nor write, and know no clock but the one given."""
    assert impure(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "open('x')",
        "datetime.datetime.now()",
        "import time",
        "from random import random",
        "Path('x').read_text()",
        "print(1)",
        "import os.path",
    ],
)
def test_the_check_sees_what_it_should(line):
    """The check is not blind."""
    assert len(impure(line)) == 1


def test_every_file_is_grammar_of_the_oldest_python():
    """Python 3.10 can parse everything (the suite itself may run on a newer one)."""
    files = [path for folder in ("src", "tests", "benchmarks") for path in (PROJECT / folder).rglob("*.py")]
    assert len(files) > 20
    for path in files:
        ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=(3, 10))
