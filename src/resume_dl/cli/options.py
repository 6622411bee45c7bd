"""Options of every downloading command, and their types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from resume_dl.cli.help_sections import HOW_FAST, OUTPUT, WHERE_FROM, SectionedOption
from resume_dl.cli.option_values import mirror_names
from resume_dl.errors import ConfigurationError
from resume_dl.model.proxy_auth import ProxyAuth
from resume_dl.model.units import parse_size

if TYPE_CHECKING:
    from resume_dl.transfer.setup import TransferOptions

_Command = TypeVar("_Command", bound=Callable[..., Any])
_RATE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmg]?)i?b?(?:/s)?", re.IGNORECASE)
_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>s|m|h|d|)", re.IGNORECASE)
_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Rate(click.ParamType[float, str]):
    """Bytes a second: ``2M``, ``500k``; powers of ten."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Bytes a second."""
        found = _RATE.fullmatch(str(value).strip())
        if found is None or float(found["number"]) <= 0:
            self.fail(f"{value!r} is not a rate; write it as 500k or 2M (bytes a second)", param, ctx)
        return float(found["number"]) * _UNITS[found["unit"].lower()]


class Duration(click.ParamType[float, str]):
    """Seconds: ``90``, ``10m``, ``2h``, ``never``."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; infinity for never."""
        if str(value).strip().lower() == "never":
            return math.inf
        found = _DURATION.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a duration; write it as 90s, 10m, 2h or never", param, ctx)
        return float(found["number"]) * _SECONDS[found["unit"].lower()]


class Size(click.ParamType[int, str]):
    """Bytes: ``4GiB``, ``700MB``."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes, at least one."""
        try:
            size = parse_size(str(value))
        except ValueError:
            size = 0
        if size < 1:
            self.fail(f"{value!r} is not a size; write it as 4GiB or 700MB", param, ctx)
        return size


def option(*names: str, **settings: Any) -> Callable[[_Command], _Command]:
    """A click option that also reads ``RESUME_DL_<NAME>``."""
    long = next(name for name in names if name.startswith("--"))
    variable = "RESUME_DL_" + long[2:].split("/")[0].replace("-", "_").upper()
    return click.option(*names, cls=SectionedOption, envvar=variable, **settings)


_PATH = click.Path(path_type=Path)

_TRANSFER = (
    option(
        "--mirrors",
        "mirrors",
        type=_PATH,
        help="Use this mirrors.toml instead of the built-in one and your own.",
        section=WHERE_FROM,
    ),
    option(
        "--mirror",
        "mirror",
        multiple=True,
        metavar="NAME",
        shell_complete=mirror_names,
        help="Use only this mirror; repeatable.",
        section=WHERE_FROM,
    ),
    option("--no-upstream", "no_upstream", is_flag=True, help="Never contact canonical origins.", section=WHERE_FROM),
    option(
        "--index-from",
        "index_from",
        multiple=True,
        metavar="NAME",
        shell_complete=mirror_names,
        help="Trust this mirror's indexes as the channel's own; repeatable.",
        section=WHERE_FROM,
    ),
    option(
        "--connections",
        type=click.IntRange(1, 64),
        metavar="N",
        help="Most connections.  [default: 8]",
        section=HOW_FAST,
    ),
    option(
        "--per-host",
        "per_host",
        type=click.IntRange(1, 16),
        metavar="N",
        help="Most connections to one host.  [default: 2]",
        section=HOW_FAST,
    ),
    option(
        "--limit-rate",
        "limit_rate",
        type=Rate(),
        help="Total speed, such as 500k or 2M bytes a second.",
        section=HOW_FAST,
    ),
    option(
        "--give-up-after",
        "give_up_after",
        type=Duration(),
        help="Time without progress, or never.  [default: 10m]",
        section=HOW_FAST,
    ),
    option(
        "--max-index-size",
        "max_index_size",
        type=Size(),
        help="Largest channel index.  [default: 1GiB]",
        section=WHERE_FROM,
    ),
    option(
        "--refresh", "refresh", is_flag=True, help="Fetch every channel index again, past caches.", section=WHERE_FROM
    ),
    option(
        "--index-max-age",
        "index_max_age",
        type=Duration(),
        help="Use a kept channel index up to this age.  [default: as its server says]",
        section=WHERE_FROM,
    ),
    option(
        "--proxy-auth",
        "proxy_auth",
        type=click.Choice([each.value for each in ProxyAuth], case_sensitive=False),
        help="How to log in to an HTTP proxy.  [default: basic]",
        section=WHERE_FROM,
    ),
    option(
        "--no-wait", "no_wait", is_flag=True, help="Do not wait for another process on the same file.", section=HOW_FAST
    ),
    option("--offline", is_flag=True, help="Use only local files; no network.", section=WHERE_FROM),
    option(
        "--debug-trace",
        "debug_trace",
        type=_PATH,
        metavar="FILE",
        help="Write a trace of the run; docs/trace.md.",
        section=OUTPUT,
    ),
)
_OUTPUT = (
    option("--json", "json", is_flag=True, help="Print one JSON object on stdout, and nothing else.", section=OUTPUT),
    option(
        "--progress",
        type=click.Choice(["bar", "plain", "json", "none"]),
        help="Form of the progress on stderr.",
        section=OUTPUT,
    ),
    option("-q", "--quiet", is_flag=True, help="Show errors only.", section=OUTPUT),
    option("-v", "--verbose", is_flag=True, help="Show every failure of every source.", section=OUTPUT),
    option("--debug", is_flag=True, help="Show a traceback of errors.", section=OUTPUT),
)


def output_options(command: _Command) -> _Command:
    """``--json``, ``--progress``, ``--quiet``, ``--verbose``, ``--debug``."""
    for add in reversed(_OUTPUT):
        command = add(command)
    return command


def network_options(command: _Command) -> _Command:
    """Add the options of downloads: mirrors, connections, time-outs; without output options."""
    for add in reversed(_TRANSFER):
        command = add(command)
    return command


def transfer_options(command: _Command) -> _Command:
    """Add the options of downloads and of output."""
    return network_options(output_options(command))


def default_transfer(env: Mapping[str, str], *, mirrors: Path | None = None) -> TransferOptions:
    """The options in config.toml and ``RESUME_DL_*``, for callers without a command line of ours.

    ``mirrors`` is as ``--mirrors``. Raises ConfigurationError.
    """
    from resume_dl.cli.run import transfer_of  # noqa: PLC0415 - loaded when it runs, not for --help
    from resume_dl.settings.config import load_config
    from resume_dl.settings.paths import find_paths

    file = find_paths(env).config_file
    command = click.Command("download", params=_transfer_parameters())
    try:
        context = command.make_context("resume-dl", [], default_map=load_config(file))
    except click.ClickException as error:
        raise ConfigurationError(f"{error.format_message()} (in {file} or RESUME_DL_*)") from error
    if mirrors is not None:
        context.params["mirrors"] = mirrors
    return transfer_of(context.params)


def _transfer_parameters() -> list[click.Parameter]:
    @transfer_options
    def carrier() -> None:
        """Hold the parameters that the decorators add."""

    found: list[click.Parameter] = carrier.__click_params__  # type: ignore[attr-defined]  # click's decorators set it
    return found[::-1]
