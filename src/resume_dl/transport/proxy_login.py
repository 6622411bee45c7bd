"""The login to one proxy: its messages, computed by pyspnego (MS-NLMP, RFC 4559), and whether the proxy takes it.

A proxy that forwards to the domain's servers may lock an account after a few wrong passwords, so a login that was
refused is not tried again, and until it was accepted once, connections try it one after the other.
"""

from __future__ import annotations

import base64
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

import httpcore

from resume_dl.errors import ConfigurationError, missing_library
from resume_dl.model.proxy_auth import MAX_TOKEN, ProxyAuth, no_login, offered_schemes, wanted_login
from resume_dl.transport.cancel_handle import current_handle

if TYPE_CHECKING:
    from spnego import ContextProxy

T = TypeVar("T")
TURN = 5.0
"""Seconds after which the next connection may try the login: a proxy that accepts it may connect to a dead server."""
_LOOK = 0.2
"""Seconds between two looks at whether the exchange was cancelled."""
_UNANSWERED = 3
"""Logins without an answer, before the login counts as refused: a proxy may refuse by closing, or by saying nothing."""


class LoginWantedError(httpcore.ProxyError):
    """A 407 to a connection without NTLM or Negotiate; ``what`` it means, after "the proxy …", and the hint."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__("407")
        self.what = what
        self.hint = hint


class ProxyLogin:
    """``user`` and ``password`` are those of the proxy's address, else empty: then the login of the session is used.

    With ``ProxyAuth.BASIC`` httpcore sends the login. ``shown``: the proxy's redacted URL. Raises ConfigurationError
    if pyspnego is needed and missing.
    """

    def __init__(self, auth: ProxyAuth, *, shown: str, host: str, user: str = "", password: str = "") -> None:
        if auth is not ProxyAuth.BASIC:
            if find_spec("spnego") is None:
                raise missing_library("pyspnego", "which logs in to the proxy", extra="proxy-login", in_all=False)
            logging.getLogger("spnego").setLevel(logging.INFO)  # its debug lines contain every message
        self.auth = auth
        self._shown = shown
        self._host = host
        self._user = user
        self._password = password
        self._has_login = bool(user or password)
        self._changed = threading.Condition()
        self._trying = 0
        self._began = 0.0
        self._accepted = False
        self._unanswered = 0
        self._refusal: tuple[str, str] | None = None

    def check(self) -> None:
        """Raise ConfigurationError if the proxy has refused this login before."""
        if self._refusal is not None:
            what, hint = self._refusal
            raise ConfigurationError(f"the proxy {self._shown} {what}", hint=hint)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until this connection may log in. Raises ConfigurationError, and httpcore.ReadError once cancelled."""
        with self._changed:
            while True:
                self.check()
                few = self._trying + self._unanswered < _UNANSWERED  # proofs that were not answered, or not yet
                late = few and time.monotonic() - self._began >= TURN
                if self.auth is ProxyAuth.BASIC or self._accepted or not self._trying or late:
                    break
                handle = current_handle()
                if handle is not None and handle.cancelled:
                    raise httpcore.ReadError("stopped")
                self._changed.wait(_LOOK)
            self._trying += 1
            self._began = time.monotonic()
        try:
            yield
        finally:
            with self._changed:
                self._trying -= 1
                self._changed.notify_all()

    def messages(self) -> Messages:
        """The messages of a new login. Raises ConfigurationError if there is nothing to log in with."""
        login = (self._user or None, self._password or None)
        service = {"hostname": self._host, "service": "HTTP", "protocol": self.auth.value}
        try:
            return Messages(_called(lambda: import_module("spnego").client(*login, **service)))  # an optional library
        except ValueError:
            what = f"needs a login by {self.auth.scheme}, and no usable one was found"
            raise self._refused(what, no_login(self.auth)) from None

    def accepted(self) -> None:
        """Note that the proxy has answered a request of this login with another status than 407."""
        with self._changed:
            self._accepted, self._unanswered = True, 0
            self._changed.notify_all()

    def refused(self, challenges: Sequence[str]) -> Exception:
        """The exception for a 407 after the last message; ``challenges``: its Proxy-Authenticate headers.

        If the login was accepted before, another connection may still be. With ``ProxyAuth.BASIC`` the proxy may let
        other servers be reached without a login.
        """
        if self._accepted:
            return httpcore.ProxyError("407")
        what, hint = wanted_login(offered_schemes(challenges), self.auth, has_login=self._has_login)
        return LoginWantedError(what, hint) if self.auth is ProxyAuth.BASIC else self._refused(what, hint)

    def unreadable(self) -> Exception:
        """The exception for a challenge that cannot be answered."""
        if self._accepted:
            return httpcore.ProxyError("407")
        hint = "check that this is the proxy's address, and ask who runs it"
        return self._refused(f"sent a malformed {self.auth.scheme} challenge", hint)

    def unanswered(self) -> None:
        """Note that a message with a proof of the password got no answer. Raises ConfigurationError."""
        with self._changed:
            self._unanswered += 0 if self._accepted else 1
            if self._unanswered < _UNANSWERED:
                return
        hint = wanted_login((), self.auth, has_login=self._has_login)[1]
        raise self._refused("does not answer the login", hint)

    def _refused(self, what: str, hint: str) -> ConfigurationError:
        with self._changed:
            self._refusal = self._refusal or (what, hint)
            self._changed.notify_all()
        return ConfigurationError(f"the proxy {self._shown} {what}", hint=hint)


class Messages:
    """The messages of one login on one connection; ``first`` needs no challenge."""

    def __init__(self, client: ContextProxy) -> None:
        self._client = client
        self.first = self._step(None)

    @property
    def complete(self) -> bool:
        """Whether the last message has proved the password: a further challenge is a refusal."""
        return self._client.complete

    def answer(self, challenge: bytes) -> bytes:
        """The message that answers ``challenge``. Raises ValueError for one that is malformed or unexpected."""
        return self._step(challenge)

    def _step(self, challenge: bytes | None) -> bytes:
        token = base64.b64encode(_called(lambda: self._client.step(challenge)) or b"")
        if not 0 < len(token) <= MAX_TOKEN:
            raise ValueError("no message, or one that is too long")
        return token


def _called(call: Callable[[], T]) -> T:
    """Call pyspnego, whose libraries raise anything. Raises ValueError, without a text that may quote the login."""
    try:
        return call()
    except Exception:  # noqa: BLE001 - the system libraries below pyspnego raise undocumented types
        raise ValueError("pyspnego cannot go on") from None
