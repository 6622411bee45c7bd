"""Proxies, certificates and logins from condarc and environment."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.network import NetworkSettings
from resume_dl.model.proxy_auth import ProxyAuth
from resume_dl.settings.network import load_network
from resume_dl.transfer.setup import TransferOptions, load_setup
from settings.users_machine import Machine

CONDA = CondaSettings()


def test_nothing_set(machine: Machine) -> None:
    """No proxy, the bundled certificates, conda's time-outs, no login."""
    found = load_network(machine.env, CONDA)
    assert (found.proxies, found.verify, found.netrc_path) == ({}, True, None)
    assert (found.connect_timeout, found.read_timeout) == (9.15, 60.0)
    assert found.user_agent.startswith("resume-dl/")
    assert found.proxy_for("https://h.example/x") is None


def test_environment_wins_over_condarc_key_by_key(machine: Machine) -> None:
    """http_proxy replaces condarc's http, not its https; lower case wins over upper case."""
    conda = replace(
        CONDA, proxy_servers={"http": "http://rc:1", "https": "http://rc:2", "https://one.example": "socks5://rc:3"}
    )
    machine.env |= {"http_proxy": "env:4", "HTTP_PROXY": "http://never:5", "ALL_PROXY": "socks5h://env:6"}
    found = load_network(machine.env, conda)
    assert found.proxy_for("http://h.example/x") == "http://env:4"
    assert found.proxy_for("https://h.example/x") == "http://rc:2"
    assert found.proxy_for("https://ONE.example/x") == "socks5://rc:3"
    assert found.proxy_for("ftp://h.example/x") == "socks5h://env:6"


def test_http_proxy_in_upper_case_is_not_believed_under_cgi(machine: Machine) -> None:
    """HTTP_PROXY may be a request's header where REQUEST_METHOD is set."""
    machine.env |= {"HTTP_PROXY": "http://evil:1", "REQUEST_METHOD": "GET"}
    assert load_network(machine.env, CONDA).proxies == {}


@pytest.mark.parametrize(
    ("no_proxy", "url", "direct"),
    [
        ("h.example", "https://h.example/x", True),
        (".h.example, other", "https://a.h.example/x", True),
        ("*.h.example", "https://a.h.example/x", True),
        ("h.example", "https://xh.example/x", False),
        ("h.example:8080", "http://h.example:8080/x", True),
        ("h.example:8080", "http://h.example/x", False),
        ("h.example:443", "https://h.example/x", True),
        ("127.0.0.0/8", "http://127.3.2.1:8000/x", True),
        ("127.0.0.1", "http://127.0.0.1:8000/x", True),
        ("10.0.0.0/8", "http://127.0.0.1/x", False),
        ("::1", "http://[::1]:80/x", True),
        ("*", "https://h.example/x", True),
        ("", "https://h.example/x", False),
    ],
)
def test_no_proxy(machine: Machine, no_proxy: str, url: str, direct: bool) -> None:
    """NO_PROXY names hosts, domains, ports, addresses and blocks that are reached directly."""
    machine.env |= {"ALL_PROXY": "http://px:1", "NO_PROXY": no_proxy}
    assert (load_network(machine.env, CONDA).proxy_for(url) is None) == direct


def test_empty_proxy_means_none(machine: Machine) -> None:
    """A condarc that sets a scheme's proxy to nothing has none for it, whatever ``all`` says."""
    conda = replace(CONDA, proxy_servers={"https": ""})
    machine.env["all_proxy"] = "http://px:1"
    found = load_network(machine.env, conda)
    assert found.proxy_for("https://h.example/") is None
    assert found.proxy_for("http://h.example/") == "http://px:1"


def test_unknown_kind_of_proxy_is_told(machine: Machine) -> None:
    """A proxy that we could not use is a ConfigurationError that shows its kind and not its password."""
    machine.env["https_proxy"] = "quic://me:s3cret@px"
    with pytest.raises(ConfigurationError, match="quic") as caught:
        load_network(machine.env, CONDA)
    assert "s3cret" not in caught.value.message


def test_how_to_log_in_to_a_proxy(machine: Machine, tmp_path: Path) -> None:
    """The variable before config.toml, for every command; neither is basic."""
    machine.env["RESUME_DL_CONFIG_DIR"] = str(tmp_path)
    assert load_network(machine.env, CONDA).proxy_auth is ProxyAuth.BASIC
    (tmp_path / "config.toml").write_text('proxy-auth = "Negotiate"\n', encoding="utf-8")
    assert load_network(machine.env, CONDA).proxy_auth is ProxyAuth.NEGOTIATE
    machine.env["RESUME_DL_PROXY_AUTH"] = "ntlm"
    setup = load_setup(TransferOptions(), machine.env, conda=CONDA)
    assert setup.load_network().proxy_auth is ProxyAuth.NTLM
    chosen = replace(setup, options=TransferOptions(proxy_auth=ProxyAuth.BASIC))
    assert chosen.load_network().proxy_auth is ProxyAuth.BASIC
    machine.env["RESUME_DL_PROXY_AUTH"] = "digest"
    with pytest.raises(ConfigurationError, match="RESUME_DL_PROXY_AUTH: 'digest'"):
        load_network(machine.env, CONDA)


def test_certificates(machine: Machine) -> None:
    """ssl_verify false or a path wins; where it is true, the environment's bundle; OpenSSL's only if it is there."""
    bundle = machine.write("ca.pem", "")
    machine.env["SSL_CERT_FILE"] = "/not/there"
    assert load_network(machine.env, CONDA).verify is True
    machine.env["SSL_CERT_FILE"] = str(bundle)
    assert load_network(machine.env, CONDA).verify == bundle
    other = machine.write("other.pem", "")
    machine.env["REQUESTS_CA_BUNDLE"] = "~/other.pem"
    assert load_network(machine.env, CONDA).verify == other
    assert load_network(machine.env, replace(CONDA, ssl_verify=False)).verify is False
    assert load_network(machine.env, replace(CONDA, ssl_verify=str(bundle))).verify == bundle
    stored = load_network(machine.env, replace(CONDA, ssl_verify="truststore"))
    assert (stored.verify, stored.system_store) == (True, True)
    missing = Path("/not/there").absolute()
    machine.env["REQUESTS_CA_BUNDLE"] = "/not/there"
    with pytest.raises(ConfigurationError, match=re.escape(f"REQUESTS_CA_BUNDLE names {missing}")):
        load_network(machine.env, CONDA)


def test_client_certificate_and_netrc(machine: Machine) -> None:
    """The client's certificate is condarc's; logins come from NETRC, else from the home's .netrc."""
    cert, key = machine.write("c.pem", ""), machine.write("c.key", "")
    conda = replace(CONDA, client_ssl_cert=str(cert), client_ssl_cert_key="~/c.key")
    found = load_network(machine.env, conda)
    assert (found.client_cert, found.client_cert_key) == (cert, key)
    usual = machine.write(".netrc", "")
    assert load_network(machine.env, CONDA).netrc_path == usual
    machine.env["NETRC"] = str(machine.write("mine", ""))
    assert load_network(machine.env, CONDA).netrc_path == machine.home / "mine"


@pytest.mark.parametrize("proxy", ["http://me:s3cret@px:80", "me:s3cret@px:80"])
def test_passwords_are_not_shown(proxy: str) -> None:
    """repr names the proxy's host and not its login, however it is written."""
    shown = repr(NetworkSettings(proxies={"http": proxy}))
    assert "px:80" in shown
    assert "s3cret" not in shown
