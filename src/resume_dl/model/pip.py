"""What pip would be told: indexes, requirements, and what they resolve to; all as values.

Addresses are RedactedUrl, because private indexes carry their password in them. Words as in pip's own options
(pip.pypa.io: "Requirements File Format", "Configuration"); requirements are those of PEP 508.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path, PureWindowsPath
from typing import TypeVar
from urllib.parse import urlsplit

from resume_dl.model.artifact import Artifact
from resume_dl.model.network import is_loopback, is_trusted
from resume_dl.model.target import TargetMachine
from resume_dl.model.url import RedactedUrl, path_from_url

_T = TypeVar("_T")
FindLinks = RedactedUrl | Path
"""A page of links, or a folder (or a page kept as a file) on this machine, absolute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipIndexes:
    """Where packages may come from. ``index_url`` None stands for the default of pip itself."""

    index_url: RedactedUrl | None = None
    extra: tuple[RedactedUrl, ...] = ()
    find_links: tuple[FindLinks, ...] = ()
    no_index: bool = False
    """Only ``find_links``."""
    trusted_hosts: tuple[str, ...] = ()
    """``host`` or ``host:port``, whose certificates are not checked."""
    pre: bool = False
    """Pre-releases too."""

    def then(self, later: PipIndexes) -> PipIndexes:
        """These with what is said ``later`` (the command line, a requirements file): lists grow, an address replaces.

        ``no_index``, once said, holds. As pip does it for its command line over its settings.
        """
        return PipIndexes(
            index_url=later.index_url or self.index_url,
            extra=_joined(self.extra, later.extra),
            find_links=_joined(self.find_links, later.find_links),
            no_index=self.no_index or later.no_index,
            trusted_hosts=_joined(self.trusted_hosts, later.trusted_hosts),
            pre=self.pre or later.pre,
        )

    def unprotected(self) -> tuple[RedactedUrl, ...]:
        """Addresses of plain http whose host is neither this machine nor trusted: pip passes them over."""
        links = (link for link in self.find_links if isinstance(link, RedactedUrl))
        indexes = () if self.no_index else (*((self.index_url,) if self.index_url else ()), *self.extra)
        return tuple(
            url
            for url in (*indexes, *links)
            if url.reveal()[:5].lower() == "http:"
            and not is_loopback(url.reveal())
            and not is_trusted(url.reveal(), self.trusted_hosts)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PipSettings:
    """What pip.conf files and ``PIP_*`` variables come to."""

    indexes: PipIndexes = field(default_factory=PipIndexes)
    proxy: RedactedUrl | None = None
    cert: Path | None = None
    client_cert: Path | None = None
    timeout: float | None = None
    """Seconds; None where nothing is said."""
    constraints: tuple[Path, ...] = ()
    """Constraints files (``PIP_CONSTRAINT``)."""
    files: tuple[Path, ...] = ()
    """The files that were read."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Option (``index-url``) -> where it was said last: a file's path or a variable's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipRequirement:
    """One requirement of PEP 508, in its parts; ``str`` shows no password."""

    name: str
    extras: tuple[str, ...] = ()
    specifier: str = ""
    """``==1.6.0+cu101``; empty for any version, and beside ``url``."""
    marker: str = ""
    url: RedactedUrl | None = None
    """A direct reference (``name @ https://…``)."""
    hashes: tuple[str, ...] = ()
    """``sha256:<hex>``, any of which is right; empty where none is asked for."""
    where: str = ""
    """``requirements.txt, line 3``, for messages."""

    def line(self, url: str | None = None) -> str:
        """It as a requirement without hashes, ``url`` in the place of its own; a password in ``url`` is shown."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        if self.url is not None or url is not None:
            place = f" @ {url if url is not None else self.url}"
            # without the blank the marker would belong to the address (PEP 508)
            return f"{self.name}{extras}{place}" + (f" ; {self.marker}" if self.marker else "")
        return f"{self.name}{extras}{self.specifier}" + (f"; {self.marker}" if self.marker else "")

    def __str__(self) -> str:
        return self.line()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftToPip:
    """A line that pip takes from elsewhere than an index; not in ``repr``, for there may be a password in it."""

    line: str = field(repr=False)
    """All of it, as pip will read it, with the variables put in. Paths are meant from the current folder."""
    place: str = field(repr=False)
    """What it names: ``./project[extra]``, ``git+https://…``."""
    shown: str
    """The line as it stands in the file, before the variables, without logins."""
    constraint: bool = False
    """It stands in a constraints file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipFile:
    """What one requirements.txt (with all that it includes), pyproject.toml or pylock.toml asks for."""

    requirements: tuple[PipRequirement, ...] = ()
    constraints: tuple[PipRequirement, ...] = ()
    indexes: PipIndexes = field(default_factory=PipIndexes)
    """What the file itself says; ``indexes_over`` gives what holds."""
    require_hashes: bool = False
    passed_over: tuple[str, ...] = ()
    """Lines that no index can answer (editable, from version control, a local path), each with its place, redacted."""
    left: tuple[LeftToPip, ...] = ()
    """Those of them that pip itself takes, for the pip that installs."""
    lock: Path | None = None
    """The pylock.toml that this is: resolved already (PEP 751), nothing else here is filled."""

    def indexes_over(self, before: PipIndexes) -> PipIndexes:
        """What holds where ``before`` was said first (settings, command line, an earlier file).

        As in pip: an ``--index-url`` of a file takes the place of all indexes before it, extra ones too.
        """
        if self.indexes.index_url is not None:
            before = changed(before, extra=())
        return before.then(self.indexes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipRequest:
    """What is wanted by pip's rules, for one or several platforms."""

    requirements: tuple[str, ...] = ()
    """As on pip's command line."""
    files: tuple[Path, ...] = ()
    """requirements.txt, pyproject.toml, pylock.toml."""
    constraints: tuple[Path, ...] = ()
    indexes: PipIndexes = field(default_factory=PipIndexes)
    """The settings' (PipSettings), with those of the command line."""
    platforms: tuple[str, ...] = ()
    """conda's subdirs (``win-64``); empty for this machine."""
    python: str | None = None
    """``3.10``; None for the Python that will install."""
    machines: Mapping[str, TargetMachine] = field(default_factory=dict)
    """Platform -> a machine of it that is not this one, even where the platform is."""
    allow_sdist: bool = False
    """Source archives too, which are built to be resolved."""
    no_deps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PipSolution:
    """The files that one platform needs."""

    platform: str
    """conda's subdir."""
    python: str
    """``3.10``."""
    artifacts: tuple[Artifact, ...]
    """Of kind ``wheel`` (or ``sdist``), at their canonical addresses."""
    notes: tuple[str, ...] = ()
    """For people: what was passed over or taken for granted."""
    lock_text: str = ""
    """The same as a pylock.toml (PEP 751), with canonical addresses."""
    glibc: tuple[int, int] | None = None
    """The C library of another Linux that they were chosen for, known or assumed."""


def place_from(word: str, folder: Path) -> FindLinks:
    """What a ``find-links`` value means: an address, or a path, which is meant from ``folder``; ``file:`` is a path.

    Raises ValueError for a ``file:`` address that names none, and for one that cannot be read (``http://[``); its text
    may quote a password.
    """
    if word[:5].lower() == "file:":
        return Path(path_from_url(word, windows=isinstance(folder, PureWindowsPath)))
    return _address(word) if "://" in word else folder / word


def index_from(word: str, folder: Path) -> RedactedUrl:
    """An index's address without a slash at its end; that of a folder laid out like an index is a ``file:`` one.

    Raises ValueError as ``place_from`` does.
    """
    word = word.rstrip("/")
    return _address(word if "://" in word or word[:5].lower() == "file:" else (folder / word).as_uri())


def _address(word: str) -> RedactedUrl:
    urlsplit(word)  # raises ValueError where nobody could ask for it
    return RedactedUrl(word)


def _joined(first: tuple[_T, ...], later: tuple[_T, ...]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys((*first, *later)))
