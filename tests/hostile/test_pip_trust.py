"""A hostile mirror of a package index: what it says never counts, unless the user has named it (docs/indexes.md)."""

from __future__ import annotations

import hashlib
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from faults.behaviours import NeverAnswer, Ok, Redirect, SilentUntil, Status
from faults.server import FaultServer
from resume_dl.core.policy import Policy
from resume_dl.errors import ChannelUnavailableError, IntegrityError, ResumeDLError
from resume_dl.indexes.copies import Freshness
from resume_dl.indexes.pip.catalogue import Catalogue, Wanted
from resume_dl.indexes.pip.index_notes import IndexNotes
from resume_dl.indexes.pip.kept_pages import KeptPages
from resume_dl.indexes.pip.metadata import read_metadata
from resume_dl.indexes.pip.page_sources import PageSources, WheelSources
from resume_dl.indexes.pip.pages import Pages
from resume_dl.indexes.small_answers import Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.model.index_report import Vouched
from resume_dl.model.mirror import Mirror, MirrorTable
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.index_page import ListedFile
from resume_dl.transfer.source_places import Places
from resume_dl.transport.client import HttpTransport
from support.fetching import User
from support.installable import venv_with_pip
from support.pip_index import build_wheel, write_index


def digest(word: str) -> str:
    return hashlib.sha256(word.encode()).hexdigest()


GOOD = {version: (f"demo-{version}-py3-none-any.whl", digest(version)) for version in ("1.0", "2.0")}
EVIL = digest("evil")


def page(*files: tuple[str, str]) -> bytes:
    """Links of name and sha256; none for an empty one."""
    return "".join(
        f'<a href="../../f/{name}{value and "#sha256=" + value}">{name}</a>' for name, value in files
    ).encode()


HONEST = page(*GOOD.values())
NEWER, POST = "demo-9.9-py3-none-any.whl", "demo-2.0.post1-py3-none-any.whl"
ROWS = {
    "same name, other digest": page(GOOD["1.0"], (GOOD["2.0"][0], EVIL)),
    "newer version": page(*GOOD.values(), (NEWER, EVIL)),
    "typo's name": HONEST,
    "hash removed": page(GOOD["1.0"], (GOOD["2.0"][0], "")),
    "extra file link": page(*GOOD.values(), (POST, ""))
    + b'<a href="http://evil.invalid/demo-3.0-py3-none-any.whl">x</a>',
    "page rolled back": page(GOOD["1.0"]),
}
POSITIONS = ("first", "last", "alone")


@dataclass
class World:
    """An index at port 0, an honest mirror of it at 1, a hostile one at 2."""

    server: FaultServer
    transport: HttpTransport
    kept: Path
    last_chance: float = 0.5
    """Seconds for an authority that is asked once more."""

    def table(self, position: str) -> MirrorTable:
        good = Mirror("good", carries={"pypi:simple": f"{self.server.base(1)}/good"}, operator="one")
        evil = Mirror("evil", carries={"pypi:simple": f"{self.server.base(2)}/evil"}, operator="two")
        mirrors = {"first": (evil, good), "last": (good, evil), "alone": (evil,)}[position]
        return MirrorTable({"pypi:simple": f"{self.server.base(0)}/simple"}, mirrors)

    def catalogue(
        self, position: str, *, unreachable: bool = False, named: tuple[str, ...] = (), notes: IndexNotes | None = None
    ) -> Catalogue:
        reader = Reader(self.transport, Policy(authority_give_up=1.0, unreached_give_up=self.last_chance))
        if unreachable:  # as an earlier page of the run has found
            self.server.always(0, NeverAnswer())
            reader.network.give_up([RedactedUrl(self.server.base(0)).host])
        pages = Pages(reader, Places(self.table(position)), named=named, notes=notes)
        return Catalogue(pages, indexes=(RedactedUrl(f"{self.server.base(0)}/simple"),), wanted=Wanted({}, {}))

    def listed(self, catalogue: Catalogue, name: str = "demo") -> dict[str, ListedFile] | None:
        """What is offered of a project, without the files that end the run if they are chosen."""
        files = catalogue.project(0, name)
        if files is None:
            return None
        found = {}
        for file in files:
            try:
                catalogue.check(file)
            except IntegrityError:
                found[file.filename] = file
            else:
                assert file.hashes == {"sha256": GOOD[file.filename.split("-")[1]][1]}
                found[file.filename] = file
        return found


@pytest.fixture
def world(tmp_path: Path, fault_server: Callable[..., FaultServer]) -> Iterator[World]:
    server = fault_server(ports=3)
    server.put("/simple/demo/", HONEST)
    server.put("/good/demo/", HONEST)
    transport = HttpTransport(NetworkSettings())
    yield World(server, transport, tmp_path / "kept")
    transport.close()


def lie(world: World, row: str) -> str:
    """Let the hostile mirror do it; the project that is asked for."""
    name = "dmeo" if row == "typo's name" else "demo"
    world.server.put(f"/evil/{name}/", ROWS[row].replace(b"demo-", f"{name}-".encode()))
    return name


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("row", ROWS)
def test_the_authority_answers(world: World, row: str, position: str) -> None:
    """Its page decides, and nobody else is asked for one."""
    name = lie(world, row)
    found = world.listed(world.catalogue(position), name)
    assert found is None if name == "dmeo" else found is not None and set(found) == {each for each, _ in GOOD.values()}
    assert world.server.requests(1) == []
    assert world.server.requests(2) == []


@pytest.mark.parametrize("position", POSITIONS)
def test_the_authority_says_404(world: World, position: str) -> None:
    """That is an answer: mirrors that have the project do not outrank it."""
    world.server.always(0, Status(404))
    lie(world, "newer version")
    assert world.catalogue(position).project(0, "demo") is None
    assert world.server.requests(2) == []


@pytest.mark.parametrize("position", ["first", "last"])
@pytest.mark.parametrize("row", ROWS)
def test_the_authority_is_silent(world: World, row: str, position: str) -> None:
    """What both mirrors state counts, and nothing that one of them adds; a contradiction ends it if it is chosen."""
    name = lie(world, row)
    notes = IndexNotes()
    catalogue = world.catalogue(position, unreachable=True, notes=notes)
    if row == "typo's name":
        with pytest.raises(ChannelUnavailableError, match="only evil has it") as caught:
            catalogue.project(0, name)
        assert caught.value.exit_code == 6
        assert notes.reports == (), "its page is not used"
        return
    found = world.listed(catalogue)
    assert found is not None
    hint = notes.hint({"demo"})
    assert (NEWER in hint) == (row == "newer version")
    assert "no second mirror states" in hint or row == "same name, other digest"
    assert "--index-from" not in hint, "the mirror that alone states it may be the liar"
    both = {"page rolled back", "hash removed"}
    assert set(found) == {GOOD["1.0"][0], *([] if row in both else [GOOD["2.0"][0]])}
    if row == "same name, other digest":
        with pytest.raises(IntegrityError) as conflict:
            catalogue.metadata(found[GOOD["2.0"][0]])
        assert conflict.value.exit_code == 4
        assert all(f"--index-from {side}" in conflict.value.hint for side in ("evil", "good"))
        assert all(word in conflict.value.message for word in ("good says", "evil says", EVIL, GOOD["2.0"][1]))
        assert not [request for request in world.server.requests() if "/f/" in request.path]


@pytest.mark.parametrize("row", ROWS)
def test_the_authority_is_silent_and_the_mirror_alone(world: World, row: str) -> None:
    """Exit 6 with the way out, until the user names the mirror: then its page counts, and this is said."""
    name = lie(world, row)
    with pytest.raises(ChannelUnavailableError, match="only one mirror, evil, has answered") as caught:
        world.catalogue("alone", unreachable=True).project(0, name)
    assert "--index-from" in caught.value.hint
    assert "evil" not in caught.value.hint
    said: list[str] = []
    notes = IndexNotes(lambda text, _: said.append(text))
    named = world.catalogue("alone", unreachable=True, named=("evil",), notes=notes)
    assert named.project(0, name)
    assert said == [f"index of {world.server.base(0)}/simple from evil, as --index-from says"]
    assert [(each.vouched.value, each.carried_by) for each in notes.reports] == [("named", ("evil",))]


def test_a_silent_authority_is_waited_for_once(world: World) -> None:
    """For all pages of the run together, by the one patience that the policy has for it."""
    lie(world, "newer version")
    for number in range(6):
        for place in ("good", "evil"):
            world.server.put(f"/{place}/p{number}/", page((f"p{number}-1.0-py3-none-any.whl", digest("p"))))
    world.server.always(0, NeverAnswer())
    catalogue = world.catalogue("first")
    for number in range(6):
        assert catalogue.project(0, f"p{number}")
    assert len(world.server.requests(0)) == 1


def test_a_silent_authority_that_comes_back_decides_after_all(world: World) -> None:
    """It answers once the one mirror was asked in its place; the next page is asked of it as if it had never been."""
    lie(world, "newer version")
    world.last_chance = 60.0
    world.server.put("/simple/next/", page(("next-1.0-py3-none-any.whl", digest("next"))))
    world.server.always(0, SilentUntil(lambda: bool(world.server.requests(2))))
    catalogue = world.catalogue("alone")
    found = world.listed(catalogue)
    assert found is not None
    assert set(found) == {each for each, _ in GOOD.values()}
    asked = len(world.server.requests(2))
    assert [file.filename for file in catalogue.project(0, "next") or ()] == ["next-1.0-py3-none-any.whl"]
    assert len(world.server.requests(2)) == asked


def test_files_without_a_digest_stay_at_their_own_address(world: World) -> None:
    """The index itself has none: its own place gives the bytes and the METADATA, no mirror does."""
    world.server.put("/simple/demo/", page((GOOD["1.0"][0], "")))
    table = world.table("first")
    mirrors = [
        Mirror(each.name, carries={**each.carries, "pypi:files": f"{world.server.base(2)}/{each.name}"})
        for each in table.mirrors
    ]
    table = MirrorTable({**table.origins, "pypi:files": world.server.base(0)}, tuple(mirrors))
    pages = Pages(Reader(world.transport), Places(table))
    (file,) = pages.page(RedactedUrl(f"{world.server.base(0)}/simple/demo/")) or []
    assert [source.mirror for source in pages.sources.of_file(file)] == ["upstream"]
    assert pages.of_wheel(file).carriers() == []
    known = ListedFile(file.filename, file.url, hashes={"sha256": EVIL})
    assert {source.mirror for source in pages.sources.of_file(known)} == {"upstream", "good", "evil"}


def test_the_address_that_a_page_gives_is_no_witness_of_its_metadata(world: World) -> None:
    """A mirror may name any host: with that mirror's own copy it would be the second one."""
    path = f"packages/aa/bb/{'c' * 60}/{GOOD['1.0'][0]}"
    mirror = Mirror("evil", carries={"pypi:files": f"{world.server.base(2)}/packages"}, operator="two")
    sources = PageSources(Places(MirrorTable({"pypi:files": f"{world.server.base(0)}/packages"}, (mirror,))))
    file = ListedFile(GOOD["1.0"][0], f"{world.server.base(1)}/{path}", hashes={"sha256": GOOD["1.0"][1]}, stated="")
    assert [source.mirror for source in sources.anywhere(file)] == ["given", "evil", "upstream"]
    assert [source.mirror for source in WheelSources(sources, file).carriers()] == ["evil", "upstream"]


def test_a_page_that_is_kept_counts_for_its_own_source_alone(world: World) -> None:
    """What a named mirror said is not taken for the index's own word by a later run without the name; nor offline."""
    lie(world, "newer version")
    kept = KeptPages(world.kept)
    index = RedactedUrl(f"{world.server.base(0)}/simple/demo/")

    def pages(*, named: tuple[str, ...] = (), offline: bool = False) -> Pages:
        reader = Reader(world.transport)
        return Pages(
            reader, Places(world.table("first")), named=named, kept=kept, offline=offline,
            freshness=Freshness(max_age=600.0),
        )  # fmt: skip

    assert len(pages(named=("evil",)).page(index) or []) == 3
    with pytest.raises(Exception, match="no source"):
        pages(offline=True).page(index)
    assert len(pages().page(index) or []) == 2
    assert len(pages(offline=True).page(index) or []) == 2
    assert len(pages(named=("evil",), offline=True).page(index) or []) == 3
    before = len(world.server.requests())
    assert len(pages().page(index) or []) == 2  # still fresh
    assert len(world.server.requests()) == before


def test_metadata_that_a_named_mirror_gave_is_not_used_without_the_name(world: World) -> None:
    """It may have stated the right digest of a wheel, and other METADATA."""
    kept = KeptPages(world.kept)
    wheel = ListedFile(GOOD["1.0"][0], "https://origin.example/f.whl", hashes={"sha256": GOOD["1.0"][1]})
    places = Places(world.table("first"))
    pages = Pages(Reader(world.transport), places, kept=kept)
    pages.keep_metadata(replace(wheel, stated="https://evil.example/f.whl"), b"Requires-Dist: trojan")
    assert pages.kept_metadata(wheel) is None
    assert pages.kept_metadata(replace(wheel, stated="")) is None
    pages.keep_metadata(wheel, b"right")
    assert pages.kept_metadata(wheel) == b"right"
    assert pages.kept_metadata(replace(wheel, metadata={"sha256": EVIL})) is None


def test_an_index_over_plain_http_is_reported_once() -> None:
    said: list[str] = []
    notes = IndexNotes(lambda text, _: said.append(text))
    for url in ("http://10.0.0.7/simple", "http://127.0.0.1:1/simple", "https://10.0.0.7/simple") * 2:
        index = RedactedUrl(url)
        notes.add(index, Source("upstream", index), Vouched.AUTHORITY)
    assert said == ["the index of 10.0.0.7 comes over plain http, so it can be altered on the way"]


def test_two_mirrors_of_one_operator_are_one_witness(world: World) -> None:
    lie(world, "newer version")
    table = world.table("first")
    mirrors = tuple(Mirror(each.name, carries=each.carries, operator="one") for each in table.mirrors)
    world.server.always(0, NeverAnswer())
    reader = Reader(world.transport, Policy(unreached_give_up=world.last_chance))
    reader.network.give_up([RedactedUrl(world.server.base(0)).host])
    pages = Pages(reader, Places(MirrorTable(table.origins, mirrors)))
    with pytest.raises(ResumeDLError, match="only one mirror"):
        pages.page(RedactedUrl(f"{world.server.base(0)}/simple/demo/"))


def twins(world: World) -> PageSources:
    """The hostile mirror, and another operator's whose server redirects to it."""
    evil, base = world.table("alone").mirrors[0], world.server.base(1)
    carries = {"pypi:simple": f"{base}/twin", "pypi:files": f"{base}/twin/f"}
    evil = replace(evil, carries={**evil.carries, "pypi:files": f"{world.server.base(2)}/evil/f"})
    origins = {"pypi:simple": f"{world.server.base(0)}/simple", "pypi:files": f"{world.server.base(0)}/f"}
    return PageSources(Places(MirrorTable(origins, (evil, Mirror("twin", carries=carries, operator="one")))))


def test_a_mirror_that_redirects_to_another_is_no_second_witness(world: World) -> None:
    lie(world, "newer version")
    world.server.always(1, Redirect(f"{world.server.base(2)}/evil/demo/"), path="/twin/demo/")
    world.server.always(0, NeverAnswer())
    reader = Reader(world.transport, Policy(unreached_give_up=world.last_chance))
    reader.network.give_up([RedactedUrl(world.server.base(0)).host])
    with pytest.raises(ChannelUnavailableError) as caught:
        Pages(reader, twins(world).places).page(RedactedUrl(f"{world.server.base(0)}/simple/demo/"))
    assert caught.value.exit_code == 6
    assert "evil and twin, have the same operator" in caught.value.message


def test_a_redirecting_mirror_is_no_second_witness_for_a_missing_page(world: World) -> None:
    world.server.always(1, Redirect(f"{world.server.base(2)}/evil/other/"), path="/twin/other/")
    world.server.always(0, NeverAnswer())
    reader = Reader(world.transport, Policy(unreached_give_up=world.last_chance))
    reader.network.give_up([RedactedUrl(world.server.base(0)).host])
    with pytest.raises(ChannelUnavailableError) as caught:
        Pages(reader, twins(world).places).page(RedactedUrl(f"{world.server.base(0)}/simple/other/"))
    assert caught.value.exit_code == 6


def test_a_redirecting_mirror_is_no_second_witness_for_metadata(world: World, tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, "demo", "1.0")
    world.server.put(f"/evil/f/{wheel.filename}", wheel.path.read_bytes())
    world.server.always(1, Redirect(f"{world.server.base(2)}/evil/f/{wheel.filename}"), path="/twin/f/*")
    file = ListedFile(
        wheel.filename, f"{world.server.base(0)}/f/{wheel.filename}", hashes={"sha256": wheel.sha256}, stated=""
    )
    sources = WheelSources(twins(world), file)
    assert [source.mirror for source in sources.carriers()] == ["evil", "twin", "upstream"]
    with pytest.raises(Unanswered, match="two mirrors of different operators"):
        read_metadata(file, sources, Reader(world.transport))
    world.server.put(f"/twin/f/{wheel.filename}", wheel.path.read_bytes())
    world.server.always(1, Ok(), path="/twin/f/*")
    assert read_metadata(file, sources, Reader(world.transport)).size == wheel.path.stat().st_size


# --- real processes ---------------------------------------------------------------------------------------------------


@pytest.mark.nginx
@pytest.mark.parametrize("command", ["fetch", "pip install"])
def test_real_commands_beside_a_hostile_mirror(tmp_path: Path, nginx_mirrors, command: str) -> None:
    """It stands first, with other bytes of the wheel and a newer one; neither counts, and no page is asked of it."""
    good = build_wheel(tmp_path / "good", "demo", "1.0")
    evil = [build_wheel(tmp_path / "evil", "demo", version, files={"evil.py": b""}) for version in ("1.0", "9.9")]
    write_index(tmp_path / "index", [good])
    write_index(tmp_path / "hostile", evil)
    nginx = nginx_mirrors([tmp_path / "index", tmp_path / "hostile"])
    user = User(tmp_path / "user")
    places = [{"pypi:simple": f"{nginx.base(n)}/simple", "pypi:files": f"{nginx.base(n)}/packages"} for n in (0, 1)]
    table = user.write_mirrors({"hostile": places[1]}, origins=places[0])
    common = ["--mirrors", table, "--give-up-after", "20s", "--index-url", f"{nginx.base(0)}/simple"]
    if command == "fetch":
        done = user.run("fetch", *common, "--pip", "demo", "--json")
        assert done.code == 0, done.err
        assert [(each["version"], each["sha256"]) for each in done.report["artifacts"]] == [("1.0", good.sha256)]
        assert done.report["index_bytes"] > 0
        (index,) = done.report["indexes"]
        assert (index["vouched"], index["carried_by"], index["form"]) == ("authority", [], "pages")
    else:
        python = venv_with_pip(user.folder / "venv")
        done = user.run("pip", "install", *common, "demo", env={"VIRTUAL_ENV": str(user.folder / "venv")})
        assert done.code == 0, done.err
        code = "import demo, importlib.util; print(demo.VERSION, importlib.util.find_spec('evil'))"
        shown = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        assert shown.stdout.split() == ["1.0", "None"]
    assert not [request for request in nginx.requests(1) if "/simple/" in request.uri]


@pytest.mark.nginx
def test_a_real_fetch_from_a_mirror_alone(tmp_path: Path, nginx_mirrors) -> None:
    """The index does not answer, and one mirror has it: exit 6 with the way out, until the user takes it."""
    write_index(tmp_path / "hostile", [build_wheel(tmp_path / "evil", "demo", "9.9")])
    nginx = nginx_mirrors([tmp_path / "hostile"])
    user = User(tmp_path / "user")
    carries = {"pypi:simple": f"{nginx.base(0)}/simple", "pypi:files": f"{nginx.base(0)}/packages"}
    table = user.write_mirrors({"hostile": carries}, origins={"pypi:simple": "http://127.0.0.1:9/simple"})
    words = ["fetch", "--mirrors", table, "--give-up-after", "2s", "--pip", "demo", "--json"]
    done = user.run(*words)
    assert done.code == 6, done.err
    assert "--index-from" in done.err
    assert "--index-from hostile" not in done.err
    assert not [request for request in nginx.requests() if request.uri.endswith(".whl")]
    done = user.run(*words, "--index-from", "hostile")
    assert done.code == 0, done.err
    assert [each["version"] for each in done.report["artifacts"]] == ["9.9"]
    assert "from hostile, as --index-from says" in done.err
    assert [(index["vouched"], index["carried_by"]) for index in done.report["indexes"]] == [("named", ["hostile"])]


@pytest.mark.nginx
def test_a_real_pip_install_with_a_silent_index(tmp_path: Path, nginx_mirrors) -> None:
    """Two mirrors agree on 1.0; what the first one adds is not installed, and the index's silence is said once."""
    good = build_wheel(tmp_path / "good", "demo", "1.0")
    newer = build_wheel(tmp_path / "evil", "demo", "9.9", files={"evil.py": b""})
    write_index(tmp_path / "honest", [good])
    write_index(tmp_path / "hostile", [good, newer])
    nginx = nginx_mirrors([tmp_path / "hostile", tmp_path / "honest"])
    user = User(tmp_path / "user")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and never answers
        index = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        table = tmp_path / "mirrors.toml"
        text = f'schema = 1\n[origins]\n"pypi:simple" = "{index}"\n'
        for number, name in enumerate(("hostile", "honest")):
            base = nginx.base(number)
            text += f'[[mirror]]\nname = "{name}"\noperator = "{name}"\n[mirror.carries]\n'
            text += f'"pypi:simple" = "{base}/simple"\n"pypi:files" = "{base}/packages"\n'
        table.write_text(text, encoding="utf-8")
        python = venv_with_pip(user.folder / "venv")
        words = ["pip", "install", "--mirrors", table, "--index-url", index, "demo"]
        done = user.run(*words, env={"VIRTUAL_ENV": str(user.folder / "venv")})
    assert done.code == 0, done.err
    assert done.err.count("of its index only what two mirrors of different operators agree on is used") == 1
    code = "import demo, importlib.util; print(demo.VERSION, importlib.util.find_spec('evil'))"
    shown = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    assert shown.stdout.split() == ["1.0", "None"]
    assert not [request for request in nginx.requests() if newer.filename in request.uri]
