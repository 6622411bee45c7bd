"""How pip's packages are reached: the connections of everything else, with what pip's own settings say over them."""

from __future__ import annotations

from dataclasses import replace as changed

from resume_dl.errors import ConfigurationError
from resume_dl.model.network import NetworkSettings
from resume_dl.model.pip import PipIndexes, PipSettings

_LONGEST = 120.0
"""Seconds. People set pip's time-out to an hour because pip begins again after each; we go on from another mirror."""


def pip_network(network: NetworkSettings, pip: PipSettings, indexes: PipIndexes) -> NetworkSettings:
    """``network`` (``load_network``'s) for pip's packages; ``indexes`` are the run's, for their trusted hosts.

    ``proxy`` holds for every host, whatever the environment says (``NO_PROXY`` too: so does pip). ``cert`` and
    ``client-cert`` replace what was there. A condarc's ``ssl_verify: false`` is not for pip: its certificates are
    checked for every host that is not trusted by name. ``timeout`` lets a slow index answer; a short one is no wish to
    fail sooner. Raises ConfigurationError for a certificate file that is not there.
    """
    for name, place in (("cert", pip.cert), ("client-cert", pip.client_cert)):
        if place is not None and not place.exists():
            raise ConfigurationError(
                f"pip's setting {name} in {pip.origins.get(name, 'its settings')} names {place}, which is not there",
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
        patience = max(network.first_byte_timeout, min(pip.timeout, _LONGEST))
        network = changed(network, first_byte_timeout=patience)
    return changed(network, trusted_hosts=indexes.trusted_hosts)
