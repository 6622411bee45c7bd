"""Mutants of a Python module: the same text with one expression or statement changed, as a careless edit would.

Comparison, boolean and arithmetic operators, negated conditions, whole numbers, True and False, removed calls,
assignments, raises, returned values, break and continue. Not changed: docstrings and other texts, annotations,
imports, ``TYPE_CHECKING`` blocks, decorators and class attributes that carry no behaviour; what only another operating
system runs (a branch for Windows and its condition, the default of ``getattr(os, "O_BINARY", 0)``); and the factors of
a size that a module sets for itself (``1 << 20``, ``128 * 1024``, ``4096``): a buffer of twice the size is no defect.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: ``text[start:end]`` of the module becomes ``new``; lines count from 1.

    ``statement`` is the line where its statement begins (of a default value: the function's first one), None for what
    runs as the module is imported.
    """

    line: int
    statement: int | None
    start: int
    end: int
    old: str
    new: str

    def applied(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]


def mutants(text: str) -> list[Mutant]:
    """Every mutant of a module's text that still compiles, in the order of the text."""
    found = [each for each in _Finder(text).all() if each.old != each.new]
    return sorted(
        {each for each in found if _compiles(each.applied(text))}, key=lambda each: (each.start, each.end, each.new)
    )


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


class _Finder:
    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = text.splitlines()
        self._statement_line: int | None = None
        self._depth = 0
        """Of functions around what is looked at; 0 is what runs at import."""

    def all(self) -> Iterator[Mutant]:
        for statement in ast.parse(self.text).body:
            yield from self._statement(statement)

    def _statement(self, node: ast.stmt) -> Iterator[Mutant]:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal | ast.Pass):
            return
        self._statement_line = node.lineno if self._depth else None
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._statement_line = _first_line(node)  # the tests that call it meet its defaults
            for default in [*node.args.defaults, *node.args.kw_defaults]:
                if default is not None:
                    yield from self._expression(default)
            self._depth += 1
            for each in node.body:
                yield from self._statement(each)
            self._depth -= 1
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Constant):
                return
            if isinstance(node.value, ast.Call):
                yield self._replaced(node, "pass")
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Assign | ast.AugAssign) and _on_self(node)):
            yield self._replaced(node, "pass")
        if isinstance(node, ast.Return) and node.value is not None and not _is_none_or_false(node.value):
            yield self._replaced(node.value, "None")
        if isinstance(node, ast.Break):
            yield self._replaced(node, "continue")
        if isinstance(node, ast.Continue):
            yield self._replaced(node, "break")
        if isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Constant | ast.Compare):
            yield self._replaced(node.test, f"(not ({self._of(node.test)}))")
        never = _never_run(node)
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "decorator_list", "bases", "keywords", "type_params", never}:
                continue
            for child in value if isinstance(value, list) else [value]:
                yield from self._child(child)

    def _child(self, child: object) -> Iterator[Mutant]:
        if isinstance(child, ast.stmt):
            yield from self._statement(child)
        elif isinstance(child, ast.expr):
            yield from self._expression(child)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            for each in child.body:
                yield from self._statement(each)
        elif isinstance(child, ast.withitem):
            yield from self._expression(child.context_expr)

    def _expression(self, root: ast.expr) -> Iterator[Mutant]:
        passed: set[ast.AST] = {
            part for node in ast.walk(root) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)
        }
        """What is shown in a message, and the digits of negative numbers: -1 stands for a missing value."""
        passed |= {node.operand for node in ast.walk(root) if isinstance(node, ast.UnaryOp)} - _negated(root)
        passed |= {part for node in ast.walk(root) for other in _elsewhere(node) for part in ast.walk(other)}
        passed |= _factors(root) if self._depth == 0 else set()
        for node in ast.walk(root):
            if node in passed:
                continue
            if isinstance(node, ast.Compare) and _is_here(node) is None:
                yield from self._compared(node)
            elif isinstance(node, ast.BoolOp):
                other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                yield self._replaced(node, f"({ast.unparse(ast.BoolOp(other, node.values))})")
            elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                yield self._replaced(node, f"({self._of(node.operand)})")
            elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not _is_text(node):
                changed = ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
                yield self._replaced(node, f"({ast.unparse(changed)})")
            elif isinstance(node, ast.Constant):
                yield from self._constant(node)
            elif isinstance(node, ast.IfExp) and _is_here(node.test) is None:
                yield self._replaced(node.test, f"(not ({self._of(node.test)}))")

    def _compared(self, node: ast.Compare) -> Iterator[Mutant]:
        for at, operator in enumerate(node.ops):
            operators = [*node.ops]
            operators[at] = COMPARISONS[type(operator)]()
            yield self._replaced(node, f"({ast.unparse(ast.Compare(node.left, operators, node.comparators))})")

    def _constant(self, node: ast.Constant) -> Iterator[Mutant]:
        if isinstance(node.value, bool):
            yield self._replaced(node, str(not node.value))
        elif isinstance(node.value, int):
            yield self._replaced(node, str(node.value + 1))

    def _replaced(self, node: ast.stmt | ast.expr, new: str) -> Mutant:
        start, end = self._place(node)
        return Mutant(node.lineno, self._statement_line, start, end, self.text[start:end], new)

    def _of(self, node: ast.expr) -> str:
        start, end = self._place(node)
        return self.text[start:end]

    def _place(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        """Of a line from 1 and a column in UTF-8 bytes, as ast counts them."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


def _first_line(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int | None:
    """Of what a call runs; None where there is nothing but a docstring."""
    lines = [each.lineno for each in function.body if not (isinstance(each, ast.Expr) and _is_text_alone(each.value))]
    return lines[0] if lines else None


def _is_text_alone(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _negated(root: ast.expr) -> set[ast.AST]:
    return {each.operand for each in ast.walk(root) if isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.Not)}


def _is_here(test: ast.expr) -> bool | None:
    """What a comparison of ``sys.platform`` or ``os.name`` with a text gives on this machine; None for other tests."""
    if isinstance(test, ast.Compare) and isinstance(test.comparators[0], ast.Constant):
        named = {"sys.platform": sys.platform, "os.name": os.name}.get(ast.unparse(test.left))
        if named is not None and isinstance(test.ops[0], ast.Eq | ast.NotEq):
            return (named == test.comparators[0].value) is isinstance(test.ops[0], ast.Eq)
    return None


def _never_run(node: ast.AST) -> str | None:
    """The field of an ``if`` that holds what only another operating system runs."""
    here = _is_here(node.test) if isinstance(node, ast.If | ast.IfExp) else None
    return None if here is None else "orelse" if here else "body"


def _elsewhere(node: ast.AST) -> Iterator[ast.expr]:
    """Parts of an expression that only another operating system evaluates."""
    never = _never_run(node)
    if isinstance(node, ast.IfExp) and never is not None:
        yield getattr(node, never)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and len(node.args) == 3:
        module, name = node.args[0], node.args[1]
        if ast.unparse(module) == "os" and isinstance(name, ast.Constant) and str(name.value).startswith("O_"):
            yield node.args[2]


def _factors(root: ast.expr) -> set[ast.AST]:
    """The numbers of products and shifts, and whole KiB from 4 on; numbers of a file format are none of these."""
    if isinstance(root, ast.Constant) and isinstance(root.value, int) and root.value >= 4096 and root.value % 1024 == 0:
        return {root}
    products = [each for each in ast.walk(root) if isinstance(each, ast.BinOp)]
    sides = [
        side for each in products if isinstance(each.op, ast.Mult | ast.LShift) for side in (each.left, each.right)
    ]
    return {side for side in sides if isinstance(side, ast.Constant)}


def _on_self(node: ast.Assign | ast.AugAssign) -> bool:
    """Whether state is changed; without a local variable most code would only fail to run."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return isinstance(node, ast.AugAssign) or all(isinstance(each, ast.Attribute) for each in targets)


def _is_none_or_false(node: ast.expr) -> bool:
    """Whether a returned value is None already, or False, which callers do not tell from it."""
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )
