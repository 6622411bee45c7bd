"""A newer table of mirrors from an address that the user names: fetched within bounds, checked, compared.

Its origins are not used (``settings.mirrors.base_table``): a table may name further carriers of an origin, never the
origin's own server.
"""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from resume_dl.core.failures import Failure
from resume_dl.errors import ConfigurationError, IntegrityError, Interrupted, NotWritableError, SourceError
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.model.mirror import Mirror, MirrorTable
from resume_dl.model.network import is_loopback
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.mirrors import base_table, parse_mirrors, updated_file
from resume_dl.store.platform import make_folder, remove_durably, write_durably
from resume_dl.threads import start_thread
from resume_dl.transfer.setup import Setup

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LARGEST = 1 << 20
"""Bytes; the shipped table has 10 kB."""
_WAKE = 0.1
"""Seconds after which the wait for the answer looks whether it was stopped."""


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table as received, and how it differs from the one in use."""

    data: bytes
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    lines: tuple[str, ...]
    """The differences, a line each."""

    @property
    def sha256(self) -> str:
        """The digest of what was received."""
        return sha256(self.data).hexdigest()


def fetch_table(
    setup: Setup,
    url: str,
    cancelled: Callable[[], bool],
    *,
    digest: str | None = None,
    warn: Callable[[str], None] = lambda _: None,
) -> NewTable:
    """Fetch and check a table; ``digest`` is a SHA-256 that it must have.

    Raises ConfigurationError for an address that is not https (or on this machine) and for an invalid table,
    SourceError, IntegrityError, and Interrupted at once if ``cancelled``.
    """
    from resume_dl.transport.client import HttpTransport

    transport = HttpTransport(setup.load_network(), warn=warn)
    reader = Reader(transport, setup.options.policy(), setup.network)
    ended: queue.SimpleQueue[NewTable | BaseException] = queue.SimpleQueue()

    def call() -> None:
        ended.put(_checked(reader, RedactedUrl(url), setup.paths.mirrors_file, digest))

    try:
        start_thread(call, ended.put, name="mirrors-update")
        while not cancelled():
            with suppress(queue.Empty):
                found = ended.get(timeout=_WAKE)
                if isinstance(found, BaseException):
                    raise found
                return found
        raise Interrupted("stopped")
    finally:
        reader.stop()
        transport.close()


def _checked(reader: Reader, url: RedactedUrl, user: Path, digest: str | None) -> NewTable:
    if not url.reveal().lower().startswith("https://") and not is_loopback(url.reveal()):
        raise ConfigurationError(f"{url} is not an https address", hint="a table decides where packages come from")
    found = reader.file(Source("table", url), largest=LARGEST)
    if isinstance(found, Failure):
        raise SourceError(f"{url}: {found.message}", hint="check the address; the table in use stays")
    data = found[0]
    if digest is not None and sha256(data).hexdigest() != digest.lower():
        raise IntegrityError(
            f"{url} has the sha256 {sha256(data).hexdigest()}, not {digest.lower()}", hint="the table in use stays"
        )
    new, old = _parsed(data, str(url)), base_table(user)
    theirs, ours = ({mirror.name: mirror for mirror in table.mirrors} for table in (new, old))
    added = tuple(name for name in theirs if name not in ours)
    removed = tuple(name for name in ours if name not in theirs)
    changed = tuple(name for name in theirs if name in ours and theirs[name] != ours[name])
    lines = [line for name in added for line in _whole(theirs[name])]
    lines += [f"- {name}" for name in removed]
    lines += [line for name in changed for line in _differences(ours[name], theirs[name])]
    return NewTable(data, added, removed, changed, tuple(lines))


def _parsed(data: bytes, where: str) -> MirrorTable:
    try:
        document = tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{where} is not UTF-8 text", hint="the table in use stays") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{where} is not valid TOML: {error}", hint="the table in use stays") from error
    table = parse_mirrors(document, where)
    if not any(mirror.active and mirror.carries for mirror in table.mirrors):
        raise ConfigurationError(f"{where} has no mirror in use", hint="the table in use stays")
    return table


def _whole(mirror: Mirror) -> Iterator[str]:
    yield f"+ {mirror.name}, operator {mirror.operator or 'by its host'}, {mirror.status}"
    yield from (f"    + {origin} = {base}" for origin, base in mirror.carries.items())


def _differences(old: Mirror, new: Mirror) -> Iterator[str]:
    yield f"~ {new.name}"
    for key in ("operator", "status", "connections", "home", "title", "note", "sync_status"):
        before, after = getattr(old, key), getattr(new, key)
        if before != after:
            yield f"    {key}: {before or 'none'} -> {after or 'none'}"
    for origin in dict.fromkeys((*old.carries, *new.carries)):
        before, after = old.carries.get(origin), new.carries.get(origin)
        if before != after:
            yield from () if before is None else (f"    - {origin} = {before}",)
            yield from () if after is None else (f"    + {origin} = {after}",)


def use_table(table: NewTable, user: Path) -> Path:
    """Put the table in the place of the built-in one; returns its file. Raises NotWritableError."""
    path = updated_file(user)
    try:
        make_folder(path.parent)
        write_durably(path, table.data)
    except OSError as error:
        raise _unwritable(path, error) from error
    return path


def use_built_in(user: Path) -> bool:
    """Go back to the built-in table; returns whether another one was in use. Raises NotWritableError."""
    path = updated_file(user)
    existed = path.exists()
    try:
        remove_durably(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    return existed


def _unwritable(path: Path, error: OSError) -> NotWritableError:
    return NotWritableError(f"{path} cannot be written: {error.strerror or error}", hint="check its folder")
