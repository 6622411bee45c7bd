"""The login of a conda plugin in one request: added to it, renewed once if the server refuses it."""

from __future__ import annotations

from collections.abc import Callable

from resume_dl.model.access import PluginLogin
from resume_dl.model.http import ResponseHead
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import PluginLogins
from resume_dl.transport import redirects

_REFUSED = frozenset({401, 403})
_ACCEPTED_BELOW = 400


class RequestLogin:
    """The login for one request for ``url``; used by the thread that sends it."""

    def __init__(self, logins: PluginLogins, url: RedactedUrl, warn: Callable[[str], None]) -> None:
        self._logins = logins
        self._url = url
        self._warn = warn
        self._renewed = False

    def first(self, cancelled: Callable[[], bool]) -> PluginLogin | None:
        """The login to send; None without one."""
        return self._logins.login(self._url, cancelled=cancelled, warn=self._warn)

    def after(
        self, sent: PluginLogin, url: str, head: ResponseHead, cancelled: Callable[[], bool]
    ) -> PluginLogin | None:
        """The login to send after this answer to ``url``; None if the answer stands.

        What another server answers after a redirect says nothing about the login, which was not sent there.
        """
        if redirects.origin(url) != redirects.origin(sent.url.reveal()):
            return None
        if head.status < _ACCEPTED_BELOW:
            self._logins.accepted(sent)
        if head.status not in _REFUSED or self._renewed:
            return None
        self._renewed = True
        return self._logins.renewed(sent, self._url, cancelled=cancelled, warn=self._warn)
