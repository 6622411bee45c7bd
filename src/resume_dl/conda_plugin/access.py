"""How conda itself would ask for a package: its login, as conda's own session adds it, and whom it makes private.

The classic solver leaves a channel's login in a record's address; conda-rattler-solver drops it (conda itself then asks
without, and fails). So it is put back from the channels that conda has read. Everything else conda adds when it sends:
a token of anaconda-client, a login of netrc, what a plugin says by ``channel_settings`` or for a host.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from resume_dl.conda_plugin import compat
from resume_dl.model.access import Access
from resume_dl.model.channel import has_credentials
from resume_dl.model.url import RedactedUrl

_OURS = frozenset({"accept", "accept-encoding", "connection", "host", "if-range", "range"})
"""What says how bytes come is for our own requests to say."""
_LOGIN = re.compile(r"(?i)auth|cookie|credential|key|password|secret|session|token")


def conda_access() -> Callable[[RedactedUrl], Access]:
    """Access as conda has it, for the channels of the command that runs."""
    logins = compat.channels_with_login()

    def access(url: RedactedUrl) -> Access:
        given = _with_login(url, logins)
        try:
            sent = compat.session_request(given.reveal())
        except Exception:  # noqa: BLE001 - a plugin that cannot log in: conda will ask it again, and say what it said
            return Access(given, private=True)
        headers = {name: value for name, value in sent.headers.items() if name.lower() not in _OURS}
        private = has_credentials(given) or sent.by_handler or any(map(_LOGIN.search, sent.by_plugins))
        return Access(RedactedUrl(sent.url), headers, private)

    return access


def _with_login(url: RedactedUrl, logins: dict[str, str]) -> RedactedUrl:
    if has_credentials(url):
        return url
    folder, slash, filename = url.reveal().rpartition("/")
    return RedactedUrl(logins[folder] + slash + filename) if folder in logins else url
