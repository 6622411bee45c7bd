"""Addresses without a digest: what an index that is slow, dead or locked may cost who would do without it."""

from __future__ import annotations

import io
import json
import os

import pytest

from faults.behaviours import Demand, Headers, Latency, NeverAnswer, NotModified, Rate
from resume_dl.demo.channel import build_channel
from resume_dl.demo.package import PackageSpec
from resume_dl.errors import Interrupted
from resume_dl.model.access import Access
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.progress.console import Console
from resume_dl.progress.none import NoneReporter
from resume_dl.resolution import explicit_addresses
from resume_dl.resolution.explicit_addresses import look_up
from resume_dl.resolve.explicit import parse_line
from resume_dl.transfer.setup import TransferOptions, load_setup

INDEXES = "*repodata*"


@pytest.fixture
def channel(tmp_path):
    """Of ``first``, and an index of a megabyte."""
    spec = PackageSpec(name="first", version="1.0", subdir="noarch", payload_size=5_000)
    channel = build_channel(tmp_path / "channel", [spec])
    path = channel.root / "noarch" / "repodata.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "padding": "0" * 1_000_000}), encoding="utf-8")
    path.with_name("repodata.json.zst").unlink()
    return channel


@pytest.fixture
def server(channel, fault_server):
    server = fault_server(ports=3)
    server.mount(channel.root)
    return server


class Looking:
    """What a look-up asks, and what it says."""

    def __init__(self, folder, server, filename):
        self.folder, self.server, self.filename = folder, server, filename
        self.told = io.StringIO()

    def line(self, port=0):
        return parse_line(f"{self.server.base(port)}/noarch/{self.filename}")

    def look(self, *lines, access=None, cancelled=lambda: False, offline=False):
        names = ("config", "cache", "state")
        env = {**os.environ, **{f"RESUME_DL_{name.upper()}_DIR": str(self.folder / name) for name in names}}
        setup = load_setup(TransferOptions(), env, conda=CondaSettings(), access=access or Access)
        reporter = NoneReporter(Console(self.told, "info"))
        return look_up(lines or [self.line()], setup, reporter, offline=offline, cancelled=cancelled)


@pytest.fixture
def looking(tmp_path, server, channel):
    return Looking(tmp_path / "ours", server, channel.packages[0].filename)


def test_silent_servers_are_asked_once_each_and_waited_for_together(looking, server, monkeypatch):
    monkeypatch.setattr(explicit_addresses, "ANSWER_WITHIN", 1.0)
    server.always(None, NeverAnswer(), path=INDEXES)
    lines = [looking.line(port) for port in range(3)]
    assert looking.look(*lines) == lines
    assert [len(server.requests(port)) for port in range(3)] == [1, 1, 1]
    assert looking.told.getvalue() == ""


def test_a_very_slow_index_is_abandoned_and_continued_later(looking, server, channel, monkeypatch):
    """Bytes keep coming, so that only the whole time ends it; what is kept of it is not fetched again."""
    monkeypatch.setattr(explicit_addresses, "IN_ALL", 3.0)
    server.always(0, Rate(100_000), path=INDEXES)
    assert looking.look() == [looking.line()]
    came = server.body_bytes(path=INDEXES)
    assert 0 < came < 900_000
    assert looking.told.getvalue() == ""

    monkeypatch.setattr(explicit_addresses, "IN_ALL", 30.0)
    server.always(0, Latency(0), path=INDEXES)
    (found,) = looking.look()
    assert found.sha256 == channel.packages[0].sha256
    size = (channel.root / "noarch" / "repodata.json").stat().st_size
    assert server.body_bytes(path=INDEXES) < size + came

    server.always(0, NeverAnswer(), path=INDEXES)
    monkeypatch.setattr(explicit_addresses, "ANSWER_WITHIN", 1.0)
    assert looking.look() == [found]  # by the kept one


def test_an_index_that_is_kept_costs_one_request_or_none(looking, server, channel):
    """Unchanged it is one request without a body; young it is none."""
    (found,) = looking.look()
    assert found.sha256 == channel.packages[0].sha256
    server._received.clear()
    server.always(0, Headers({"Cache-Control": "max-age=600"}), NotModified(), path=INDEXES)
    assert looking.look() == [found]
    assert [(request.path.rpartition("/")[2], request.status) for request in server.requests()] == [
        ("repodata.json", 304)
    ]
    server._received.clear()
    assert looking.look() == [found]
    assert server.requests() == []


def test_a_header_that_logs_in_is_sent_with_every_request(looking, server, channel):
    server.always(0, Demand("x-key", "sesame"), path=INDEXES)
    assert looking.look() == [looking.line()]
    (found,) = looking.look(access=lambda url: Access(url, {"x-key": "sesame"}, private=True))
    assert found.sha256 == channel.packages[0].sha256


def test_ctrl_c_ends_the_waiting(looking, server):
    server.always(0, NeverAnswer(), path=INDEXES)
    with pytest.raises(Interrupted):
        looking.look(cancelled=lambda: bool(server.requests()))
    assert len(server.requests()) == 1
