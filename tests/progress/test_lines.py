"""Plain lines, JSON events and silence, and which of them is chosen."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from progress.telling import MB, Clock, artifact, planned, told
from resume_dl.errors import ConfigurationError
from resume_dl.model.url import RedactedUrl
from resume_dl.progress.choose import choose
from resume_dl.progress.console import Console
from resume_dl.progress.json_events import JsonReporter
from resume_dl.progress.none import NoneReporter
from resume_dl.progress.plain import PlainReporter

BIG, SMALL = artifact("big-1-0.conda", 80 * MB), artifact("small-2-0.conda", 20 * MB)


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_plain_lines_come_every_few_seconds(out, clock):
    """However often it is told, one line an interval, with speed since the last one and time left."""
    reporter = PlainReporter(Console(out), interval=5, clock=clock)
    reporter.plan(planned(BIG, SMALL))
    for second in range(1, 13):
        clock.now = second
        reporter.progress(told(BIG, second * 4 * MB))
    reporter.progress(told(SMALL, 20 * MB, state="downloaded"))
    reporter.close()
    assert out.getvalue().splitlines() == [
        "2 files, 100.0 MB in all",
        "20% of 100.0 MB, 4.0 MB/s, 20 s left, 0 of 2 files",
        "40% of 100.0 MB, 4.0 MB/s, 15 s left, 0 of 2 files",
    ]


def test_resumed_and_cached_bytes_are_done_but_no_speed(out, clock):
    """What was there before this run counts as done from the start."""
    reporter = PlainReporter(Console(out), interval=5, clock=clock)
    reporter.plan([*planned(BIG, here=40 * MB), *planned(SMALL, here=20 * MB, whole=True)])
    clock.now = 5
    reporter.progress(told(BIG, 50 * MB, resumed=40 * MB))
    assert out.getvalue().splitlines() == [
        "2 files, 100.0 MB in all, 60.0 MB already here",
        "70% of 100.0 MB, 2.0 MB/s, 15 s left, 1 of 2 files",
    ]


def test_a_file_outside_of_the_plan_and_one_of_unknown_size(out, clock):
    """An index has a line of its own if it takes long; a size that is learnt on the way enters the total."""
    index, unknown = artifact("repodata.json.zst", 10 * MB), artifact("f.bin", None)
    reporter = PlainReporter(Console(out), interval=5, clock=clock)
    clock.now = 5
    reporter.progress(told(index, 5 * MB))
    reporter.plan(planned(unknown))
    clock.now = 10
    reporter.progress(told(unknown, 5 * MB))
    clock.now = 15
    reporter.progress(told(unknown, 10 * MB, size=20 * MB))
    assert out.getvalue().splitlines() == [
        "50% of 10.0 MB, 1.0 MB/s, 5 s left, repodata.json.zst",
        "1 file, of unknown size",
        "5.0 MB, 1.0 MB/s",
        "50% of 20.0 MB, 1.0 MB/s, 10 s left",
    ]


def test_a_file_that_went_back_to_zero_has_no_negative_speed(out, clock):
    """After a wrong digest bytes are thrown away."""
    reporter = PlainReporter(Console(out), interval=5, clock=clock)
    reporter.plan(planned(BIG))
    clock.now = 5
    reporter.progress(told(BIG, 80 * MB, state="verifying"))
    clock.now = 10
    reporter.progress(told(BIG, 8 * MB))
    assert out.getvalue().splitlines()[1:] == ["100% of 80.0 MB, 16.0 MB/s (verifying)", "10% of 80.0 MB, 0 B/s"]


def test_waiting_for_another_process_is_said_at_once_and_once(out, clock):
    """A user sees for whom we wait without waiting for the line."""
    reporter = PlainReporter(Console(out), interval=5, clock=clock)
    for _ in range(3):
        reporter.progress(told(BIG, 0, state="locked", note="waits for process 12 on here"))
    assert out.getvalue() == "big-1-0.conda: waits for process 12 on here\n"


def test_json_events_are_one_object_a_line(out, clock):
    """Plan, progress, messages and any other kind; values are safe and cannot hide the kind."""
    reporter = JsonReporter(Console(out), clock=clock)
    reporter.plan(planned(BIG, here=4))
    run = {"files": 1, "files_done": 0, "files_of_unknown_size": 0, "total": 80 * MB}
    clock.now = 1.5
    reporter.progress(told(BIG, 9, resumed=4, state="failed", note="a\nb"))
    reporter.message("héllo https://u:SECRET@h/f", level="warning")
    reporter.message("not wanted", level="debug")
    reporter.event("source_failed", {"url": RedactedUrl("https://u:SECRET@h/f"), "event": "x", "n": [1, {"a": None}]})
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert lines == [
        {
            "event": "plan",
            "elapsed": 0.0,
            "artifacts": [
                {
                    "key": BIG.key,
                    "filename": "big-1-0.conda",
                    "size": 80 * MB,
                    "kind": "conda",
                    "here": 4,
                    "whole": False,
                }
            ],
            "total_bytes": 80 * MB,
            "cached_bytes": 4,
            "replaces": [],
            "run": {**run, "done": 4, "fetched": 0},
        },
        {
            "event": "progress",
            "elapsed": 1.5,
            "key": BIG.key,
            "filename": "big-1-0.conda",
            "size": 80 * MB,
            "done": 9,
            "resumed": 4,
            "state": "failed",
            "note": "a\nb",
            "index": None,
            "run": {**run, "done": 9, "fetched": 5},
        },
        {"event": "message", "elapsed": 1.5, "level": "warning", "text": "héllo https://***@h/f"},
        {"event": "source_failed", "elapsed": 1.5, "url": "https://***@h/f", "n": [1, {"a": None}]},
    ]
    assert out.getvalue().isascii()


@pytest.mark.parametrize("mode", ["plain", "json", "none", "bar", None])
def test_messages_by_level(out, mode):
    """quiet shows errors only, verbose debug too, the default from info on; warnings and errors say what they are."""
    shown = {}
    for name, options in {"quiet": {"quiet": True}, "normal": {}, "verbose": {"verbose": True}}.items():
        out.seek(0)
        out.truncate()
        reporter = choose(mode, out, **options)
        for level in ("debug", "info", "warning", "error"):
            reporter.message(f"m-{level}", level=level)
        reporter.close()
        shown[name] = [level for level in ("debug", "info", "warning", "error") if f"m-{level}" in out.getvalue()]
        assert mode == "json" or "error: m-error" in out.getvalue()
    assert shown == {
        "quiet": ["error"],
        "normal": ["info", "warning", "error"],
        "verbose": ["debug", "info", "warning", "error"],
    }


def test_what_is_chosen_where_there_is_no_terminal(out):
    """Lines elsewhere, nothing with quiet, and what was asked for; a closed stream is no terminal."""
    assert isinstance(choose(None, out), PlainReporter)
    assert isinstance(choose(None, out, quiet=True), NoneReporter)
    assert isinstance(choose("bar", out, quiet=True), NoneReporter)
    assert isinstance(choose("json", out, quiet=True), JsonReporter)
    out.close()
    assert isinstance(choose(None, out), PlainReporter)
    with pytest.raises(ConfigurationError, match="fancy"):
        choose("fancy", out)


@pytest.mark.parametrize("mode", ["plain", "json", "none", "bar"])
def test_no_reporter_raises_on_a_closed_stream(mode):
    """A run goes on when nobody looks any more."""
    stream = io.StringIO()
    reporter = choose(mode, stream)
    reporter.plan(planned(BIG))
    reporter.progress(told(BIG, 1 * MB))
    stream.close()
    reporter.progress(told(BIG, 2 * MB))
    reporter.message("x", level="error")
    reporter.event("x", {})
    reporter.progress(told(BIG, 80 * MB, state="downloaded"))
    reporter.close()


def test_only_bars_load_tqdm():
    """Lines and events do without it."""
    code = "import io, sys; from resume_dl.progress.choose import choose\n"
    code += "for m in (None, 'plain', 'json', 'none'): choose(m, io.StringIO())\n"
    code += "sys.exit('tqdm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
