"""Every exception of resume-dl, one tree.

::

    ResumeDLError
    ├ ConfigurationError                       exit 2
    ├ ResolutionError                          exit 3
    │  ├ InvalidSpecError                      exit 2 (the request itself is malformed)
    │  ├ PackageNotFoundError                  exit 3
    │  ├ UnsatisfiableError                    exit 3
    │  ├ ChannelNotFoundError                  exit 3
    │  └ ChannelUnavailableError               exit 6
    ├ TransferError(artifact)                  exit 1
    │  ├ SourceError(source, retryable)
    │  │  ├ NetworkError, StalledError
    │  │  ├ HTTPStatusError(status, retry_after)
    │  │  └ RangeError, ContentError
    │  ├ SourcesExhaustedError(causes, resumable_bytes)
    │  │  └ NoNetworkError(hosts)
    │  └ CaptivePortalError
    ├ WorkerCrashedError(returncode)           exit 70
    ├ IntegrityError                           exit 4
    │  └ SizeMismatchError, DigestMismatchError(expected, actual)
    ├ StoreError                               exit 5
    │  └ LockedError, JournalError, OutOfSpaceError, NotWritableError, UntrustedFolderError
    └ Interrupted                              exit 130

A message says what happened and why in one line; ``hint`` says what to do next. Data stands on attributes.
No message ever holds a token, a password or userinfo: URLs reach an error only as ``RedactedUrl``.
"""

from __future__ import annotations

from typing import TypeVar

from resume_dl.zip_application import installs_all

_T = TypeVar("_T")


class ResumeDLError(Exception):
    """The root of the tree; shown as what happened, why, and what to do next."""

    exit_code = 70
    retryable = False

    def __init__(self, message: str, *, hint: str = "", resumable_bytes: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.resumable_bytes = resumable_bytes

    def __str__(self) -> str:
        return self.message


class InternalError(ResumeDLError):
    """A defect of this program; the message names the file or request, ``__cause__`` is the exception."""

    def __init__(self, message: str, *, hint: str = "run it again with --debug and report the traceback") -> None:
        super().__init__(message, hint=hint)


def internal_error(caught: BaseException, subject: str) -> InternalError:
    """Wrap an unexpected exception; ``subject`` is the file or request being worked on.

    The exception's own text is left out: it may quote untrusted data.
    """
    error = InternalError(f"{subject}: internal error ({type(caught).__name__})")
    error.__cause__ = caught
    return error


def required(value: _T | None, name: str) -> _T:
    """``value``, which earlier code has set. Raises InternalError, with ``name``, if it is None."""
    if value is None:
        raise InternalError(f"internal error: {name} is missing")
    return value


class ConfigurationError(ResumeDLError):
    """A wrong option, settings file or environment variable."""

    exit_code = 2


def missing_library(name: str, purpose: str, *, extra: str = "", in_all: bool = True) -> ConfigurationError:
    """The error for a library that is not installed; ``purpose`` begins with "which"; ``extra`` is the one with it.

    ``in_all``: whether the installation that ``resume-dl.pyz`` makes has it.
    """
    whole = installs_all()
    what = f'"resume-dl[{extra}]"' if extra and not whole else name  # double quotes: every shell takes them
    hint = whole if whole and in_all else f"install it: python -m pip install {what}"
    return ConfigurationError(f"{name}, {purpose}, is not installed", hint=hint)


class ResolutionError(ResumeDLError):
    """A request that cannot be resolved into artifacts."""

    exit_code = 3


class InvalidSpecError(ResolutionError):
    """A malformed spec; ``part`` is the text that was refused."""

    exit_code = 2

    def __init__(self, message: str, *, part: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.part = part


class PackageNotFoundError(ResolutionError):
    """A package, or a version of it, that no channel has; ``nearest`` are similar names."""

    def __init__(self, message: str, *, nearest: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.nearest = nearest


class UnsatisfiableError(ResolutionError):
    """Specs that contradict each other; the message is the solver's own explanation."""


class ChannelNotFoundError(ResolutionError):
    """A channel that every source denies having; ``tried`` are the redacted URLs."""

    def __init__(self, message: str, *, tried: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.tried = tried


class ChannelUnavailableError(ResolutionError):
    """A channel index that no source delivers; trying later may help."""

    exit_code = 6
    retryable = True

    def __init__(self, message: str, *, tried: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.tried = tried


class WorkerCrashedError(ResumeDLError):
    """The solver's child process ended or does not answer; ``returncode`` is below 0 for a signal.

    A retry in a new process may help: the parent has lost nothing.
    """

    retryable = True

    def __init__(self, message: str, *, returncode: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.returncode = returncode


class TransferError(ResumeDLError):
    """An artifact's bytes could not be fetched."""

    exit_code = 1
    retryable = True


class SourceError(TransferError):
    """A failure of one source; the download may continue from another."""

    def __init__(self, message: str, *, source: str = "", retryable: bool = True, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.source = source
        self.retryable = retryable


class NetworkError(SourceError):
    """No connection, a reset, a TLS failure, or a body that ended early.

    ``reached`` False: no connection was made (name, route, refusal, connect time-out). ``unresolved``: the
    host name, the source's own or its proxy's, that could not be resolved. ``no_route``: a literal IP address, the
    source's or its proxy's, refuses the connection, or no route leads there.
    """

    def __init__(
        self,
        message: str,
        *,
        source: str = "",
        retryable: bool = True,
        hint: str = "",
        reached: bool = True,
        unresolved: str = "",
        no_route: bool = False,
    ) -> None:
        super().__init__(message, source=source, retryable=retryable, hint=hint)
        self.reached = reached
        self.unresolved = unresolved
        self.no_route = no_route


class StalledError(SourceError):
    """A connection without data for too long."""


class HTTPStatusError(SourceError):
    """An HTTP error status; ``retry_after`` in seconds if the server sent it."""

    def __init__(
        self,
        message: str,
        *,
        source: str = "",
        status: int = 0,
        retry_after: float | None = None,
        retryable: bool = True,
    ) -> None:
        super().__init__(message, source=source, retryable=retryable)
        self.status = status
        self.retry_after = retry_after


class RangeError(SourceError):
    """A response with other bytes than the requested range."""


class ContentError(SourceError):
    """A body that is not the file: an HTML page, an encoded body, or another format."""


class SourcesExhaustedError(TransferError):
    """Every source was tried; ``causes`` names each and why it failed.

    ``restarting`` says which of them cannot continue a download, for a hint; empty where none is known to be so.
    """

    def __init__(
        self,
        message: str,
        *,
        causes: tuple[str, ...] = (),
        resumable_bytes: int = 0,
        hint: str = "",
        restarting: str = "",
    ) -> None:
        super().__init__(message, hint=hint, resumable_bytes=resumable_bytes)
        self.causes = causes
        self.restarting = restarting


def no_network(hosts: tuple[str, ...], cause: str) -> str:
    """The message for unresolvable ``hosts``; ``cause`` is one resolver error."""
    why = f" ({cause})" if cause else ""
    if len(hosts) == 1:
        return f"no network, or a wrong address: {hosts[0]} does not resolve{why}"
    return f"no network: none of {len(hosts)} hosts resolves{why}"


class NoNetworkError(SourcesExhaustedError):
    """No host name resolves and no server has answered in this run; ``hosts`` are the names."""

    def __init__(self, hosts: tuple[str, ...], *, causes: tuple[str, ...] = (), resumable_bytes: int = 0) -> None:
        message = no_network(hosts, causes[0] if causes else "")
        hint = (
            "check the connection, the DNS and the proxy settings, then run the same command again: what is on disk "
            "is kept; with --give-up-after 10m it waits for the network"
        )
        super().__init__(message, causes=causes, hint=hint, resumable_bytes=resumable_bytes)
        self.hosts = hosts


class CaptivePortalError(TransferError):
    """The network answers every request with its login page; sign in first. None of it was written."""


class IntegrityError(ResumeDLError):
    """Bytes that fail verification; ``index`` is the channel name and subdir of the index that lists them.

    None if no index lists them, or one of several.
    """

    exit_code = 4

    def __init__(self, message: str, *, index: tuple[str, str] | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.index = index


class SizeMismatchError(IntegrityError):
    """A file with another size than its record says."""

    def __init__(self, message: str, *, expected: int, actual: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.expected = expected
        self.actual = actual


class DigestMismatchError(IntegrityError):
    """A complete file with another digest than its record says; both as lower-case hex."""

    def __init__(self, message: str, *, expected: str, actual: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.expected = expected
        self.actual = actual


class StoreError(ResumeDLError):
    """A failure of the local disk, permissions or locks."""

    exit_code = 5


class LockedError(StoreError):
    """A file in use by another process; ``owner`` says which."""

    def __init__(self, message: str, *, owner: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.owner = owner


class JournalError(StoreError):
    """A journal of an unknown version, or one that belongs to another file."""


class OutOfSpaceError(StoreError):
    """A file system with too little space; both numbers in bytes."""

    def __init__(self, message: str, *, needed: int, free: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.needed = needed
        self.free = free


class NotWritableError(StoreError):
    """A folder or file that cannot be written."""


class UntrustedFolderError(StoreError):
    """A folder for unfinished files that is a link, another user's, or writable by others."""


class Interrupted(ResumeDLError):  # noqa: N818 - a state the user asked for, not an error
    """A run stopped by the user; what is on disk is safe."""

    exit_code = 130
    retryable = True


EXIT_CODE_PRECEDENCE = (130, 70, 5, 4, 3, 6, 1, 2, 0)
"""Exit codes by precedence, for a run with several outcomes (docs/interface.md; 2 never meets others)."""


def worst_exit_code(codes: list[int]) -> int:
    """The exit code of a run with several outcomes; 0 for none."""
    for code in EXIT_CODE_PRECEDENCE:
        if code in codes:
            return code
    return 0 if not codes else 70
