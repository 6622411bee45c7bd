"""A client's index from mirrors where its own server gives none: a lying mirror's records never stand in it.

The outcome of each cell stands in docs/indexes.md. The client is one that solves later, as conda does; real ones are in
``test_plugin_solve_trust``.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from faults.behaviours import Headers, NeverAnswer, NotModified, Redirect, Status
from faults.server import FaultServer
from resume_dl.demo.channel import PackageSpec, build_channel, write_repodata
from resume_dl.indexes.client_channels import Brought, fetch_indexes_ahead
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.http import CacheHeaders
from resume_dl.model.url import RedactedUrl
from resume_dl.progress.console import Console
from resume_dl.progress.none import NoneReporter
from resume_dl.transfer.setup import TransferOptions, load_setup

AUTHORITY, EVIL, GOOD, FINE = range(4)
PORTS = {"evil": EVIL, "good": GOOD, "fine": FINE}
NAMES = {"first": ("evil", "good", "fine"), "last": ("good", "fine", "evil"), "alone": ("evil",)}
TROJAN = {"share/trojan.txt": b"trojan"}
HONEST = {"app-0.9-0.conda", "app-1.0-0.conda"}


def spec(version: str = "1.0", name: str = "app", **more: Any) -> PackageSpec:
    return PackageSpec(name=name, version=version, **more)


LIES: Mapping[str, tuple[PackageSpec, ...]] = {
    "other digest": (spec("0.9"), spec(files=TROJAN)),
    "newer version": (spec("0.9"), spec(), spec("9.9", files=TROJAN)),
    "future timestamp": (spec("0.9"), spec(), spec(build="1", timestamp=33_000_000_000_000, files=TROJAN)),
    "typo": (spec("0.9"), spec(), spec(name="appp", files=TROJAN)),
    "hash removed": (spec(files=TROJAN),),
    "rolled back": (spec("0.9"),),
}
OTHERWISE = {
    ("other digest", "first"): {"app-0.9-0.conda"},
    ("other digest", "last"): HONEST,
    ("rolled back", "first"): {"app-0.9-0.conda"},
}
"""What conda can choose from, where that is not all that is honest."""


PLACES = [(place, subdir) for place in ("honest", "rolled-back") for subdir in ("linux-64", "noarch")]


@dataclass
class Client:
    """One index of a client that asks for the packed file first."""

    base: RedactedUrl
    subdir: str
    filename: str = "repodata.json"
    channel: str = "lab"
    own: list[bytes] = field(default_factory=list)
    mirrors: list[bytes] = field(default_factory=list)

    def forms(self) -> Sequence[str]:
        return (f"{self.filename}.zst", self.filename)

    def validator(self) -> str | None:
        return None

    def is_settled(self) -> bool:
        return False

    def take(self, form: str, path: Path, said: CacheHeaders, largest: int | None) -> None:
        self.own.append(path.read_bytes())

    def take_from_mirrors(self, path: Path) -> None:
        self.mirrors.append(path.read_bytes())

    def keep(self) -> None:
        pass

    def lacks(self, form: str) -> None:
        pass

    def instead(self) -> Client | None:
        return None

    @property
    def records(self) -> dict[str, Any]:
        (text,) = self.mirrors
        records: dict[str, Any] = json.loads(text)["packages.conda"]
        return records


@dataclass
class World:
    server: FaultServer
    records: Mapping[str, Any]
    folder: Path = Path()

    def bring(
        self,
        mirrors: Sequence[str],
        lie: str = "newer version",
        *,
        filename: str = "repodata.json",
        named: tuple[str, ...] = (),
        names: tuple[str, ...] = ("app",),
        operators: Mapping[str, str] | None = None,
        again: bool = False,
    ) -> tuple[Brought, Client, Client]:
        """What conda would be given for linux-64 and noarch of the channel ``lab``."""
        base = self.server.base(AUTHORITY)
        text = f'schema = 1\n[origins]\n"conda:lab" = "{base}/honest/lab"\n'
        for name in mirrors:
            place = lie.replace(" ", "-") if name == "evil" else "honest"
            text += f'[[mirror]]\nname = "{name}"\noperator = "{(operators or {}).get(name, name)}"\n'
            text += f'[mirror.carries]\n"conda:lab" = "{self.server.base(PORTS[name])}/{place}/lab"\n'
        (self.folder / "mirrors.toml").write_text(text, encoding="utf-8")
        env = {f"RESUME_DL_{kind}_DIR": str(self.folder / kind) for kind in ("CACHE", "STATE", "CONFIG")}
        options = TransferOptions(mirrors_file=self.folder / "mirrors.toml", index_from=named)
        setup = load_setup(options, {"HOME": str(self.folder), **env}, conda=CondaSettings())
        address = f"{base}/honest/lab"
        clients = [Client(RedactedUrl(f"{address}/{subdir}"), subdir, filename) for subdir in ("linux-64", "noarch")]
        reporter = NoneReporter(Console(sys.stderr))
        brought = fetch_indexes_ahead(clients, setup, reporter, cancelled=lambda: False, names=names)
        return brought, clients[0], clients[1]

    def asked(self, name: str) -> list[str]:
        return [one.path for one in self.server.requests(PORTS[name])]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Any]]:
    root = tmp_path_factory.mktemp("channels")
    built = build_channel(root / "honest" / "lab", [spec("0.9"), spec()]).packages
    for lie, packages in LIES.items():
        channel = root / lie.replace(" ", "-") / "lab"
        made = build_channel(channel, packages).packages
        if lie == "hash removed":
            del made[0].record["sha256"], made[0].record["md5"]
            write_repodata(channel, "linux-64", made)
    return root, {package.filename: package.record for package in built}


@pytest.fixture
def world(honest: tuple[Path, Mapping[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The channel's own server refuses; a silent one costs half a second."""
    policy = TransferOptions.policy
    monkeypatch.setattr(TransferOptions, "policy", lambda options: replace(policy(options), authority_give_up=0.5))
    server = FaultServer(4)
    server.start()
    server.mount(honest[0])
    server.always(AUTHORITY, Status(403))
    yield World(server, honest[1], tmp_path)
    server.stop()


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("lie", LIES)
def test_a_lying_mirrors_records_are_never_used(world: World, lie: str, place: str) -> None:
    brought, client, noarch = world.bring(NAMES[place], lie, names=("appp" if lie == "typo" else "app",))
    assert brought.missed == []
    assert client.own == noarch.own == []
    records = client.records
    assert {*records} == OTHERWISE.get((lie, place), HONEST)
    assert all(records[filename] == world.records[filename] for filename in records)
    assert noarch.records == {}
    contradicted = {filename for each in brought.mirrored for filename in each.contradicted}
    assert contradicted == ({"app-1.0-0.conda"} if (lie, place) == ("other digest", "first") else set())
    if place == "last":
        assert world.asked("evil") == []


@pytest.mark.parametrize("mirrors", [("evil",), ("good",), ("good", "fine")])
def test_one_operator_alone_is_not_asked(world: World, mirrors: tuple[str, ...]) -> None:
    brought, client, _ = world.bring(mirrors, operators={"good": "one", "fine": "one"})
    assert [str(each.index.subdir) for each in brought.missed] == []  # refused by its server: conda's own to say
    assert client.mirrors == client.own == []
    assert [path for name in mirrors for path in world.asked(name)] == []


def test_a_silent_server_is_waited_for_once(world: World) -> None:
    """And one that breaks off, or fails: mirrors stand in for each."""
    for behaviour in (NeverAnswer(), Status(500)):
        world.server.always(AUTHORITY, behaviour)
        brought, client, _ = world.bring(("good", "fine"))
        assert brought.missed == []
        assert {*client.records} == HONEST
        assert {(each.host, each.carried_by) for each in brought.mirrored} == {
            (world.server.base(AUTHORITY).removeprefix("http://"), ("good", "fine"))
        }


def test_a_server_that_answers_decides(world: World) -> None:
    """404 is an answer too: no mirror is asked."""
    world.server.always(AUTHORITY, Status(404))
    brought, client, _ = world.bring(NAMES["first"])
    assert (brought.missed, client.mirrors) == ([], [])
    world.server.always(AUTHORITY)
    brought, client, _ = world.bring(NAMES["first"])
    assert (brought.missed, client.mirrors) == ([], [])
    assert len(client.own) == 1
    assert [path for name in PORTS for path in world.asked(name)] == []


def test_the_next_mirrors_are_asked_where_the_first_do_not_answer(world: World) -> None:
    world.server.always(EVIL, NeverAnswer())
    _, client, _ = world.bring(NAMES["first"])
    assert {*client.records} == HONEST
    world.server.always(GOOD, Status(503))
    brought, client, _ = world.bring(NAMES["first"])
    assert client.mirrors == []
    assert [each.note for each in brought.missed] == [
        "only fine of its mirrors has supplied an index, which is not enough"
    ] * 2


def test_mirrors_without_current_repodata_supply_the_whole_index(world: World) -> None:
    world.server.always(None, Status(404), path="*current_repodata*")
    world.server.always(AUTHORITY, Status(500))
    _, client, noarch = world.bring(("good", "fine"), filename="current_repodata.json")
    assert {*client.records} == HONEST
    assert noarch.records == {}


@pytest.mark.parametrize("subdir", ["linux-64", "noarch"])
def test_a_third_mirror_is_asked_for_a_dependency_that_one_alone_states(world: World, subdir: str) -> None:
    """In another index of the channel too; and not for a package that the request does not come to."""
    app = {**world.records["app-1.0-0.conda"], "depends": ["lib >=1"]}
    lib = {**app, "name": "lib", "depends": [], "sha256": "a" * 64, "md5": "b" * 32}
    records = {f"/{place}/lab/{each}": {"app-1.0-0.conda": app} if each == "linux-64" else {} for place, each in PLACES}
    records[f"/honest/lab/{subdir}"]["lib-1.0-0.conda"] = lib
    for path, each in records.items():
        world.server.put(f"{path}/repodata.json", json.dumps({"packages": {}, "packages.conda": each}).encode())
    world.server.always(None, Status(404), path="*.zst")
    world.server.always(AUTHORITY, Status(500))
    _, client, noarch = world.bring(NAMES["first"], "rolled back", names=("other",))
    assert {*client.records, *noarch.records} == {"app-1.0-0.conda"}
    assert world.asked("fine") == []
    _, client, noarch = world.bring(NAMES["first"], "rolled back")
    assert {*client.records, *noarch.records} == {"app-1.0-0.conda", "lib-1.0-0.conda"}
    assert all(f"/{subdir}/" in path for path in world.asked("fine"))


def test_a_platform_that_two_mirrors_lack_is_empty_and_noarch_never(world: World) -> None:
    world.server.always(None, Status(404), path="*/linux-64/*")
    world.server.always(AUTHORITY, Status(500))
    brought, client, noarch = world.bring(("good", "fine"))
    assert (client.records, noarch.records, brought.missed) == ({}, {}, [])
    world.server.always(None, Status(404), path="*/noarch/*")
    world.server.always(AUTHORITY, Status(500))
    brought, client, noarch = world.bring(("good", "fine"))
    assert noarch.mirrors == []
    assert [each.index for each in brought.missed] == [noarch]


def test_a_mirror_that_the_user_names_decides(world: World) -> None:
    """Before the channel's own server, and alone; the next one that was named where it has none."""
    world.server.always(AUTHORITY)
    brought, client, _ = world.bring(NAMES["first"], named=("evil",))
    assert "app-9.9-0.conda" in client.records
    assert {(each.vouched.value, each.carried_by) for each in brought.mirrored} == {("named", ("evil",))}
    assert world.server.requests(AUTHORITY) == []
    world.server.always(EVIL, Status(404))
    _, client, _ = world.bring(NAMES["first"], named=("evil", "good"))
    assert {*client.records} == HONEST
    _, client, _ = world.bring(NAMES["first"], named=("evil", "upstream", "good"))
    assert (client.mirrors, len(client.own)) == ([], 1)  # the client's own server, with its validators


def test_a_channel_with_a_login_has_no_mirrors(world: World) -> None:
    """Even where the user's own table has mirrors of it."""
    world.bring(("good", "fine"))
    before = len(world.asked("good"))
    options = TransferOptions(mirrors_file=world.folder / "mirrors.toml")
    setup = load_setup(options, {"HOME": str(world.folder)}, conda=CondaSettings())
    address = f"{world.server.base(AUTHORITY)}/honest/lab/linux-64".replace("http://", "http://user:secret@")
    client = Client(RedactedUrl(address), "linux-64")
    fetch_indexes_ahead([client], setup, NoneReporter(Console(sys.stderr)), cancelled=lambda: False)
    assert client.mirrors == []
    assert len(world.asked("good")) == before > 0


def test_a_mirror_that_redirects_to_another_is_no_second_witness(world: World) -> None:
    for subdir in ("linux-64", "noarch"):
        for name in ("repodata.json.zst", "repodata.json"):
            path = f"/honest/lab/{subdir}/{name}"
            world.server.always(FINE, Redirect(f"{world.server.base(GOOD)}{path}"), path=path)
    world.server.always(AUTHORITY, Status(500))
    brought, client, noarch = world.bring(("good", "fine"))
    assert client.mirrors == noarch.mirrors == []
    assert len(brought.missed) == 2


def test_a_platform_that_a_mirror_lacks_by_another_ones_word_is_not_empty(world: World) -> None:
    """A redirect to a 404 is the word of both operators."""
    for name in ("repodata.json.zst", "repodata.json"):
        path = f"/honest/lab/linux-64/{name}"
        world.server.always(FINE, Redirect(f"{world.server.base(GOOD)}{path}"), path=path)
        world.server.always(GOOD, Status(404), path=path)
    world.server.always(AUTHORITY, Status(500))
    brought, client, noarch = world.bring(("good", "fine"))
    assert client.mirrors == []
    assert [each.index for each in brought.missed] == [client]
    assert noarch.records == {}


def validators(world: World, path: str) -> dict[str, str | None]:
    """Anybody can read them."""
    with urllib.request.urlopen(world.server.base(GOOD) + path) as answer:
        return {name: answer.headers[name] for name in ("ETag", "Last-Modified")}


def test_a_redirect_counts_after_the_mirror_has_called_it_unchanged(world: World) -> None:
    """The other server gave its index under the mirror's own ETag, so the mirror answers 304 from then on."""
    for subdir in ("linux-64", "noarch"):
        for name in ("repodata.json.zst", "repodata.json"):
            path, forged = f"/honest/lab/{subdir}/{name}", f"/newer-version/lab/{subdir}/{name}"
            same = Headers(validators(world, path))
            world.server.always(FINE, Redirect(world.server.base(EVIL) + forged), path=path)
            world.server.always(EVIL, same, path=forged)
    assert world.bring(("fine", "evil"))[1].mirrors == []
    for subdir in ("linux-64", "noarch"):
        for name in ("repodata.json.zst", "repodata.json"):
            world.server.always(FINE, NotModified(), path=f"/honest/lab/{subdir}/{name}")
    for _ in range(2):
        assert world.bring(("fine", "evil"))[1].mirrors == []
    assert 304 in {one.status for one in world.server.requests(FINE)}


RUBBISH = {
    "file name": {"x": {}},
    "no record": {"x-1-0.conda": 1},
}


@pytest.mark.parametrize("rubbish", RUBBISH)
@pytest.mark.parametrize("place", ["first", "middle"])
def test_a_mirror_whose_index_cannot_be_read_does_not_stand_in_the_way(world: World, rubbish: str, place: str) -> None:
    """Its file is JSON with the right sections, so the merge finds out; the others agree all the same."""
    index = json.dumps({"info": {}, "packages": {}, "packages.conda": RUBBISH[rubbish]}).encode()
    for subdir in ("linux-64", "noarch"):
        world.server.put(f"/rolled-back/lab/{subdir}/repodata.json", index)
    world.server.always(EVIL, Status(404), path="*.zst")
    world.server.always(AUTHORITY, Status(500))
    mirrors = {"first": NAMES["first"], "middle": ("good", "evil", "fine")}[place]
    brought, client, noarch = world.bring(mirrors, "rolled back")
    assert brought.missed == []
    assert {*client.records} == HONEST
    assert noarch.records == {}
