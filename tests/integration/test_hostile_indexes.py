"""Channel indexes that were made to harm: they take little memory and disk, and the next source or form is asked."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import zstandard

from faults.behaviours import Answer, Status
from faults.server import FaultServer
from resume_dl.cli.fetch import command as fetch_command
from resume_dl.errors import IntegrityError
from resume_dl.indexes.copies import KeptCopies
from resume_dl.resolve import repodata
from resume_dl.resolve.repodata import LARGEST, check_index, unpack_zst
from resume_dl.transfer.setup import TransferOptions
from support.fetching import Done, User, index_from
from support.logins import build_small_channels, serve

ZST, PLAIN = "linux-64/repodata.json.zst", "linux-64/repodata.json"
MIB = 1 << 20


def bomb(blocks: int, *, window: int = 17) -> bytes:
    """A zstd frame of so many blocks of 128 KiB of zeros, four bytes each (RFC 8878 3.1.1.2); ``window``: a power."""
    block = (128 << 10) << 3 | 1 << 1
    return b"".join(
        [
            b"\x28\xb5\x2f\xfd\x00" + bytes([(window - 10) << 3]),
            *[block.to_bytes(3, "little") + b"\0"] * (blocks - 1),
            (block | 1).to_bytes(3, "little") + b"\0",
        ]
    )


# --- unpacking --------------------------------------------------------------------------------------------------------

CHILD = """
import resource, sys
from pathlib import Path
from resume_dl.errors import IntegrityError
from resume_dl.resolve.repodata import unpack_zst
import zstandard
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    said = unpack_zst(Path(sys.argv[1]), Path(sys.argv[2]), largest=int(sys.argv[3]))
except IntegrityError as error:
    said = error
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, said, sep="|")
"""


def unpack_apart(packed: Path, target: Path, largest: int) -> tuple[int, str]:
    """MiB that it took in a process of its own, and what it came to."""
    pytest.importorskip("resource", reason="this system does not say how much memory a process took")
    command = [sys.executable, "-c", CHILD, str(packed), str(target), str(largest)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    megabytes, _, said = done.stdout.strip().partition("|")
    return int(megabytes), said


def test_a_decompression_bomb_takes_little_memory_and_leaves_nothing(tmp_path: Path) -> None:
    """33 KB that come to 1.1 GB: all of it was in memory at once."""
    packed, target = tmp_path / "repodata.json.zst", tmp_path / "repodata.json"
    packed.write_bytes(bomb(8400))
    assert packed.stat().st_size < 34_000
    megabytes, said = unpack_apart(packed, target, 300 * MIB)
    assert f"exceeds the limit of {300 * MIB} bytes" in said
    assert megabytes < 150
    assert [path.name for path in tmp_path.iterdir()] == ["repodata.json.zst"]


def test_a_valid_index_takes_little_memory_too(tmp_path: Path) -> None:
    packed, target = tmp_path / "repodata.json.zst", tmp_path / "repodata.json"
    packed.write_bytes(zstandard.ZstdCompressor(level=19).compress(bytes(200 * MIB)))
    megabytes, said = unpack_apart(packed, target, 1 << 30)
    assert said == str(200 * MIB) == str(target.stat().st_size)
    assert megabytes < 150


REFUSED = {
    "too large": bomb(20),
    "too large in the second frame": bomb(6) + bomb(6),
    "a window of a terabyte": bomb(2, window=40),
    "a window of 256 MiB": bomb(2, window=28),
    "cut off": zstandard.compress(b"{}" * 1000)[:-3],
    "cut off in its second frame": bomb(2) + bomb(2)[:-2],
    "something behind it": bomb(2) + b"something",
    "nothing": b"",
    "an empty frame": zstandard.compress(b""),
    "no zstd": b"<html>" * 100,
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_failed_unpacking_leaves_nothing(tmp_path: Path, kind: str) -> None:
    packed, target = tmp_path / "repodata.json.zst", tmp_path / "repodata.json"
    packed.write_bytes(REFUSED[kind])
    with pytest.raises(IntegrityError, match="cannot be unpacked"):
        unpack_zst(packed, target, largest=MIB)
    assert not target.exists()


NOT_AN_INDEX = {
    "cut off": b'{"packages": {"a-1-0.conda": {',
    "a page": b"<html></html>",
    "a list": b"[]",
    "packages are a list": b'{"packages": []}',
    "packages are a number": b'{"packages.conda": 5}',
    "info is null": b'{"info": null, "packages": {}}',
    "something behind it": b'{"packages": {}}{"packages": {}}',
    "a million levels": b'{"packages": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}",
    "nothing": b"",
    "a bare word": b'{"packages": {"a-1-0.conda": tru}}',
}


@pytest.mark.parametrize("kind", NOT_AN_INDEX)
def test_an_invalid_index_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "repodata.json"
    path.write_bytes(NOT_AN_INDEX[kind])
    with pytest.raises(IntegrityError, match="it is not a channel index: "):
        check_index(path)


@pytest.mark.parametrize("kind", sorted(NOT_AN_INDEX.keys() - {"something behind it", "a bare word"}))
def test_most_of_them_are_refused_without_msgspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """As in resume-dl.pyz, which looks at the ends of a file and at the beginnings of its sections alone."""
    monkeypatch.setitem(sys.modules, "msgspec", None)
    test_an_invalid_index_is_refused(tmp_path, kind)


def test_blanks_at_the_ends_are_no_fault_without_msgspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgspec", None)
    for text in (b"{}", b"{ }", b' {"packages": {}, "info" : {}, "removed": 5}', b'\n{\n "packages.conda": {}\n}\n\n'):
        test_an_index_may_lack_optional_fields(tmp_path, text)


@pytest.mark.parametrize("text", [b"{}", b'{"packages": {}, "info": {}, "removed": 5}', b' {"packages.conda": {}}\n'])
def test_an_index_may_lack_optional_fields(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "repodata.json"
    path.write_bytes(text)
    check_index(path)


def test_the_default_limit_is_one_gibibyte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As --help says: of what comes, of what it comes to, and of the copies that a run keeps."""
    assert KeptCopies(tmp_path).largest == LARGEST == 1 << 30
    assert KeptCopies(tmp_path, largest=5).largest == 5
    assert TransferOptions().max_index_size is None
    (option,) = (each for each in fetch_command.params if each.name == "max_index_size")
    assert "[default: 1GiB]" in (option.help or "")
    told: list[int] = []
    monkeypatch.setattr(repodata, "_unpack", lambda source, target, unpacker, largest: told.append(largest))
    (tmp_path / "a").write_bytes(bomb(1))
    unpack_zst(tmp_path / "a", tmp_path / "b")
    assert told == [1 << 30]


def test_exactly_as_large_as_is_allowed(tmp_path: Path) -> None:
    packed, target = tmp_path / "repodata.json.zst", tmp_path / "repodata.json"
    packed.write_bytes(bomb(4) + bomb(4))
    assert unpack_zst(packed, target, largest=MIB) == MIB == target.stat().st_size


# --- a whole fetch ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Instead:
    """Other bytes than the file's."""

    data: bytes

    def apply(self, answer: Answer) -> None:
        answer.replace_body(self.data)
        answer.headers.pop("ETag", None)


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_small_channels(tmp_path_factory.mktemp("channels"), "a") / "a"


@pytest.fixture
def server(channel: Path, fault_server) -> FaultServer:
    server: FaultServer = fault_server(ports=2)
    serve(server, channel, "/a")
    return server


@pytest.fixture
def user(tmp_path: Path, server: FaultServer) -> User:
    """Two mirrors of one channel, the first asked first; indexes of 1 MB at most."""
    user = User(tmp_path / "user")
    user.condarc = {"pkgs_dirs": [str(user.pkgs)], "channels": ["a"]}
    places = {name: {"conda:a": f"{server.base(port)}/a"} for port, name in enumerate(("one", "two"))}
    user.options += ["--mirrors", str(user.write_mirrors(places)), "--no-upstream", *index_from(places)]
    user.options += ["--max-index-size", "1MB"]
    return user


def assert_fetched(user: User, done: Done) -> None:
    assert done.code == 0, done.err
    assert done.statuses == {"a-1-0.conda": "downloaded"}
    assert_tidy(user)


def assert_tidy(user: User) -> None:
    """Nothing is left of what was refused."""
    kept = [path for path in (user.folder / "cache" / "repodata").rglob("*") if path.is_file()]
    assert all(path.suffix in (".json", ".note", ".absent") or path.name.endswith(".lock") for path in kept), kept
    assert sum(path.stat().st_size for path in kept) < MIB


@pytest.mark.parametrize("kind", ["too large", "cut off", "a window of a terabyte", "something behind it"])
def test_the_next_mirror_is_asked(user: User, server: FaultServer, kind: str) -> None:
    """It was the end of the run: exit 4, or 1.1 GB of memory."""
    server.always(0, Instead(REFUSED[kind]), path=f"/a/{ZST}")
    server.always(0, Status(404), path=f"/a/{PLAIN}")
    done = user.fetch("a", "--json")
    assert_fetched(user, done)
    first, second = server.requests(None, f"/a/{ZST}")
    assert first.port != second.port
    name = ("one", "two")[first.port]
    assert f"warning: a/linux-64/repodata.json.zst of {name}: cannot be unpacked: " in done.err


def test_the_plain_form_is_requested_if_no_packed_one_is_usable(user: User, server: FaultServer) -> None:
    server.always(None, Instead(REFUSED["too large"]), path=f"/a/{ZST}")
    assert_fetched(user, user.fetch("a", "--json"))
    assert server.requests(None, f"/a/{PLAIN}")


def test_an_index_that_is_refused_everywhere_is_named_with_its_sources(user: User, server: FaultServer) -> None:
    server.always(None, Instead(REFUSED["too large"]), path=f"/a/{ZST}")
    server.always(None, Status(404), path=f"/a/{PLAIN}")
    done = user.fetch("a", "--json")
    assert done.code == 6
    message = done.report["error"]["message"]
    assert "the index of a/linux-64 is unavailable" in message
    assert "of one: " in message
    assert "of two: " in message
    assert "exceeds the limit of 1000000 bytes" in message
    assert_tidy(user)


def test_a_packed_index_with_too_large_a_stated_size_is_not_downloaded(user: User, server: FaultServer) -> None:
    data = zstandard.compress(b"{}") + bytes(2_000_000)
    server.always(0, Instead(data), path=f"/a/{ZST}")
    server.always(0, Status(404), path=f"/a/{PLAIN}")
    assert_fetched(user, user.fetch("a", "--json"))
    first, second = server.requests(None, f"/a/{ZST}")
    assert first.port != second.port


class Endless(BaseHTTPRequestHandler):
    """An index that says nothing of its length, and goes on until the client leaves."""

    sent = 0

    def do_GET(self) -> None:
        if not self.path.endswith(PLAIN):
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):
            while type(self).sent < 1 << 30:
                self.wfile.write(b'{"packages": {' + b" " * 65536)
                type(self).sent += 65536

    def log_message(self, *_: object) -> None:
        """Keep silent."""


@pytest.fixture
def endless() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/a"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("others", [True, False])
def test_a_plain_index_without_an_end_is_abandoned(user: User, server: FaultServer, endless: str, others: bool) -> None:
    """It filled the disk."""
    places = {"one": {"conda:a": endless}}
    if others:
        places["two"] = {"conda:a": f"{server.base(1)}/a"}
        server.always(1, Status(404), path=f"/a/{ZST}")
    else:
        user.options.remove("two")
        user.options.reverse()
        user.options.remove("--index-from")
        user.options.reverse()
    user.write_mirrors(places)
    done = user.fetch("a", "--json")
    if others:
        assert_fetched(user, done)
    else:
        assert done.code == 6
        assert "the index of a/linux-64 is unavailable" in done.report["error"]["message"]
        assert "larger than the 1000000 bytes" in done.report["error"]["message"]
        assert_tidy(user)
    assert Endless.sent < 1 << 30


def test_the_limit_can_be_set_in_config_toml(user: User, server: FaultServer) -> None:
    """And one that is too small for every form says how to raise it."""
    del user.options[-2:]
    (user.folder / "config").mkdir()
    (user.folder / "config" / "config.toml").write_text('max_index_size = "100"\n', encoding="utf-8")
    done = user.fetch("a", "--json")
    assert done.code == 6
    assert "--max-index-size" in done.report["error"]["hint"]
    assert user.fetch("a", "--json", "--max-index-size", "1MB").code == 0
