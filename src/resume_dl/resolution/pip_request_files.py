"""Reads the files of a pip request, and opens the connections for them and for package indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from resume_dl.errors import ChannelUnavailableError
from resume_dl.indexes.small_answers import Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.model.mirror import GIVEN
from resume_dl.model.network import NetworkSettings
from resume_dl.model.pip import PipIndexes, PipRequest, PipSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Reporter
from resume_dl.resolution.pip_request import ExpandedRequest, expand
from resume_dl.resolve.requirements import read_requirements
from resume_dl.settings.pip_find import find_python
from resume_dl.settings.pip_network import pip_network
from resume_dl.settings.pip_settings import load_pip_settings
from resume_dl.transfer.setup import Setup


def read_request(
    request: PipRequest, setup: Setup, reporter: Reporter, cancelled: Callable[[], bool] = lambda: False
) -> ExpandedRequest:
    """Return the request with its files read, including those that they include by URL.

    Raises InvalidSpecError, ConfigurationError, ChannelUnavailableError, and Interrupted once ``cancelled``.
    """
    settings = load_pip_settings(setup.env, prefix=find_python(setup.env).prefix)
    with index_reader(setup, settings, request.indexes, reporter, cancelled) as reader:
        fetch = _IncludedFiles(setup, reader)
        shares = _network(setup, settings, request.indexes).shares
        files = [read_requirements(path, env=setup.env, fetch=fetch, shares=shares) for path in request.files]
        limits = [read_requirements(path, env=setup.env, fetch=fetch, shares=shares) for path in request.constraints]
    return expand(request, files, limits)


@contextmanager
def index_reader(
    setup: Setup, settings: PipSettings, indexes: PipIndexes, reporter: Reporter, cancelled: Callable[[], bool]
) -> Iterator[Reader]:
    """Provide a reader of small files with pip's network settings; it is stopped and closed at the end."""
    from resume_dl.transport.client import HttpTransport

    transport = HttpTransport(
        _network(setup, settings, indexes), warn=lambda text: reporter.message(text, level="warning")
    )
    reader = Reader(transport, setup.options.policy(), setup.network, cancelled=cancelled)
    try:
        yield reader
    finally:
        reader.stop()
        transport.close()


def _network(setup: Setup, settings: PipSettings, indexes: PipIndexes) -> NetworkSettings:
    return pip_network(setup.load_network(), settings, indexes)


class _IncludedFiles:
    """Reads files that a requirements file includes by URL (``-r https://…``)."""

    def __init__(self, setup: Setup, reader: Reader) -> None:
        self._offline = is_offline(setup)
        self._reader = reader

    def __call__(self, url: RedactedUrl) -> bytes:
        if self._offline:
            raise ChannelUnavailableError(f"cannot fetch {url} in offline mode", hint="run it without --offline")
        try:
            return self._reader.whole([Source(GIVEN, url)]).data
        except Unanswered as unanswered:
            raise ChannelUnavailableError(
                f"cannot fetch {url}: {unanswered}",
                tried=(str(url),),
                hint="check the URL and the network connection, then run it again",
            ) from None


def is_offline(setup: Setup) -> bool:
    """Whether the command line or conda's settings forbid network access."""
    return setup.options.offline or setup.conda.offline
