"""The issuer of a certificate that cannot be verified."""

from __future__ import annotations

from resume_dl.diagnosis.issuer_name import issuer_name
from resume_dl.diagnosis.network_probe import NetworkProbe
from resume_dl.model.network import NetworkSettings
from resume_dl.transport.peer_certificate import peer_certificate


def test_an_untrusted_server_is_named_by_its_issuer(fault_server, tls):
    server = fault_server(tls=tls.server)
    server.put("/noarch/repodata.json", b"{}")
    url = f"{server.base()}/noarch/repodata.json"
    network = NetworkSettings(connect_timeout=60)
    issuer = issuer_name(peer_certificate(network, url))
    assert issuer
    (answer,) = NetworkProbe([("a", url, True)], network, seconds=60).answers()
    assert (answer.untrusted, answer.issuer, answer.status) == (True, issuer, 0)


def test_no_certificate_without_tls_or_server(fault_server):
    assert peer_certificate(NetworkSettings(), fault_server().base()) == b""
    assert peer_certificate(NetworkSettings(connect_timeout=1), "https://127.0.0.1:1/") == b""
    proxied = NetworkSettings(proxies={"all": "https://127.0.0.1:1"})
    assert peer_certificate(proxied, "https://127.0.0.1:1/") == b""
