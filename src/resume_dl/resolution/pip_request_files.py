"""The files of a pip request, and the connections over which they and package indexes are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from resume_dl.errors import ChannelUnavailableError
from resume_dl.indexes.small_answers import Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.model.mirror import GIVEN
from resume_dl.model.pip import PipIndexes, PipRequest, PipSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Reporter
from resume_dl.resolution.pip_request import Asked, asked
from resume_dl.resolve.requirements import read_requirements
from resume_dl.settings.network import load_network
from resume_dl.settings.pip_find import find_python
from resume_dl.settings.pip_network import pip_network
from resume_dl.settings.pip_settings import load_pip_settings
from resume_dl.transfer.setup import Setup


def read_request(request: PipRequest, setup: Setup, reporter: Reporter) -> Asked:
    """What the request comes to with its files read, those too that these name by an address.

    Raises InvalidSpecError, ConfigurationError, ChannelUnavailableError.
    """
    settings = load_pip_settings(setup.env, prefix=find_python(setup.env).prefix)
    with index_reader(setup, settings, request.indexes, reporter) as reader:
        fetch = _Fetching(setup, reader)
        files = [read_requirements(path, env=setup.env, fetch=fetch) for path in request.files]
        limits = [read_requirements(path, env=setup.env, fetch=fetch) for path in request.constraints]
    return asked(request, files, limits)


@contextmanager
def index_reader(setup: Setup, settings: PipSettings, indexes: PipIndexes, reporter: Reporter) -> Iterator[Reader]:
    """Read small files over connections of pip's own settings; stopped and closed at the end."""
    from resume_dl.transport.client import HttpTransport

    network = pip_network(load_network(setup.env, setup.conda, setup.named), settings, indexes)
    transport = HttpTransport(network, warn=lambda text: reporter.message(text, level="warning"))
    reader = Reader(transport, setup.options.policy(), setup.network)
    try:
        yield reader
    finally:
        reader.stop()
        transport.close()


class _Fetching:
    """Reads what a requirements file names by an address (``-r https://…``)."""

    def __init__(self, setup: Setup, reader: Reader) -> None:
        self._offline = is_offline(setup)
        self._reader = reader

    def __call__(self, url: RedactedUrl) -> bytes:
        if self._offline:
            raise ChannelUnavailableError(f"{url} cannot be had: we are offline", hint="run it without --offline")
        try:
            return self._reader.whole([Source(GIVEN, url)]).data
        except Unanswered as unanswered:
            raise ChannelUnavailableError(
                f"{url} cannot be had: {unanswered}",
                tried=(str(url),),
                hint="check the address and the line, then run it again",
            ) from None


def is_offline(setup: Setup) -> bool:
    """Whether the command line or conda forbids connections."""
    return setup.options.offline or setup.conda.offline
