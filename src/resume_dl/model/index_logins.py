"""Logins of package indexes, and what a keyring is asked for them, by pip's rules (pip/_internal/network/auth.py)."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from resume_dl.model.network import is_loopback, is_trusted
from resume_dl.model.url import RedactedUrl, scrub

AUTO, DISABLED, IMPORT, SUBPROCESS = "auto", "disabled", "import", "subprocess"
KEYRING_PROVIDERS = (AUTO, DISABLED, IMPORT, SUBPROCESS)
"""The values of pip's ``--keyring-provider``."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class KeyringQuestion:
    """A search for one login. ``services`` are looked up in order: the index's URL, and the host with its port."""

    services: tuple[str, ...]
    username: str | None = None
    """None: any login of the service."""


@dataclass(frozen=True, slots=True)
class KeyringAnswer:
    """The login, or ``why`` there is none; ``why`` is empty if no keyring was to be asked. ``repr`` has no login."""

    login: tuple[str, str] | None = field(default=None, repr=False)
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLogins:
    """The indexes of a run, whose URLs may have a login, or only its user name.

    ``excluded`` hosts are never a reason to ask the keyring: mirrors that only mirrors.toml names.
    """

    indexes: tuple[RedactedUrl, ...] = ()
    excluded: frozenset[str] = frozenset()
    trusted_hosts: tuple[str, ...] = ()

    def of_index(self, url: str) -> tuple[str, str] | None:
        """The complete login in the URL of the index that ``url`` belongs to. Raises ValueError for a malformed URL."""
        index = self._index(urlsplit(url))
        return None if index is None or index.password is None else (unquote(index.username or ""), _password(index))

    def question(self, url: str, first: str) -> KeyringQuestion | None:
        """What to ask the keyring after a 401 for ``url``, to which a request for ``first`` has led; None: nothing.

        A login is requested only for an encrypted connection, this machine or a trusted host, and if neither URL nor
        index has a complete one. A page or redirect of a mirror leads to no question. Raises ValueError.
        """
        parts = urlsplit(url)
        index = self._index(parts)
        if parts.password is not None or (index is not None and index.password is not None):
            return None
        if not {parts.hostname, urlsplit(first).hostname}.isdisjoint(self.excluded):
            return None
        if parts.scheme.lower() != "https" and not is_loopback(url) and not is_trusted(url, self.trusted_hosts):
            return None
        services = [] if index is None else [urlunsplit(index._replace(netloc=_netloc(index)))]
        # A token in the path would be in the arguments of a child process.
        services = [*(each for each in services if scrub(each) == each), _netloc(parts)]
        name = parts.username if parts.username is not None else index.username if index is not None else None
        username = None if name is None else unquote(name)
        words = (*services, username or "")
        if any(word.startswith("-") or not word.isprintable() for word in words):  # read as options of a program
            return None
        return KeyringQuestion(tuple(services), username)

    def _index(self, url: SplitResult) -> SplitResult | None:
        """The index on the same server whose path has the longest common part with the URL's, its URL with a slash."""
        path = f"{url.path.rstrip('/')}/"
        best: SplitResult | None = None
        length = -1
        for text in self.indexes:
            index = urlsplit(f"{text.reveal().rstrip('/')}/")
            if _origin(index) != _origin(url):
                continue
            common = len(posixpath.commonpath([path, index.path]))
            if common > length:
                best, length = index, common
        return best


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    scheme = url.scheme.lower()
    return scheme, url.hostname, url.port or _DEFAULT_PORTS.get(scheme)


def _netloc(url: SplitResult) -> str:
    """Host and port as they are written, without userinfo."""
    return url.netloc.rpartition("@")[2]


def _password(url: SplitResult) -> str:
    return unquote(url.password or "")
