"""One process solves and unpacks: its interpreter and py-rattler are loaded once for a fetch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from resume_dl.app.fetch import fetch
from resume_dl.demo.channel import PackageSpec, build_channel
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.transfer.extraction import Extractor, Unpacked
from resume_dl.transfer.report import RunResult
from resume_dl.transfer.setup import TransferOptions, load_setup
from support.in_process import Heard


class Noting(RattlerWorker):
    """Notes which process answered each operation."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: list[tuple[str, int | None]] = []

    def request(self, op: str, args: Mapping[str, Any], timeout: float | None = None) -> Any:
        try:
            return super().request(op, args, timeout)
        finally:
            self.answered.append((op, self.pid))


@pytest.fixture
def run(tmp_path: Path) -> Callable[[RattlerWorker], RunResult]:
    """``run(worker)``: fetch ``app`` and what it needs into the one package cache of this test."""
    channel = tmp_path / "lab"
    build_channel(
        channel, [PackageSpec(name="app", version="1.0", depends=("lib",)), PackageSpec(name="lib", version="2")]
    )
    env = {f"RESUME_DL_{kind}_DIR": str(tmp_path / kind) for kind in ("CACHE", "STATE", "CONFIG")}
    setup = load_setup(TransferOptions(), {"HOME": str(tmp_path), **env}, conda=CondaSettings())
    request = FetchRequest(
        specs=("app",), channels=(channel.as_uri(),), override_channels=True, platforms=("linux-64",)
    )
    return lambda worker: fetch(replace(request, pkgs_dir=tmp_path / "pkgs"), setup, Heard(), worker=worker)


def test_the_solver_s_process_unpacks(
    run: Callable[[RattlerWorker], RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other is started, and it has ended when the fetch has."""
    worker = Noting()
    monkeypatch.setattr("resume_dl.transfer.extraction.RattlerWorker", lambda: pytest.fail("another worker was made"))
    result = run(worker)
    assert result.exit_code == 0
    asked = [op for op, _ in worker.answered]
    assert asked.count("extract") == 2
    assert "solve" in asked
    assert len({pid for _, pid in worker.answered}) == 1
    assert worker.pid is None


def test_the_worker_is_not_kept_if_nothing_is_unpacked(
    run: Callable[[RattlerWorker], RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solver's memory is not held beside downloads that it has no part in."""
    assert run(RattlerWorker()).exit_code == 0
    worker = Noting()
    seen: list[int | None] = []
    real = Extractor.finish

    def finish(self: Extractor) -> list[Unpacked]:
        seen.append(worker.pid)
        return real(self)

    monkeypatch.setattr(Extractor, "finish", finish)
    result = run(worker)
    assert [each.status for each in result.artifacts] == ["cached", "cached"]
    assert "solve" in [op for op, _ in worker.answered]
    assert seen == [None], "the process had ended before the downloads did"
