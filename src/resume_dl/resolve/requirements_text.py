"""Lexical level of a requirements.txt: encoding, logical lines, and the options in them.

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


class _InvalidOptionError(Exception):
    """An option is invalid; the message names the option but not its value, which may be a secret."""


class _OptionParser(optparse.OptionParser):
    def error(self, msg: str) -> NoReturn:
        raise _InvalidOptionError(msg)


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
    """Return a parser of pip's options in requirements files; optparse, as in pip, for ``--req`` and ``-rfile``."""
    parser = _OptionParser(add_help_option=False)
    parser.add_option("--index-url", "--pypi-url", "-i")
    for flag in _FLAGS:
        parser.add_option(flag, action="store_true")
    for names in _LISTS:
        parser.add_option(*names, action="append")
    return parser


_OPTIONS = _option_parser()


def _no_options() -> optparse.Values:
    """Return fresh defaults for one line, because optparse appends to the lists in them."""
    lists = {names[0][2:].replace("-", "_"): list[str]() for names in _LISTS}
    return optparse.Values({"index_url": None, **{flag[2:].replace("-", "_"): False for flag in _FLAGS}, **lists})


def options_in(text: str, where: str) -> tuple[Any, list[str]]:
    """Parse the options in ``text``; return them and the remaining words. Raises ConfigurationError."""
    try:
        return _OPTIONS.parse_args(shlex.split(text), _no_options())
    except _InvalidOptionError as error:
        raise ConfigurationError(
            f"{where}: {error}", hint="pip's options of a requirements file are read here"
        ) from None
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}", hint="a quotation mark is missing") from None


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    r"""Yield logical lines with their numbers: ``\`` joins lines; comments and empty lines are skipped."""
    first, joined = 0, ""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        comment = _COMMENT.match(line) is not None
        first = first or number
        if line.endswith("\\") and not comment and number < len(lines):
            joined += line.rstrip("\\")
            continue
        # a comment line ends a joined line; the pattern needs the blank to recognise the comment
        whole = _COMMENT.sub("", joined + (" " + line if comment else line.rstrip("\\"))).strip()
        if whole:
            yield first, whole
        first, joined = 0, ""


def decoded(data: bytes, shown: str) -> str:
    """Decode as pip does: by byte order mark, PEP 263 line, UTF-8, or else the system's encoding."""
    declared = next((found[1].decode("ascii") for line in data.splitlines()[:2] if (found := _CODING.match(line))), "")
    try:
        return decode_text(data, declared=declared)
    except (UnicodeDecodeError, LookupError) as error:
        encoding = error.encoding if isinstance(error, UnicodeDecodeError) else declared
        raise ConfigurationError(f"{shown} is not text in {encoding}", hint="save it as UTF-8") from error
