"""Access to package indexes by pip's settings: proxy, certificates, and the keyring that is asked for logins."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

from resume_dl.model.index_logins import IndexLogins
from resume_dl.model.pip import PipIndexes, PipSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.pip_find import find_python
from resume_dl.settings.pip_keyring import Keyring
from resume_dl.settings.pip_network import pip_network
from resume_dl.transfer.setup import EngineAccess, Setup


def pip_access(setup: Setup, settings: PipSettings, indexes: PipIndexes) -> EngineAccess:
    """Return the access by pip's ``settings``, merged over conda's; ``indexes`` are the run's.

    Raises ConfigurationError for a missing certificate file.
    """
    network = pip_network(setup.load_network(), settings, indexes)
    return EngineAccess(network, _keyring_of(setup, settings, indexes))


def _keyring_of(setup: Setup, settings: PipSettings, indexes: PipIndexes) -> Keyring:
    """The keyring; it is asked for no mirror of the table, unless the user's settings or request name its host."""
    links = (place for place in indexes.find_links if isinstance(place, RedactedUrl))
    urls = (*((indexes.index_url,) if indexes.index_url else ()), *indexes.extra)
    named = {host_name(url) for url in (*urls, *links)}
    table = setup.table
    bases = [*table.origins.values(), *(base for mirror in table.mirrors for base in mirror.carries.values())]
    python = find_python(setup.env)
    return Keyring(
        settings.keyring_in_use,
        IndexLogins(
            indexes=urls,
            excluded=frozenset(host_name(RedactedUrl(base)) for base in bases) - named,
            trusted_hosts=indexes.trusted_hosts,
        ),
        setup.keyring,
        python=python.executable if python.has_pip else Path(sys.executable),  # our pip installs there
        env=setup.env,
    )


def host_name(url: RedactedUrl) -> str:
    """The host without port and brackets, as ``IndexLogins.excluded`` has it; empty if the URL is malformed."""
    try:
        return urlsplit(url.reveal()).hostname or ""
    except ValueError:
        return ""
