"""What a person sees of a run in a real terminal: aligned, nothing wrapped, nothing left behind, nothing untrue.

The servers stall where the screen is to be looked at, and go on when it was: no test waits for a speed.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from faults.behaviours import Ok, Rate, Stall
from faults.server import FaultServer
from support.conda_cache import Offer, build_large_offer
from support.fetching import User
from support.terminal import PROMPT, TMUX_HINT, Terminal, find_tmux

SIZES = [(80, 24), (40, 24), (200, 50)]
OpenTerminal = Callable[..., Terminal]
_BAR = re.compile(r"(\d+)% (\|.*\||[a-z])")
"""Of a line that shows a file or the total: its percentage, and its bar or what is said in its place."""


@pytest.fixture(scope="module")
def offer(tmp_path_factory: pytest.TempPathFactory) -> Offer:
    """A pytorch that is worth a journal."""
    return build_large_offer(tmp_path_factory.mktemp("offer"), large=8_000_000)


@pytest.fixture
def terminal(user: User) -> Iterator[OpenTerminal]:
    """Open the user's terminal: ``terminal(columns, lines)``."""
    if find_tmux() is None:
        pytest.skip(TMUX_HINT)
    with ExitStack() as stack:

        def open_terminal(columns: int, lines: int, **env: str) -> Terminal:
            return stack.enter_context(Terminal(user.folder, columns=columns, lines=lines, env=user.environment(env)))

        yield open_terminal


def bars(screen: list[str]) -> list[str]:
    """The lines with a percentage and a bar."""
    return [line for line in screen if _BAR.search(line)]


def assert_calm(screen: list[str], columns: int) -> None:
    """Bars stand in one block, aligned, none wider than the terminal; nothing of them stands elsewhere."""
    found = bars(screen)
    at = screen.index(found[0])
    assert screen[at : at + len(found)] == found, "one block"
    assert len({line.index("% ") for line in found}) == 1, "aligned"
    assert max(len(line) for line in screen) <= columns
    assert not any("█" in line or "/s" in line for line in screen[:at] + screen[at + len(found) :]), "residue"


def percent(screen: list[str]) -> int:
    """Of the first bar: the total's, or the only file's; -1 where there is none."""
    return next((int(found[1]) for line in screen if (found := _BAR.search(line))), -1)


def total_says(terminal: Terminal, *words: str) -> Callable[[], bool]:
    """Whether the first bar has all these words."""
    return lambda: any(all(word in line for word in words) for line in bars(terminal.screen())[:1])


def fetch_command(user: User, *options: str) -> str:
    """A few words, so that what is typed leaves room on a narrow screen; it has the patience of the slowest machine."""
    script = user.folder / "fetch.sh"
    script.write_text(
        f"exec resume-dl fetch {' '.join([*user.options, *options])} --give-up-after 10m pytorch=1.7\n",
        encoding="utf-8",
    )
    return "sh fetch.sh"


def stall(server: FaultServer) -> None:
    """Each port gives 1 MB of the large file, and after that not a byte more, however often it is asked."""
    server.script(None, [Stall(after=1_000_000), Stall()], path="*pytorch-1.7.1*")


def go_on(server: FaultServer) -> None:
    """The servers serve well from now on, those that stalled too."""
    server.always(None, Ok())
    server.drop_connections()


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_a_stopped_fetch_continues(
    terminal: OpenTerminal, server: FaultServer, user: User, columns: int, lines: int
) -> None:
    """Fresh, stopped by Ctrl-C, resumed and cached: the counts are true at each moment, and nothing is left behind."""
    stall(server)
    screen = terminal(columns, lines)
    command = fetch_command(user)

    screen.type(command)
    screen.wait(total_says(screen, "11/12"), "all but one file")
    screen.wait(lambda: 10 <= percent(screen.screen()) < 100, "bytes of the large file")
    shown = screen.screen()
    assert_calm(shown, columns)
    assert bars(shown)[1].startswith("pytorch-")
    screen.press("C-c")
    screen.wait_for_prompt()
    stopped = screen.history()
    assert len(bars(stopped)) == 1, "the total's last state"
    assert "11/12" in bars(stopped)[0]
    assert "left" not in bars(stopped)[0]
    safe = percent(stopped)
    assert 10 <= safe < 100
    assert not any("^C" in line for line in stopped)
    assert any(line.startswith("error: ") for line in stopped), "it begins in the first column"

    stall(server)
    screen.type(command)
    screen.wait(lambda: [line[:8] for line in bars(screen.screen())[1:]] == ["pytorch-"], "the resumed file")
    screen.wait(lambda: percent(screen.screen()) > safe, "bytes of this run")
    shown = screen.screen()
    assert_calm(shown, columns)
    assert percent(shown) < 100
    seen = [percent(each) for each in screen.tape if "/12" in "".join(bars(each)[:1])]  # after the indexes' own bars
    assert min(seen) >= safe, "what was there is there from the first drawing on"
    assert max(seen) < 100
    go_on(server)
    screen.wait_for_prompt()
    done = screen.history()
    assert len(bars(done)) == 1
    assert "12/12" in bars(done)[0]
    assert percent(done) == 100

    screen.type(command)
    screen.wait_for_prompt()
    assert all("12/12" in bars(each)[0] for each in screen.tape if "/12" in "".join(bars(each)[:1]))
    assert "12/12" in bars(screen.history())[0]
    assert "/s" not in bars(screen.history())[0]


@pytest.mark.parametrize("size", SIZES[:2])
def test_an_index_download_is_one_line(
    terminal: OpenTerminal, server: FaultServer, user: User, offer: Offer, size: tuple[int, int]
) -> None:
    """What came of how much, while it comes; nothing of it stays, and the sum at the end says the bytes."""
    import zstandard

    index = json.loads((offer.root / "pytorch" / "linux-64" / "repodata.json").read_bytes())
    index["info"]["noise"] = random.Random(1).randbytes(2_200_000).hex()
    packed = zstandard.compress(json.dumps(index).encode())
    server.put("/pytorch/linux-64/repodata.json.zst", packed)
    server.script(None, [Stall(after=1_000_000), Stall()], path="/pytorch/linux-64/repodata.json.zst")
    screen = terminal(*size)
    screen.type(fetch_command(user))
    screen.wait(
        lambda: any(re.match("index( of .*pytorch.*)?: ", line) for line in screen.screen()), "the line of the index"
    )
    screen.wait(lambda: any(re.search(r"[1-9].* of 2\.\d MB", line) for line in screen.screen()), "what has come")
    shown = [line for line in screen.screen() if " MB" in line]
    assert len(shown) == 1
    assert len(shown[0]) < size[0]
    assert re.match(
        r"index( of (pytorch|pkgs/main|pytorch and pkgs/main|pkgs/main and pytorch))?: \d\.\d of 2\.\d MB", shown[0]
    )
    go_on(server)
    screen.wait_for_prompt()
    left = screen.unwrapped()
    assert not any(re.search(r"\d of 2\.\d MB", line) for line in left)
    assert re.search(r"; index: 2\.\d MB; ", " ".join(" ".join(left).split())), "in lines that we have broken"


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_messages_of_failing_mirrors_stand_above_the_bars(
    terminal: OpenTerminal, server: FaultServer, user: User, columns: int, lines: int
) -> None:
    """Each begins in the first column of a line of its own, with all blanks of it its own, and the bars stay whole."""
    stall(server)
    screen = terminal(columns, lines)
    screen.type(fetch_command(user, "--verbose"))
    screen.wait(total_says(screen, "11/12"), "all but one file")
    server.close_port(0)
    server.drop_connections()
    screen.wait(lambda: any(": one " in line for line in screen.unwrapped()), "what became of mirror one")
    assert_calm(screen.screen(), columns)
    go_on(server)
    screen.wait_for_prompt()
    done = screen.history()
    assert len(bars(done)) == 1
    assert any(re.match(r"pytorch-1\.7\.1\S+: one ", line) for line in screen.unwrapped())
    assert not any(line.startswith(" " * 20) for line in done), "no message begins where a bar had ended"


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_get_shows_one_bar(terminal: OpenTerminal, server: FaultServer, columns: int, lines: int) -> None:
    """The file's, also where its name is of wide letters; stopped, resumed and whole."""
    screen = terminal(columns, lines)
    for path in ("data.bin", "%E6%95%B0%E6%8D%AE%E9%9B%86" * 5 + ".bin"):
        server.put(f"/{path}", bytes(3_000_000))
        server.script(None, [Stall(after=1_000_000), Stall()])
        command = f"resume-dl get --give-up-after 10m {server.base()}/{path}"
        screen.type(command)
        screen.wait(lambda: percent(screen.screen()) >= 30, "bytes")
        assert_calm(screen.screen(), columns)
        assert len(bars(screen.screen())) == 1
        assert bars(screen.screen())[0].startswith(("data.bin", "数据集"))
        screen.press("C-c")
        screen.wait_for_prompt()
        assert len(bars(screen.history())) == 1
        assert not any("^C" in line for line in screen.history())
        go_on(server)
        screen.type(command)
        screen.wait_for_prompt()
        assert len(bars(screen.history())) == 1
        assert percent(screen.history()) == 100
        assert min(percent(each) for each in [*screen.tape, screen.history()] if bars(each)) >= 30


def test_speed_and_time_left_are_shown(terminal: OpenTerminal, server: FaultServer) -> None:
    """Both come with the bytes, and go when there are no more."""
    server.put("/data.bin", bytes(60_000_000))
    server.always(None, Rate(2_000_000))
    screen = terminal(80, 24)
    screen.type(f"resume-dl get {server.base()}/data.bin")
    screen.wait(lambda: bool(re.search(r"\d/60\.0 MB +\S+ [kM]?B/s +\d\d:\d\d left$", screen.screen()[-1])), "a time")
    assert_calm(screen.screen(), 80)
    screen.press("C-c")
    screen.wait_for_prompt()
    assert "left" not in bars(screen.history())[0]


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (200, 50)])
def test_a_killed_run_leaves_its_bars_and_a_line_for_the_prompt(
    terminal: OpenTerminal, server: FaultServer, user: User, columns: int, lines: int
) -> None:
    """Nothing of ours runs after SIGKILL: what stands there must be whole at each moment."""
    stall(server)
    screen = terminal(columns, lines)
    screen.type(f"{fetch_command(user)} & echo $! >pid; wait")
    screen.wait(total_says(screen, "11/12"), "all but one file")
    screen.wait(lambda: len(bars(screen.screen())) == 2, "the large file alone")
    os.kill(int((user.folder / "pid").read_text()), signal.SIGKILL)
    screen.wait(lambda: screen.screen()[-1].endswith(PROMPT), "the prompt")
    assert_calm(screen.screen(), columns)
    assert len(bars(screen.screen())) == 2


@pytest.mark.parametrize(
    ("encoding", "said"),
    [("gbk", r"\U0001f4e6-\xf8"), ("cp437", r"\U0001f4e6-\xf8"), ("ascii", r"\U0001f4e6-\xf8")],
)
def test_a_stream_without_unicode_does_not_crash(server: FaultServer, user: User, encoding: str, said: str) -> None:
    """A letter that the encoding lacks is written by its number."""
    server.put("/%F0%9F%93%A6-%C3%B8.bin", b"data")
    done = user.run(
        "get", f"{server.base()}/%F0%9F%93%A6-%C3%B8.bin", env={"PYTHONUTF8": "0", "PYTHONIOENCODING": encoding}
    )
    assert done.code == 0, done.err
    assert "downloaded" in done.out
    assert said in done.out
    assert Path(user.folder, "📦-ø.bin").read_bytes() == b"data"
