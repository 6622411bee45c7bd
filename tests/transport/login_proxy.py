"""A proxy that wants a login by NTLM or Negotiate, computed by pyspnego on its side too, for each connection anew."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import spnego
from spnego.exceptions import SpnegoError

from transport.tiny import Request, TinyHttpProxy, answer, read_request

USER, PASSWORD = "DOMAIN\\me", "hush"
LOGIN = "DOMAIN%5Cme:hush"
PAGE = b"<html>log in</html>" * 5000
"""The body of each 407: longer than one read, on a connection that goes on."""

Reply = Callable[[int, str], "bytes | None"]


def keep_users(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The users of every proxy in this process; a client in it that is given no login takes the first of them."""
    users = folder / "users"
    users.write_text("DOMAIN:me:hush\n", encoding="utf-8")
    monkeypatch.setenv("NTLM_USER_FILE", str(users))


def wanted(*challenges: str, close: bool = False, body: bytes = PAGE) -> bytes:
    """A 407 with these Proxy-Authenticate headers."""
    head, _, _ = answer(body, 407).partition(b"\r\n\r\n")
    lines = "".join(f"\r\nProxy-Authenticate: {each}" for each in challenges)
    return head + lines.encode() + (b"\r\nConnection: close" if close else b"") + b"\r\n\r\n" + body


class LoginProxy(TinyHttpProxy):
    """``reply``: what is sent in place of the challenge with the given number (of all), which is given too.

    It is a whole answer, after which the connection is closed if it says so; b"" closes it without an answer.
    """

    def __init__(self, scheme: str = "NTLM", *, tls: ssl.SSLContext | None = None, reply: Reply | None = None) -> None:
        self._scheme = scheme
        self._reply = reply
        self.challenges = 0
        super().__init__(tls=tls)

    def serve(self, conn: socket.socket, number: int) -> None:
        context = spnego.server(hostname="localhost", service="HTTP", protocol=self._scheme.lower())
        while (request := read_request(conn, number)) is not None:
            self.requests.append(request)
            if context.complete:
                self._forwarded(conn, request)
                continue
            scheme, _, token = request.headers.get("proxy-authorization", "").partition(" ")
            try:
                challenge = context.step(base64.b64decode(token)) if scheme == self._scheme else None
            except SpnegoError:
                conn.sendall(wanted(self._scheme))
                context = context.new_context()
                continue
            if context.complete:
                self._forwarded(conn, request)
                continue
            said = self._scheme if challenge is None else f"{self._scheme} {base64.b64encode(challenge).decode()}"
            self.challenges += 1
            whole = self._reply(self.challenges, said) if self._reply is not None else None
            whole = wanted(said) if whole is None else whole
            conn.sendall(whole)
            if not whole or b"\r\nConnection: close" in whole:
                return

    def _forwarded(self, conn: socket.socket, request: Request) -> None:
        headers = {name: value for name, value in request.headers.items() if name != "proxy-authorization"}
        self.pass_on(conn, request._replace(headers=headers))

    @property
    def proofs(self) -> int:
        """Messages that prove a password, right or wrong (MS-NLMP 2.2.1.3)."""
        sent = [each.headers.get("proxy-authorization", "").partition(" ")[2] for each in self.requests]
        return sum(b"NTLMSSP\0\3" in base64.b64decode(token) for token in sent)

    @property
    def schemes(self) -> set[str]:
        """Of every login that was sent here; "Basic" would be the password in clear."""
        sent = [each.headers["proxy-authorization"] for each in self.requests if "proxy-authorization" in each.headers]
        assert not any(PASSWORD in text or base64.b64encode(PASSWORD.encode()).decode() in text for text in sent)
        return {text.partition(" ")[0] for text in sent}
