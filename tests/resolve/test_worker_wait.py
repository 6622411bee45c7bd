"""While the solver is waited for, something is said: after three seconds, then every three."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from resume_dl.errors import ChannelUnavailableError, Interrupted, WorkerCrashedError
from resume_dl.model.channel import Channel
from resume_dl.model.url import RedactedUrl
from resume_dl.resolution.conda_resolution import Resolver
from resume_dl.resolution.solver_wait import SolverWait
from resume_dl.resolve import conda_solver
from resume_dl.resolve import worker as module
from resume_dl.resolve.conda_solver import solve_with_conda
from resume_dl.resolve.request import SolveRequest
from resume_dl.resolve.worker import RattlerWorker

SLOW = """#!/bin/sh
read line
while [ ! -e {ready} ]; do sleep 0.05; done
echo '{answer}'
read line
"""
"""A worker that answers when a file is there."""


class Told:
    """A reporter of which only messages are wanted."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def message(self, text: str, *, level: str = "info") -> None:
        assert level == "info"
        self.said.append(text)


def slow(tmp_path: Path) -> Path:
    script = tmp_path / "python"
    answer = json.dumps({"id": 1, "ok": True, "result": 5})
    script.write_text(SLOW.format(ready=tmp_path / "ready", answer=answer))
    script.chmod(0o755)
    return script


def test_the_requesting_thread_gets_wait_callbacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes only after the third word of what is waited for, which a silent wait would never reach."""
    monkeypatch.setattr(module, "_TICK", 0.01)
    waited: list[tuple[str, float]] = []

    def waits(op: str, seconds: float) -> None:
        waited.append((op, seconds))
        if len(waited) == 3:
            (tmp_path / "ready").touch()

    with RattlerWorker(python=slow(tmp_path)) as worker:
        worker.waits = waits
        assert worker.request("solve", {}, timeout=60) == 5
    assert {op for op, _ in waited} == {"solve"}
    assert [seconds for _, seconds in waited] == sorted(seconds for _, seconds in waited)


def slow_conda(tmp_path: Path) -> Path:
    script = tmp_path / "conda"
    loop = f"while [ ! -e {tmp_path / 'ready'} ]; do n=$((n + 1)); test $n -lt 1200 || exit 1; sleep 0.05; done"
    script.write_text(f"#!/bin/sh\n{loop}\necho '{{}}'\n")
    script.chmod(0o755)
    return script


def a_request() -> SolveRequest:
    base = RedactedUrl("https://example.org/one")
    return SolveRequest(specs=("a",), channels=(Channel("one", None, base, base),), platform="linux-64")


def test_a_conda_solve_gets_wait_callbacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--solver conda: the answer comes only after the third word."""
    monkeypatch.setattr(conda_solver, "_TICK", 0.01)
    waited: list[tuple[str, float]] = []

    def waits(op: str, seconds: float) -> None:
        waited.append((op, seconds))
        if len(waited) == 3:
            (tmp_path / "ready").touch()

    solution = solve_with_conda([str(slow_conda(tmp_path))], a_request(), waits=waits, timeout=60)
    assert solution.artifacts == ()
    assert {op for op, _ in waited} == {"solve"}
    assert [seconds for _, seconds in waited] == sorted(seconds for _, seconds in waited)


def test_a_conda_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conda_solver, "_TICK", 0.01)
    with pytest.raises(ChannelUnavailableError, match=r"conda did not finish the solve within 0\.1 s"):
        solve_with_conda([str(slow_conda(tmp_path))], a_request(), timeout=0.1)


def test_a_solve_by_conda_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told of the wait reaches the user's screen, by the same function as for our own solver."""
    told = Told()
    resolver = object.__new__(Resolver)
    resolver._reporter = told
    resolver._request = SimpleNamespace(solver="conda", prefix=tmp_path)
    settings = SimpleNamespace(conda_command=(str(slow_conda(tmp_path)),), pkgs_dirs=())
    table, options = SimpleNamespace(canonical=lambda url: url), SimpleNamespace(offline=True)
    setup = SimpleNamespace(conda=settings, table=table, options=options, env=None)
    resolver._setup = setup
    monkeypatch.setattr(conda_solver, "_TICK", 0.01)
    with RattlerWorker() as worker:
        wait = SolverWait(told)

        def waits(op: str, seconds: float) -> None:
            wait(op, 100 * seconds)  # three seconds are soon over
            if len(told.said) > 1:
                (tmp_path / "ready").touch()

        worker.waits = waits
        resolver._solve(a_request(), worker, fresh=False, disputes=None)
    assert told.said[0] == "solving with conda for linux-64"
    assert told.said[1].startswith("still solving, ")


def test_a_timeout_applies_despite_wait_callbacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words in between do not prolong it."""
    monkeypatch.setattr(module, "_TICK", 0.01)
    with (
        RattlerWorker(python=slow(tmp_path)) as worker,
        pytest.raises(WorkerCrashedError, match="did not finish solve within"),
    ):
        worker.request("solve", {}, timeout=0.1)


def test_what_is_said() -> None:
    """By the seconds that it is given, whatever the clock: at 3, 6 and 9, and again for the next operation."""
    told = Told()
    wait = SolverWait(told)
    for seconds in (1, 2, 3, 4, 5, 7, 8, 9.5):
        wait("virtual_packages", seconds)
    for seconds in (1, 2, 3.2):
        wait("solve", seconds)
    loading = [f"the solver is still loading, {seconds} s" for seconds in ("3", "7", "10")]
    assert told.said == [*loading, "still solving, 3 s"]


@pytest.mark.parametrize("op", ["solve", "extract"])
def test_a_stopped_wait_kills_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, op: str) -> None:
    """It is not asked to end by its stdin, for which a library that holds Python's lock gets two seconds."""
    killed: list[bool] = []
    kill = subprocess.Popen.kill

    def noted(process: subprocess.Popen[bytes]) -> None:
        killed.append(process.stdin is not None and process.stdin.closed)
        kill(process)

    monkeypatch.setattr(subprocess.Popen, "kill", noted)
    with RattlerWorker(python=slow(tmp_path)) as worker:
        worker.waits = SolverWait(Told(), lambda: True)
        with pytest.raises(Interrupted):
            worker.request(op, {})
        assert worker.pid is None
    assert killed[:1] == [False]


def test_a_stopped_wait_ends_conda_too(tmp_path: Path) -> None:
    """--solver conda."""
    with pytest.raises(Interrupted):
        solve_with_conda([str(slow_conda(tmp_path))], a_request(), waits=SolverWait(Told(), lambda: True))
