"""What becomes of single sources: long addresses, files that vanish, and sources that never answered."""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import pytest

from engine.running import DATA, MIB, NAME, artifact
from faults.behaviours import Headers, NeverAnswer, Rate, Stall
from resume_dl.core.actions import Publish
from resume_dl.core.download import Download
from resume_dl.core.events import LocalFailed
from resume_dl.errors import StoreError
from resume_dl.model.http import RangeRequest
from resume_dl.model.url import RedactedUrl
from resume_dl.store.part import JournaledPart, PartStore
from resume_dl.transport.file_transport import FileExchange

GUARD = 60.0
"""Seconds; only a test that would hang needs them."""


def test_a_long_address_without_a_digest_is_continued(fault_server, place):
    """Its address is longer than a kilobyte: the next run knows it again and asks for the rest alone."""
    server = fault_server()
    folder = "/" + "x" * 1500
    server.put(f"{folder}/{NAME}", DATA)
    server.always(0, Rate(4 * MIB))
    what = artifact(server.base() + folder, digest=False)
    (stopped,) = place.run(what, cancelled=lambda: any(state.done for state in place.told.states))
    assert stopped.reason == "cancelled"
    (outcome,) = place.run(what)
    assert (outcome.error, place.content()) == (None, DATA)
    assert outcome.resumed > 0
    assert [request.headers.get("range") is not None for request in server.requests()] == [False, True]


@pytest.mark.parametrize("digest", [True, False])
def test_a_file_that_vanishes_as_it_is_opened(fault_server, place, tmp_path, monkeypatch, digest):
    """A mirror on a disk loses the file between its opening and its first byte: the download ends well."""
    server = fault_server()
    server.put(f"/{NAME}", DATA)
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / NAME).write_bytes(DATA)
    real = FileExchange._answer

    def vanishing(self, *more):
        (mirror / NAME).unlink(missing_ok=True)
        return real(self, *more)

    monkeypatch.setattr(FileExchange, "_answer", vanishing)
    what = artifact(mirror.as_uri(), server.base(), digest=digest)
    (outcome,) = place.run(what)
    assert (outcome.error, place.content()) == (None, DATA)


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_a_pipe_is_not_accepted_as_a_file(tmp_path):
    """Nothing that could keep its reader waiting is read: the mirror lacks that file."""
    os.mkfifo(tmp_path / NAME)
    heads = []

    def ask():
        exchange = FileExchange(RangeRequest(RedactedUrl((tmp_path / NAME).as_uri()), 0, None))
        heads.append(exchange.open().head.status)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(GUARD)
    assert heads == [404]


def test_a_source_that_never_answered_is_named(fault_server, place):
    """The give-up comes before any answer: each source is named with what became of it; none is said to be missing."""
    server = fault_server(ports=3)
    server.put(f"/{NAME}", DATA)
    server.always(None, NeverAnswer())
    what = artifact(*(server.base(port) for port in range(3)))
    (outcome,) = place.run(what, first_byte_seconds=30.0, first_answer_seconds=30.0, connections=2)
    message = str(outcome.error)
    assert "no source has answered" in message
    assert "m0: no answer within" in message
    assert "m1: no answer within" in message
    assert "m2: was not asked" in message
    assert len(outcome.error.causes) == 3


def test_a_source_that_answered_and_fell_silent_is_named(fault_server, place):
    """It has failed in no way when patience ends: it is said how long it brought nothing."""
    server = fault_server()
    server.put(f"/{NAME}", DATA)
    server.always(0, Stall(100))
    (outcome,) = place.run(artifact(server.base()), stall_seconds=1e6, give_up_after=1.0, silent_seconds=1e6)
    assert "m0: no byte for" in str(outcome.error)


def test_no_source_at_all(place):
    """Only where there is none to ask, that is what is said."""
    what = replace(artifact("http://127.0.0.1:9"), sources=())
    (outcome,) = place.run(what)
    assert "no source is known for it" in str(outcome.error)


def test_a_stream_that_cannot_be_continued(fault_server, place):
    """No digest, no ETag: a stopped run says that the next one begins at the first byte, and leaves nothing."""
    server = fault_server()
    server.put(f"/{NAME}", DATA)
    server.always(0, Headers({"ETag": None, "Last-Modified": None}), Rate(4 * MIB))
    what = artifact(server.base(), digest=False, sized=False)
    (stopped,) = place.run(what, cancelled=lambda: any(state.done for state in place.told.states))
    assert stopped.error.resumable_bytes == place.told.states[-1].done == 0
    assert (stopped.downloaded, stopped.resumed) == (0, 0)
    assert stopped.wasted > 0
    assert "starts from the first byte" in stopped.error.hint
    assert PartStore(place.folder / ".resume-dl").unfinished() == []


def test_a_progress_record_that_fails_while_publishing(fault_server, place, monkeypatch):
    """The journal is of no use any more: the verified file gets its name, and its run ends well."""
    asked, heard = threading.Event(), threading.Event()
    publish, handle = JournaledPart.publish, Download.handle

    def failing(*_):
        assert asked.wait(GUARD)
        raise StoreError("a bad sector")

    def publishing(part, destination):
        assert heard.wait(GUARD)
        publish(part, destination)

    def hearing(download, event, now):
        actions = handle(download, event, now)
        if isinstance(event, LocalFailed):
            heard.set()
        if any(isinstance(action, Publish) for action in actions):
            asked.set()
        return actions

    monkeypatch.setattr(JournaledPart, "record_durable", failing)
    monkeypatch.setattr(JournaledPart, "publish", publishing)
    monkeypatch.setattr(Download, "handle", hearing)
    server = fault_server()
    server.put(f"/{NAME}", DATA)
    server.always(0, Rate(4 * MIB))
    (outcome,) = place.run(artifact(server.base()))
    assert heard.is_set()
    assert (outcome.error, place.content()) == (None, DATA)
