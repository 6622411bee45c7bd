"""Shards on a line that breaks every answer off: they go on from there, and no lie about a range does harm."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from faults.behaviours import Answer, Behaviour, Drop, Flip, IgnoreRange, RefuseRange, Status, Step, WrongContentRange
from faults.server import FaultServer
from resume_dl.core.failures import FailureKind
from resume_dl.core.policy import Policy
from resume_dl.core.reachability import Reachability
from resume_dl.indexes.hashed_file import HashedFile
from resume_dl.indexes.shards.closure import Closure
from resume_dl.indexes.shards.open_index import OpenIndex, ShardSources
from resume_dl.indexes.shards.shard_fetcher import ShardFetcher
from resume_dl.indexes.shards.store import ShardStore
from resume_dl.indexes.small_answers import Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.transport.client import HttpTransport
from support.in_process import Heard
from support.shards import INDEX, archives_of, index_of, record_of, shard_of

SHARD = shard_of(archives_of(*(record_of("app", f"{major}.0") for major in range(9000))))
DIGEST = hashlib.sha256(SHARD).hexdigest()
PATH = f"/forge/linux-64/{DIGEST}.msgpack.zst"
BREAK = 40_000
OFF = Drop(BREAK)
HURRIED = Policy(backoff_first=0.001, page_look_seconds=300.0)  # no hedge: the requests are counted


@pytest.fixture
def reader() -> Iterator[Reader]:
    transport = HttpTransport(NetworkSettings())
    reader = Reader(transport, HURRIED, Reachability())
    yield reader
    reader.stop()
    transport.close()


@pytest.fixture
def server(fault_server: Callable[..., FaultServer]) -> FaultServer:
    server = fault_server(ports=2)
    server.put(PATH, SHARD)
    server.put(f"/forge/linux-64/{INDEX}", index_of({"app": bytes.fromhex(DIGEST)}))
    return server


def bring(reader: Reader, server: FaultServer, ports: Sequence[int] = (0,)) -> tuple[bytes, HashedFile]:
    sources = [Source(f"mirror{port}", RedactedUrl(server.base(port) + PATH)) for port in ports]
    file = HashedFile(DIGEST, largest=16 << 20)
    return reader.ask(sources, lambda source: reader.hashed(source, file), tries=10), file


def test_a_shard_is_completed_over_several_broken_answers(server: FaultServer, reader: Reader, tmp_path: Path) -> None:
    """Each byte about once, with more breaks than a source has tries."""
    assert len(SHARD) > 10 * BREAK
    server.always(0, OFF)
    heard = Heard()
    fetcher = ShardFetcher(reader, ShardStore(tmp_path / "shards"), heard)
    source = Source("upstream", RedactedUrl(f"{server.base(0)}/forge/linux-64/{INDEX}"))
    try:
        (opened,) = fetcher.open([ShardSources("forge/linux-64", "linux-64", (source,))])
        assert isinstance(opened, OpenIndex)
        closure = Closure(add_pip=False)
        fetcher.fetch([opened], closure.add(["app"]), closure)
    finally:
        fetcher.close()
    assert (opened.broken, list(opened.shards)) == ("", ["app"])
    assert len(SHARD) <= server.body_bytes(path=PATH) <= len(SHARD) + BREAK
    assert opened.downloaded == server.body_bytes()


def test_another_source_resumes_a_broken_shard(server: FaultServer, reader: Reader) -> None:
    server.script(0, [OFF, Status(404)])
    data, file = bring(reader, server, (0, 1))
    assert data == SHARD
    assert file.received == server.body_bytes() <= len(SHARD) + BREAK
    assert server.body_bytes(1) <= len(SHARD) - BREAK


@pytest.mark.parametrize(
    "lie",
    [
        (IgnoreRange(),),
        (RefuseRange(),),
        (WrongContentRange(shift=-1000),),
        (WrongContentRange(shift=-1000, body=True),),
        (WrongContentRange(total=len(SHARD) + 7),),
    ],
    ids=["200", "416", "header", "header and body", "total"],
)
@pytest.mark.parametrize("ports", [(0,), (0, 1)], ids=["alone", "beside another"])
def test_a_wrong_content_range_is_harmless(
    server: FaultServer, reader: Reader, lie: tuple[Behaviour, ...], ports: tuple[int, ...]
) -> None:
    """One answer that comes whole is enough, as for a source that is never asked for a range."""
    server.script(0, [OFF, lie, (*lie, OFF), *([lie] * 2)])
    server.always(1, OFF)
    assert bring(reader, server, ports)[0] == SHARD


def test_a_whole_file_instead_of_a_range_is_used(server: FaultServer, reader: Reader) -> None:
    """It is not asked for once more."""
    server.script(0, [OFF, IgnoreRange(), Status(404)])
    assert bring(reader, server)[0] == SHARD
    assert server.body_bytes() <= BREAK + len(SHARD)


def test_wrong_bytes_in_a_range_are_discarded(server: FaultServer, reader: Reader) -> None:
    """Ranges of wrong bytes, and the whole file as it should be: it comes as soon as one whole answer does."""
    wrong: Step = (_OnlyRanges(Flip(len(SHARD) - 1)),)
    server.script(0, [OFF, wrong, OFF, wrong, OFF, wrong])
    assert bring(reader, server)[0] == SHARD
    assert server.body_bytes() <= 4 * len(SHARD)


def test_wrong_bytes_spoil_a_shard_only_once(server: FaultServer, reader: Reader) -> None:
    """It gave the first bytes, and breaks off for ever; the other breaks off as well, and gets there."""
    server.always(0, Flip(0), OFF)
    server.always(1, OFF)
    data, _ = bring(reader, server, (0, 1))
    assert data == SHARD
    assert server.body_bytes() <= 4 * len(SHARD)


def test_a_file_with_the_wrong_digest_is_given_up(server: FaultServer, reader: Reader) -> None:
    """However it comes: in one answer, or in many."""
    server.always(0, Flip(0))
    server.always(1, Flip(1), OFF)
    with pytest.raises(Unanswered) as caught:
        bring(reader, server, (0, 1))
    assert FailureKind.CONTENT in caught.value.kinds
    assert server.body_bytes(1) <= 3 * len(SHARD) + 20 * BREAK


class _OnlyRanges:
    """Does something to answers of a part alone."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    def apply(self, answer: Answer) -> None:
        if answer.status == 206:
            self._behaviour.apply(answer)
