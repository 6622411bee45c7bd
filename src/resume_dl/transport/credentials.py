"""Credentials of hosts, from a URL's userinfo or a netrc file."""

from __future__ import annotations

import base64
import netrc
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Logins:
    """Basic credentials (RFC 7617) by host.

    The netrc ``default`` entry is ignored: it would send a login to every mirror. A netrc file that cannot be read or
    parsed is a warning, not an error.
    """

    def __init__(self, path: Path | None, warn: Callable[[str], None]) -> None:
        self._hosts: dict[str, tuple[str, str]] = {}
        if path is None:
            return
        try:
            entries = netrc.netrc(str(path)).hosts
        except FileNotFoundError:
            return
        except netrc.NetrcParseError as error:
            # Not the error's own text: it may quote a token of the file.
            warn(f"{path} is not used: line {error.lineno} is not in netrc format")
            return
        except OSError as error:
            warn(f"{path} is not used: {error.strerror}")
            return
        except UnicodeDecodeError:
            warn(f"{path} is not used: it is not UTF-8 text")
            return
        for host, (login, account, password) in entries.items():
            if host != "default":
                self._hosts[host.lower()] = (login or account or "", password or "")

    def authorization(self, url: str) -> str | None:
        """Return the Authorization header for a request to ``url``, or None. The URL's own userinfo is preferred."""
        parts = urlsplit(url)
        login: tuple[str, str] | None
        if parts.username is not None or parts.password is not None:
            login = (unquote(parts.username or ""), unquote(parts.password or ""))
        else:
            login = self._hosts.get((parts.hostname or "").lower())
        if login is None:
            return None
        return "Basic " + base64.b64encode(":".join(login).encode()).decode("ascii")

    def __repr__(self) -> str:
        return f"Logins({sorted(self._hosts)})"
