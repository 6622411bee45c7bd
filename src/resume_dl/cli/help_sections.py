"""Commands whose ``--help`` lists options in sections, with examples.

Our own: cloup adds 35 ms to every start, click-option-group has no examples, and rich-click needs rich.
"""

from __future__ import annotations

from typing import Any

import click

WHAT = "What"
WHERE_FROM = "Where from"
WHERE_TO = "Where to"
HOW_FAST = "How fast"
OUTPUT = "Output"
SECTIONS = (WHAT, WHERE_FROM, WHERE_TO, HOW_FAST, OUTPUT)
"""The sections in their order; an option without one is in the last."""


class SectionedOption(click.Option):
    """An option that belongs to a section of the help."""

    def __init__(self, *args: Any, section: str = OUTPUT, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.section = section


class SectionedCommand(click.Command):
    """A command with a help in sections; ``examples`` are command lines."""

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a list for each section that has options, then the examples."""
        rows: dict[str, list[tuple[str, str]]] = {section: [] for section in SECTIONS}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if row is not None:
                rows[getattr(parameter, "section", OUTPUT)].append(row)
        for section, found in rows.items():
            if found:
                with formatter.section(section):
                    formatter.write_dl(found)
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")
