"""Reader of pip's requirements: requirements.txt with its includes, pyproject.toml, and the pip part of other files.

Source: pip.pypa.io, "Requirements File Format"; PEP 751 for the names of lock files. Of the libraries for this,
pip-requirements-parser is unmaintained since 2022 and requirements-parser ignores options; so lines and options are
parsed here, and requirements by ``packaging``.

An error quotes a line as it is in the file, before ``${VARIABLES}`` are replaced, and without logins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from resume_dl.errors import ConfigurationError, InvalidSpecError
from resume_dl.fs import system
from resume_dl.model.pip import FindLinks, LeftToPip, PipFile, PipIndexes, PipRequirement, index_from, place_from
from resume_dl.model.url import RedactedUrl, path_from_url, scrub, unc_host
from resume_dl.resolve.environment_file import read_environment_file
from resume_dl.resolve.locks.lock_format import check_supported, lock_format
from resume_dl.resolve.pyproject_file import read_project
from resume_dl.resolve.requirement_line import HASH, NOT_FETCHED, OtherRequirement, parse_any
from resume_dl.resolve.requirements_text import decoded, logical_lines, options_in

Fetch = Callable[[RedactedUrl], bytes]
"""A function that reads an included file by its URL. Raises a ResumeDLError."""

_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
_LOCK = re.compile(r"pylock(?:\.[^.]+)?\.toml")


def read_requirements(
    path: Path, *, env: Mapping[str, str], fetch: Fetch | None = None, shares: frozenset[str] = frozenset()
) -> PipFile:
    """Read a lock file (only its path is kept), a pyproject.toml, an environment.yml, or else a requirements.txt.

    Of conda's environment.yml the part below ``pip:`` is read, which has the format of a requirements.txt.

    ``fetch`` reads files that are included by an http(s) URL. ``shares``: the hosts of Windows shares that may be asked
    besides those of the file and of the current folder. Raises ConfigurationError for a file that cannot be read or
    parsed, InvalidSpecError for an invalid requirement, both with file and line.
    """
    if (found := lock_format(path)) is not None:
        check_supported(path, found)
        return PipFile(lock=path.absolute())
    if path.suffix == ".toml":
        return read_project(path)
    reader = _Reader(env, fetch, shares)
    if path.suffix in {".yml", ".yaml"}:
        lines = "\n".join(read_environment_file(path).pip)
        reader.read_text(lines, path.resolve().parent, f"{path}, pip", constraint=False)
    else:
        reader.read(path.resolve(), str(path), constraint=False)
    return reader.found()


@dataclass
class _Reader:
    """Reads a file and its includes, depth first."""

    env: Mapping[str, str]
    fetch: Fetch | None
    shares: frozenset[str]
    requirements: list[PipRequirement] = field(default_factory=list)
    constraints: list[PipRequirement] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    left: list[LeftToPip] = field(default_factory=list)
    indexes: PipIndexes = field(default_factory=PipIndexes)
    require_hashes: bool = False
    _open: list[str] = field(default_factory=list)
    """The files being read, each included by the one before."""

    def found(self) -> PipFile:
        return PipFile(
            requirements=tuple(self.requirements),
            constraints=tuple(self.constraints),
            indexes=self.indexes,
            require_hashes=self.require_hashes,
            passed_over=tuple(self.passed_over),
            left=tuple(self.left),
        )

    def read(self, place: FindLinks, shown: str, *, constraint: bool) -> None:
        """Read a file; ``shown`` is its name in messages."""
        key = place.reveal() if isinstance(place, RedactedUrl) else str(place)
        if key in self._open:
            raise ConfigurationError(f"{shown} includes itself", hint="remove one of the -r or -c lines")
        self._open.append(key)
        text = decoded(self._bytes(place, shown), shown)
        self.read_text(text, place if isinstance(place, RedactedUrl) else place.parent, shown, constraint=constraint)
        self._open.pop()

    def _bytes(self, place: FindLinks, shown: str) -> bytes:
        if isinstance(place, RedactedUrl):
            if self.fetch is None:
                raise ConfigurationError(
                    f"{shown} is not a local file", hint="fetch it first (resume-dl get), and name the file"
                )
            return self.fetch(place)
        try:
            return place.read_bytes()
        except OSError as error:
            raise ConfigurationError(
                f"cannot read {shown}: {error.strerror or error}", hint="check its name and its permissions"
            ) from error

    def read_text(self, text: str, base: FindLinks, shown: str, *, constraint: bool) -> None:
        """Read the lines of one file; relative names in it start from ``base``."""
        for number, line in logical_lines(text):
            where = f"{shown}, line {number}"
            expanded = _VARIABLE.sub(lambda found: self.env.get(found[1]) or found[0], line)
            words = expanded.split(" ")
            first_option = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
            requirement = " ".join(words[:first_option]).strip()
            options, rest = options_in(" ".join(words[first_option:]), where)
            if rest:
                self.passed_over.append(f"{where}: {scrub(line)} (pip ignores the text after the options)")
            if requirement:
                if self._add(requirement, options, line, where, constraint=constraint):
                    self._leave_to_pip(expanded, requirement, line, constraint=constraint)
            elif options.editable:
                self._leave_to_pip(expanded, options.editable[0], line, constraint=constraint)
                self.passed_over.append(f"{where}: {scrub(line)} (editable; {NOT_FETCHED})")
            else:
                self._apply(options, base, where)

    def _leave_to_pip(self, expanded: str, place: str, line: str, *, constraint: bool) -> None:
        self.left.append(LeftToPip(line=expanded, place=place, shown=scrub(line), constraint=constraint))

    def _add(self, text: str, options: Any, line: str, where: str, *, constraint: bool) -> bool:
        """Record the requirement; return True if only pip itself can handle it."""
        found = parse_any(text)
        if isinstance(found, OtherRequirement):
            if not found.valid:
                quoted = scrub(line)
                raise InvalidSpecError(f"{where}: {quoted!r} is {found.what}", part=quoted, hint=found.hint)
            self.passed_over.append(f"{where}: {scrub(line)} ({found.what}; {found.hint})")
            return True
        hashes = tuple(one.lower() for one in options.hash)
        for one in hashes:
            if not HASH.fullmatch(one):
                raise ConfigurationError(
                    f"{where}: a --hash is not of the form sha256:<64 hex digits>", hint="pip hash FILE prints it"
                )
        taken = changed(found, hashes=found.hashes + hashes, where=where)
        (self.constraints if constraint else self.requirements).append(taken)
        return False

    def _apply(self, options: Any, base: FindLinks, where: str) -> None:
        for names, constraint in ((options.requirement, False), (options.constraint, True)):
            for name in names:
                self._check_share(name, base, where)
                self.read(_included(name, base), scrub(name), constraint=constraint)
        here = base if isinstance(base, Path) else Path.cwd()
        for word in options.find_links:
            self._check_share(word, here, where)
        try:
            found = PipIndexes(
                index_url=index_from(options.index_url, Path.cwd()) if options.index_url else None,
                extra=tuple(index_from(url, Path.cwd()) for url in options.extra_index_url),
                find_links=tuple(_links(word, here) for word in options.find_links),
                no_index=options.no_index,
                trusted_hosts=tuple(options.trusted_host),
                pre=options.pre or ":all:" in options.all_releases,
            )
        except ValueError:
            raise ConfigurationError(
                f"{where}: an invalid URL, or a file: URL without a file",
                hint="write it as https://host/simple, or file:///…",
            ) from None
        self.indexes = PipFile(indexes=found).indexes_over(self.indexes)
        self.require_hashes = (self.require_hashes or options.require_hashes) and not options.no_require_hashes
        for option, names in (("--no-binary", options.no_binary), ("--only-final", options.only_final)):
            self.passed_over += [f"{where}: {option} {name} (ignored)" for name in names]
        self.passed_over += [f"{where}: --all-releases {n} (ignored)" for n in options.all_releases if n != ":all:"]

    def _check_share(self, word: str, base: FindLinks, where: str) -> None:
        """Raise ConfigurationError for a path on a share that the user has not named; ``exists`` would ask it."""
        if not system.WINDOWS:
            return
        try:
            host = unc_host(path_from_url(word, windows=True) if word[:5].lower() == "file:" else word)
        except ValueError:
            return  # reported as an invalid URL
        own = {unc_host(str(place)) for place in (base, Path.cwd()) if isinstance(place, Path)}
        if host and host not in self.shares | own:
            raise ConfigurationError(
                f"{where}: {scrub(word)}: your settings do not name {host}, and Windows would send it your login",
                hint="name it with --find-links or in pip.ini, or copy the files to this machine",
            )


def _included(name: str, base: FindLinks) -> FindLinks:
    if isinstance(base, RedactedUrl):
        return RedactedUrl(urljoin(base.reveal(), name))
    try:
        found = place_from(name, base)
    except ValueError:
        found = base / name
    return found if isinstance(found, RedactedUrl) else found.resolve()


def _links(word: str, folder: Path) -> FindLinks:
    """Resolve a find-links value as pip does: relative to the file if it exists there, else to the current folder."""
    beside = place_from(word, folder)
    return beside if isinstance(beside, RedactedUrl) or beside.exists() else place_from(word, Path.cwd())
