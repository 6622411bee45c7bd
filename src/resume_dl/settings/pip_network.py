"""Network settings for pip's packages: the general ones, overridden by pip's own."""

from __future__ import annotations

from dataclasses import replace as changed

from resume_dl.errors import ConfigurationError
from resume_dl.model.network import NetworkSettings
from resume_dl.model.pip import PipIndexes, PipSettings
from resume_dl.model.url import RedactedUrl, share_hosts

_LONGEST = 120.0
"""Longest time-out in seconds. Users set hours because pip restarts after each; we continue from another mirror."""


def pip_network(network: NetworkSettings, pip: PipSettings, indexes: PipIndexes) -> NetworkSettings:
    """``network`` (``load_network``'s) for pip's packages; ``indexes`` are the run's, for their trusted hosts.

    ``proxy`` applies to every host, regardless of the environment and ``NO_PROXY``, as in pip. ``cert`` and
    ``client-cert`` replace the general ones. A condarc's ``ssl_verify: false`` does not apply: certificates are checked
    for every host not listed as trusted. ``timeout`` can only lengthen the wait for an index. Raises
    ConfigurationError for a missing certificate file.
    """
    for name, place in (("cert", pip.cert), ("client-cert", pip.client_cert)):
        if place is not None and not place.exists():
            raise ConfigurationError(
                f"pip's setting {name} in {pip.origins.get(name, 'its settings')} names {place}, which does not exist",
                hint="correct or remove it",
            )
    if pip.proxy is not None:
        proxy = pip.proxy.reveal()
        address = proxy if "://" in proxy else f"http://{proxy}"
        network = changed(network, proxies={"all": address}, no_proxy=())
    if pip.cert is not None:
        network = changed(network, verify=pip.cert, system_store=False)
    elif network.verify is False:
        network = changed(network, verify=True)
    if pip.client_cert is not None:
        network = changed(network, client_cert=pip.client_cert, client_cert_key=None)
    if pip.timeout is not None:
        timeout = max(network.first_byte_timeout, min(pip.timeout, _LONGEST))
        network = changed(network, first_byte_timeout=timeout)
    own = (pip.indexes.index_url, *pip.indexes.extra, *pip.indexes.find_links)
    named = share_hosts(each.reveal() if isinstance(each, RedactedUrl) else str(each) for each in own if each)
    return changed(network, trusted_hosts=indexes.trusted_hosts, shares=network.shares | named)
