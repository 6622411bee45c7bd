"""How large channels' indexes are, learnt before anything is fetched: one byte of each is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from resume_dl.app.setup import Setup
from resume_dl.core.failures import FailureKind
from resume_dl.engine.clock import AwakeClock
from resume_dl.errors import Interrupted, ResumeDLError
from resume_dl.indexes.small_answers import Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.indexes.whole import FORMATS, Wanted
from resume_dl.model.artifact import Source
from resume_dl.ports import Reporter
from resume_dl.settings.network import load_network


def index_sizes(
    wanted: Sequence[Wanted], setup: Setup, reporter: Reporter, *, within: float, cancelled: Callable[[], bool]
) -> dict[Wanted, int]:
    """Bytes on the wire of each index (packed, where the channel has it so) whose server said it ``within`` seconds.

    All are asked at once, and each source once. Raises Interrupted.
    """
    from resume_dl.transport.client import HttpxTransport  # noqa: PLC0415 - httpx is slow to load

    places = setup.places
    sources = {each: [places.of(each[0].file_url(each[1], name)) for name in FORMATS] for each in wanted}
    network = load_network(setup.env, setup.conda)
    transport = HttpxTransport(network, warn=lambda _: None)  # the engine's own transport will say it
    reader = Reader(transport, setup.options.policy(), setup.network)
    try:
        with ThreadPoolExecutor(max(1, len(wanted))) as pool:
            asked = {each: pool.submit(_size, reader, formats) for each, formats in sources.items()}
            clock = AwakeClock()
            running, deadline = set(asked.values()), clock.now() + within
            while running and clock.now() < deadline and not cancelled():
                running = wait(running, timeout=0.1, return_when=FIRST_COMPLETED).not_done
            reader.stop()
            answers = {each: future.result() for each, future in asked.items()}
    finally:
        reader.stop()
        transport.close()
    if cancelled():
        raise Interrupted("stopped")
    for (channel, subdir), answer in answers.items():
        if isinstance(answer, str):
            reporter.message(f"no size of the index of {channel.name}/{subdir}: {answer}", level="debug")
    return {each: answer for each, answer in answers.items() if isinstance(answer, int)}


def _size(reader: Reader, formats: Sequence[Sequence[Source]]) -> int | str:
    """The size of the first format that there is, else why it is not known."""
    for sources in formats:
        try:
            return reader.size(sources)
        except Unanswered as unanswered:
            if unanswered.kinds - {FailureKind.LACKS}:
                return str(unanswered)
        except ResumeDLError as error:  # stopped, or settings that cannot be used
            return error.message
    return "there is none"
