"""The screens of fetch, Ctrl-C, resume and doctor, at three sizes in three encodings.

The servers stall where the screen is looked at, and go on when it was: no test waits for a speed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.behaviours import Ok, Stall
from faults.server import FaultServer
from support.conda_cache import Offer, build_large_offer
from support.emulator import EmulatedTerminal
from support.fetching import User

SIZES = [(40, 24), (80, 24), (200, 50)]
ENCODINGS = ["utf-8", "gbk", "ascii"]
LARGE = "pytorch-1.7.1-py3.8_cuda11.0.221_cudnn8.0.5_0.conda"
COUNT = 12
_COMMAND = re.compile(r"(conda create|resume-dl) ")
_ESCAPED = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
_BAR = re.compile(r"(\d+)% (\|(.*)\|)?")


@pytest.fixture(scope="module")
def offer(tmp_path_factory: pytest.TempPathFactory) -> Offer:
    """A pytorch that is worth a journal."""
    return build_large_offer(tmp_path_factory.mktemp("offer"), large=3_000_000)


@pytest.fixture
def server(offer: Offer, fault_server) -> FaultServer:
    server = fault_server(ports=2)
    server.mount(offer.root)
    return server


@pytest.fixture
def user(tmp_path: Path, server: FaultServer, at_home: Callable[..., None]) -> User:
    """A user with two mirrors, whose environment and folder this process has."""
    user = User(tmp_path / "user")
    user.mirrors(tuna=server.base(0), ustc=server.base(1))
    at_home(user)
    return user


def fetch_words(user: User) -> list[str]:
    options = [word if word != "20s" else "10m" for word in user.options]
    return ["fetch", *options, "pytorch=1.7"]


def stall(server: FaultServer) -> None:
    """Each port gives 1 MB of the large file, and after that not a byte more, however often it is asked."""
    server.script(None, [Stall(after=1_000_000), Stall()], path=f"*{LARGE}")


def go_on(server: FaultServer) -> None:
    server.always(None, Ok())
    server.drop_connections()


def assert_calm(terminal: EmulatedTerminal, *, indent: int = 8) -> list[str]:
    """Nothing is cut by the terminal's edge but commands and words that no line can hold; nothing is unreadable.

    ``indent``: the most columns that lines leave empty before their text.
    """
    lines, columns = terminal.shown(), terminal.columns
    for row in sorted(terminal.layout.wrapped):
        at = row - 1
        while at in terminal.layout.wrapped:
            at -= 1
        if row - 1 == at:
            head, word = "".join(lines[at:row]), lines[at].split(" ")[-1] + lines[row].split(" ")[0]
            assert _COMMAND.search(head) or len(word) > columns - indent, f"cut: {head!r} {lines[row]!r}"
    text = "\n".join(lines)
    assert "\ufffd" not in terminal.raw
    assert "Traceback" not in text
    assert not _ESCAPED.search(text)
    if terminal.encoding != "utf-8":
        assert text.isascii()
    for found in map(_BAR.search, lines):
        assert found is None or not found[3] or not re.search(r"\d", found[3]), f"digits in a bar: {found[0]!r}"
    return lines


def bars(lines: list[str]) -> list[str]:
    return [line for line in lines if _BAR.search(line)]


def percent(lines: list[str]) -> int:
    """Of the total's bar."""
    found = [_BAR.search(line) for line in lines]
    return next((int(each[1]) for each in found if each), -1)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_fetch_stopped_resumed_and_cached(server: FaultServer, user: User, columns: int, lines: int, encoding: str):
    """Each screen is whole while the command runs and at its end, where the summary and what to type stand last."""
    with EmulatedTerminal(columns, lines, encoding=encoding) as terminal:
        stall(server)
        safe = stop_while_it_stalls(terminal, user)
        go_on(server)
        assert terminal.run(fetch_words(user)) == 0
        done = assert_calm(terminal)
        seen = [bars(screen)[0] for screen in terminal.tape if f"/{COUNT}" in "".join(bars(screen)[:1])]
        assert [line for line in seen if percent([line]) < safe] == [], f"what was there, {safe}%, is there at once"
        assert_summary(done, user)
        text = " ".join(" ".join(done).split())
        assert re.search(r" from: (tuna|ustc) \d\S* [kM]B", text)
        assert re.search(r" saved: \d\S* of 3\.\d MB, by resuming and the cache ", text)
        assert terminal.run(fetch_words(user)) == 0
        cached = assert_calm(terminal)
        assert_summary(cached, user)
        assert "B/s" not in "".join(cached)


def is_stalled(lines: list[str]) -> bool:
    """Whether all files but the large one are there, and some of that."""
    found = bars(lines)
    return len(found) == 2 and f"{COUNT - 1}/{COUNT}" in found[0] and 20 < percent(lines) < 100


def stop_while_it_stalls(terminal: EmulatedTerminal, user: User) -> int:
    """The percentage that is safe on disk."""
    looked = threading.Event()

    def person() -> None:
        terminal.wait(is_stalled, "bytes of the large file alone")
        assert_calm(terminal)
        looked.set()
        terminal.press_ctrl_c()

    assert terminal.run(fetch_words(user), person) == 130
    assert looked.is_set()
    shown = assert_calm(terminal)
    assert not any("^C" in line for line in shown)
    assert any(line.startswith("stopping; press Ctrl-C again") for line in shown)
    assert len(bars(shown)) == 1
    at = next(number for number, line in enumerate(shown) if line.startswith("error: "))
    assert [line for line in shown[at:] if line.startswith("  safe on disk: ")]
    assert shown[-1].startswith("  ")
    assert "what is on disk is kept" in " ".join(" ".join(shown[at:]).split())
    listed = [line for line in shown if line.startswith(("stopped ", "downloaded "))]
    assert len(listed) == COUNT, "one line a file"
    assert listed[-1].startswith("stopped ")
    return percent(shown)


def assert_summary(lines: list[str], user: User) -> None:
    """The sums, whose index, and last of all the command, whole."""
    at = next(number for number, line in enumerate(lines) if line.startswith(f"{COUNT} packages, "))
    assert not bars(lines[at:])
    assert any(line.startswith("index: pytorch, tuna") for line in lines[at:])
    last = next(number for number, line in enumerate(lines) if line.startswith("To use exactly these files:"))
    assert last > at
    assert re.fullmatch(
        r"To use exactly these files:\s+conda create --name NAME --file \S+\.txt", "".join(lines[last:])
    )


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_doctor(user: User, columns: int, lines: int, encoding: str):
    """Marks, names and texts, none cut, and the counts last."""
    with EmulatedTerminal(columns, lines, encoding=encoding) as terminal:
        assert terminal.run(["doctor", "--offline"]) in {0, 1}
        shown = assert_calm(terminal, indent=19 if columns >= 80 else 8)  # behind two columns, or below them
    assert any(line.startswith(("ok ", "note ", "problem ")) for line in shown)
    assert re.fullmatch(r"\d problems?, \d+ notes?", shown[-1])


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_mirrors_test(server: FaultServer, user: User, columns: int, lines: int, encoding: str):
    """Each mirror with what it did, the one that is down too, and the conclusion last."""
    bases = {"tuna": server.base(0), "ustc": server.base(1), "down": "http://127.0.0.1:9"}
    table = user.write_mirrors({name: {"conda:pytorch": f"{base}/pytorch"} for name, base in bases.items()})
    words = ["mirrors", "test", "--mirrors", str(table), "--origin", "pytorch", "--platform", "linux-64"]
    with EmulatedTerminal(columns, lines, encoding=encoding) as terminal:
        assert terminal.run([*words, "--no-upstream"]) == 0
        shown = assert_calm(terminal)
    for name in bases:
        assert any(re.match(rf" *{name}  ", line) for line in shown), shown
    assert "connection refused" in " ".join(" ".join(shown).split())
    assert not shown[-1].startswith(("  tuna", "  ustc", "  down"))
