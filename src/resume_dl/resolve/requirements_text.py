"""The text of a requirements.txt: its encoding, its lines, and the options in them.

Source: pip.pypa.io, "Requirements File Format".
"""

from __future__ import annotations

import optparse
import re
import shlex
from collections.abc import Iterator
from typing import Any, NoReturn

from resume_dl.errors import ConfigurationError
from resume_dl.text_encoding import decode_text

_CODING = re.compile(rb"#.*?coding[:=]\s*([-\w.]+)")
_COMMENT = re.compile(r"(^|\s+)#.*$")


class _WrongOptionError(Exception):
    """The text names the option and not its value."""


class _OptionParser(optparse.OptionParser):
    def error(self, msg: str) -> NoReturn:
        raise _WrongOptionError(msg)


_FLAGS = ("--no-index", "--pre", "--prefer-binary", "--require-hashes", "--no-require-hashes")
_LISTS: tuple[tuple[str, ...], ...] = (
    ("--extra-index-url",),
    ("--requirement", "-r"),
    ("--constraint", "-c"),
    ("--editable", "-e"),
    ("--find-links", "-f"),
    ("--trusted-host",),
    ("--hash",),
    ("--only-binary",),
    ("--no-binary",),
    ("--all-releases",),
    ("--only-final",),
    ("--use-feature",),
    ("--config-settings", "--config-setting", "-C"),
)


def _option_parser() -> optparse.OptionParser:
    """For what pip takes in a requirements file; by optparse, as there, so that ``--req`` and ``-rfile`` are read."""
    parser = _OptionParser(add_help_option=False)
    parser.add_option("--index-url", "--pypi-url", "-i")
    for flag in _FLAGS:
        parser.add_option(flag, action="store_true")
    for names in _LISTS:
        parser.add_option(*names, action="append")
    return parser


_OPTIONS = _option_parser()


def _nothing_said() -> optparse.Values:
    """Defaults of one line: optparse appends to the lists that it is given."""
    lists = {names[0][2:].replace("-", "_"): list[str]() for names in _LISTS}
    return optparse.Values({"index_url": None, **{flag[2:].replace("-", "_"): False for flag in _FLAGS}, **lists})


def options_in(text: str, where: str) -> tuple[Any, list[str]]:
    """The options, and what else is there."""
    try:
        return _OPTIONS.parse_args(shlex.split(text), _nothing_said())
    except _WrongOptionError as error:
        raise ConfigurationError(
            f"{where}: {error}", hint="pip's options of a requirements file are read here"
        ) from None
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}", hint="a quotation mark is missing") from None


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    r"""Lines with their numbers: those that end in ``\`` joined to the next, comments and empty ones left out."""
    first, joined = 0, ""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        comment = _COMMENT.match(line) is not None
        first = first or number
        if line.endswith("\\") and not comment and number < len(lines):
            joined += line.rstrip("\\")
            continue
        # a whole line of comment ends a joined one, and needs a blank before it to be seen as such
        whole = _COMMENT.sub("", joined + (" " + line if comment else line.rstrip("\\"))).strip()
        if whole:
            yield first, whole
        first, joined = 0, ""


def decoded(data: bytes, shown: str) -> str:
    """By its byte order mark, a PEP 263 line, UTF-8, or else the system's encoding; as pip does."""
    declared = next((found[1].decode("ascii") for line in data.splitlines()[:2] if (found := _CODING.match(line))), "")
    try:
        return decode_text(data, declared=declared)
    except (UnicodeDecodeError, LookupError) as error:
        encoding = error.encoding if isinstance(error, UnicodeDecodeError) else declared
        raise ConfigurationError(f"{shown} is not text in {encoding}", hint="save it as UTF-8") from error
