"""Kept copies of indexes: used while they are young, asked for by their own source's validators, never by another's."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import zstandard

from faults.behaviours import Drop, Headers, NotModified, Ok, Quota, Rate, Status
from faults.server import FaultServer
from resume_dl.errors import ChannelUnavailableError
from resume_dl.indexes.copies import Freshness, KeptCopies, Note
from resume_dl.indexes.whole import FORMATS, WholeIndex, WholeIndexes
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.channel import Channel
from resume_dl.model.http import CacheHeaders
from resume_dl.model.url import RedactedUrl
from resume_dl.progress.none import NoneReporter
from resume_dl.transfer.setup import TransferOptions, engine_for, load_setup
from support.fetching import User

ZST, PLAIN = (f"/c/linux-64/{name}" for name in FORMATS)
OLD, NEW = (b'{"packages": {"%s": {}}}' % name + b" " * 500_000 for name in (b"old", b"new"))
HOUR = 3600.0


class Told(NoneReporter):
    """What a run said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str, *, level: str = "info") -> None:
        self.lines.append(text)


@dataclass
class Runs:
    """One user's runs against one server, some of them later than others."""

    server: FaultServer
    folder: Path
    now: float = 1_700_000_000.0
    told: Told = field(default_factory=Told)

    @property
    def copies(self) -> KeptCopies:
        return KeptCopies(self.folder / "indexes")

    def sources(self, ports: Sequence[int], name: str) -> tuple[Source, ...]:
        return tuple(
            Source(f"mirror{port}", RedactedUrl(f"{self.server.base(port)}/c/linux-64/{name}")) for port in ports
        )

    @property
    def index(self) -> Artifact:
        """The packed one of the first port, as it is kept."""
        (source,) = self.sources((0,), FORMATS[0])
        return Artifact(kind="index", filename=FORMATS[0], url=source.url)

    @contextmanager
    def indexes(self, freshness: Freshness, *, offline: bool) -> Iterator[WholeIndexes]:
        env = {f"RESUME_DL_{name}_DIR": str(self.folder / name) for name in ("CONFIG", "CACHE", "STATE")}
        env |= {"RESUME_DL_CONDA": "none", "HOME": str(self.folder)}
        setup = load_setup(TransferOptions(give_up_after=30.0), env)
        with engine_for(setup, self.told, lambda: False) as engine:
            yield WholeIndexes(
                engine,
                setup.places,
                self.folder / "indexes",
                self.told,
                offline=offline,
                freshness=freshness,
                clock=lambda: self.now,
            )

    def fetch(
        self,
        ports: Sequence[int] = (0,),
        *,
        refresh: bool = False,
        max_age: float | None = None,
        offline: bool = False,
        past_caches: bool = False,
    ) -> WholeIndex:
        """One run; the requests and lines of earlier ones are forgotten."""
        self.server._received.clear()
        self.told.lines.clear()
        base = RedactedUrl(f"{self.server.base(0)}/c")
        channel = Channel(name="c", origin=None, canonical_base=base, client_base=base)
        with self.indexes(Freshness(refresh, max_age), offline=offline) as indexes:
            found = indexes.fetch(
                [(channel, "linux-64")], lambda _, name: self.sources(ports, name), past_caches=past_caches
            )
        return found[channel, "linux-64"]

    def text(self, found: WholeIndex) -> bytes:
        assert found.error is None
        assert found.path is not None
        return found.path.read_bytes()


def noise(seed: int, size: int) -> bytes:
    """An index that is packed to no less than about this many bytes."""
    return json.dumps({"info": {"noise": random.Random(seed).randbytes(size).hex()}, "packages": {}}).encode()


@pytest.fixture
def runs(tmp_path: Path, fault_server) -> Runs:
    server: FaultServer = fault_server(ports=2)
    server.put(ZST, zstandard.compress(OLD))
    server.always(None, NotModified())
    return Runs(server, tmp_path)


def say(runs: Runs, **headers: str | None) -> None:
    values = {name.replace("_", "-"): value for name, value in headers.items()}
    runs.server.always(None, Headers(values), NotModified())


def test_both_validators_are_kept_and_asked_with(runs: Runs) -> None:
    assert runs.text(runs.fetch()) == OLD
    (first,) = runs.server.requests()
    assert "if-none-match" not in first.headers
    found = runs.fetch()
    (second,) = runs.server.requests()
    assert (second.status, runs.text(found)) == (304, OLD)
    assert second.headers["if-none-match"].startswith('"')
    assert second.headers["if-modified-since"] == "Fri, 01 Jan 2021 00:00:00 GMT"
    assert "cache-control" not in second.headers
    assert (found.downloaded, found.age, found.carried_by) == (0, 0.0, ("mirror0",))
    assert (found.kept, found.asked) == (True, True)


def test_a_changed_index_replaces_the_kept_one(runs: Runs) -> None:
    runs.fetch()
    runs.server.put(ZST, zstandard.compress(NEW))
    found = runs.fetch()
    assert runs.text(found) == NEW
    assert not found.kept
    assert found.downloaded == len(zstandard.compress(NEW))


@pytest.mark.parametrize("ports", [(1,), (0, 1)])
def test_validators_go_to_no_other_source(runs: Runs, ports: tuple[int, ...]) -> None:
    """What one mirror said means nothing to the next one, also where the first fails and both are asked."""
    runs.fetch()
    runs.server.always(0, Status(404))
    runs.server.put(ZST, zstandard.compress(NEW))
    assert runs.text(runs.fetch(ports)) == NEW
    for request in runs.server.requests(1, ZST):
        assert not {"if-none-match", "if-modified-since"} & request.headers.keys()


def test_each_authority_has_its_own_copy(runs: Runs) -> None:
    runs.fetch()
    assert runs.text(runs.fetch((1,))) == OLD
    assert [request.status for request in runs.server.requests()] == [200]
    for port in (0, 1):
        runs.fetch((port,))
        assert [(request.port, request.status) for request in runs.server.requests()] == [(port, 304)]


def test_a_copy_from_another_source_is_not_used_without_a_request(runs: Runs) -> None:
    """It is young, but the one who vouches now has never said it."""
    say(runs, Cache_Control="max-age=600")
    runs.fetch((0, 1))
    assert {request.port for request in runs.server.requests()} == {0}
    path, note = runs.copies.path(runs.index), runs.copies.note(runs.index)
    assert note is not None
    (other,) = runs.sources((1,), FORMATS[0])
    runs.copies.path(replace(runs.index, url=other.url)).write_bytes(path.read_bytes())
    unknown = Note("", CacheHeaders(), 0.0)
    runs.copies.confirm(replace(runs.index, url=other.url), unknown, unknown.confirmed(note.said, runs.now))
    runs.fetch((1,))
    assert [request.port for request in runs.server.requests()] == [1]


@pytest.mark.parametrize(
    ("said", "later", "asks"),
    [
        ("max-age=600", 599.0, False),
        ("max-age=600", 601.0, True),
        ("max-age=600", -10.0, True),
        ("max-age=999999", HOUR - 1, False),
        ("max-age=999999", HOUR + 1, True),
        ("no-cache, max-age=600", 1.0, True),
        (None, 0.0, True),
    ],
)
def test_a_kept_index_is_used_for_as_long_as_its_server_says(
    runs: Runs, said: str | None, later: float, asks: bool
) -> None:
    """At most an hour; and not where the clock has been put back, so that its age is not known."""
    say(runs, Cache_Control=said)
    runs.fetch()
    runs.now += later
    found = runs.fetch()
    assert bool(runs.server.requests()) == asks
    assert found.asked == asks
    assert found.age == (0.0 if asks else later)


def test_a_304_renews_the_age(runs: Runs) -> None:
    say(runs, Cache_Control="max-age=600")
    runs.fetch()
    runs.now += 700
    runs.fetch()
    assert [request.status for request in runs.server.requests()] == [304]
    runs.now += 500
    runs.fetch()
    assert runs.server.requests() == []


def test_a_304_says_how_long_it_is_fresh(runs: Runs) -> None:
    """What goes with the answer counts from then on; what it leaves out stays (RFC 9111 4.3.4)."""
    runs.fetch()
    for later, said, asks in [
        (1, "max-age=900", True),
        (1000, None, True),
        (800, None, False),
        (200, "no-cache", True),
        (1, None, True),
    ]:
        say(runs, Cache_Control=said)
        runs.now += later
        runs.fetch()
        assert [request.status for request in runs.server.requests()] == [304] * asks


@pytest.mark.parametrize(("max_age", "asks"), [(2 * HOUR, True), (4 * HOUR, False), (float("inf"), False), (0.0, True)])
def test_index_max_age_sets_the_allowed_age(runs: Runs, max_age: float, asks: bool) -> None:
    runs.fetch()
    runs.now += 3 * HOUR
    runs.fetch(max_age=max_age)
    assert bool(runs.server.requests()) == asks
    told = "index of c, 3 hours old; --refresh asks for a newer one"
    assert (told in runs.told.lines) != asks


@pytest.mark.parametrize("how", ["refresh", "past_caches"])
def test_refresh_asks_whatever_the_age_and_past_caches(runs: Runs, how: str) -> None:
    say(runs, Cache_Control="max-age=600")
    runs.fetch()
    assert runs.fetch(max_age=HOUR, **{how: True}).path is not None
    (request,) = runs.server.requests()
    assert (request.status, request.headers["cache-control"]) == (304, "no-cache")


def test_offline_says_how_old_it_is(runs: Runs) -> None:
    runs.fetch()
    runs.now += 50 * HOUR
    found = runs.fetch(offline=True)
    assert (runs.text(found), runs.server.requests()) == (OLD, [])
    assert runs.told.lines == ["index of c, 2 days old"]


def test_offline_the_newer_of_two_forms_is_used(runs: Runs) -> None:
    """The server has ceased to offer the packed one."""
    runs.fetch()
    runs.server.always(None, Status(404), path=ZST)
    runs.server.put(PLAIN, NEW)
    runs.now += HOUR
    runs.fetch()
    assert runs.text(runs.fetch(offline=True)) == NEW


def test_a_fresh_plain_index_is_not_requested_in_packed_form(runs: Runs) -> None:
    runs.server.always(None, Status(404), path=ZST)
    runs.server.put(PLAIN, NEW)
    runs.fetch()
    runs.fetch(max_age=HOUR)
    assert runs.server.requests() == []


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b'{"source": 1}',
        b'{"source": "S", "validator": "\\"a\\r\\nX-Evil: 1\\""}',
        b'{"source": "S", "etag": 5, "last_modified": {}, "checked": "now", "max_age": "ever"}',
        b'{"source": "S", "etag": "", "last_modified": "", "checked": NaN, "max_age": -1}',
    ],
)
def test_an_unreadable_note_causes_a_new_request(runs: Runs, note: bytes) -> None:
    runs.fetch()
    path = runs.copies.path(runs.index).with_suffix(".note")
    source = f"{runs.server.base(0)}{ZST}".encode()
    path.write_bytes(note.replace(b'"S"', json.dumps(source.decode()).encode()))
    runs.server.put(ZST, zstandard.compress(NEW))
    assert runs.text(runs.fetch()) == NEW
    (request,) = runs.server.requests()
    assert not {"if-none-match", "x-evil"} & request.headers.keys()


def test_a_note_of_an_earlier_version_is_understood(runs: Runs) -> None:
    runs.fetch()
    path = runs.copies.path(runs.index).with_suffix(".note")
    said = json.loads(path.read_text())
    path.write_text(json.dumps({name: said[name] for name in ("url", "source", "validator")}))
    runs.fetch()
    assert [request.status for request in runs.server.requests()] == [304]


def test_a_304_does_not_confirm_another_runs_copy(runs: Runs) -> None:
    """The answer was about the version that this run knew, not about the one that lies there now."""
    runs.fetch()
    index = runs.index
    old = runs.copies.note(index)
    runs.server.put(ZST, zstandard.compress(NEW))
    runs.now += 10
    runs.fetch()
    new = runs.copies.note(index)
    assert old is not None
    assert new != old
    runs.copies.confirm(index, old, old.confirmed(old.said, runs.now + 99))
    assert runs.copies.note(index) == new


def test_an_interrupted_index_continues_with_if_range(runs: Runs) -> None:
    """Each answer ends early; all of them together are the file once, and a few bytes that were under way."""
    data = zstandard.compress(noise(3, 4_000_000))
    runs.server.put(ZST, data)
    runs.server.always(0, Drop(after=1_500_000, how="fin"))
    found = runs.fetch()
    requests = runs.server.requests(0, ZST)
    assert runs.text(found) == noise(3, 4_000_000)
    etag = next(iter({request.headers["if-range"] for request in requests[1:]}))
    assert etag.startswith('"')
    assert [request.status for request in requests] == [200, *[206] * (len(requests) - 1)]
    assert sum(request.sent for request in requests) < len(data) * 1.2


def test_an_index_that_changes_between_two_requests_is_not_mixed(runs: Runs) -> None:
    """The second answer is of another version: all of it comes anew, and nothing of the first is in it."""
    first, second = (zstandard.compress(noise(seed, 3_000_000)) for seed in (3, 4))
    runs.server.put(ZST, first)

    class Swap:
        def apply(self, answer) -> None:
            runs.server.put(ZST, second)
            Drop(after=1_500_000).apply(answer)

    runs.server.script(0, [Swap(), Ok()])
    assert runs.text(runs.fetch()) == noise(4, 3_000_000)
    assert [request.headers.get("if-range") is not None for request in runs.server.requests()][:2] == [False, True]


def test_an_unreachable_server_leaves_the_kept_copy(runs: Runs) -> None:
    runs.fetch()
    runs.server.always(0, Status(403))
    error = runs.fetch().error
    assert isinstance(error, ChannelUnavailableError)
    assert "--offline" in error.hint


@dataclass
class Overlap:
    """How many answers of a file were under way when each of its requests came."""

    server: FaultServer
    seen: list[int] = field(default_factory=list)

    def apply(self, answer: object) -> None:
        self.seen.append(sum(not each.ended for each in self.server.requests(path=ZST)))


def test_a_source_that_limits_each_connection_gets_two(runs: Runs) -> None:
    """Ranges of one source overlap in time, each under the validator of the bytes that are here."""
    data = zstandard.compress(noise(3, 6_000_000))
    runs.server.put(ZST, data)
    overlap = Overlap(runs.server)
    runs.server.always(0, overlap, Rate(1_000_000))
    assert runs.text(runs.fetch()) == noise(3, 6_000_000)
    assert max(overlap.seen) == 2
    first, *others = runs.server.requests(0, ZST)
    assert (first.status, {request.status for request in others}) == (200, {206})
    assert len({request.headers["if-range"] for request in others}) == 1
    assert sum(request.sent for request in runs.server.requests()) < len(data) * 1.2


def test_a_killed_run_keeps_the_bytes_of_an_index(runs: Runs, tmp_path: Path) -> None:
    """The second run asks for the rest alone, and says so in bytes."""
    data = zstandard.compress(noise(3, 4_000_000))
    runs.server.put(ZST, data)
    quota = Quota(2_000_000)
    runs.server.always(0, quota)
    user = User(tmp_path / "user")
    channel = f"{runs.server.base(0)}/c"
    user.condarc = {"pkgs_dirs": [str(user.pkgs)], "channels": [channel]}
    with user.start("fetch", "a", "--platform", "linux-64", "--dry-run", "--progress", "json") as run:
        assert run.stderr is not None
        for line in run.stderr:
            event = json.loads(line)
            if event["event"] == "progress" and event["done"] > 1_500_000:
                break
        run.kill()
    first = runs.server.body_bytes()
    quota.lift()
    runs.server._received.clear()
    done = user.fetch("a", "--dry-run", "--json")
    assert done.code == 3  # it has no package a
    later = [
        each for each in runs.server.requests(0, ZST) if each.status == 206
    ]  # over how many is the engine's choice
    assert later
    assert all(each.headers["if-range"].startswith('"') for each in later)
    again = sum(each.sent for each in later)
    assert again < len(data) - 1_000_000
    assert first + again < len(data) + 1_500_000


@pytest.mark.parametrize("rubbish", [b"[]", b'{"packages": []}', b'{"packages": {"a-1-0.conda": {', b"<html></html>"])
def test_an_invalid_form_of_the_index_is_refused_and_the_next_one_requested(runs: Runs, rubbish: bytes) -> None:
    """It was kept, and the server's 304 made it stay for ever."""
    runs.fetch()
    runs.server.put(ZST, zstandard.compress(rubbish))
    runs.server.put(PLAIN, NEW)
    assert runs.text(runs.fetch()) == NEW
    (told,) = [
        line for line in runs.told.lines if "c/linux-64/repodata.json.zst of mirror0: it is not a channel" in line
    ]
    assert "trying another source or form" in told
    assert runs.copies.path(runs.index).read_bytes() == OLD
    left = {path.suffix for path in (runs.folder / "indexes").rglob("*") if path.is_file()}
    assert left == {".json", ".note"}


def test_the_next_run_knows_the_sources_of_a_part_file(runs: Runs) -> None:
    """Else a mirror that redirected the first run would be taken for the only one whose word the index is."""
    runs.copies.make_folder()
    assert runs.copies.hosts_of_part(runs.index) is None
    runs.copies.note_hosts_of_part(runs.index, {"b.example", "a.example:8080"})
    assert runs.copies.hosts_of_part(runs.index) == {"a.example:8080", "b.example"}
    (noted,) = runs.copies.path(runs.index).parent.glob("*.hosts")
    for text in ("[1]", "{}", "[", "[" * 100_000, "x" * 70_000):
        noted.write_text(text)
        assert runs.copies.hosts_of_part(runs.index) is None
    runs.copies.note_hosts_of_part(runs.index, ())
    assert not noted.exists()
