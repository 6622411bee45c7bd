"""Logins: from a URL's own userinfo, else from a netrc file, for exactly the host that is asked."""

from __future__ import annotations

import base64
import netrc
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Logins:
    """Basic credentials (RFC 7617) by host.

    The netrc ``default`` entry is left out on purpose: it would hand a login to every mirror that a file is taken
    from. A file that cannot be read or parsed costs a warning, never the run.
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
            # Not the error's own text: it may quote the token that it stumbled over.
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
        """The Authorization header's value for a request to ``url``, or None. The URL's own userinfo wins."""
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
