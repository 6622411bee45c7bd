"""Parser of the arguments of ``pip install``: what to fetch, from where, and what only pip handles.

The options, and which of them take a value, come from the help of the user's own pip. They are parsed by optparse, as
in pip, so that ``--req``, ``-rfile`` and ``-qU`` have the same meaning.
"""

from __future__ import annotations

import optparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from resume_dl.errors import ConfigurationError, InvalidSpecError
from resume_dl.model.pip import PipIndexes, index_from, place_from
from resume_dl.resolve.requirement_line import is_left_to_pip, parse_requirement

_OPTION = re.compile(
    r"^ +(?P<names>(?:-\w|--[\w-]+)(?:, (?:-\w|--[\w-]+))*)(?P<value> <[^>]+>)?(?= {2}|$)", re.MULTILINE
)
_VARIABLES = ("--proxy", "--cert", "--client-cert", "--timeout", "--uploaded-prior-to", "--keyring-provider")
"""Options that apply to our requests as to pip's, which also reads them from ``PIP_*``."""
_OTHER_MACHINE = ("--platform", "--abi", "--implementation")
ANEW = ("--force-reinstall", "--ignore-installed", "--target", "--prefix", "--root")
"""Options with which pip also looks for files of installed packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipArguments:
    """The parsed arguments of ``pip install``."""

    requirements: tuple[str, ...]
    """PEP 508 requirements, or URLs of wheels."""
    files: tuple[Path, ...]
    constraints: tuple[Path, ...]
    indexes: PipIndexes
    passed: tuple[str, ...]
    """Arguments to pass to pip: its other options, and targets that it builds itself."""
    unfetched: tuple[str, ...]
    """Those of ``passed`` that name something to install: folders, local archives, version control URLs."""
    isolated: bool
    """Whether pip builds in an isolated environment (PEP 517), its default."""
    variables: Mapping[str, str]
    """``PIP_PROXY`` and similar variables, which apply to our requests too."""
    python: str | None
    no_deps: bool
    dry_run: bool
    anew: bool
    """Whether pip will also need files of packages that are already installed."""


def read_arguments(words: Sequence[str], help_text: str, folder: Path) -> PipArguments:
    """Parse ``words`` by pip's ``help_text``; paths are relative to ``folder``. Raises ConfigurationError."""
    given, positional = _parsed(words, help_text)

    def values(name: str) -> list[str]:
        return [value for option, value in given if option == name and value is not None]

    names = {name for name, _ in given}
    if wrong := [name for name in _OTHER_MACHINE if name in names]:
        raise ConfigurationError(
            f"{wrong[0]} selects files for another machine, but pip install installs on this one",
            hint="resume-dl fetch --platform win-64 --python 3.10 --pip … fetches those",
        )
    ours = {
        "--requirement",
        "--constraint",
        "--index-url",
        "--extra-index-url",
        "--find-links",
        "--no-index",
    }
    requirements, unfetched = _sorted(positional)
    passed = [
        word for name, value in given if name not in ours for word in ((name,) if value is None else (name, value))
    ]
    index = values("--index-url")
    try:
        indexes = PipIndexes(
            index_url=index_from(index[-1], folder) if index else None,
            extra=tuple(index_from(word, folder) for word in values("--extra-index-url")),
            find_links=tuple(place_from(word, folder) for word in values("--find-links")),
            no_index="--no-index" in names,
            trusted_hosts=tuple(values("--trusted-host")),
            pre="--pre" in names,
        )
    except ValueError:  # the error's text may quote a password
        raise ConfigurationError("one of the indexes is not a valid URL", hint="as https://host/simple") from None
    return PipArguments(
        requirements=tuple(requirements),
        files=_files("--requirement", values("--requirement"), folder),
        constraints=_files("--constraint", values("--constraint"), folder),
        indexes=indexes,
        passed=(*passed, *unfetched),
        unfetched=(*values("--editable"), *unfetched),
        variables={_variable(name): value for name in _VARIABLES for value in values(name)}
        | {_variable(name): "1" for name in ("--no-input",) if name in names},
        python=next(iter(values("--python-version")), None),
        no_deps="--no-deps" in names,
        dry_run="--dry-run" in names,
        isolated="--no-build-isolation" not in names,
        anew=any(name in names for name in ANEW),
    )


def _variable(option: str) -> str:
    return f"PIP_{option[2:].replace('-', '_').upper()}"


def _sorted(positional: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split arguments into requirements and what pip installs without an index. Raises InvalidSpecError for others."""
    requirements, elsewhere = [], []
    for word in positional:
        try:
            parse_requirement(word)
        except InvalidSpecError:
            if not is_left_to_pip(word):
                raise
            elsewhere.append(word)
        else:
            requirements.append(word)
    return requirements, elsewhere


def _files(option: str, words: Sequence[str], folder: Path) -> tuple[Path, ...]:
    for word in words:
        if "://" in word:
            raise ConfigurationError(
                f"{option} names a URL; only local files are supported", hint="fetch it first with resume-dl get"
            )
    return tuple(folder / word for word in words)


class _Parser(optparse.OptionParser):
    def error(self, msg: str) -> NoReturn:
        raise ConfigurationError(f"pip install: {msg}", hint="pip install --help lists the options")


def _parsed(words: Sequence[str], help_text: str) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Return options with their values, in order, each by its first long name; and the positional arguments."""
    given: list[tuple[str, str | None]] = []
    parser = _Parser(add_help_option=False, usage=optparse.SUPPRESS_USAGE)
    for names, takes_value in _options(help_text):
        main = next(name for name in names if name.startswith("--"))
        parser.add_option(
            *names, action="callback", callback=_keeper(given, main), type="string" if takes_value else None
        )
    _, positional = parser.parse_args(list(words))
    return given, positional


def _options(help_text: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the names of every option in a help text, and whether it takes a value."""
    seen: set[str] = set()
    for found in _OPTION.finditer(help_text):
        names = [name for name in found["names"].split(", ") if name not in seen]
        if any(name.startswith("--") for name in names):
            seen.update(names)
            yield names, found["value"] is not None


def _keeper(given: list[tuple[str, str | None]], main: str) -> Callable[..., None]:
    def keep(option: optparse.Option, name: str, value: str | None, parser: optparse.OptionParser) -> None:
        del option, name, parser
        given.append((main, value))

    return keep
