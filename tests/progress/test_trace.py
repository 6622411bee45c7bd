"""What a trace's lines say, and what the file may do to a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from resume_dl.core.actions import Fail, NoteFailure, OpenRange
from resume_dl.core.events import BytesWritten, LocalFailed, Prepared
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.errors import NotWritableError
from resume_dl.progress.trace import FLUSH_EVERY, TraceWriter


class Ticking:
    """A clock that says what it is told."""

    def __init__(self) -> None:
        self.t = 100.0

    def __call__(self) -> float:
        return self.t


@pytest.fixture
def clock():
    return Ticking()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def test_a_line_is_a_time_a_file_a_kind_and_the_fields(path, clock):
    """Events and actions become flat objects: enums by value, failures expanded, exceptions only named."""
    writer = TraceWriter(path, clock=clock)
    writer.begin(100.5, "k", "a.conda", 9, ["one", "two"])
    writer.note(101.25, "k", OpenRange(1, 0, 0, 9, ((0, 9),), whole=False, size=9))
    writer.note(101.5, "k", NoteFailure(1, Failure(FailureKind.LACKS, "answered 404", retry_after=float("inf")), 1))
    writer.note(102.0, None, LocalFailed(OSError("/secret/place")))
    clock.t = 103.0
    writer.close()
    head, *rest = lines(path)
    assert (head["trace"], set(head)) == (1, {"trace", "version", "started"})
    assert rest == [
        {"t": 0.5, "file": "k", "kind": "begin", "filename": "a.conda", "size": 9, "sources": ["one", "two"]},
        {"t": 1.25, "file": "k", "kind": "open_range", "connection": 1, "source": 0, "start": 0, "end": 9,
         "gaps": [[0, 9]], "whole": False, "size": 9, "if_range": None, "mode": "write"},
        {"t": 1.5, "file": "k", "kind": "note_failure", "source": 1,
         "failure": {"kind": "lacks the file", "message": "answered 404", "retry_after": None, "size": None,
                     "said": None, "unresolved": "", "answered_by": "", "no_route": False},
         "connection": 1},
        {"t": 2.0, "file": None, "kind": "local_failed", "error": "OSError", "sync": False, "digest": False,
             "publish": False},
        {"t": 3.0, "file": None, "kind": "end"},
    ]  # fmt: skip


def test_every_text_is_scrubbed(path):
    """Wherever an address with a login or a token stands, it is written without them."""
    writer = TraceWriter(path)
    bad = "http://anna:hunter2@host/t/tk-1234/x?token=s3cr3t"
    writer.begin(0, "k", bad, None, [bad])
    writer.note(0, "k", Prepared(((0, 1),), bound_source=bad, owners=((bad, ((0, 1),)),)))
    writer.note(0, "k", NoteFailure(0, Failure(FailureKind.BROKEN, f"reset by {bad}")))
    writer.note(0, "k", Fail("local", owner=bad, error=ValueError(bad)))
    writer.close()
    text = path.read_text()
    assert text.count("host/t/***") == 6
    assert not any(secret in text for secret in ("hunter2", "tk-1234", "s3cr3t", "anna"))


def test_a_killed_process_has_written_all_but_the_last_moment(path, clock):
    """Lines are flushed as time goes by, and not one by one."""
    writer = TraceWriter(path, clock=clock)
    writer.note(100.0, "k", BytesWritten(1, 1, 1))
    assert len(lines(path)) == 1
    writer.note(100.0 + FLUSH_EVERY, "k", BytesWritten(1, 2, 2))
    assert len(lines(path)) == 3
    writer.close()


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path):
    """A folder that is not there is told before anything is downloaded."""
    with pytest.raises(NotWritableError, match="cannot be written"):
        TraceWriter(tmp_path / "nowhere" / "run.jsonl")


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is a device of Linux")
def test_a_full_disk_ends_the_trace_and_not_the_run(clock):
    """What cannot be written any more is given up, once and without an exception."""
    writer = TraceWriter(Path("/dev/full"), clock=clock)
    assert "No space left" in writer.trouble
    writer.note(500.0, "k", BytesWritten(1, 1, 1))
    writer.close()
