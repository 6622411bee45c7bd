"""Addresses on this machine or in a private network, to which public servers must not redirect."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_PRIVATE = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",  # "this host": most systems connect to loopback
            "10.0.0.0/8",
            "100.64.0.0/10",  # shared by a provider's customers; some clouds have their metadata service here
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local: metadata services of clouds
            "172.16.0.0/12",
            "192.168.0.0/16",
            "::/127",  # unspecified and loopback
            "fc00::/7",
            "fe80::/10",
            "fec0::/10",
        ),
    )
)
"""Private networks, listed because ``ipaddress.is_private`` differs between Python versions.

198.18.0.0/15 (benchmarks) is left out: local proxies resolve every name to it.
"""
_EMBEDDED = ip_network("64:ff9b::/96")
_NUMBER = r"(?:0x[0-9a-f]{1,16}|[0-9]{1,16})"
_NUMBERS = re.compile(rf"{_NUMBER}(?:\.{_NUMBER}){{0,3}}")


def is_private_address(text: str) -> bool:
    """Whether an IP address is loopback, link-local or private; False for other text."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        address = _embedded(address) or address
    return any(address in network for network in _PRIVATE if network.version == address.version)


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The embedded IPv4 address: mapped, 6to4 or NAT64."""
    if address in _EMBEDDED:
        return IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour


def is_private_host(host: str) -> bool:
    """Whether a URL's host is private by its text: ``localhost``, or an IP address in any usual spelling.

    Other names are checked once they are resolved.
    """
    name = host.lower().strip("[]").removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):  # RFC 6761 6.3
        return True
    if _NUMBERS.fullmatch(name):
        return _of_numbers(name.split("."))
    return is_private_address(name)


def _of_numbers(parts: list[str]) -> bool:
    """Whether an address as ``inet_aton`` reads it is private: 127.1, 0x7f.1 and 2130706433 are all 127.0.0.1."""
    try:
        *first, last = [int(part, 16 if part[:2] == "0x" else 8 if part[0] == "0" else 10) for part in parts]
        value = last + sum(number << (24 - 8 * place) for place, number in enumerate(first))
        return is_private_address(str(IPv4Address(value)))
    except ValueError:
        return False  # not a number of its base, or larger than an address
