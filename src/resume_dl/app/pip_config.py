"""``resume-dl pip config``: the pip.conf settings for the fastest mirror and the local wheel folder."""

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
from resume_dl.resolve.uv_program import find_uv
from resume_dl.settings.pip_find import default_index, find_python
from resume_dl.settings.pip_network import pip_network
from resume_dl.settings.pip_settings import load_pip_settings
from resume_dl.settings.pip_write import write_setting
from resume_dl.transfer.setup import Setup

_SIMPLE = "pypi:simple"
_PROJECT = "pip"
"""The project whose page is timed: every mirror has it, and it is long enough to measure throughput."""
_TIMEOUT = 10.0
"""Seconds for that page; a slower mirror is not recommended."""


@dataclass(frozen=True, slots=True)
class Timed:
    """The index of a mirror (or ``upstream``), and the seconds that a page of it took; None if it failed."""

    mirror: str
    index: RedactedUrl
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipAdvice:
    """Recommended settings for pip."""

    settings: tuple[tuple[str, tuple[FindLinks, ...]], ...]
    """Option of ``[global]`` -> its values."""
    timed: tuple[Timed, ...]
    """The sources of the default index, the fastest first."""
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def lines(self) -> tuple[str, ...]:
        """The settings as lines of pip.conf, without logins, with the notes as comments."""
        settings = [f"{name} = {' '.join(_shown(one) for one in values)}" for name, values in self.settings]
        return (*(f"# {note}" for note in self.notes), "[global]", *settings)

    def as_json(self) -> dict[str, Any]:
        """The same for ``--json``, without logins."""
        return {
            "settings": {name: [_shown(one) for one in values] for name, values in self.settings},
            "mirrors": [{"name": one.mirror, "index": str(one.index), "seconds": one.seconds} for one in self.timed],
            "notes": list(self.notes),
        }


def advise(setup: Setup, wheels: Path, *, cancelled: Callable[[], bool] = lambda: False) -> PipAdvice:
    """Recommend settings for this machine; mirrors are timed now, unless offline. ``wheels`` is the wheel folder.

    A configured index that is not a known mirror of the default one is kept, because it may be private. Raises
    ConfigurationError for settings that cannot be read, and Interrupted.
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
    """Write the settings to the user's pip.conf; return its path and a line for each setting that is overridden.

    Raises ConfigurationError, NotWritableError.
    """
    try:
        wheels.mkdir(parents=True, exist_ok=True)  # pip warns about a missing folder at every call
    except OSError as error:
        raise NotWritableError(
            f"cannot create the wheel folder {wheels}: {error.strerror or error}",
            hint="choose another with --wheel-dir",
        ) from error
    python = find_python(setup.env)
    for name, values in advice.settings:
        file = write_setting(python, setup.env, name, " ".join(_word(one).reveal() for one in values))
    now = load_pip_settings(setup.env, prefix=python.prefix)
    return file, tuple(
        f"{name} was written to {file}, but {now.origins[name]} overrides it"
        for name, values in advice.settings
        if _values_of(now.indexes, name) != values
    )


def retired_mirrors(
    indexes: PipIndexes, table: MirrorTable, origins: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """A line for each retired mirror among ``indexes``, with its replacement.

    ``origins`` is ``PipSettings.origins``, if the indexes come from the settings.
    """
    lines: dict[str, None] = {}
    for option in ("index-url", "extra-index-url", "find-links"):
        for value in _values_of(indexes, option):
            mirror = table.retired(value.reveal()) if isinstance(value, RedactedUrl) else None
            if mirror is not None:
                where = f" in {origins[option]}" if origins and option in origins else ""
                text = f"{option}{where} names {value} ({mirror.title or mirror.name}), which is retired: {mirror.note}"
                lines[text.rstrip(": ")] = None
    return tuple(lines)


def _values_of(indexes: PipIndexes, option: str) -> tuple[FindLinks, ...]:
    if option == "index-url":
        return (indexes.index_url,) if indexes.index_url else ()
    return indexes.extra if option == "extra-index-url" else indexes.find_links


def _files_only(env: Mapping[str, str]) -> dict[str, str]:
    """``env`` without the variables that are pip settings."""
    return {name: value for name, value in env.items() if not name.startswith("PIP_") or name == "PIP_CONFIG_FILE"}


def _index(timed: Sequence[Timed], now: PipIndexes, table: MirrorTable) -> tuple[RedactedUrl | None, tuple[str, ...]]:
    """The index to set, or None with the reason."""
    known = None if now.index_url is None else table.origin_of(now.index_url.reveal())
    if now.index_url is not None and (known is None or known[0] != _SIMPLE):
        return None, (f"index-url stays {now.index_url}: it is not a known mirror of the default index",)
    if not timed:
        return None, ("no mirror is available",)
    best = timed[0]
    if best.mirror == UPSTREAM and now.index_url is None:
        return None, ("pip's default index is the fastest from here: no index-url is needed",)
    return best.index, ()


def _ranking(timed: Sequence[Timed]) -> str:
    came = ", ".join(f"{one.mirror} {one.seconds:.2f} s" for one in timed if one.seconds is not None)
    silent = ", ".join(one.mirror for one in timed if one.seconds is None)
    if not came:
        return "no mirror answered: using the first one of the table"
    return f"one page took, measured now: {came}" + (f"; no answer: {silent}" if silent else "")


def _measured(
    sources: Sequence[Source], setup: Setup, settings: PipSettings, cancelled: Callable[[], bool]
) -> tuple[Timed, ...]:
    """Time every source: the fastest first, then those that failed, in their order."""
    from resume_dl.transport.client import HttpTransport

    network = pip_network(setup.load_network(), settings, settings.indexes)
    transport = HttpTransport(network)
    reader = Reader(transport, setup.options.policy(), setup.network)
    try:
        with ThreadPoolExecutor(max(1, len(sources))) as pool:
            timing = [pool.submit(_time_of, source, reader) for source in sources]
            clock = AwakeClock()
            running, deadline = set(timing), clock.now() + _TIMEOUT
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
    """Time one request for a page, including the connection; the answer must be an index page, not a login page."""
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
    """A value as one word of pip.conf, where spaces separate values: a path with a space is written as a URL."""
    if isinstance(value, RedactedUrl):
        return value
    text = str(value)
    return RedactedUrl(text if text.split() == [text] else value.as_uri())


def _shown(value: FindLinks) -> str:
    return str(_word(value)) if isinstance(value, RedactedUrl) else _word(value).reveal()
