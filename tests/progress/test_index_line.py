"""Indexes on their way: one line for all of them, in bars, lines and events."""

from __future__ import annotations

import io
import json

import pytest

from progress.telling import MB, Clock, artifact, planned, told
from resume_dl.model.units import show_age, show_part
from resume_dl.ports import ArtifactProgress
from resume_dl.progress.bars import BarReporter
from resume_dl.progress.console import Console
from resume_dl.progress.indexes import IndexTally
from resume_dl.progress.json_events import JsonReporter
from resume_dl.progress.layout import Look, Row, lay_out
from resume_dl.progress.plain import PlainReporter


def index(
    done: float, size: float | None = 2.2, *, channel: str = "conda-forge", key: str = "", state: str = "downloading"
) -> ArtifactProgress:
    """Counts in MB."""
    whole = None if size is None else round(size * MB)
    return ArtifactProgress(key or channel, "repodata.json.zst", whole, round(done * MB), 0, state, index=channel)


def lines_of(*told: ArtifactProgress) -> tuple[str, ...]:
    tally = IndexTally()
    for each in told:
        tally.add(each)
    return tally.lines()


def test_what_came_of_how_much() -> None:
    assert lines_of(index(1.9))[0] == "index of conda-forge: 1.9 of 2.2 MB"
    assert lines_of(index(1.9))[-1] == "index: 1.9 of 2.2 MB"


def test_all_channels_are_one_sum() -> None:
    two = (index(1.9), index(0.5, 1.0, channel="bioconda"))
    assert lines_of(*two)[0] == "index of conda-forge and bioconda: 2.4 of 3.2 MB"
    assert lines_of(*two, index(0.1, 0.1, channel="c"))[0] == "index of 3 channels: 2.5 of 3.3 MB"


def test_a_sum_of_unknown_sizes_is_no_total() -> None:
    assert lines_of(index(1.9), index(0.0, None, key="noarch"))[0] == "index of conda-forge: 1.9 MB"


@pytest.mark.parametrize("state", ["failed", "stopped"])
def test_what_came_to_nothing_is_not_counted(state: str) -> None:
    """A packed form that is not there, an index that is unchanged."""
    told = (index(0.0, None, key="zst"), index(0.0, None, key="zst", state=state), index(1.9, key="json"))
    assert lines_of(*told)[0] == "index of conda-forge: 1.9 of 2.2 MB"


def test_before_the_first_byte_and_behind_another_process() -> None:
    assert lines_of(index(0.0, None))[0] == "index of conda-forge: asking"
    locked = ArtifactProgress("k", "f", None, 0, 0, "locked", "waits for process 7 (resume-dl)", "conda-forge")
    assert lines_of(index(1.0), locked)[0] == "index of conda-forge: waits for process 7 (resume-dl)"


def test_what_is_no_index_is_not_summed() -> None:
    tally = IndexTally()
    tally.add(told(artifact("a-1-0.conda", MB), MB))
    assert not tally.active
    assert not tally.channels


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (80, "index of conda-forge: 1.9 of 2.2 MB, 310.0 kB/s"),
        (40, "index of conda-forge: 1.9 of 2.2 MB"),
        (30, "index: 1.9 of 2.2 MB"),
        (12, "index: 1.9…"),
    ],
)
def test_fewer_words_where_there_is_less_room(columns: int, shown: str) -> None:
    tally = IndexTally()
    tally.add(index(1.9))
    assert lay_out([Row((), 0, None, text=tally.lines(310_000.0))], Look(columns)) == [shown]


def test_bars_show_one_line_and_take_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    reporter = BarReporter(Console(io.StringIO()), clock=clock)
    shown: list[list[str]] = []
    monkeypatch.setattr(reporter._live, "show", lambda lines, _: shown.append(lines))
    for done in (0.5, 1.0):
        clock.now += 1
        reporter.progress(index(done, key="linux-64"))
        reporter.progress(index(done, key="noarch"))
    clock.now += 1
    reporter.progress(index(1.2, key="noarch"))
    assert len(shown[-1]) == 1
    assert shown[-1][0].startswith("index of conda-forge: 2.2 of 4.4 MB, ")
    for key in ("linux-64", "noarch"):
        reporter.progress(index(2.2, key=key, state="downloaded"))
    assert shown[-1] == []


def test_bars_of_files_stand_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer index is asked for while a plan stands."""
    reporter = BarReporter(Console(io.StringIO()), clock=Clock())
    shown: list[list[str]] = []
    monkeypatch.setattr(reporter._live, "show", lambda lines, _: shown.append(lines))
    reporter.plan(planned(artifact("a-1-0.conda", MB), artifact("b-1-0.conda", MB)))
    reporter.progress(index(1.9))
    assert [line.split("  ")[0] for line in shown[-1]] == ["0/2 files", "index of conda-forge: 1.9 of 2.2 MB"]


def test_plain_lines() -> None:
    out, clock = io.StringIO(), Clock()
    reporter = PlainReporter(Console(out), clock=clock)
    clock.now = 5.0
    reporter.progress(index(1.0))
    clock.now = 10.0
    reporter.progress(index(1.5))
    assert out.getvalue().splitlines() == [
        "index of conda-forge: 1.0 of 2.2 MB, 200.0 kB/s",
        "index of conda-forge: 1.5 of 2.2 MB, 100.0 kB/s",
    ]


def test_json_events() -> None:
    out = io.StringIO()
    reporter = JsonReporter(Console(out), clock=Clock())
    reporter.progress(index(1.9))
    reporter.progress(told(artifact("a-1-0.conda", MB), MB))
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert first["index"] == {"channels": ["conda-forge"], "done": 1_900_000, "total": 2_200_000}
    assert second["index"] is None


@pytest.mark.parametrize(
    ("done", "total", "text"),
    [
        (1_900_000, 2_200_000, "1.9 of 2.2 MB"),
        (5, 900, "5 of 900 B"),
        (1000, None, "1.0 kB"),
        (0, 10**9, "0.0 of 1.0 GB"),
    ],
)
def test_a_part_in_the_unit_of_the_whole(done: int, total: int | None, text: str) -> None:
    assert show_part(done, total) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 seconds"),
        (1, "1 second"),
        (59.9, "59 seconds"),
        (60, "1 minute"),
        (3 * 3600, "3 hours"),
        (1e6, "11 days"),
    ],
)
def test_ages(seconds: float, text: str) -> None:
    assert show_age(seconds) == text
