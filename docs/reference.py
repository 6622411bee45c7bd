"""Pages of the reference that are made of the code: commands of click, and tables of the modules that hold them.

``docs/website.py`` writes them when the site is built; they are not kept, so they cannot become outdated.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import click

from resume_dl import errors
from resume_dl.cli.group import cli
from resume_dl.cli.help_sections import OUTPUT, SECTIONS
from resume_dl.core import policy
from resume_dl.settings.config import OPTIONS
from resume_dl.settings.mirrors import load_mirrors

_LITERAL = re.compile(r"``(.+?)``")
_WORD = re.compile(r"(?<![\w`-])(--[a-z][a-z0-9-]*|<[A-Za-z_ ]+>|https?://[^\s,;)]+)")


def command_line() -> str:
    """Every command with its options, as ``--help`` shows them."""
    lines = ["# Commands and options", "", "What `resume-dl COMMAND --help` prints, for every command.", ""]
    for context in _contexts(click.Context(cli, info_name="resume-dl")):
        lines += _command(context)
    return "\n".join(lines)


def exit_codes() -> str:
    """Error types by exit code."""
    rows = []
    for kind in sorted(_errors(errors.ResumeDLError), key=lambda each: (each.exit_code, each.__name__)):
        summary = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0]
        rows.append((str(kind.exit_code), f"`{kind.__name__}`", _text(summary)))
    precedence = ", ".join(map(str, errors.EXIT_CODE_PRECEDENCE))
    return "\n".join([
        "# Exit codes and error types",
        "",
        "The exit code of a command, and the `type` of an `error` in `--json` ([fields](../interface.md#--json)). If",
        f"several apply, the first of {precedence} is the exit code. 2 is wrong usage too, and 1 a `doctor` that found",
        "a problem.",
        "",
        *_table(("code", "type", "what it is"), rows),
    ])  # fmt: skip


def settings() -> str:
    """Keys of config.toml."""
    rows = [(f"`{name}`", kind, f"`--{name.replace('_', '-')}`") for name, kind in sorted(OPTIONS.items())]
    return "\n".join([
        "# Keys of config.toml",
        "",
        "A key is the default of the option with the same name. `index_from` belongs to the table `[trust]`.",
        "Where the file is: [where things are](../interface.md#where-things-are). What an option does:",
        "[commands and options](command-line.md).",
        "",
        *_table(("key", "value", "option"), rows),
    ])  # fmt: skip


def mirrors() -> str:
    """The built-in table of mirrors."""
    rows = []
    for mirror in load_mirrors().mirrors:
        carried = ", ".join(f"`{origin}`" for origin in sorted(mirror.carries))
        rows.append((f"`{mirror.name}`", mirror.title, mirror.status, str(mirror.connections or ""), carried))
    return "\n".join([
        "# Built-in mirrors",
        "",
        "`resume-dl mirrors list` shows this table merged with your own ([the format](../interface.md#mirrorstoml)).",
        "None of these mirrors was reached while this was written ([what was tested](../tested.md)).",
        "",
        *_table(("name", "site", "status", "connections", "origins"), rows),
    ])  # fmt: skip


def limits() -> str:
    """Every number that the engine decides by, with its reason."""
    tree = ast.parse(inspect.getsource(policy.Policy))
    (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef)]
    rows: list[tuple[str, ...]] = []
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            rows.append((f"`{node.target.id}`", f"`{ast.unparse(node.value)}`", ""))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and rows:
            rows[-1] = (*rows[-1][:2], _text(inspect.cleandoc(str(node.value.value))))
    return "\n".join([
        "# Limits of the engine",
        "",
        "Sizes in bytes, times in seconds; from `core/policy.py`. Their effect: [the engine](../engine.md).",
        "",
        *_table(("name", "value", "reason"), rows),
    ])  # fmt: skip


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/command-line.md": command_line,
    "reference/exit-codes.md": exit_codes,
    "reference/config.md": settings,
    "reference/mirrors.md": mirrors,
    "reference/limits.md": limits,
}
"""Path in the site -> what makes the page."""


def _contexts(context: click.Context) -> Iterator[click.Context]:
    """Of every command below, depth first, in the order of the help."""
    command = context.command
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        if found is not None and not found.hidden:
            below = click.Context(found, info_name=name, parent=context)
            yield below
            yield from _contexts(below)


def _command(context: click.Context) -> Iterator[str]:
    command = context.command
    yield from (f"## {context.command_path}", "")
    yield from ("```text", " ".join([context.command_path, *command.collect_usage_pieces(context)]), "```", "")
    for paragraph in inspect.cleandoc(command.help or "").replace("\b\n", "").split("\n\n"):
        yield from (_text(paragraph), "")
    rows: dict[str, list[tuple[str, str]]] = {section: [] for section in SECTIONS}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in parameter.opts:
            rows[getattr(parameter, "section", OUTPUT)].append((f"`{_cell(record[0])}`", _text(record[1])))
    named = [section for section in SECTIONS if rows[section]]
    for section in named:
        heading = section if len(named) > 1 else "Options"
        yield from (f"**{heading}**", "", *_table(("option", "effect"), rows[section]), "")
    if examples := getattr(command, "examples", ()):
        yield from ("**Examples**", "", "```console", *(f"$ {line}" for line in examples), "```", "")


def _errors(kind: type[errors.ResumeDLError]) -> Iterator[type[errors.ResumeDLError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _errors(below)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' for _ in head)} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _text(text: str) -> str:
    """A docstring's or option's text in one line of Markdown."""
    parts = _LITERAL.split(_cell(text))
    for number in range(0, len(parts), 2):
        escaped = parts[number].replace("*", "\\*").replace("[", "\\[").replace("_", "\\_")
        parts[number] = _WORD.sub(r"`\1`", escaped)
    parts[1::2] = [f"`{part}`" for part in parts[1::2]]
    return "".join(parts)
