"""How to log in to a proxy, and what its status 407 says about that (RFC 9110 11.6, 11.7; RFC 4559)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterable
from enum import Enum

MAX_TOKEN = 64 * 1024
"""Characters of a token: Windows' Kerberos tokens have at most 48 000 bytes."""
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_SCHEME = re.compile(r"(?:^|,)\s*([A-Za-z]+)(?=\s|,|$)")
_KNOWN = {scheme.lower(): scheme for scheme in ("Basic", "Digest", "Bearer", "NTLM", "Negotiate", "Kerberos")}


class ProxyAuth(Enum):
    """The setting ``proxy_auth``."""

    BASIC = "basic"
    NTLM = "ntlm"
    NEGOTIATE = "negotiate"

    @property
    def scheme(self) -> str:
        """Its name in headers."""
        return _KNOWN[self.value]


def offered_schemes(values: Iterable[str]) -> tuple[str, ...]:
    """The known schemes that ``Proxy-Authenticate`` headers offer; no other text of a proxy gets into a message."""
    names = (name.lower() for value in values for name in _SCHEME.findall(_QUOTED.sub('""', value)))
    return tuple(dict.fromkeys(_KNOWN[name] for name in names if name in _KNOWN))


def challenge_of(values: Iterable[str], auth: ProxyAuth) -> bytes:
    """The proxy's token for this scheme; empty if it sent none. Raises ValueError for one that is invalid."""
    for value in values:
        scheme, _, token = value.strip().partition(" ")
        if scheme.lower() == auth.value and token.strip():
            if len(token) > MAX_TOKEN:
                raise ValueError("the token is too long")
            try:
                return base64.b64decode(token.strip(), validate=True)
            except binascii.Error:
                raise ValueError("the token is not base64") from None
    return b""


def wanted_login(offers: Collection[str], auth: ProxyAuth, *, has_login: bool) -> tuple[str, str]:
    """What a 407 means, after "the proxy …", and the hint.

    ``has_login``: whether user name and password are in the proxy's address.
    """
    others = [each for each in ProxyAuth if each is not auth and each.scheme in offers]
    stronger = [each for each in others if each is not ProxyAuth.BASIC]
    if auth is ProxyAuth.BASIC:
        if stronger and ProxyAuth.BASIC.scheme not in offers:
            return f"wants a login by {' or '.join(each.scheme for each in stronger)}", _set(stronger)
        hint = f"or {_set(stronger)}" if stronger else ""
        if has_login:
            return "refuses the login in its address", ", ".join(filter(None, (f"correct it: {_ADDRESS}", hint)))
        return "wants a login", ", ".join(filter(None, (f"write it into the proxy's address: {_ADDRESS}", hint)))
    if auth.scheme not in offers and offers:
        hint = f"set --proxy-auth {' or '.join(each.value for each in others)}" if others else "ask who runs it"
        return f"offers {' and '.join(offers)}, not {auth.scheme}", hint
    hint = f"correct user name and password in the proxy's address: {_WITH_DOMAIN}" if has_login else _SESSION
    return f"refuses the login by {auth.scheme}", f"{hint}; one refusal ends the run, so that no account is locked"


def no_login(auth: ProxyAuth) -> str:
    """The hint if there is nothing to log in with."""
    ticket = " or get a Kerberos ticket with kinit" if auth is ProxyAuth.NEGOTIATE else ""
    return f"write user name and password into the proxy's address, {_WITH_DOMAIN},{ticket}".rstrip(",")


def wanted_by_status(header: str) -> str:
    """What a status 407 that a server or a proxy has sent for a file says, in one line."""
    stronger = [each for each in (ProxyAuth.NTLM, ProxyAuth.NEGOTIATE) if each.scheme in offered_schemes([header])]
    return f"the proxy wants a login (status 407){f': {_set(stronger)}' if stronger else ''}"


_ADDRESS = "http://USER:PASSWORD@HOST:PORT"
_WITH_DOMAIN = "http://DOMAIN%5CUSER:PASSWORD@HOST:PORT"
_SESSION = "log in to this machine's domain again (kinit), or write user name and password into the proxy's address"


def _set(ways: Collection[ProxyAuth]) -> str:
    names = " or ".join(each.value for each in ways)
    return f'set --proxy-auth {names}, after python -m pip install "resume-dl[proxy-login]"'
