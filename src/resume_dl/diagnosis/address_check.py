"""Judge the addresses in condarc and pip.conf by the mirror table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from resume_dl.diagnosis.finding import Finding, ok, problem
from resume_dl.model.mirror import CHANNEL_ALIAS, MirrorTable
from resume_dl.model.url import redact
from resume_dl.shell_commands import Step, command_line

LISTS = ("channels", "default_channels")


@dataclass(frozen=True, slots=True)
class Address:
    """An address in a settings file.

    ``key``: ``channels``, ``custom_channels.pytorch``, ``channel_alias``, ``global.index-url``. ``whole``: the address
    of the channel, where ``url`` is its parent; else ``url``. ``client``: ``conda`` or ``pip``; ``scope``: pip's option
    for the file (``--user``), empty if none names it.
    """

    file: str
    key: str
    url: str
    whole: str
    first: bool = True
    """Whether no other item of its list precedes it; for pip, whether it is the only one."""
    client: str = "conda"
    scope: str = ""


@dataclass(frozen=True, slots=True)
class SettingsFacts:
    """The files that were read, their troubles (one line each), and their addresses."""

    files: tuple[str, ...] = ()
    troubles: tuple[tuple[str, str], ...] = ()
    """The check's name (``condarc`` or ``pip.conf``) and what is wrong."""
    addresses: tuple[Address, ...] = ()


def check_settings(facts: SettingsFacts, table: MirrorTable) -> list[Finding]:
    """Findings ``condarc`` and ``pip.conf``: one for each thing wrong, else one in all."""
    findings = [problem(name, text) for name, text in facts.troubles]
    findings += [found for each in facts.addresses if (found := _judge(each, table)) is not None]
    if findings:
        return findings
    read = ", ".join(facts.files) or "none found: conda's and pip's own defaults apply"
    return [ok("settings", read)]


def _judge(each: Address, table: MirrorTable) -> Finding | None:
    name = "pip.conf" if each.client == "pip" else "condarc"
    said = f"{each.key} in {each.file} names {redact(each.whole)}"
    mirror = table.retired(each.whole)
    if mirror is not None:
        return problem(name, f"{said}: retired ({mirror.note})", _replacement(each, _upstream(each, table)))
    origin = _not_carried(each.whole, table)
    if origin is not None:
        channel = origin.removeprefix("conda:")
        text = f"{said}: this mirror does not carry {channel}"
        return problem(name, text, _replacement(each, _upstream(each, table, origin)))
    secure = _secure(each.whole, table)
    if secure:
        new = "https" + each.url[len("http") :]
        return problem(
            name, f"{said}: plain http, anyone on the way can change it; it has https", _replacement(each, new)
        )
    return None


def _not_carried(url: str, table: MirrorTable) -> str | None:
    """The known channel that ``url`` places at an active mirror that lacks it."""
    if table.origin_of(url) is not None:
        return None
    parent, _, name = _plain(url).rpartition("/")
    origin = f"conda:{name}"
    if origin not in table.origins:
        return None
    parents = {
        _plain(base).rpartition("/")[0]
        for mirror in table.mirrors
        if mirror.active
        for known, base in mirror.carries.items()
        if known.startswith("conda:") and "/" not in known
    }
    return origin if parent in parents else None


def _plain(url: str) -> str:
    """``url`` without its scheme and last slash."""
    return url.rstrip("/").partition("://")[2].lower()


def _secure(url: str, table: MirrorTable) -> bool:
    """Whether ``url`` is plain http and the table has the same host with https."""
    if not url.lower().startswith("http://"):
        return False
    bases = [
        *table.origins.values(),
        CHANNEL_ALIAS,
        *(base for each in table.mirrors for base in each.carries.values()),
    ]
    host = _host(url)
    return any(base.startswith("https://") and _host(base) == host for base in bases)


def _host(url: str) -> str:
    """Host and port, without a login."""
    return urlsplit(url).netloc.rpartition("@")[2].lower()


def _upstream(each: Address, table: MirrorTable, origin: str = "") -> str | None:
    """The publisher's own address in place of ``each.url``; empty if unknown, None if it is the client's default."""
    if not origin:
        found = table.origin_of(each.whole)
        origin = found[0] if found is not None else ""
    if origin == "pypi:simple":
        return None if each.client == "pip" else ""
    base = table.base_of(origin) if origin else None
    if base is None:
        return ""
    channel = each.key.partition(".")[2]
    return base.removesuffix(f"/{channel}") if each.key.startswith("custom_channels.") else base


def _replacement(each: Address, new: str | None) -> str:
    """The command that replaces the address; empty if it would show a secret or a control character.

    ``new``: None removes the setting, so that the client's default applies; empty if there is no command.
    """
    if new is None:
        is_plain = each.scope and each.first and each.key.isprintable()
        return command_line([Step(("pip", "config", each.scope, "unset", each.key))]) if is_plain else ""
    texts = (each.file, each.key, each.url, new)
    if not new or any(not text.isprintable() or redact(text) != text for text in (each.url, new)):
        return ""
    if not all(text.isprintable() for text in texts):
        return ""
    if each.client == "pip":
        step = Step(("pip", "config", each.scope, "set", each.key, new))
        return command_line([step]) if each.scope and each.first else ""
    start = ("conda", "config", "--file", each.file)
    if each.key not in LISTS:
        return command_line([Step((*start, "--set", each.key, new))])
    where = "--prepend" if each.first else "--append"
    return command_line([Step((*start, "--remove", each.key, each.url)), Step((*start, where, each.key, new))])


def of_channels(file: str, content: dict[str, object]) -> Iterable[Address]:
    """The addresses in a condarc's settings; what has another form than expected is skipped."""
    for key in LISTS:
        items = content.get(key)
        for place, url in enumerate(_texts(items)):
            if _is_address(url):
                yield Address(file, key, url, url.rstrip("/"), place == 0)
    alias = content.get("channel_alias")
    if isinstance(alias, str) and _is_address(alias):
        yield Address(file, "channel_alias", alias, alias.rstrip("/"))
    custom = content.get("custom_channels")
    for name, url in custom.items() if isinstance(custom, dict) else ():
        if isinstance(name, str) and isinstance(url, str) and _is_address(url):
            yield Address(file, f"custom_channels.{name}", url, f"{url.rstrip('/')}/{name.strip('/')}")


def _texts(items: object) -> Sequence[str]:
    listed = [items] if isinstance(items, str) else items if isinstance(items, (list, tuple)) else []
    return [item for item in listed if isinstance(item, str)]


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)
