"""Operators of mirrors: all mirrors of one operator count as one witness. Pure.

Two mirrors have the same operator if anything indicates it: the key ``operator`` of mirrors.toml, or the registered
domain of their home pages or URLs. Wrongly joining two operators costs exit code 6; wrongly separating mirrors of one
would let an operator vouch for itself.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from urllib.parse import urlsplit

from resume_dl.model.artifact import Source
from resume_dl.model.mirror import Mirror, MirrorTable
from resume_dl.model.network import is_loopback

Operators = frozenset[str]
"""The operators behind one answer: more than one if a mirror redirects to another operator's server."""

_CATEGORIES = frozenset(
    ("ac", "co", "com", "edu", "go", "gob", "gov", "gr", "k12", "mil", "ne", "net", "nom", "or", "org", "re", "sch")
)
"""Second-level labels below which many countries register names: ``x.edu.cn``, ``x.ac.uk``."""
_SHARED = (
    "amazonaws.com", "aliyuncs.com", "appspot.com", "azureedge.net", "b-cdn.net", "backblazeb2.com", "cloudfront.net",
    "digitaloceanspaces.com", "fastly.net", "firebaseapp.com", "fly.dev", "gitee.io", "github.io", "gitlab.io",
    "googleapis.com", "herokuapp.com", "myqcloud.com", "netlify.app", "onrender.com", "pages.dev", "r2.dev",
    "readthedocs.io", "vercel.app", "web.app", "windows.net", "workers.dev",
)  # fmt: skip
"""Domains below which a provider gives each customer a name."""
_BY_PATH = frozenset(
    {"gitee.com", "github.com", "gitlab.com", "huggingface.co", "raw.githubusercontent.com", "storage.googleapis.com"}
)
"""Hosts on which the first part of the path names the customer."""
_THIS_MACHINE = "this machine"


def operators_of(source: Source, table: MirrorTable, answered_by: Iterable[str] = ()) -> Operators:
    """Return the operators behind a source; ``answered_by``: the hosts (``host[:port]``) that sent its answers."""
    mirror = next((each for each in table.mirrors if each.name == source.mirror), None)
    marks = _marks(mirror) if mirror is not None else _places(source.url.reveal(), keyed=False)
    marks = marks or {source.mirror}  # a local folder
    for host in answered_by:
        marks |= _places(f"https://{host}", keyed=True)
        if host in _BY_PATH:  # the customer is unknown
            marks |= {mark for each in table.mirrors for mark in _marks(each) if mark.startswith(f"{host}/")}
    classes = _classes(table)
    return frozenset(classes.get(mark, mark) for mark in marks)


def independent(answers: Iterable[Operators]) -> int:
    """Return the size of the largest set of answers whose operators are pairwise disjoint."""
    distinct = [*dict.fromkeys(answers)]
    most = 0
    for start in range(len(distinct)):
        taken: Operators = frozenset()
        count = 0
        for each in (*distinct[start:], *distinct[:start]):
            if not each & taken:
                taken |= each
                count += 1
        most = max(most, count)
    return most


def next_witnesses(
    carriers: Sequence[Source],
    operators: Mapping[str, Operators],
    *,
    asked: Collection[str],
    heard: Collection[Operators],
    need: int,
) -> list[Source]:
    """Return the carriers to ask so that ``need`` operators will have answered; fewer if there are no more.

    ``operators``: those of each mirror; ``asked``: mirrors; ``heard``: the operators behind each answer.
    """
    chosen: list[Source] = []
    known: Operators = frozenset().union(*heard)
    count = independent(heard)
    for source in carriers:
        own = operators[source.mirror]
        if count + len(chosen) < need and source.mirror not in asked and not own & known:
            chosen.append(source)
            known |= own
    if count + len(chosen) < need:  # an answer redirected to many operators' servers must not exclude them
        apart: list[Source] = []
        known = frozenset()
        for source in carriers:
            if source.mirror not in asked and not operators[source.mirror] & known:
                apart.append(source)
                known |= operators[source.mirror]
        if independent([*heard, *(operators[source.mirror] for source in apart)]) > count + len(chosen):
            return apart[:need]
    return chosen


@lru_cache(maxsize=8)
def _classes(table: MirrorTable) -> Mapping[str, str]:
    """Return mark -> its operator's representative mark; mirrors that share a mark, even indirectly, are joined."""
    found: dict[str, str] = {}
    for mirror in table.mirrors:
        marks = _marks(mirror)
        joined = {found.get(mark, mark) for mark in marks}
        first = min(joined)
        found = {mark: first if known in joined else known for mark, known in found.items()}
        found.update(dict.fromkeys(marks, first))
    return found


def _marks(mirror: Mirror) -> set[str]:
    """Return the marks of a mirror's operator: the key, and the domains of its home page and URLs."""
    key = mirror.operator.casefold()
    marks = {key} if key else set[str]()
    for url in (mirror.home, *mirror.carries.values()):
        marks |= _places(url, keyed=bool(key))
    return marks or {mirror.name}


def _places(url: str, *, keyed: bool) -> set[str]:
    """Return the domain of a URL.

    Ports of this machine may be tunnels to anywhere: they are distinct if the key ``operator`` is set, else one place.
    """
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return set()
    if not host:
        return set()
    host = _one_spelling(host)
    if is_loopback(url):
        return {f"{_THIS_MACHINE}:{port}"} | (set() if keyed else {_THIS_MACHINE})
    if host in _BY_PATH:
        return {f"{host}/{parts.path.strip('/').partition('/')[0]}"}
    return {site(host)}


def _one_spelling(host: str) -> str:
    """Return a canonical spelling: an IP address in digits, mapped IPv4 as IPv4; a name in ASCII (RFC 5891)."""
    with suppress(ValueError):
        address = ipaddress.ip_address(host)
        return str(getattr(address, "ipv4_mapped", None) or address)
    with suppress(UnicodeError):
        return host.encode("idna").decode("ascii").lower()
    return host


def site(host: str) -> str:
    """Return the registered part of a host name, as far as the name tells.

    ``mirrors.x.edu.cn`` and ``x.edu.cn`` are one site; each customer of a known hosting provider is a site. The list of
    such domains is not complete: customers of an unknown provider count as one operator.
    """
    labels = host.lower().split(".")
    if ":" in host or labels[-1].isdigit() or any(host.endswith(f".{domain}") for domain in _SHARED):
        return host.lower()
    has_category = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _CATEGORIES
    return ".".join(labels[-3 if has_category else -2 :])
