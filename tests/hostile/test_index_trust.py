"""A mirror whose channel index lies, beside honest ones: its bytes never come, unless the user named it.

The outcome of each cell stands in docs/indexes.md. The use cases run in this process, on real servers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from faults.behaviours import NeverAnswer, Redirect, SilentUntil, Status
from faults.server import FaultServer
from resume_dl.app.bundle_create import CreateRequest, create
from resume_dl.app.fetch import fetch
from resume_dl.core.policy import Policy
from resume_dl.demo.channel import BuiltPackage, PackageSpec, build_channel, write_repodata
from resume_dl.errors import ResumeDLError
from resume_dl.indexes.whole import FORMATS
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.transfer.report import RunResult
from resume_dl.transfer.setup import TransferOptions, load_setup
from support.fetching import User
from support.in_process import Heard, LastingWorker

FUTURE = 33_000_000_000_000
"""Milliseconds: the year 3015."""
PORTS = {"answers": 0, "silent": 4, "404": 5}
"""What the authority does -> its port. The hostile mirror is port 1, two honest ones are 2 and 3."""
NAMES = {"first": ("evil", "good", "fine"), "last": ("good", "fine", "evil"), "alone": ("evil",)}


def spec(version: str = "1.0", name: str = "app", **more: Any) -> PackageSpec:
    return PackageSpec(name=name, version=version, **more)


TROJAN = {"share/trojan.txt": b"trojan"}


LIES: Mapping[str, PackageSpec] = {
    "other digest": spec(files=TROJAN),
    "newer version": spec("9.9", files=TROJAN),
    "future timestamp": spec(build="1", build_number=1, timestamp=FUTURE, files=TROJAN),
    "typo": spec(name="appp", files=TROJAN),
    "hash removed": spec(files=TROJAN),
    "rolled back": spec("0.9"),
}


@dataclass(frozen=True)
class World:
    server: FaultServer
    honest: BuiltPackage
    old: BuiltPackage
    lies: Mapping[str, BuiltPackage]


OTHER_SUBDIR = "another subdir"
TWIN = 7
"""The port of a mirror whose server redirects indexes to the hostile one."""
NOARCH_ONLY = 6
"""The port of an authority that answers for noarch alone."""


@pytest.fixture(scope="module")
def worker() -> Iterator[LastingWorker]:
    worker = LastingWorker()
    yield worker
    worker.end()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("channels")
    old, honest = build_channel(root / "honest" / "lab", [spec("0.9"), spec()]).packages
    lies = {}
    for lie, made in {**LIES, OTHER_SUBDIR: spec("9.9", files=TROJAN)}.items():
        channel = root / lie.replace(" ", "-") / "lab"
        (lies[lie],) = build_channel(channel, [made]).packages
        if lie == "hash removed":
            for digest in ("sha256", "md5"):
                del lies[lie].record[digest]
            write_repodata(channel, "linux-64", [lies[lie]])
        elif lie in {"newer version", "future timestamp", "typo"}:
            build_channel(channel, [spec("0.9"), spec(), made])
        elif lie == OTHER_SUBDIR:
            lies[lie].record["subdir"] = "noarch"
            write_repodata(channel, "linux-64", [lies[lie]])
    server = FaultServer(8)
    server.start()
    for place in root.iterdir():
        server.mount(place.parent)
    server.always(PORTS["silent"], NeverAnswer())
    server.always(PORTS["404"], Status(404))
    server.always(NOARCH_ONLY, Status(503), path="/honest/lab/linux-64/*")
    for subdir, name in product(("linux-64", "noarch"), FORMATS):
        file = f"lab/{subdir}/{name}"
        server.always(TWIN, Redirect(f"{server.base(1)}/newer-version/{file}"), path=f"/honest/{file}")
    yield World(server, honest, old, lies)
    server.stop()


@dataclass
class Run:
    """How a cell ended."""

    code: int
    result: RunResult | None
    error: ResumeDLError | None
    files: dict[str, bytes]
    lines: list[str]

    def brings(self, package: BuiltPackage) -> bool:
        return self.code == 0 and self.files == {package.filename: package.path.read_bytes()}


@dataclass
class Cell:
    """One command against one world."""

    folder: Path
    world: World
    worker: LastingWorker
    hurried: bool = False
    """Whether a server that has not answered within a second counts as silent: where nothing is to be had, so that it
    does not matter which of them a busy machine has answered late."""

    def run(
        self,
        lie: str,
        *,
        authority: str,
        mirrors: tuple[str, ...],
        command: str = "fetch",
        wanted: str = "app",
        named: tuple[str, ...] = (),
        operators: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Run:
        server = self.world.server
        ports = (("good", 2), ("fine", 3), ("poor", 5), ("twin", TWIN))
        bases = {name: f"{server.base(port)}/honest/lab" for name, port in ports}
        bases["evil"] = f"{server.base(1)}/{lie.replace(' ', '-')}/lab"
        text = f'schema = 1\n[origins]\n"conda:lab" = "{server.base(PORTS.get(authority, NOARCH_ONLY))}/honest/lab"\n'
        for name in mirrors:
            operator = name if operators is None else operators[name]
            text += f'[[mirror]]\nname = "{name}"\noperator = "{operator}"\n'
            text += f'[mirror.carries]\n"conda:lab" = "{bases[name]}"\n'
        self.folder.mkdir(exist_ok=True)
        (self.folder / "mirrors.toml").write_text(text, encoding="utf-8")
        env = {f"RESUME_DL_{kind}_DIR": str(self.folder / kind) for kind in ("CACHE", "STATE", "CONFIG")}
        chosen = TransferOptions(mirrors_file=self.folder / "mirrors.toml", index_from=named, **options)
        setup = load_setup(chosen, {"HOME": str(self.folder), **env}, conda=CondaSettings())
        output, heard = self.folder / "out", Heard()
        request = FetchRequest(
            specs=(wanted,), channels=("lab",), override_channels=True, platforms=("linux-64",), extract=False
        )
        result, error = None, None
        try:
            if command == "fetch":
                result = fetch(replace(request, dest=output), setup, heard, worker=self.worker)
            else:
                result = create(CreateRequest(fetch=request, output=output), setup, heard, worker=self.worker)
            code = result.exit_code
        except ResumeDLError as caught:
            code, error = caught.exit_code, caught
        files = {path.name: path.read_bytes() for path in output.rglob("*.conda")}
        return Run(code, result, error, files, heard.lines)


@pytest.fixture
def cell(world: World, worker: LastingWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cell:
    """A silent authority costs half a second for its index; asked once more, ten, or one in a hurried cell."""
    policy = TransferOptions.policy
    made = Cell(tmp_path / "cell", world, worker)
    again = {"unreached_give_up": 0.5, "first_byte_seconds": 1.0, "first_byte_most": 1.0}

    def short(options: TransferOptions) -> Policy:
        limits = again if made.hurried else {"unreached_give_up": 10.0}
        return replace(policy(options), authority_give_up=0.5, **limits)

    monkeypatch.setattr(TransferOptions, "policy", short)
    return made


# --- the table --------------------------------------------------------------------------------------------------------

COMMANDS = ("fetch", "bundle create")


def expected(lie: str, authority: str, place: str) -> set[int]:
    """The exit codes that a cell may have; 0 always with the honest bytes."""
    if authority == "404":
        return {3}
    if authority == "answers":
        return {3} if lie == "typo" else {0}
    if place == "alone":
        return {6}
    if lie == "typo":
        return {6} if place == "first" else {3}
    return {4} if (lie, place) == ("other digest", "first") else {0}


@pytest.mark.parametrize("place", NAMES)
@pytest.mark.parametrize("authority", PORTS)
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_lying_mirrors_packages_are_never_fetched(
    cell: Cell, command: str, lie: str, authority: str, place: str
) -> None:
    wanted = "appp" if lie == "typo" else "app"
    cell.hurried = 6 in expected(lie, authority, place)
    run = cell.run(lie, authority=authority, mirrors=NAMES[place], command=command, wanted=wanted)
    assert {run.code} == expected(lie, authority, place), (
        run.error,
        run.lines,
        [(e.error, e.sources) for e in (run.result.artifacts if run.result else ())],
    )
    if run.code != 0:
        assert run.files == {}
        return
    # what two operators agree on is genuine, but a mirror that leads may be behind
    behind = lie == "rolled back" and authority == "silent" and place == "first"
    assert run.brings(cell.world.old if behind else cell.world.honest), run.files.keys()
    assert run.result is not None
    assert {index.vouched.value for index in run.result.indexes} == {
        "authority" if authority == "answers" else "agreement"
    }
    if authority == "silent":  # the other subdir's index is empty: nothing of it is used
        assert [(index.subdir, len(index.carried_by)) for index in run.result.indexes] == [("linux-64", 2)]


def test_a_record_that_names_another_subdir_is_not_that_subdirs(cell: Cell) -> None:
    """The authority answers for noarch alone; a carrier's linux-64 index has a record that says it is of noarch."""
    run = cell.run(OTHER_SUBDIR, authority="noarch only", mirrors=NAMES["first"])
    assert run.brings(cell.world.honest), (run.code, run.error, run.files.keys())


@pytest.mark.parametrize("lie", ["newer version", "future timestamp"])
def test_a_named_mirrors_packages_are_fetched(cell: Cell, lie: str) -> None:
    """Each time said in one line, in the report and in a bundle's manifest."""
    run = cell.run(lie, authority="answers", mirrors=NAMES["last"], named=("evil",), command="bundle create")
    assert run.brings(cell.world.lies[lie])
    assert "index of lab from evil, as --index-from says" in run.lines
    assert run.result is not None
    assert {(index.vouched.value, index.carried_by) for index in run.result.indexes} == {("named", ("evil",))}
    manifest = json.loads((cell.folder / "out" / "manifest.json").read_text())
    assert {index["vouched"] for index in manifest["indexes"]} == {"named"}


# --- what the errors say ----------------------------------------------------------------------------------------------


def test_one_mirror_alone_is_not_enough(cell: Cell) -> None:
    cell.hurried = True
    run = cell.run("newer version", authority="silent", mirrors=("good",))
    assert run.code == 6
    assert run.error is not None
    assert "cannot be reached" in run.error.message
    assert "only good has answered" in run.error.message
    assert "--index-from" in run.error.hint
    assert "good" not in run.error.hint, "the only one that answered may be the liar"
    cell.hurried = False
    assert cell.run("newer version", authority="silent", mirrors=("good",), named=("good",)).brings(cell.world.honest)


@pytest.mark.parametrize("mirrors", [("good",), ("evil", "poor")], ids=["one alone", "two that do not agree"])
def test_an_authority_that_comes_back_decides_after_all(
    cell: Cell, monkeypatch: pytest.MonkeyPatch, mirrors: tuple[str, ...]
) -> None:
    """It answers once the mirrors were asked in its place; ``poor`` has nothing."""
    policy = TransferOptions.policy
    monkeypatch.setattr(TransferOptions, "policy", lambda options: replace(policy(options), unreached_give_up=60.0))
    server = cell.world.server
    ports = [{"good": 2, "evil": 1, "poor": PORTS["404"]}[name] for name in mirrors]
    before = [len(server.requests(port)) for port in ports]

    def were_asked() -> bool:
        return all(len(server.requests(port)) > old for port, old in zip(ports, before, strict=True))

    server.always(PORTS["silent"], SilentUntil(were_asked))
    try:
        run = cell.run("newer version", authority="silent", mirrors=mirrors)
    finally:
        server.always(PORTS["silent"], NeverAnswer())
    assert run.brings(cell.world.honest), (run.code, run.error, run.lines)
    assert run.result is not None
    assert {index.vouched.value for index in run.result.indexes if index.subdir == "linux-64"} == {"authority"}
    (said,) = [line for line in run.lines if "once more" in line]
    assert "--index-from)" in said, "the only one that answered may be the liar: it is not recommended"


def test_two_mirrors_of_one_operator_count_as_one(cell: Cell) -> None:
    operators = {"good": "lab", "fine": "lab"}
    cell.hurried = True
    run = cell.run("newer version", authority="silent", mirrors=("good", "fine"), operators=operators)
    assert run.code == 6
    assert run.files == {}


@pytest.mark.parametrize("mirrors", [("evil", "twin"), ("twin", "evil")])
def test_a_mirror_that_redirects_to_another_is_no_second_witness(cell: Cell, mirrors: tuple[str, ...]) -> None:
    cell.hurried = True
    run = cell.run("newer version", authority="silent", mirrors=mirrors)
    assert (run.code, run.files) == (6, {})
    again = cell.run("newer version", authority="silent", mirrors=mirrors, index_max_age=600.0)
    assert (again.code, again.files) == (6, {}), "it is forgotten where the copy came from"
    cell.hurried = False
    assert cell.run("newer version", authority="silent", mirrors=(*mirrors, "good")).brings(cell.world.honest)


def test_a_mirror_that_redirects_to_all_others_keeps_none_of_them_from_being_asked(cell: Cell) -> None:
    """Each form of the index elsewhere, where it is not: its answer is that of all three operators."""
    server = cell.world.server
    for subdir, (name, port) in product(("linux-64", "noarch"), zip(FORMATS, (2, 3), strict=True)):
        to = f"{server.base(port)}/nowhere/{name}"
        server.always(1, Redirect(to), path=f"/everywhere/lab/{subdir}/{name}")
    run = cell.run("everywhere", authority="silent", mirrors=NAMES["first"])
    assert run.brings(cell.world.honest), (run.code, run.error)


def test_a_contradiction_names_both_sides(cell: Cell) -> None:
    run = cell.run("other digest", authority="silent", mirrors=("evil", "good"))
    assert run.code == 4
    assert run.error is not None
    assert "add --index-from evil or --index-from good" in run.error.hint
    for word in ("evil", "good", cell.world.honest.sha256, cell.world.lies["other digest"].sha256):
        assert word in run.error.message
    assert cell.world.server.requests(path="*app-1.0*.conda") == [] or run.files == {}


def test_no_upstream_makes_no_authority(cell: Cell) -> None:
    """A limit on where bytes come from is no trust: as if the authority could not be reached, without a request."""
    before = len(cell.world.server.requests(PORTS["answers"]))
    cell.hurried = True
    alone = cell.run("newer version", authority="answers", mirrors=("evil",), upstream=False)
    assert (alone.code, alone.files) == (6, {})
    cell.hurried = False
    agreed = cell.run("newer version", authority="answers", mirrors=NAMES["first"], upstream=False)
    assert agreed.brings(cell.world.honest)
    assert len(cell.world.server.requests(PORTS["answers"])) == before


@pytest.mark.parametrize("kind", ["wrong-type", "panic"])
def test_a_record_that_cannot_be_read_makes_the_next_be_asked(cell: Cell, tmp_path: Path, kind: str) -> None:
    """It was exit 4, without another mirror being asked; a panic of the solver's library was an internal error."""
    channel = tmp_path / "rubbish"
    (made,) = build_channel(channel, [spec()]).packages
    if kind == "wrong-type":
        made.record["depends"] = 5
    write_repodata(channel, "linux-64", [made])
    if kind == "panic":
        index = json.loads((channel / "linux-64" / "repodata.json").read_text())
        index["info"]["base_url"] = "http://["
        (channel / "linux-64" / "repodata.json").write_text(json.dumps(index))
        (channel / "linux-64" / "repodata.json.zst").unlink(missing_ok=True)
    for path in channel.rglob("*"):
        if path.is_file():
            cell.world.server.put(f"/{kind}/lab/{path.relative_to(channel).as_posix()}", path.read_bytes())
    run = cell.run(kind, authority="silent", mirrors=("evil", "good", "fine"))
    assert run.brings(cell.world.honest), (run.error, run.lines)
    named = cell.run(kind, authority="silent", mirrors=("evil", "good"), named=("evil", "good"))
    assert named.code == 0, (named.error, named.lines)


# --- real processes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["option", "config.toml", "mirrors.toml"])
def test_where_a_mirror_may_be_named(world: World, tmp_path: Path, way: str) -> None:
    """On the command line or in the user's config.toml; a table of mirrors cannot make its own be believed."""
    user = User(tmp_path / "user")
    user.condarc["channels"] = ["lab"]
    table = user.write_mirrors({"evil": {"conda:lab": f"{world.server.base(1)}/newer-version/lab"}})
    options = ["--mirrors", str(table), "--no-upstream"]
    if way == "option":
        options += ["--index-from", "evil"]
    elif way == "config.toml":
        (user.folder / "config").mkdir()
        (user.folder / "config" / "config.toml").write_text('[trust]\nindex_from = ["evil"]\n', encoding="utf-8")
    else:
        table.write_text(table.read_text() + '\n[trust]\nindex_from = ["evil"]\n', encoding="utf-8")
    done = user.fetch("app", "--json", *options)
    if way == "mirrors.toml":
        assert done.code == 2
        assert "trust" in done.report["error"]["message"]
        return
    assert done.code == 0, done.err
    assert "index of lab from evil, as --index-from says" in done.err
    assert {index["vouched"] for index in done.report["indexes"]} == {"named"}
    assert {index["channel"] for index in done.report["indexes"]} == {"lab"}
