"""Credentials of hosts, from a URL's userinfo or a netrc file."""

from __future__ import annotations

import base64
import netrc
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from resume_dl.ports import Keyring

_REFUSED = "the login from the keyring is refused"


class Logins:
    """Basic credentials (RFC 7617) by host. With a ``keyring``, in pip's order: URL, index, keyring, netrc, user name.

    The netrc ``default`` entry is ignored: it would send a login to every mirror. A netrc file that cannot be read or
    parsed is a warning, not an error.
    """

    def __init__(self, path: Path | None, warn: Callable[[str], None], keyring: Keyring | None = None) -> None:
        self._keyring = keyring
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
        """Return the Authorization header for a request to ``url``, or None. The URL's own userinfo is preferred.

        Raises ValueError for a malformed URL.
        """
        parts = urlsplit(url)
        own: tuple[str, str] | None = None
        if parts.username is not None or parts.password is not None:
            own = (unquote(parts.username or ""), unquote(parts.password or ""))
        in_file = self._hosts.get((parts.hostname or "").lower())
        if self._keyring is None:
            login = own or in_file
        elif parts.password is not None:
            login = own
        else:  # the keyring's was asked for because netrc's, if there is one, was refused
            login = self._keyring.of_index(url) or self._keyring.known(url) or in_file or own
        return None if login is None else _basic(login)

    @property
    def has_keyring(self) -> bool:
        """Whether ``after_refusal`` may find a login."""
        return self._keyring is not None

    def after_refusal(
        self, url: str, first: str, sent: str | None, stopped: Callable[[], bool]
    ) -> tuple[str | None, str]:
        """Return another Authorization header after a 401 for ``url``, or None with the reason, which may be empty.

        ``first``: the URL of the request, before redirects; ``sent``: the refused header. Waits for the keyring until
        ``stopped``. Raises ValueError for a malformed URL.
        """
        if self._keyring is None:
            return None, ""
        answer = self._keyring.ask(url, first, stopped)
        if answer.login is None:
            return None, answer.why
        found = _basic(answer.login)
        return (None, _REFUSED) if found == sent else (found, "")

    def close(self) -> None:
        """End the questions to the keyring. Never raises."""
        if self._keyring is not None:
            self._keyring.stop()

    def __repr__(self) -> str:
        return f"Logins({sorted(self._hosts)})"


def _basic(login: tuple[str, str]) -> str:
    return "Basic " + base64.b64encode(":".join(login).encode()).decode("ascii")
