"""``resume-dl config``: the settings in force and where each is set, and the user's own file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from resume_dl.cli.fetch import command as fetch
from resume_dl.cli.options import Duration, Rate, Size, option
from resume_dl.cli.run import guarded, say, say_json
from resume_dl.errors import ConfigurationError
from resume_dl.model.proxy_auth import ProxyAuth
from resume_dl.model.units import show_bytes
from resume_dl.progress.console import duration_text

if TYPE_CHECKING:
    from resume_dl.settings.config import Mistake
    from resume_dl.settings.overview import Setting

_TITLES = {
    "options": "options of commands that download",
    "places": "folders and files",
    "conda": "conda's settings",
    "network": "network",
}


@click.group("config")
def command() -> None:
    """Show the settings and where each is set; edit config.toml."""


@command.command("show", context_settings={"ignore_unknown_options": True})
@option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF FETCH]...")
def show_command(args: tuple[str, ...], *, as_json: bool) -> int:
    """Show every setting with its value and where it is set; secrets are replaced by ***.

    With options of fetch, the values that such a command would have.
    """

    def call() -> None:
        settings = [*_options(args), *_others()]
        if as_json:
            rows = [asdict(each) for each in settings]
            say_json({"schema": 1, "command": "config show", "ok": True, "exit_code": 0, "settings": rows})
        else:
            _show(settings)

    return guarded("config show", call, as_json=as_json)


@command.command("path")
def path_command() -> int:
    """Print the path of config.toml, whether it exists or not."""

    def call() -> None:
        say(str(_file()))

    return guarded("config path", call, as_json=False)


@command.command("edit")
def edit_command() -> int:
    """Open config.toml in $VISUAL or $EDITOR, then check it.

    Exit code 2 if something in it is wrong, with the lines.
    """

    def call() -> None:
        from resume_dl.settings.config import find_mistakes
        from resume_dl.settings.file_editor import edit_file

        file = _file()
        edit_file(file, os.environ, template=_template())
        mistakes = find_mistakes(file, _value_check())
        if mistakes:
            raise _mistaken(file, mistakes)
        say(f"{file}: valid" if file.exists() else f"{file} was not created")

    return guarded("config edit", call, as_json=False)


def _file() -> Path:
    from resume_dl.settings.paths import find_paths

    return find_paths(os.environ).config_file


def _root() -> click.Context:
    """The context of the program, from which a command gets the names of its help option, once for all."""
    return click.get_current_context().find_root()


def _options(args: Sequence[str]) -> Iterator[Setting]:
    """The options of ``fetch`` with their values for this command line. Raises ConfigurationError."""
    from resume_dl.settings.config import find_mistakes, load_config
    from resume_dl.settings.overview import (
        COMMAND_LINE,
        CONFIG,
        DEFAULT,
        ENVIRONMENT,
        Setting,
        masked,
    )

    file = _file()
    if mistakes := find_mistakes(file, _value_check()):
        raise _mistaken(file, mistakes)
    try:
        context = fetch.make_context("config show", [*args], parent=_root(), default_map=load_config(file))
    except click.ClickException as error:
        raise ConfigurationError(error.format_message(), hint="see resume-dl fetch --help") from error
    unset = _defaults()
    for each in fetch.params:
        if not isinstance(each, click.Option) or each.name is None or each.name == "help":
            continue
        source = context.get_parameter_source(each.name)
        value = context.params[each.name]
        if value in {None, ()}:
            value = unset.get(each.name)
        place: tuple[str, tuple[str, ...]] = DEFAULT, ()
        if source == ParameterSource.COMMANDLINE:
            place = COMMAND_LINE, ()
        elif source == ParameterSource.ENVIRONMENT:
            place = ENVIRONMENT, (str(each.envvar),)
        elif source == ParameterSource.DEFAULT_MAP:
            place = CONFIG, (str(file),)
        yield Setting("options", each.name, masked(_readable(each.type, value)), *place)


def _defaults() -> dict[str, Any]:
    """What an option that is not set means, where that is one value."""
    from resume_dl.core.policy import Policy
    from resume_dl.resolve.repodata import LARGEST
    from resume_dl.settings.paths import find_paths

    policy = Policy()
    return {
        "connections": policy.connections,
        "per_host": policy.per_host,
        "give_up_after": policy.give_up_after,
        "max_index_size": LARGEST,
        "proxy_auth": ProxyAuth.BASIC.value,
        "wheel_dir": find_paths(os.environ).wheels,
    }


def _readable(kind: click.ParamType[Any, Any], value: Any) -> Any:
    if value is None or not isinstance(kind, (Rate, Duration, Size)):
        return value
    if isinstance(kind, Duration):
        return "never" if value == math.inf else duration_text(value)
    return f"{show_bytes(round(value))}{'/s' if isinstance(kind, Rate) else ''}"


def _others() -> Iterator[Setting]:
    from resume_dl.settings.conda_config import load_conda_settings
    from resume_dl.settings.overview import (
        conda_settings,
        network_settings,
        own_places,
    )
    from resume_dl.settings.paths import find_paths

    paths = find_paths(os.environ)
    yield from own_places(paths, os.environ)
    conda = load_conda_settings(paths, os.environ)
    yield from conda_settings(conda, os.environ)
    yield from network_settings(conda, os.environ)


def _value_check() -> Callable[[str, Any], str]:
    """A function that gives what click finds wrong with the value of an option; empty if nothing."""
    context = click.Context(fetch, parent=_root())
    parameters = {each.name: each for each in fetch.params}

    def check(name: str, value: Any) -> str:
        try:
            parameters[name].process_value(context, value)
        except click.BadParameter as error:
            return error.message
        return ""

    return check


def _mistaken(file: Path, mistakes: Sequence[Mistake]) -> ConfigurationError:
    lines = []
    for each in mistakes:
        place = "" if each.line is None else f"line {each.line}: "
        hint = f" ({each.hint})" if each.hint else ""
        lines.append(f"{place}{each.message}{hint}")
    head = f"{file} has {len(lines)} mistake{'' if len(lines) == 1 else 's'}"
    return ConfigurationError("\n  ".join([f"{head}:", *lines]), hint="correct it with: resume-dl config edit")


def _template() -> str:
    from resume_dl.settings.config import OPTIONS

    head = [
        "# Defaults for options of resume-dl; an option on the command line or RESUME_DL_NAME overrides them.",
        '# connections = 4           limit_rate = "2M"           mirror = ["tuna", "bfsu"]',
        "# All names (docs/interface.md; resume-dl fetch --help explains them):",
    ]
    return "\n".join([*head, *(f"#   {name}: {kind}" for name, kind in sorted(OPTIONS.items())), ""])


def _show(settings: Sequence[Setting]) -> None:
    section = ""
    for each in settings:
        if each.section != section:
            say(f"{'' if not section else chr(10)}{_TITLES[each.section]}:")
            section = each.section
        where = f" {', '.join(each.where)}" if each.where else ""
        say(f"  {each.name} = {_text(each.value)}  ({each.source}{':' if where else ''}{where})")


def _text(value: Any) -> str:
    if value is None or value in ([], {}, ""):
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_text(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(_text(each) for each in value)
    return str(value)
