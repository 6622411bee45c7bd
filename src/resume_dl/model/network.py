"""Network settings as data: proxies, trust and time-outs. Only the transport acts on them."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from resume_dl.model.proxy_auth import ProxyAuth


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """Settings of every connection; times in seconds.

    ``proxies`` maps ``scheme://host``, ``scheme``, ``all://host`` or ``all`` to a proxy's URL (``http``, ``https``,
    ``socks5`` or ``socks5h``); an empty value means no proxy. The more specific key wins. The values may hold
    passwords, so ``repr`` shows them redacted.
    """

    proxies: Mapping[str, str] = field(default_factory=dict)
    no_proxy: tuple[str, ...] = ()
    """Hosts that are reached directly: ``host``, ``.domain``, ``host:port``, an address, a CIDR block, or ``*``."""
    proxy_auth: ProxyAuth = ProxyAuth.BASIC
    """How to log in to HTTP proxies."""
    verify: bool | Path = True
    """False: certificates are not checked; a path: a file or folder of trusted certificates."""
    trusted_hosts: tuple[str, ...] = ()
    """``host`` or ``host:port`` without certificate checks (pip's ``--trusted-host``), case-insensitive."""
    system_store: bool = False
    """Trust the operating system's store (condarc ``ssl_verify: truststore``) rather than the bundled list."""
    client_cert: Path | None = None
    client_cert_key: Path | None = None
    netrc_path: Path | None = None
    """The file with logins, or None."""
    shares: frozenset[str] = frozenset()
    """Hosts of Windows shares that the user's settings name (``model.url.share_hosts``); no others are asked."""
    connect_timeout: float = 5.0
    first_byte_timeout: float = 60.0
    """Not shorter than the core's longest wait, which depends on what is known of the source."""
    read_timeout: float = 60.0
    user_agent: str = "resume-dl"

    def proxy_for(self, url: str) -> str | None:
        """The proxy that a request for ``url`` goes through, or None for a direct connection."""
        parts = urlsplit(url)
        scheme, host = parts.scheme.lower(), (parts.hostname or "").lower()
        if bypasses_proxy(host, _port(parts.port, scheme), self.no_proxy):
            return None
        for key in (f"{scheme}://{host}", scheme, f"all://{host}", "all"):
            if key in self.proxies:
                return self.proxies[key] or None
        return None

    def trusts(self, url: str) -> bool:
        """Whether this host's certificate is accepted unchecked; says nothing about a proxy."""
        return is_trusted(url, self.trusted_hosts)

    def __repr__(self) -> str:
        shown = {key: _without_login(value) for key, value in self.proxies.items()}
        return (
            f"NetworkSettings(proxies={shown!r}, no_proxy={self.no_proxy!r}, "
            f"proxy_auth={self.proxy_auth.value!r}, verify={self.verify!r}, trusted_hosts={self.trusted_hosts!r}, "
            f"system_store={self.system_store!r}, client_cert={self.client_cert!r}, netrc_path={self.netrc_path!r}, "
            f"connect_timeout={self.connect_timeout!r}, first_byte_timeout={self.first_byte_timeout!r}, "
            f"read_timeout={self.read_timeout!r}, shares={sorted(self.shares)!r}, user_agent={self.user_agent!r})"
        )


def is_trusted(url: str, trusted_hosts: tuple[str, ...]) -> bool:
    """Whether one of ``trusted_hosts`` (``host``, ``host:port``) is exactly the host of ``url``."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    port = _port(parts.port, parts.scheme.lower())
    return bool({host, f"{host}:{port}"} & {trusted.lower() for trusted in trusted_hosts})


def is_loopback(url: str) -> bool:
    """Whether the host is this machine: ``localhost``, 127.0.0.0/8 or ::1."""
    host = (urlsplit(url).hostname or "").lower()
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _without_login(proxy: str) -> str:
    """A proxy's address without its userinfo, whether or not it names a scheme."""
    scheme, mark, rest = proxy.rpartition("://")
    return scheme + mark + rest.rpartition("@")[2]


def _port(port: int | None, scheme: str) -> int:
    return port if port is not None else {"https": 443}.get(scheme, 80)


def bypasses_proxy(host: str, port: int, no_proxy: tuple[str, ...]) -> bool:
    """Whether ``NO_PROXY`` names this host: by name, by parent domain, by ``host:port``, or by address block."""
    address = _address(host)
    for raw in no_proxy:
        entry = raw.strip().lower()
        if not entry:
            continue
        if entry == "*":
            return True
        if address is not None and _in_block(address, entry):
            return True
        name, _, wanted_port = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
        if wanted_port and wanted_port != str(port):
            continue
        name = name.lstrip("*").lstrip(".")
        if host == name or (address is None and host.endswith("." + name)):
            return True
    return False


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None


def _in_block(address: ipaddress.IPv4Address | ipaddress.IPv6Address, entry: str) -> bool:
    try:
        return address in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return False
