"""URLs that cannot leak a secret by being printed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

_TOKEN = re.compile(r"/t/[^/]+(?=/|$)")
_QUERY_VALUE = re.compile(r"(?<![^&;])([^=&;]+)=([^&;]*)")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""The words of a query name: ``api_key``, ``X-Amz-Signature``, ``AWSAccessKeyId``; ``monkey`` is one."""
_SECRET_WORDS = re.compile(
    "(?:access|api|auth|secret)?(?:key|token)|o?auth|authorization|bearer|code|credentials?|hmac|jwt"
    "|pass(?:phrase|wd|word)?|pwd|secret|sig(?:nature)?"
)
_WELL_FORMED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://(?:[^\s/]*@)?[^\s'\"<>]*")
# Mistyped URLs: a slash or the colon missing, or no scheme. Not: a drive letter, a file: path.
_USER = r"[^\s/@:'\"<>()\[\],=]"
_LOOSE = re.compile(
    rf"(?<!{_USER})(?!(?:[A-Za-z]|file):[\\/])(?:(?P<lead>[A-Za-z][A-Za-z0-9+.-]+:/+)\S*@|{_USER}+:(?!:)\S*@)"
)
_IN_PATH = re.compile(r"(?<=/)[^\s/@:]+:[^\s/@:]+@")
_PASSWORD = re.compile(r"(?:^|/)[^\s/@:]*:([^\s/@][^\s@]*)@")
_DRIVE = re.compile(r"/[A-Za-z][:|](?=/|$)")
_SHARE = re.compile(r"(file:[^\s'\",]*)|(?:(?<![^\s=,'\"])((?:\\\\|//)[^\s'\",]+))", re.IGNORECASE)
_UNREADABLE = "<unreadable address>"
_HIDDEN = "***"
_ANY = re.compile(rf"(?P<whole>{_WELL_FORMED.pattern})|{_LOOSE.pattern}")
_WHOLE = re.compile(rf"(?P<whole>{_WELL_FORMED.pattern})")
_LONGEST_QUOTED = 4000
"""Characters of a message that are searched for secrets; an honest one, with its values, is shorter."""


def scrub(text: str) -> str:
    """Remove the secrets of any URL in ``text``, even a mistyped one: the last safeguard before output.

    Text without a login, a token or a secret query value comes back as it was.
    """
    # each start of what may be a login is compared with all that follows it
    shown = (_ANY if "@" in text else _WHOLE).sub(_scrubbed, text)
    if shown != text:  # URL parsers may quote a piece of the URL in their errors
        for found in _ANY.finditer(text):
            for password in _PASSWORD.findall(found[0]):
                if len(password) > 2 and password != _HIDDEN:
                    shown = shown.replace(password, "***")
    return shown


def brief(text: str, most: int = 400) -> str:
    """``scrub`` for a message that quotes others' values: ``most`` characters, and its length if there are more.

    It is never cut within what could be a login, whose end would no longer show what it is.
    """
    if len(text) > _LONGEST_QUOTED:
        return f"{scrub(re.split(r'[^A-Za-z0-9 ,.]', text[:most])[0])}... ({len(text):,} characters)"
    shown = scrub(text)
    return shown if len(shown) <= most else f"{shown[:most]}... ({len(text):,} characters)"


def _scrubbed(found: re.Match[str]) -> str:
    if found["whole"] is None:
        return f"{found['lead'] or ''}***@"
    url = found["whole"]
    plain = url.partition("#")[0]
    shown = redact(url)
    if not url.startswith("file:"):
        shown = _IN_PATH.sub("***@", shown)
    return url if shown in {plain, url} else shown


def redact(url: str) -> str:
    """``url`` without userinfo, ``/t/<token>/`` or secret query values; safe to print, log and store.

    A query value is secret if a whole word of its name says so. Different URLs may look the same;
    ``RedactedUrl.fingerprint`` distinguishes them.
    ``/t/<token>/`` is anaconda.org's token path (conda's ``split_anaconda_token``).
    """
    parts = _without_login(url)
    if parts is None:
        return _UNREADABLE
    return urlunsplit(parts._replace(query=_QUERY_VALUE.sub(_shown_value, parts.query)))


def _without_login(url: str) -> SplitResult | None:
    """The parts of ``url`` with ``***`` for userinfo and token, and no fragment; None if it is malformed."""
    try:
        parts = urlsplit(url)
        if _login_is_torn(url, parts):
            parts = urlsplit(f"{parts.scheme}://***@{url.rpartition('@')[2]}")
    except ValueError:  # "http://user:password@[": any part may be a secret
        return None
    netloc = parts.netloc
    if "@" in netloc:
        netloc = "***@" + netloc.rpartition("@")[2]
    return parts._replace(netloc=netloc, path=_TOKEN.sub("/t/***", parts.path), fragment="")


def _shown_value(found: re.Match[str]) -> str:
    words = _WORD.findall(unquote(found[1]))
    return f"{found[1]}=***" if any(_SECRET_WORDS.fullmatch(word.lower()) for word in words) else found[0]


def _login_is_torn(url: str, parts: SplitResult) -> bool:
    """Whether a password with ``/``, ``?`` or ``#`` is parsed as a port, or an extra slash hides the host."""
    if "@" in parts.netloc or "@" not in url or "://" not in url or parts.scheme == "file":
        return False
    _, colon, port = parts.netloc.rpartition(":")
    return not parts.netloc or bool(colon and not port.isdigit() and not port.endswith("]"))


@dataclass(frozen=True, slots=True)
class RedactedUrl:
    """A URL whose ``str`` and ``repr`` show no secret; ``reveal()`` gives the real one, for the transport only."""

    _raw: str

    def reveal(self) -> str:
        """The real URL, for requests."""
        return self._raw

    @property
    def host(self) -> str:
        """``host[:port]`` in lower case, without userinfo, by which connections are counted; empty if missing.

        The scheme's own port is left out (RFC 3986 6.2.3), so that both spellings are one host.
        """
        try:
            parts = urlsplit(self._raw)
        except ValueError:
            return ""
        own = {"http": ":80", "https": ":443"}.get(parts.scheme, ":")
        return parts.netloc.rpartition("@")[2].lower().removesuffix(own)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 (hex) of the URL except its login and fragment: distinct for distinct URLs.

        It names files, so no login may be recovered from it: userinfo and ``/t/<token>`` are often short or chosen by
        people, can be guessed, and are replaced by ``***`` before hashing. Every query value counts, secrets too: their
        names do not tell which of them choose the file. Those are issued by machines (tokens, signatures), too long to
        be guessed from a hash. The hash has no key, which would stand in the state folder: a part file on a stick or a
        network drive is continued from another machine.
        """
        parts = _without_login(self._raw)
        return hashlib.sha256((urlunsplit(parts) if parts else _UNREADABLE).encode()).hexdigest()

    @property
    def has_secret(self) -> bool:
        """Whether printing this URL as it is would show a credential."""
        return redact(self._raw) != self._raw

    def __str__(self) -> str:
        return redact(self._raw)

    def __repr__(self) -> str:
        return f"RedactedUrl({redact(self._raw)!r})"


def share_hosts(texts: Iterable[str]) -> frozenset[str]:
    """The hosts, in lower case, of every Windows share in ``texts``, as a ``file:`` URL or as a UNC path.

    A request to one of them sends the user's login (NTLM), so only those that the user's own settings and command line
    name are asked.
    """
    hosts = set()
    for found in (match for text in texts for match in _SHARE.finditer(text)):
        with suppress(ValueError):
            hosts.add(unc_host(path_from_url(f"{found[1]}/", windows=True) if found[1] else found[2]))
    return frozenset(hosts - {"", "?", "."})


def unc_host(path: str) -> str:
    """The host of a Windows path that leads to another machine, in lower case; ``?`` or ``.`` for a device path.

    Empty for a path on a drive.
    """
    slashed = path.replace("\\", "/")
    return slashed.lstrip("/").partition("/")[0].lower() if slashed.startswith("//") else ""


def path_from_url(url: str, *, windows: bool) -> str:
    """The path that a ``file://`` URL names (RFC 8089), in the system's form.

    On Windows ``file:///C:/a`` (or ``C|``) is ``C:/a`` and ``file://host/share/a`` is ``//host/share/a``; elsewhere a
    host other than localhost has no meaning. Raises ValueError if it names no file.
    """
    parts = urlsplit(url)
    path = unquote(parts.path)
    host = "" if parts.netloc.lower() == "localhost" else parts.netloc
    if "\0" in path or not path:
        raise ValueError("no path in this file URL")
    if host and not windows:
        raise ValueError("a file URL with a host in it")
    if host:
        return f"//{host}{path}"
    if windows and _DRIVE.match(path):
        return f"{path[1]}:{path[3:] or '/'}"
    return path
