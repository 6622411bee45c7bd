"""Network settings: proxies, certificates and logins of condarc and environment, combined as conda does."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from resume_dl import __version__
from resume_dl.errors import ConfigurationError
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.network import NetworkSettings
from resume_dl.model.proxy_auth import ProxyAuth
from resume_dl.model.url import share_hosts
from resume_dl.settings.config import load_config
from resume_dl.settings.paths import expand, find_paths, home

PROXY_AUTH = "RESUME_DL_PROXY_AUTH"
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_OPENSSL = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables whose missing paths are ignored, as OpenSSL does."""
_SYSTEM_HAS_PROXIES = bool({sys.platform} & {"win32", "darwin"})
_PROXY_SCHEMES = {"http", "https", "socks4", "socks4a", "socks5", "socks5h"}


def load_network(env: Mapping[str, str], conda: CondaSettings, named: Iterable[str] = ()) -> NetworkSettings:
    """The settings of every connection of this run.

    Proxies: condarc's ``proxy_servers``, with ``http_proxy``, ``https_proxy`` and ``all_proxy`` over them, key by key
    (as requests does, which conda uses), the operating system's if neither is set, and ``no_proxy`` for all of them;
    ``find_proxy_auth`` says how to log in to them.
    Certificates: ``ssl_verify`` (including ``CONDA_SSL_VERIFY``), and if that is true the first of
    ``REQUESTS_CA_BUNDLE``, ``CURL_CA_BUNDLE``, ``SSL_CERT_FILE``, ``SSL_CERT_DIR``. Logins: ``NETRC``, else
    ``~/.netrc`` (``~/_netrc``). Shares: of condarc, ``CONDA_*``, ``PIP_*`` and ``named``.
    Raises ConfigurationError for a missing certificate file, an unknown ``proxy_auth`` and an invalid config.toml.
    """
    verify, system_store = _trust(env, conda)
    return NetworkSettings(
        proxies={key: proxy for key, (proxy, _) in find_proxies(env, conda).items()},
        no_proxy=tuple(part.strip() for part in _either(env, "no_proxy").split(",") if part.strip()),
        proxy_auth=find_proxy_auth(env),
        verify=verify,
        system_store=system_store,
        client_cert=_file(conda.client_ssl_cert, "client_ssl_cert", env),
        client_cert_key=_file(conda.client_ssl_cert_key, "client_ssl_cert_key", env),
        netrc_path=_netrc(env),
        connect_timeout=conda.remote_connect_timeout_secs,
        first_byte_timeout=conda.remote_read_timeout_secs,
        read_timeout=conda.remote_read_timeout_secs,
        shares=share_hosts((*_named_places(env, conda), *named)),
        user_agent=f"resume-dl/{__version__}",
    )


def find_proxies(env: Mapping[str, str], conda: CondaSettings) -> dict[str, tuple[str, str]]:
    """Each proxy of ``load_network`` with the place where it is set, by its key. Raises ConfigurationError."""
    servers = conda.proxy_servers.items()
    proxies = {key.lower().rstrip("/"): (_proxy(value, "proxy_servers"), "proxy_servers") for key, value in servers}
    proxies.update(_environment_proxies(env))
    return proxies or _system_proxies()


def find_proxy_auth(env: Mapping[str, str]) -> ProxyAuth:
    """``RESUME_DL_PROXY_AUTH``, else ``proxy_auth`` of config.toml, for commands without ``--proxy-auth`` too.

    Raises ConfigurationError.
    """
    value, where = env.get(PROXY_AUTH, "").strip(), PROXY_AUTH
    if not value:
        where = str(find_paths(env).config_file)
        value = load_config(find_paths(env).config_file).get("proxy_auth", ProxyAuth.BASIC.value)
    try:
        return ProxyAuth(value.lower())
    except ValueError:
        known = ", ".join(each.value for each in ProxyAuth)
        raise ConfigurationError(f"{where}: {value!r} is no way to log in to a proxy", hint=f"use {known}") from None


def _named_places(env: Mapping[str, str], conda: CondaSettings) -> Iterator[str]:
    yield from (*conda.channels, *(value for name, value in env.items() if name.startswith(("CONDA_", "PIP_"))))
    many = (conda.default_channels, conda.custom_channels.values(), *conda.custom_multichannels.values())
    yield from (url.reveal() for urls in many for url in urls)
    yield conda.channel_alias.reveal()


def _either(env: Mapping[str, str], name: str) -> str:
    """A proxy variable: lower case first, as everywhere; upper case HTTP_PROXY is a request header under CGI."""
    if name in env:
        return env[name].strip()
    if name == "http_proxy" and "REQUEST_METHOD" in env:
        return ""
    return env.get(name.upper(), "").strip()


def _environment_proxies(env: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for key in ("http", "https", "all"):
        if value := _either(env, name := f"{key}_proxy"):
            found[key] = (_proxy(value, name), name if name in env else name.upper())
    return found


def _system_proxies() -> dict[str, tuple[str, str]]:
    if not _SYSTEM_HAS_PROXIES:
        return {}
    import urllib.request

    return {
        key: (_proxy(value, "the system's proxy"), "the system's settings")
        for key, value in urllib.request.getproxies().items()
        if key != "no"
    }


def _proxy(value: str, where: str) -> str:
    value = value.strip()
    if not value:
        return ""
    scheme, mark, _ = value.partition("://")
    if not mark:
        return f"http://{value}"
    if scheme.lower() not in _PROXY_SCHEMES:
        raise ConfigurationError(
            f"{where} names a proxy with an unknown scheme: {scheme}://", hint="use http, https, socks5 or socks5h"
        )
    return value


def _trust(env: Mapping[str, str], conda: CondaSettings) -> tuple[bool | Path, bool]:
    if conda.ssl_verify is False:
        return False, False
    if conda.ssl_verify == "truststore":
        return True, True
    if isinstance(conda.ssl_verify, str):
        return _existing(expand(conda.ssl_verify, env), "ssl_verify"), False
    for name in _BUNDLES:
        if env.get(name):
            return _existing(expand(env[name], env), name), False
    for name in _OPENSSL:
        if env.get(name) and (place := expand(env[name], env)).exists():
            return place, False
    return True, False


def _file(text: str | None, where: str, env: Mapping[str, str]) -> Path | None:
    return _existing(expand(text, env), where) if text else None


def _existing(path: Path, where: str) -> Path:
    if not path.exists():
        raise ConfigurationError(f"{where} names {path}, which does not exist", hint=f"correct or unset {where}")
    return path


def _netrc(env: Mapping[str, str]) -> Path | None:
    named = env.get("NETRC", "").strip()
    places = [expand(named, env)] if named else [home(env) / ".netrc", home(env) / "_netrc"]
    return next((place for place in places if place.is_file()), None)
