"""Whose certificates are believed: the settings' alone, never the environment's."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError, NetworkError
from resume_dl.model.network import NetworkSettings
from resume_dl.transport.tls_contexts import tls_context
from transport.asking import body_of
from transport.tiny import Authority, TinyServer, answer

pytestmark = pytest.mark.usefixtures("either_system")


@pytest.fixture
def server(run, tls) -> TinyServer:
    return run(TinyServer(lambda conn, _: conn.sendall(answer(b"the file")), tls.server))


def test_environment_variables_are_not_read(server, transport, tls, monkeypatch):
    """``SSL_CERT_FILE`` counts where the settings have taken it up, and nowhere else."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tls.ca_file))
    with pytest.raises(NetworkError, match="not trusted"):
        body_of(transport(), f"{server.base}/f")


@pytest.mark.parametrize("library", ["OpenSSL's", "truststore"])
@pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="the system's store is a file only elsewhere")
def test_what_the_system_trusts(server, transport, tls, monkeypatch, library):
    """By truststore where it is installed, else by OpenSSL's own places."""
    if library == "truststore":
        truststore = pytest.importorskip("pip._vendor.truststore")
        monkeypatch.setitem(sys.modules, "truststore", truststore)
        assert isinstance(tls_context(NetworkSettings(system_store=True)), truststore.SSLContext)
    else:
        monkeypatch.setitem(sys.modules, "truststore", None)
        assert type(tls_context(NetworkSettings(system_store=True))) is ssl.SSLContext
    with pytest.raises(NetworkError, match="not trusted"):
        body_of(transport(system_store=True), f"{server.base}/f")
    monkeypatch.setenv("SSL_CERT_FILE", str(tls.ca_file))
    assert body_of(transport(system_store=True), f"{server.base}/f") == b"the file"


def test_a_folder_of_certificates(server, transport, tls, tmp_path):
    """As OpenSSL has it: each under the hash of its name."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")
    command = [openssl, "x509", "-hash", "-noout", "-in", str(tls.ca_file)]
    name = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    shutil.copy(tls.ca_file, tmp_path / f"{name}.0")
    assert body_of(transport(verify=tmp_path), f"{server.base}/f") == b"the file"


def demanding(tls: Authority) -> ssl.SSLContext:
    """A server's side that demands a certificate of the client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.ca.issue_cert("localhost").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    tls.ca.configure_trust(context)
    return context


def test_a_client_certificate_with_its_key_in_another_file(run, transport, tls, tmp_path):
    """Both files are named by the settings."""
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(b"the file")), demanding(tls)))
    mine = tls.ca.issue_cert("client.example")
    cert, key = tmp_path / "client.pem", tmp_path / "client.key"
    mine.cert_chain_pems[0].write_to_path(str(cert))
    mine.private_key_pem.write_to_path(str(key))
    for verify in (tls.ca_file, False):
        shared = transport(verify=verify, client_cert=cert, client_cert_key=key)
        assert body_of(shared, f"{server.base}/f") == b"the file"
    with pytest.raises(ConfigurationError, match=r"client\.pem"):
        body_of(transport(verify=tls.ca_file, client_cert=cert), f"{server.base}/f")


def test_an_encrypted_key_is_not_asked_for_at_the_terminal(transport, tls, tmp_path):
    """It is an error that says what the file must be."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")
    mine = tls.ca.issue_cert("client.example")
    plain, key, cert = (tmp_path / name for name in ("plain.key", "client.key", "client.pem"))
    mine.private_key_pem.write_to_path(str(plain))
    mine.cert_chain_pems[0].write_to_path(str(cert))
    command = [openssl, "pkey", "-in", str(plain), "-aes128", "-passout", "pass:hush", "-out", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(ConfigurationError, match=r"client\.pem") as caught:
        body_of(transport(client_cert=cert, client_cert_key=key), "https://localhost:1/f")
    assert "without a password" in caught.value.hint


def test_plain_http_through_a_proxy_whose_certificate_is_not_trusted(run, transport, tls):
    """The way to the proxy is TLS although the address is not."""
    proxy = run(TinyServer(lambda conn, _: conn.sendall(answer(b"the file")), tls.server))
    settings = {"proxies": {"all": f"https://localhost:{proxy.port}"}}
    assert body_of(transport(verify=tls.ca_file, **settings), "http://mirror.example/f") == b"the file"
    assert proxy.requests[0].line == "GET http://mirror.example/f HTTP/1.1"
    with pytest.raises(NetworkError, match="not trusted"):
        body_of(transport(**settings), "http://mirror.example/f")


def test_a_missing_certificate_folder_is_an_error(transport, tmp_path: Path):
    """With the setting to correct."""
    with pytest.raises(ConfigurationError, match="cannot read the trusted certificates") as caught:
        body_of(transport(verify=tmp_path / "none"), "https://localhost:1/f")
    assert "ssl_verify" in caught.value.hint
