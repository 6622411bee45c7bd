"""The list of tests that do not run in the Windows Python: what it names exists, and docs/windows.md repeats it."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

from windows import exceptions

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "windows.md"
BEGIN, END = "<!-- python -m windows list -->\n", "<!-- end of the list -->"


def names() -> list[str]:
    return [name for group in exceptions.groups() for name in group.tests]


def test_each_name_is_a_test_and_stands_once() -> None:
    assert [name for name, count in Counter(names()).items() if count > 1] == []
    assert [name for name in names() if not is_there(name)] == []


def is_there(name: str) -> bool:
    path, *parts = name.partition("[")[0].split("::")
    if not (PROJECT / path).exists():
        return False
    found: list[ast.AST] = [ast.parse((PROJECT / path).read_text(encoding="utf-8"))]
    for part in parts:
        found = [each for node in found for each in ast.iter_child_nodes(node) if getattr(each, "name", None) == part]
    return found != []


def test_each_group_says_where_and_why() -> None:
    for group in exceptions.groups():
        assert group.where in {"windows", "wine"}
        assert group.reason
        assert list(group.tests) == sorted(group.tests)


def test_the_page_repeats_the_list() -> None:
    """``python -m windows list``, in the folder of the tests, prints what belongs there."""
    listed = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert listed.strip() == exceptions.as_markdown().strip()


def test_a_name_covers_what_stands_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file its tests, a test its parameters; a name with parameters only itself."""
    reasons = {"a.py": "file", "b.py::one": "test", "b.py::two[x-y]": "one case"}
    monkeypatch.setattr(exceptions, "_reasons", lambda: reasons)
    found = {name: exceptions.reason_for(name) for name in ("a.py::x[1]", "b.py::one", "b.py::one[z]")}
    assert list(found.values()) == ["file", "test", "test"]
    assert exceptions.reason_for("b.py::two[x-y]") == "one case"
    assert exceptions.reason_for("b.py::two[x]") is None
    assert exceptions.reason_for("b.py::one_more") is None


@pytest.mark.skipif(sys.platform == "win32", reason="the list is for Windows")
def test_elsewhere_every_test_runs() -> None:
    assert {exceptions.reason_for(name) for name in names()} == {None}
