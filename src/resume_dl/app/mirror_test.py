"""``resume-dl mirrors test``: measure the mirrors from here, remember the result for the order of sources."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from resume_dl import fs
from resume_dl.core.failures import FailureKind
from resume_dl.diagnosis.mirror_page import page
from resume_dl.diagnosis.mirror_probe import MirrorProbe
from resume_dl.diagnosis.mirror_row import MirrorReport, MirrorRow, Place, compared, places_of, ranked
from resume_dl.errors import ConfigurationError, NotWritableError
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.mirror import UPSTREAM
from resume_dl.ports import Reporter
from resume_dl.settings.channels import expand_channels
from resume_dl.settings.condarc import native_subdir
from resume_dl.settings.mirror_speeds import Measured, read_speeds, speeds_file
from resume_dl.store.platform import make_folder, write_durably
from resume_dl.transfer.destination import can_make, refuse_others_link
from resume_dl.transfer.setup import Setup

_CONDA, _SIMPLE = "conda:", "pypi:simple"
SILENCE = 10.0
"""Seconds for a connection, a first byte, or the next byte; a slower mirror is of no use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTest:
    """What is tested: ``sample`` in bytes for each mirror, ``seconds`` for all.

    ``origins`` may omit ``conda:``; none: those of the user's channels and pip's index. ``platforms``: none: this
    machine's.
    """

    origins: Sequence[str] = ()
    platforms: Sequence[str] = ()
    every: bool = False
    """All origins of the table."""
    sample: int = 1 << 20
    seconds: float = 60.0


def run_mirror_test(setup: Setup, test: MirrorTest, reporter: Reporter, cancelled: Callable[[], bool]) -> MirrorReport:
    """Test the mirrors; a mirror that fails has a row with the reason.

    Raises ConfigurationError for an unknown origin or mirror, or if there is nothing to test, and Interrupted.
    """
    from resume_dl.transport.client import HttpTransport

    places, blocked = _places(setup, test)
    network = setup.load_network()
    limits = ("connect_timeout", "first_byte_timeout", "read_timeout")
    network = replace(network, **{name: min(getattr(network, name), SILENCE) for name in limits})
    started, now = time.monotonic(), time.time()
    warn = functools.partial(reporter.message, level="warning")
    transport = HttpTransport(network, warn=warn, logins=setup.logins)
    try:
        reader = Reader(transport, setup.options.policy(), setup.network)
        probe = MirrorProbe(reader, places, sample=test.sample, seconds=test.seconds)
        rows = probe.rows(cancelled)
    finally:
        transport.close()
    _remember(setup, rows, now, reporter)
    return MirrorReport(tuple(ranked(compared([*rows, *blocked]))), now, time.monotonic() - started)


def check_page(path: Path) -> Path:
    """The absolute path of a page to write, before the test. Raises NotWritableError."""
    path = fs.roomy(path.absolute())
    hint = "choose another file with --html"
    refuse_others_link(path, hint)
    if os.path.lexists(path) and not fs.is_regular(path):
        raise NotWritableError(f"{path} is not a regular file", hint=hint)
    if not can_make(path.parent):
        raise NotWritableError(f"{path} cannot be written", hint=hint)
    return path


def write_page(path: Path, report: MirrorReport) -> None:
    """Write the page, whole or not at all. Raises NotWritableError."""
    try:
        make_folder(path.parent)
        write_durably(path, page(report).encode())
    except OSError as error:
        why = f"{path} cannot be written: {error.strerror or error}"
        raise NotWritableError(why, hint="choose another file with --html") from error


def _places(setup: Setup, test: MirrorTest) -> tuple[list[Place], list[MirrorRow]]:
    """What is asked, and rows for mirrors that are not asked because they have blocked us."""
    only = frozenset(setup.places.only or ())
    origins = _origins(setup, test)
    platforms = tuple(test.platforms) or (setup.conda.subdir or native_subdir(),)
    every = places_of(setup.table, origins, platforms, only=only, upstream=setup.options.upstream)
    asked: list[Place] = []
    blocked: list[MirrorRow] = []
    descriptions = setup.blocks.current()
    for place in every:
        if not setup.rules.permit_file(place.source.url):
            continue
        if setup.blocks.allowed([place.source]):
            access = setup.access(place.source.url) if place.mirror == UPSTREAM else None
            source = replace(place.source, url=access.url, headers=access.headers) if access else place.source
            asked.append(replace(place, source=source))
        else:
            why = f"has blocked this machine {descriptions.get(place.mirror, '')}"
            blocked.append(MirrorRow(place, failure=FailureKind.UNASKED.value, text=why))
    if not asked and not blocked:
        raise ConfigurationError(
            "no mirror carries what is to be tested", hint="resume-dl mirrors list shows what each carries"
        )
    return asked, blocked


def _origins(setup: Setup, test: MirrorTest) -> list[str]:
    known = dict.fromkeys(origin for mirror in setup.table.mirrors if mirror.active for origin in mirror.carries)
    if test.every:
        return list(known)
    if not test.origins:
        channels = [channel.origin for channel in expand_channels((), setup.conda, setup.table)]
        found = [origin for origin in channels if origin in known]
        found = found or [origin for origin in ("conda:conda-forge", "conda:pkgs/main") if origin in known]
        return [*dict.fromkeys(found or known), *(() if _SIMPLE not in known or not found else (_SIMPLE,))]
    named = [name if name in known else _CONDA + name for name in test.origins]
    for name, origin in zip(test.origins, named, strict=True):
        if origin not in known:
            hint = f"known: {', '.join(name.removeprefix(_CONDA) for name in sorted(known))}"
            raise ConfigurationError(f"no mirror carries {name!r}", hint=hint)
    return list(dict.fromkeys(named))


def _remember(setup: Setup, rows: Sequence[MirrorRow], now: float, reporter: Reporter) -> None:
    """Keep speeds and failures for the order of sources, and blocks; a state folder that is read-only is no error.

    If nothing answered, the network is at fault, and nothing is kept.
    """
    for row in rows:
        if row.ok:
            setup.blocks.note_served(row.place.source.url.host)
        elif row.failure == FailureKind.BLOCKED.value:
            setup.blocks.note_refused(row.place.mirror, row.place.source.url.host)
    setup.blocks.save(reporter)
    if not any(row.ok for row in rows):
        return
    best: dict[tuple[str, str], Measured] = {}
    for row in rows:
        if row.speed is None and not row.is_host_failure:
            continue
        place = row.place
        one = Measured(place.mirror, place.origin, place.source.url.host, row.speed if row.ok else None, now)
        known = best.get((one.mirror, one.origin))
        if known is None or (one.speed or 0.0) > (known.speed or 0.0):
            best[one.mirror, one.origin] = one
    path = speeds_file(setup.paths.state)
    with suppress(OSError):
        make_folder(path.parent)
        write_durably(path, read_speeds(path, now=now).updated(best.values()).document())
