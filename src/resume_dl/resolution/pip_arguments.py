"""Takes the arguments of ``pip install`` apart: what is to be fetched, where from, and what only pip understands.

Which options there are, and which take a value, the user's own pip says in its help; they are read by optparse, as pip
itself does, so that ``--req``, ``-rfile`` and ``-qU`` are what they are there.
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
_VARIABLES = ("--proxy", "--cert", "--client-cert", "--timeout")
"""They mean for our requests what they mean for pip's, which reads them from ``PIP_*`` too."""
_OTHER_MACHINE = ("--platform", "--abi", "--implementation")
ANEW = ("--force-reinstall", "--ignore-installed", "--target", "--prefix", "--root")
"""With these pip looks for files also of what is installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipArguments:
    """What ``pip install`` was asked for."""

    requirements: tuple[str, ...]
    """Of PEP 508, or addresses of wheels."""
    files: tuple[Path, ...]
    constraints: tuple[Path, ...]
    indexes: PipIndexes
    passed: tuple[str, ...]
    """Words for pip: its other options, and what it builds itself."""
    unfetched: tuple[str, ...]
    """Those of ``passed`` that name something to install: folders, archives here, version control."""
    isolated: bool
    """Whether what is built gets its tools in an environment of its own (PEP 517), which is what pip does."""
    variables: Mapping[str, str]
    """``PIP_PROXY`` and the like, which hold for our requests too."""
    python: str | None
    no_deps: bool
    dry_run: bool
    anew: bool
    """Whether pip will want files of what is installed already, too."""


def read_arguments(words: Sequence[str], help_text: str, folder: Path) -> PipArguments:
    """``words`` as the pip would read them whose help this is; paths are from ``folder``. Raises ConfigurationError."""
    given, positional = _parsed(words, help_text)

    def values(name: str) -> list[str]:
        return [value for option, value in given if option == name and value is not None]

    names = {name for name, _ in given}
    if wrong := [name for name in _OTHER_MACHINE if name in names]:
        raise ConfigurationError(
            f"{wrong[0]} asks for another machine's files, and this installs into one here",
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
    except ValueError:  # its own text may quote a password
        raise ConfigurationError("one of the indexes is no address", hint="as https://host/simple") from None
    return PipArguments(
        requirements=tuple(requirements),
        files=_files("--requirement", values("--requirement"), folder),
        constraints=_files("--constraint", values("--constraint"), folder),
        indexes=indexes,
        passed=(*passed, *unfetched),
        unfetched=(*values("--editable"), *unfetched),
        variables={f"PIP_{name[2:].replace('-', '_').upper()}": value for name in _VARIABLES for value in values(name)},
        python=next(iter(values("--python-version")), None),
        no_deps="--no-deps" in names,
        dry_run="--dry-run" in names,
        isolated="--no-build-isolation" not in names,
        anew=any(name in names for name in ANEW),
    )


def _sorted(positional: Sequence[str]) -> tuple[list[str], list[str]]:
    """Requirements, and what pip takes from elsewhere than an index. Raises InvalidSpecError for what is neither."""
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
                f"{option} names an address, and only a file here is read", hint="resume-dl get fetches it"
            )
    return tuple(folder / word for word in words)


class _Parser(optparse.OptionParser):
    def error(self, msg: str) -> NoReturn:
        raise ConfigurationError(f"pip install: {msg}", hint="pip install --help names its options")


def _parsed(words: Sequence[str], help_text: str) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Options with their values, in order, each by its first long name; and the other words."""
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
    """Names and whether a value follows, of every option that a help text lists."""
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
