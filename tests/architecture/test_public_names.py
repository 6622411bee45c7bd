"""Of the HTTP library only public names are used: a release of its authors may change any other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import resume_dl

ROOT = Path(resume_dl.__file__).parent
LIBRARIES = {"httpx", "httpcore", "h11", "anyio", "socksio"}
OWN = {"self", "cls"}


def is_private(name: str) -> bool:
    return len(name) > 1 and name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def module_of_library(name: str) -> bool:
    """Whether the dotted ``name`` is a module of one of the libraries with a private part."""
    first, *rest = name.split(".")
    return first in LIBRARIES and any(map(is_private, rest))


def private_uses(source: str) -> list[str]:
    """``line: name`` of each private name that may be the libraries' in a module of ours.

    Where a module imports one of them any object may be theirs: attributes that begin with an underscore count there
    unless they are of ``self`` or of one of the module's own classes or modules; so do strings that are such a name
    or lead to one (``getattr(pool, "_pool")``, ``sys.modules["httpx._main"]``), the latter in every module.
    """
    tree = ast.parse(source)
    found = set()
    imported = False
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    defined = names_defined(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            found |= {(node.lineno, node.value)} if module_of_library(node.value) else set()
            continue
        else:
            continue
        imported |= any(name.partition(".")[0] in LIBRARIES for name in names)
        found |= {(node.lineno, name) for name in names if module_of_library(name)}
    for node in ast.walk(tree) if imported else ():
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            base = node.value
            if not (isinstance(base, ast.Name) and base.id in OWN | own | defined):
                found.add((node.lineno, node.attr))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            found |= {(node.lineno, node.value)} if is_private(node.value) else set()
    return [f"{line}: {name}" for line, name in sorted(found)]


def names_defined(tree: ast.Module) -> set[str]:
    """Module-level names that are made from a class of the module: ``_thread = _Thread()``."""
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if isinstance(node.value.func, ast.Name) and node.value.func.id in classes
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def test_no_private_name_of_the_http_library_is_used():
    found = {
        path.relative_to(ROOT).as_posix(): uses
        for path in sorted(ROOT.rglob("*.py"))
        if (uses := private_uses(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        "pool._network_backend = 1",
        "getattr(pool, '_pool', None)",
        "WAY = ('_httpcore_stream',)",
        "self.response.stream._connection",
        "httpcore._sync.connection_pool",
        "from httpcore._exceptions import ReadError",
        "import h11._connection",
        "from h11 import _readers",
    ],
)
def test_the_check_sees_private_names(line):
    """Every way that was used here before, and its relatives."""
    assert len(private_uses(f"import httpcore\n{line}")) == 1


def test_the_check_sees_modules_that_are_only_named():
    """``sys.modules`` is changed without an import; prose and the names of our own files are not meant."""
    assert private_uses("import sys\nsys.modules['httpx._main'] = None") == ["2: httpx._main"]
    assert private_uses("import httpcore\n'about httpx._main'\nself._pool\n'x_y'\n__all__ = ['__doc__']") == []
    assert private_uses("pool._x\n'_pool'") == []
