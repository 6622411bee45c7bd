"""Locations of a request's package indexes: the default one, the user's own, and the mirrors that carry them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from resume_dl.errors import ConfigurationError, required
from resume_dl.model.mirror import MirrorTable
from resume_dl.model.pip import PipIndexes
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Reporter
from resume_dl.resolve.uv_program import find_uv
from resume_dl.settings.pip_find import TargetPython, default_index
from resume_dl.transfer.setup import Setup
from resume_dl.transfer.source_places import Places

_SIMPLE = "pypi:simple"


def index_places(
    indexes: PipIndexes, python: TargetPython, setup: Setup, reporter: Reporter
) -> tuple[Places, tuple[RedactedUrl, ...]]:
    """Return the mirror table with the default index's URL, and the indexes, the default one last.

    Raises ConfigurationError for a plain-http index that has no mirrors and is not a trusted host.
    """
    places = setup.places
    table = places.table
    for url in indexes.unprotected():
        if table.origin_of(url.reveal()) is None:  # else its mirrors are used
            raise ConfigurationError(
                f"{url} is plain http: anyone on the network path could alter it",
                hint="use https, or trust the host as in pip: trusted-host in pip.conf or the requirements",
            )
    if indexes.no_index:
        return places, ()
    index = indexes.index_url
    if index is None and _SIMPLE in table.origins:  # the user's mirrors.toml defines it
        index = RedactedUrl(table.origins[_SIMPLE])
    # a URL that the table does not know may be the default index, named explicitly
    if index is None or _is_of_default(table, index) or table.origin_of(index.reveal()) is None:
        default = _default_index(python, setup.env, is_needed=index is None)
        index = index or required(default, "the default index")
        if default is not None and _SIMPLE not in table.origins:
            origins = {**table.origins, _SIMPLE: default.reveal()}
            table = MirrorTable(origins, table.mirrors, table.aliases, table.own)
    every = (*indexes.extra, index)
    _warn_retired(table, every, reporter)
    # A private index may have the default index's layout; mirrors must not learn the names of its files.
    pages = (*every, *(place for place in indexes.find_links if isinstance(place, RedactedUrl)))
    lone = {url.host for url in pages if table.origin_of(url.reveal()) is None}
    table = MirrorTable(table.origins, table.mirrors, table.aliases, table.own, lone)
    return replace(places, table=table), every


def _default_index(python: TargetPython, env: Mapping[str, str], *, is_needed: bool) -> RedactedUrl | None:
    """Return the default index, from uv or from pip; None if neither is here and another index is named.

    Raises ConfigurationError if it ``is_needed``.
    """
    uv = None
    with suppress(ConfigurationError):  # no uv, or one that is too old: what needs it says so itself
        uv = find_uv()
    try:
        return default_index(python, env, uv=uv)
    except ConfigurationError:
        if is_needed:
            raise
        return None


def _is_of_default(table: MirrorTable, index: RedactedUrl) -> bool:
    found = table.origin_of(index.reveal())
    return found is not None and found[0] == _SIMPLE


def _warn_retired(table: MirrorTable, indexes: tuple[RedactedUrl, ...], reporter: Reporter) -> None:
    for index in indexes:
        mirror = table.retired(index.reveal())
        if mirror is not None:
            text = f"{index} is retired ({mirror.title or mirror.name}): {mirror.note}".rstrip(": ")
            reporter.message(f"{text}; using the other mirrors", level="warning")
