"""pip's input and its resolution, as values: indexes, requirements, files.

URLs are RedactedUrl, because those of private indexes hold passwords. Terms as in pip's own options
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
from resume_dl.model.exclude_newer import UploadCutoff
from resume_dl.model.index_logins import AUTO, DISABLED
from resume_dl.model.network import is_loopback, is_trusted
from resume_dl.model.target import TargetMachine
from resume_dl.model.url import RedactedUrl, path_from_url

_T = TypeVar("_T")
FindLinks = RedactedUrl | Path
"""A page of links, or a folder (or a page kept as a file) on this machine, absolute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipIndexes:
    """Package indexes. ``index_url`` None means pip's own default."""

    index_url: RedactedUrl | None = None
    extra: tuple[RedactedUrl, ...] = ()
    find_links: tuple[FindLinks, ...] = ()
    no_index: bool = False
    """Only ``find_links``."""
    trusted_hosts: tuple[str, ...] = ()
    """``host`` or ``host:port`` without certificate checks."""
    pre: bool = False
    """Whether pre-releases are allowed."""

    def then(self, later: PipIndexes) -> PipIndexes:
        """These, overridden by ``later`` ones (the command line, a requirements file): lists grow, a URL replaces.

        ``no_index``, once set, stays. As pip merges its command line and its settings.
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
        """Plain http URLs to a host that is neither this machine nor trusted: pip ignores them."""
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
    """The result of pip.conf files and ``PIP_*`` variables."""

    indexes: PipIndexes = field(default_factory=PipIndexes)
    proxy: RedactedUrl | None = None
    cert: Path | None = None
    client_cert: Path | None = None
    timeout: float | None = None
    """Seconds; None if not set."""
    constraints: tuple[Path, ...] = ()
    """Constraints files (``PIP_CONSTRAINT``)."""
    uploaded_prior_to: str = ""
    """A date or days (pip 26.0), as it is written; empty if not set."""
    keyring_provider: str = AUTO
    no_input: bool = False
    """Whether pip asks nothing of the user."""
    files: tuple[Path, ...] = ()
    """The files that were read."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Option (``index-url``) -> where it was set: a file's path or a variable's name."""

    @property
    def keyring_in_use(self) -> str:
        """The keyring provider; ``auto`` is none without input, as in pip: a keyring may want to be unlocked."""
        return DISABLED if self.no_input and self.keyring_provider == AUTO else self.keyring_provider


@dataclass(frozen=True, slots=True, kw_only=True)
class PipRequirement:
    """One requirement of PEP 508, in its parts; ``str`` shows no password."""

    name: str
    extras: tuple[str, ...] = ()
    specifier: str = ""
    """``==1.6.0+cu101``; empty for any version, and with ``url``."""
    marker: str = ""
    url: RedactedUrl | None = None
    """A direct reference (``name @ https://…``)."""
    hashes: tuple[str, ...] = ()
    """``sha256:<hex>``, any of which is valid; empty if none is required."""
    where: str = ""
    """``requirements.txt, line 3``, for messages."""

    def line(self, url: str | None = None) -> str:
        """The requirement line without hashes, with ``url`` in place of its own; a password in ``url`` is shown."""
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
    """A requirement line for which pip needs no index; left out of ``repr``, as it may hold a password."""

    line: str = field(repr=False)
    """The whole line for pip, with variables expanded. Paths start from the current folder."""
    place: str = field(repr=False)
    """Its target: ``./project[extra]``, ``git+https://…``."""
    shown: str
    """The line as in the file, with unexpanded variables and without logins."""
    constraint: bool = False
    """Whether it is from a constraints file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipFile:
    """The requirements in one requirements.txt (with its includes), pyproject.toml or pylock.toml."""

    requirements: tuple[PipRequirement, ...] = ()
    constraints: tuple[PipRequirement, ...] = ()
    indexes: PipIndexes = field(default_factory=PipIndexes)
    """The file's own options; ``indexes_over`` merges them."""
    require_hashes: bool = False
    passed_over: tuple[str, ...] = ()
    """Lines that need no index (editable, version control, a local path), each with its place, redacted."""
    left: tuple[LeftToPip, ...] = ()
    """Those of them that pip itself handles at install time."""
    lock: Path | None = None
    """The lock file, if it is one: resolved already, all other fields are empty."""

    def indexes_over(self, before: PipIndexes) -> PipIndexes:
        """The file's indexes merged over ``before`` (settings, command line, an earlier file).

        As in pip, an ``--index-url`` of a file replaces all previous indexes, extra ones too.
        """
        if self.indexes.index_url is not None:
            before = changed(before, extra=())
        return before.then(self.indexes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipRequest:
    """A request by pip's rules, for one or several platforms."""

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
    """Platform -> another machine of that platform, even if it is this machine's platform."""
    environments: tuple[str, ...] = ()
    """Environments or categories of lock files; empty for those that the lock's own tool installs."""
    allow_sdist: bool = False
    """Whether source archives are allowed, which are built to be resolved."""
    no_deps: bool = False
    cutoff: UploadCutoff = field(default_factory=UploadCutoff)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipSolution:
    """The files that one platform needs."""

    platform: str
    """conda's subdir."""
    python: str
    """``3.10``."""
    artifacts: tuple[Artifact, ...]
    """Of kind ``wheel`` (or ``sdist``), with canonical URLs."""
    notes: tuple[str, ...] = ()
    """Notes for people: what was ignored or assumed."""
    lock_text: str = ""
    """The solution as a pylock.toml (PEP 751), with canonical URLs."""
    glibc: tuple[int, int] | None = None
    """The C library of the target Linux, known or assumed; for another machine only."""
    exclude_newer: str = ""
    """The time (ISO 8601, UTC) from which uploaded files were left out; empty if none were."""


def place_from(word: str, folder: Path) -> FindLinks:
    """Parse a ``find-links`` value: a URL, or a path relative to ``folder``; ``file:`` is a path.

    Raises ValueError for an invalid ``file:`` or other URL (``http://[``); its text may quote a password.
    """
    if word[:5].lower() == "file:":
        return Path(path_from_url(word, windows=isinstance(folder, PureWindowsPath)))
    return _address(word) if "://" in word else folder / word


def index_from(word: str, folder: Path) -> RedactedUrl:
    """An index's URL without a final slash; a ``file:`` URL for a folder laid out like an index.

    Raises ValueError as ``place_from`` does.
    """
    word = word.rstrip("/")
    return _address(word if "://" in word or word[:5].lower() == "file:" else (folder / word).as_uri())


def _address(word: str) -> RedactedUrl:
    urlsplit(word)  # raises ValueError for a URL that cannot be requested
    return RedactedUrl(word)


def _joined(first: tuple[_T, ...], later: tuple[_T, ...]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys((*first, *later)))
