"""Shards from a real server: what is asked of it, what is kept, and what happens where they cannot be had."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from resume_dl.errors import InternalError, Interrupted
from resume_dl.indexes.copies import Freshness
from resume_dl.indexes.shards import FILENAME, index_fetch
from resume_dl.indexes.shards.open_index import NoIndex, OpenIndex
from resume_dl.indexes.shards.shard_fetcher import ShardFetcher
from resume_dl.indexes.shards.store import KeptIndex, ShardStore
from resume_dl.indexes.shards.subsets import Subsets
from resume_dl.model.url import RedactedUrl
from support.shard_mirrors import LINUX, NOARCH, REACHED, ShardMirrors
from support.shards import index_of, packed, write_shards

pytestmark = pytest.mark.nginx
SUBDIRS = ("linux-64", "noarch")


def solved(
    mirrors: ShardMirrors, fetcher: ShardFetcher, *, carriers: tuple[int, ...] = (), past_caches: bool = False
) -> tuple[Subsets[str], dict[str, NoIndex], list[str]]:
    """Open both subdirs and follow ``app``; the subsets, those without an index, and those that broke."""
    folder = mirrors.folder / "written"
    folder.mkdir(exist_ok=True)
    subsets = Subsets[str](fetcher, lambda: folder, add_pip=True)
    lacking = subsets.open({subdir: mirrors.sources(subdir, carriers) for subdir in SUBDIRS}, past_caches=past_caches)
    return subsets, lacking, subsets.extend(["app"])


def names_in(path: Path) -> set[str]:
    index = json.loads(path.read_text())
    return {record["name"] for section in ("packages", "packages.conda") for record in index[section].values()}


def shard_files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name not in {FILENAME, "repodata.json", "repodata.json.zst"}]


def spoil(folder: Path) -> None:
    """Every shard there has other bytes, of the same length."""
    for path in shard_files(folder):
        path.write_bytes(bytes(each ^ 1 for each in path.read_bytes()))


def test_only_shards_that_a_solve_can_reach_are_fetched(shard_mirrors: ShardMirrors) -> None:
    subsets, lacking, broken = solved(shard_mirrors, shard_mirrors.fetcher())
    assert (lacking, broken) == ({}, [])
    written = subsets.write()
    assert {subdir: names_in(each.path) for subdir, each in written.items()} == REACHED
    whole = json.loads((shard_mirrors.root(0) / "linux-64" / "repodata.json").read_text())["packages.conda"]
    subset = json.loads(written["linux-64"].path.read_text())["packages.conda"]
    assert subset == {name: record for name, record in whole.items() if record["name"] in REACHED["linux-64"]}
    assert list(subset) == sorted(subset)
    assert set(written["noarch"].names.read_text().split()) == {record["name"] for record in NOARCH.values()}
    asked = [request.uri.rpartition("/")[2] for request in shard_mirrors.nginx.requests()]
    assert len(set(asked)) == len(asked) - 1, "each shard once, and an index of each subdir"
    assert len(asked) == 2 + sum(map(len, REACHED.values()))
    assert sum(each.index.downloaded for each in written.values()) == shard_mirrors.nginx.body_bytes(archives=False)


def test_nothing_is_fetched_twice(shard_mirrors: ShardMirrors) -> None:
    first = solved(shard_mirrors, shard_mirrors.fetcher())[0].write()
    first_text = {subdir: each.path.read_bytes() for subdir, each in first.items()}
    shard_mirrors.nginx.reset_log()
    again = solved(shard_mirrors, shard_mirrors.fetcher())[0].write()
    assert {subdir: each.path.read_bytes() for subdir, each in again.items()} == first_text
    requests = shard_mirrors.nginx.requests()
    assert {(request.uri.rpartition("/")[2], request.status) for request in requests} == {(FILENAME, 304)}
    assert len(requests) <= 3


def test_a_changed_index_fetches_only_new_shards(shard_mirrors: ShardMirrors) -> None:
    solved(shard_mirrors, shard_mirrors.fetcher())
    folder = shard_mirrors.root(0) / "linux-64"
    before = {path.name for path in shard_files(folder)}
    newer = {name: {**record, "timestamp": 5} if record["name"] == "app" else record for name, record in LINUX.items()}
    write_shards(folder, newer)
    os.utime(folder / FILENAME, (1, 1))  # nginx tells versions of one length apart by whole seconds
    (new,) = {path.name for path in shard_files(folder)} - before
    shard_mirrors.nginx.reset_log()
    written = solved(shard_mirrors, shard_mirrors.fetcher())[0].write()
    bodies = [request.uri.rpartition("/")[2] for request in shard_mirrors.nginx.requests() if request.status == 200]
    assert sorted(bodies) == sorted([FILENAME, new])
    assert b'"timestamp":5' in written["linux-64"].path.read_bytes().replace(b" ", b"")


def test_shards_do_not_wait_for_a_disk_that_is_slow_to_keep_their_index(
    shard_mirrors: ShardMirrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is kept while its shards are on their way, and it is kept when they are there."""
    order: list[str] = []
    came = threading.Event()
    keep, keep_index = ShardStore.keep, ShardStore.keep_index

    def note_shard(store: ShardStore, digest: str, data: bytes) -> None:
        keep(store, digest, data)
        order.append("shard")
        came.set()

    def wait_for_shard(store: ShardStore, url: RedactedUrl, index: KeptIndex) -> None:
        assert came.wait(60)
        keep_index(store, url, index)
        order.append("index")

    monkeypatch.setattr(ShardStore, "keep", note_shard)
    monkeypatch.setattr(ShardStore, "keep_index", wait_for_shard)
    _, lacking, broken = solved(shard_mirrors, shard_mirrors.fetcher())
    assert (lacking, broken, order[0], order.count("index")) == ({}, [], "shard", 2)
    shard_mirrors.nginx.reset_log()
    solved(shard_mirrors, shard_mirrors.fetcher())
    assert {request.status for request in shard_mirrors.nginx.requests()} == {304}


def test_a_fresh_index_is_used_without_a_request(shard_mirrors: ShardMirrors) -> None:
    solved(shard_mirrors, shard_mirrors.fetcher())
    shard_mirrors.nginx.reset_log()
    _, lacking, broken = solved(shard_mirrors, shard_mirrors.fetcher(freshness=Freshness(max_age=600.0)))
    assert (lacking, broken, shard_mirrors.nginx.requests()) == ({}, [], [])
    later = shard_mirrors.fetcher(freshness=Freshness(max_age=600.0), now=lambda: time.time() + 601)
    solved(shard_mirrors, later)
    assert len(shard_mirrors.nginx.requests()) == 2
    shard_mirrors.nginx.reset_log()
    earlier = shard_mirrors.fetcher(freshness=Freshness(max_age=600.0), now=lambda: time.time() - 3600)
    solved(shard_mirrors, earlier)
    assert len(shard_mirrors.nginx.requests()) == 2, "a copy from the future has no age"
    shard_mirrors.nginx.reset_log()
    solved(shard_mirrors, shard_mirrors.fetcher(freshness=Freshness(max_age=600.0)), past_caches=True)
    assert len(shard_mirrors.nginx.requests()) == 2, "unless the server itself has to be asked"


def test_a_304_renews_the_freshness_of_an_index(shard_mirrors: ShardMirrors) -> None:
    nginx = shard_mirrors.nginx
    try:
        solved(shard_mirrors, shard_mirrors.fetcher())
        nginx.change(0, max_age=600)
        nginx.reset_log()
        solved(shard_mirrors, shard_mirrors.fetcher())
        assert [request.status for request in nginx.requests()] == [304, 304]
        nginx.reset_log()
        assert solved(shard_mirrors, shard_mirrors.fetcher())[1:] == ({}, [])
        assert nginx.requests() == []
        nginx.change(0, max_age=0)
        solved(shard_mirrors, shard_mirrors.fetcher(freshness=Freshness(refresh=True)))
        nginx.reset_log()
        solved(shard_mirrors, shard_mirrors.fetcher())
        assert [request.status for request in nginx.requests()] == [304, 304]
    finally:
        nginx.change(0, max_age=None)


def test_offline_uses_kept_shards(shard_mirrors: ShardMirrors) -> None:
    solved(shard_mirrors, shard_mirrors.fetcher())
    shard_mirrors.nginx.reset_log()
    subsets, lacking, broken = solved(shard_mirrors, shard_mirrors.fetcher(offline=True))
    assert (lacking, broken) == ({}, [])
    assert {subdir: names_in(each.path) for subdir, each in subsets.write().items()} == REACHED
    assert set(subsets.extend(["other"])) == {"linux-64"}, "a shard that was never fetched"
    shutil.rmtree(shard_mirrors.folder / "cache")
    assert set(solved(shard_mirrors, shard_mirrors.fetcher(offline=True))[1]) == set(SUBDIRS)
    assert shard_mirrors.nginx.requests() == []


def test_a_kept_shard_that_was_damaged_is_fetched_again(shard_mirrors: ShardMirrors) -> None:
    first = solved(shard_mirrors, shard_mirrors.fetcher())[0].write()["linux-64"].path.read_bytes()
    kept = shard_mirrors.folder / "cache" / "shards"
    victims = sorted(kept.glob("*.msgpack.zst"))[:2]
    victims[0].write_bytes(b"")
    victims[1].write_bytes(victims[1].read_bytes()[:-1] + b"x")
    shard_mirrors.nginx.reset_log()
    assert solved(shard_mirrors, shard_mirrors.fetcher())[0].write()["linux-64"].path.read_bytes() == first
    bodies = {request.uri.rpartition("/")[2] for request in shard_mirrors.nginx.requests() if request.status == 200}
    assert bodies == {victim.name for victim in victims}


def test_a_kept_index_that_was_damaged_is_fetched_again(shard_mirrors: ShardMirrors) -> None:
    solved(shard_mirrors, shard_mirrors.fetcher())
    kept = shard_mirrors.folder / "cache" / "shards"
    for path in kept.glob("*.index"):
        path.write_bytes(path.read_bytes()[:-20])
    subsets, lacking, broken = solved(shard_mirrors, shard_mirrors.fetcher())
    assert (lacking, broken, len(subsets.keys)) == ({}, [], 2)


def test_a_folder_that_others_can_write_to_is_not_used(shard_mirrors: ShardMirrors) -> None:
    folder = shard_mirrors.folder / "cache" / "shards"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    shard_mirrors.folder.chmod(0o755)
    (shard_mirrors.folder / "cache").chmod(0o755)
    _, lacking, broken = solved(shard_mirrors, shard_mirrors.fetcher())
    assert (lacking, broken) == ({}, [])
    assert list(folder.iterdir()) == []


def test_carriers_without_shards_are_asked_once_for_one_byte(shard_mirrors: ShardMirrors) -> None:
    _, _, broken = solved(shard_mirrors, shard_mirrors.fetcher(), carriers=(1, 2))
    assert broken == []
    for mirror in (1, 2):
        requests = shard_mirrors.nginx.requests(mirror)
        assert len({request.uri for request in requests}) == len(requests) <= 2, "once for each subdir"
        assert {request.range for request in requests} <= {"bytes=0-0"}


def test_a_carrier_supplies_a_shard_that_is_wrong_at_the_authority(shard_mirrors: ShardMirrors) -> None:
    shutil.copytree(shard_mirrors.root(0), shard_mirrors.root(2), dirs_exist_ok=True)
    spoil(shard_mirrors.root(0) / "linux-64")
    subsets, _, broken = solved(shard_mirrors, shard_mirrors.fetcher(), carriers=(1, 2))
    assert broken == []
    written = subsets.write()
    assert {subdir: names_in(each.path) for subdir, each in written.items()} == REACHED
    assert written["linux-64"].index.carried_by == {"carrier2"}


def test_a_carrier_with_wrong_shards_is_rejected(shard_mirrors: ShardMirrors) -> None:
    for mirror in (1, 2):
        shutil.copytree(shard_mirrors.root(0), shard_mirrors.root(mirror), dirs_exist_ok=True)
        spoil(shard_mirrors.root(mirror) / "linux-64")
        spoil(shard_mirrors.root(mirror) / "noarch")
    for path in shard_files(shard_mirrors.root(0) / "noarch"):
        path.unlink()
    subsets, _, broken = solved(shard_mirrors, shard_mirrors.fetcher(), carriers=(1, 2))
    assert broken == ["noarch"], "no other source has these"
    written = subsets.write()["linux-64"]
    assert names_in(written.path) == REACHED["linux-64"] - {"pip"}
    assert written.index.carried_by == {"upstream"}


def test_where_no_source_has_a_shard_the_whole_index_is_needed(shard_mirrors: ShardMirrors) -> None:
    spoil(shard_mirrors.root(0) / "noarch")
    subsets, lacking, broken = solved(shard_mirrors, shard_mirrors.fetcher(), carriers=(1,))
    assert (lacking, broken, subsets.keys) == ({}, ["noarch"], ["linux-64"])
    (said,) = shard_mirrors.told.at("warning")
    assert "forge/noarch" in said
    assert shard_mirrors.nginx.base(0).rpartition("/")[2] in said
    assert "do not match the digest" in said


def test_a_shard_that_is_refused_is_named(shard_mirrors: ShardMirrors) -> None:
    data = packed({"packages.conda": {"../app-1.0-0.conda": {"name": "app"}}})
    digest = hashlib.sha256(data).hexdigest()
    folder = shard_mirrors.root(0) / "linux-64"
    (folder / f"{digest}.msgpack.zst").write_bytes(data)
    (folder / FILENAME).write_bytes(index_of({"app": bytes.fromhex(digest)}))
    _, _, broken = solved(shard_mirrors, shard_mirrors.fetcher())
    assert broken == ["linux-64"]
    (said,) = shard_mirrors.told.at("warning")
    assert "forge/linux-64" in said
    assert "../app-1.0-0.conda" in said


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"no zstd", "unpacked"),
        (index_of({"app": b"short"}), "SHA-256"),
        (index_of({"../app": bytes(32)}), "names the package"),
        (index_of({}, subdir="noarch"), "subdir"),
        (index_of({}, base_url="ftp://elsewhere.example/"), "base_url"),
    ],
)
def test_an_index_that_is_refused_is_named(shard_mirrors: ShardMirrors, data: bytes, why: str) -> None:
    (shard_mirrors.root(0) / "linux-64" / FILENAME).write_bytes(data)
    subsets, lacking, broken = solved(shard_mirrors, shard_mirrors.fetcher())
    assert (set(lacking), broken, subsets.keys) == ({"linux-64"}, [], ["noarch"])
    (said,) = shard_mirrors.told.at("warning")
    assert all(part in said for part in ("forge/linux-64", "127.0.0.1", why)), said
    shard_mirrors.nginx.reset_log()
    kept = list((shard_mirrors.folder / "cache" / "shards").glob("*.index"))
    assert len(kept) == 1, "nothing is kept of it"


def test_no_index_is_no_warning(shard_mirrors: ShardMirrors) -> None:
    (shard_mirrors.root(0) / "noarch" / FILENAME).unlink()
    _, lacking, broken = solved(shard_mirrors, shard_mirrors.fetcher())
    assert (set(lacking), broken) == ({"noarch"}, [])
    assert shard_mirrors.told.at("warning") == []
    assert "404" in lacking["noarch"].why


def test_absence_of_shards_is_remembered_for_a_week(shard_mirrors: ShardMirrors) -> None:
    for subdir in SUBDIRS:
        (shard_mirrors.root(0) / subdir / FILENAME).unlink()

    def asked(fetcher: ShardFetcher, *, past_caches: bool = False) -> int:
        shard_mirrors.nginx.reset_log()
        assert set(solved(shard_mirrors, fetcher, past_caches=past_caches)[1]) == set(SUBDIRS)
        return len({request.uri for request in shard_mirrors.nginx.requests()})

    assert asked(shard_mirrors.fetcher()) == 2
    assert asked(shard_mirrors.fetcher()) == 0
    assert asked(shard_mirrors.fetcher(now=lambda: time.time() + 6.9 * 86400)) == 0
    assert asked(shard_mirrors.fetcher(now=lambda: time.time() - 3600)) == 2, "a note from the future has no age"
    assert asked(shard_mirrors.fetcher(now=lambda: time.time() + 7.1 * 86400)) == 2
    assert asked(shard_mirrors.fetcher(freshness=Freshness(refresh=True))) == 2
    assert asked(shard_mirrors.fetcher(freshness=Freshness(max_age=0.0))) == 2
    assert asked(shard_mirrors.fetcher(), past_caches=True) == 2
    first, second = (shard_mirrors.folder / "cache" / "shards").glob("*.absent")
    first.write_bytes(first.read_bytes().replace(b"http://", b"http://another."))
    second.write_bytes(b"[" * 4000)
    assert asked(shard_mirrors.fetcher()) == 2, "a note that cannot be read says nothing"
    write_shards(shard_mirrors.root(0) / "linux-64", LINUX)
    assert set(solved(shard_mirrors, shard_mirrors.fetcher(freshness=Freshness(refresh=True)))[1]) == {"noarch"}
    left = list((shard_mirrors.folder / "cache" / "shards").glob("*.absent"))
    assert len(left) == 1, "the index that came has taken its note away"


@pytest.mark.parametrize("status", [403, 503])
def test_a_refusal_or_a_failure_is_not_remembered(shard_mirrors: ShardMirrors, status: int) -> None:
    shard_mirrors.nginx.change(0, status=status)
    try:
        assert set(solved(shard_mirrors, shard_mirrors.fetcher())[1]) == set(SUBDIRS)
    finally:
        shard_mirrors.nginx.change(0, status=None)
    assert solved(shard_mirrors, shard_mirrors.fetcher())[1] == {}


@pytest.mark.parametrize(
    ("place", "named"),
    [
        (("index_fetch", "parse_index"), "the shard index of forge/linux-64"),
        (("ShardStore", "read"), "the shard of app in forge/linux-64"),
    ],
    ids=["index", "shard"],
)
def test_an_unexpected_exception_of_a_thread_names_what_it_worked_on(
    shard_mirrors: ShardMirrors, monkeypatch: pytest.MonkeyPatch, place: tuple[str, str], named: str
) -> None:
    """It ends the run as an internal error instead of a bare traceback, and nothing waits for that thread."""

    def broken(*_: object, **__: object) -> None:
        raise TypeError("what others sent")

    kept = shard_mirrors.fetcher()  # its store lists every shard of the channel as kept
    (opened,) = kept.open([shard_mirrors.sources("linux-64")])
    assert isinstance(opened, OpenIndex)
    listed = frozenset(digest.hex() for digest in opened.index.hashes.values())
    monkeypatch.setattr(ShardStore, "digests", lambda _: listed)
    monkeypatch.setattr({"index_fetch": index_fetch, "ShardStore": ShardStore}[place[0]], place[1], broken)
    subsets = Subsets[str](shard_mirrors.fetcher(), lambda: shard_mirrors.folder, add_pip=False)

    def extended() -> None:
        subsets.open({"linux-64": shard_mirrors.sources("linux-64")})
        subsets.extend(["app"])

    with pytest.raises(InternalError) as caught:
        extended()
    assert caught.value.message == f"{named}: internal error (TypeError)"
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_stop_ends_it(shard_mirrors: ShardMirrors) -> None:
    stopped: list[bool] = []
    fetcher = shard_mirrors.fetcher(cancelled=lambda: bool(stopped))
    (opened,) = fetcher.open([shard_mirrors.sources("linux-64")])
    assert isinstance(opened, OpenIndex)
    stopped.append(True)
    subsets = Subsets[str](fetcher, lambda: shard_mirrors.folder, add_pip=False)
    with pytest.raises(Interrupted):
        subsets.open({"a": shard_mirrors.sources("linux-64")})


def test_unused_files_are_removed(tmp_path: Path) -> None:
    now = [time.time()]
    store = ShardStore(tmp_path / "shards", now=lambda: now[0])
    old, young = "a" * 64, "b" * 64
    store.keep(old, b"old")
    killed = store.make_temporary()
    (killed / "0-1.json").write_bytes(b"12345")
    assert store.clean() == 0
    now[0] += 31 * 24 * 3600
    store.keep(young, b"young")
    now_is = now[0]
    os.utime(tmp_path / "shards" / f"{young}.msgpack.zst", (now_is, now_is))
    (tmp_path / "shards" / "of somebody else").write_bytes(b"x")
    assert store.clean() == 3 + 5
    assert {path.name for path in (tmp_path / "shards").iterdir()} == {f"{young}.msgpack.zst", "of somebody else"}


def test_progress_of_shards_is_reported_as_an_index(shard_mirrors: ShardMirrors) -> None:
    """What has come grows, and ends as what was downloaded."""
    fetcher = shard_mirrors.fetcher()
    solved(shard_mirrors, fetcher)
    told = shard_mirrors.told.told
    assert {each.index for each in told} == {"forge"}
    for key in {each.key for each in told}:
        counts = [each.done for each in told if each.key == key]
        assert counts == sorted(counts)
    last = {each.key: each for each in told}
    assert {each.state for each in last.values()} == {"downloaded"}
    assert sum(each.done for each in last.values()) == fetcher.downloaded
