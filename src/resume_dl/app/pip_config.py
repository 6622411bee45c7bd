"""``resume-dl pip config``: which lines of pip.conf make pip use the nearest mirror and the wheels that are here."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from resume_dl.core.failures import Failure
from resume_dl.engine.clock import AwakeClock
from resume_dl.errors import Interrupted, NotWritableError, SourceError
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.model.mirror import UPSTREAM, MirrorTable
from resume_dl.model.pip import FindLinks, PipIndexes, PipSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.index_page import ACCEPT, PageError, parse_page
from resume_dl.resolve.uv import find_uv
from resume_dl.settings.network import load_network
from resume_dl.settings.pip_find import default_index, find_python
from resume_dl.settings.pip_network import pip_network
from resume_dl.settings.pip_settings import load_pip_settings
from resume_dl.settings.pip_write import write_setting
from resume_dl.transfer.setup import Setup

_SIMPLE = "pypi:simple"
_PROJECT = "pip"
"""Whose page is asked for: every mirror has it, and it is long enough to tell a line's speed."""
_PATIENCE = 10.0
"""Seconds for that page; who needs more is none to recommend."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A mirror's index (or ``upstream``'s) and the seconds that a page of it took; None if it did not come."""

    mirror: str
    index: RedactedUrl
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipAdvice:
    """What pip's settings should be."""

    settings: tuple[tuple[str, tuple[FindLinks, ...]], ...]
    """Option of ``[global]`` -> its values."""
    timed: tuple[Timed, ...]
    """The places that carry the default index, the quickest first."""
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def lines(self) -> tuple[str, ...]:
        """As they stand in pip.conf, without logins; notes as comments."""
        settings = [f"{name} = {' '.join(_shown(one) for one in values)}" for name, values in self.settings]
        return (*(f"# {note}" for note in self.notes), "[global]", *settings)

    def as_json(self) -> dict[str, Any]:
        """The same for programs; no logins."""
        return {
            "settings": {name: [_shown(one) for one in values] for name, values in self.settings},
            "mirrors": [{"name": one.mirror, "index": str(one.index), "seconds": one.seconds} for one in self.timed],
            "notes": list(self.notes),
        }


def advise(setup: Setup, wheels: Path, *, cancelled: Callable[[], bool] = lambda: False) -> PipAdvice:
    """What to write into pip.conf here; mirrors are measured now, unless offline. ``wheels`` is the wheel folder.

    An index that is no known mirror of the default one stays: it may be a private one. Raises ConfigurationError for
    settings that cannot be read, Interrupted.
    """
    python = find_python(setup.env)
    settings = load_pip_settings(setup.env, prefix=python.prefix)
    in_files = load_pip_settings(_files_only(setup.env), prefix=python.prefix)
    default = default_index(python, setup.env, uv=None if python.has_pip else find_uv())
    table = setup.table.merge(MirrorTable({_SIMPLE: default.reveal()}))
    sources = changed(setup.places, table=table).of(default)
    offline = setup.options.offline or setup.conda.offline
    if offline:
        timed = tuple(Timed(source.mirror, source.url) for source in sources)
    else:
        timed = _measured(sources, setup, settings, cancelled)
    index, why = _index(timed, in_files.indexes, table)
    chosen: list[tuple[str, tuple[FindLinks, ...]]] = [] if index is None else [("index-url", (index,))]
    chosen.append(("find-links", tuple(dict.fromkeys((*in_files.indexes.find_links, wheels)))))
    return PipAdvice(
        settings=tuple(chosen),
        timed=timed,
        notes=("not measured: offline" if offline else _ranking(timed), *why),
        warnings=retired_mirrors(settings.indexes, table, settings.origins),
    )


def apply(advice: PipAdvice, setup: Setup, wheels: Path) -> tuple[Path, tuple[str, ...]]:
    """Write the settings for the user; the file, and a line for each setting that something else overrules.

    Raises ConfigurationError, NotWritableError.
    """
    try:
        wheels.mkdir(parents=True, exist_ok=True)  # pip complains about a folder that is not there, at every call
    except OSError as error:
        raise NotWritableError(
            f"cannot make the wheel folder {wheels}: {error.strerror or error}", hint="choose another with --wheel-dir"
        ) from error
    python = find_python(setup.env)
    for name, values in advice.settings:
        file = write_setting(python, setup.env, name, " ".join(_word(one).reveal() for one in values))
    now = load_pip_settings(setup.env, prefix=python.prefix)
    return file, tuple(
        f"{name} is written to {file}, and {now.origins[name]} has more say"
        for name, values in advice.settings
        if _values_of(now.indexes, name) != values
    )


def retired_mirrors(
    indexes: PipIndexes, table: MirrorTable, origins: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """A line for each retired mirror among ``indexes``, with what to use instead.

    ``origins`` is ``PipSettings.origins``, where the indexes are the settings' own.
    """
    told: dict[str, None] = {}
    for option in ("index-url", "extra-index-url", "find-links"):
        for value in _values_of(indexes, option):
            mirror = table.retired(value.reveal()) if isinstance(value, RedactedUrl) else None
            if mirror is not None:
                where = f" in {origins[option]}" if origins and option in origins else ""
                text = f"{option}{where} names {value} ({mirror.title or mirror.name}), which is retired: {mirror.note}"
                told[text.rstrip(": ")] = None
    return tuple(told)


def _values_of(indexes: PipIndexes, option: str) -> tuple[FindLinks, ...]:
    if option == "index-url":
        return (indexes.index_url,) if indexes.index_url else ()
    return indexes.extra if option == "extra-index-url" else indexes.find_links


def _files_only(env: Mapping[str, str]) -> dict[str, str]:
    """``env`` without the variables that are settings themselves."""
    return {name: value for name, value in env.items() if not name.startswith("PIP_") or name == "PIP_CONFIG_FILE"}


def _index(timed: Sequence[Timed], now: PipIndexes, table: MirrorTable) -> tuple[RedactedUrl | None, tuple[str, ...]]:
    """The index to set, if any, and why not otherwise."""
    known = None if now.index_url is None else table.origin_of(now.index_url.reveal())
    if now.index_url is not None and (known is None or known[0] != _SIMPLE):
        return None, (f"index-url stays {now.index_url}: it is no known mirror of the default index",)
    if not timed:
        return None, ("no mirror is left to choose from",)
    best = timed[0]
    if best.mirror == UPSTREAM and now.index_url is None:
        return None, ("pip's default index is the quickest from here: no index-url is needed",)
    return best.index, ()


def _ranking(timed: Sequence[Timed]) -> str:
    came = ", ".join(f"{one.mirror} {one.seconds:.2f} s" for one in timed if one.seconds is not None)
    silent = ", ".join(one.mirror for one in timed if one.seconds is None)
    if not came:
        return "none of the mirrors answered: the first of the table is named"
    return f"one page took, measured now: {came}" + (f"; no answer: {silent}" if silent else "")


def _measured(
    sources: Sequence[Source], setup: Setup, settings: PipSettings, cancelled: Callable[[], bool]
) -> tuple[Timed, ...]:
    """Each with the time of its page, the quickest first, then those that gave none in their order."""
    from resume_dl.transport.client import HttpTransport

    network = pip_network(load_network(setup.env, setup.conda, setup.named), settings, settings.indexes)
    transport = HttpTransport(network)
    reader = Reader(transport, setup.options.policy(), setup.network)
    try:
        with ThreadPoolExecutor(max(1, len(sources))) as pool:
            timing = [pool.submit(_time_of, source, reader) for source in sources]
            clock = AwakeClock()
            running, deadline = set(timing), clock.now() + _PATIENCE
            while running and clock.now() < deadline and not cancelled():
                running = wait(running, timeout=0.1, return_when=FIRST_COMPLETED).not_done
            reader.stop()
            timed = [one.result() for one in timing]
    finally:
        reader.stop()
        transport.close()
    if cancelled():
        raise Interrupted("stopped")
    return tuple(sorted(timed, key=lambda one: math.inf if one.seconds is None else one.seconds))


def _time_of(source: Source, reader: Reader) -> Timed:
    """One request for a page, connection and all; what comes must be that page and not a portal's."""
    page = changed(source, url=RedactedUrl(f"{source.url.reveal()}/{_PROJECT}/"))
    started = time.monotonic()
    try:
        body = reader.get(page, accept=ACCEPT)
        took = time.monotonic() - started
        good = not isinstance(body, Failure) and parse_page(body.content_type, body.data, body.url.reveal()).files
    except (SourceError, PageError, Interrupted):
        good = ()
    return Timed(source.mirror, source.url, took if good else None)


def _word(value: FindLinks) -> RedactedUrl:
    """A value as one word of pip.conf, where blanks part values: a path with a blank is written as an address."""
    if isinstance(value, RedactedUrl):
        return value
    text = str(value)
    return RedactedUrl(text if text.split() == [text] else value.as_uri())


def _shown(value: FindLinks) -> str:
    return str(_word(value)) if isinstance(value, RedactedUrl) else _word(value).reveal()
