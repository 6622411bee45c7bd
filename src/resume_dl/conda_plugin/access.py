"""The URL and headers with which conda itself would request a package, and whether they contain a login.

The classic solver leaves a channel's login in a record's URL; conda-rattler-solver drops it (conda itself then requests
without it and fails), so it is restored from the channels that conda has read. conda adds the rest when it sends: the
token of anaconda-client, the login of netrc, and headers of plugins, by ``channel_settings`` or for a host.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from resume_dl.conda_plugin import compat
from resume_dl.conda_session import session_request
from resume_dl.model.access import Access, is_of_login
from resume_dl.model.channel import has_credentials
from resume_dl.model.url import RedactedUrl

_LOGIN = re.compile(r"(?i)auth|cookie|credential|key|password|secret|session|token")


def conda_access() -> Callable[[RedactedUrl], Access]:
    """Return a function that gives a URL the access that conda has in the running command."""
    logins = compat.channels_with_login()

    def access(url: RedactedUrl) -> Access:
        given = _with_login(url, logins)
        try:
            sent = session_request(given.reveal())
        except Exception:  # noqa: BLE001 - a plugin cannot log in: conda will call it again and report its error
            return Access(given, private=True)
        headers = {name: value for name, value in sent.headers.items() if is_of_login(name)}
        private = has_credentials(given) or sent.by_handler or any(map(_LOGIN.search, sent.by_plugins))
        return Access(RedactedUrl(sent.url), headers, private)

    return access


def _with_login(url: RedactedUrl, logins: dict[str, str]) -> RedactedUrl:
    if has_credentials(url):
        return url
    folder, slash, filename = url.reveal().rpartition("/")
    return RedactedUrl(logins[folder] + slash + filename) if folder in logins else url
