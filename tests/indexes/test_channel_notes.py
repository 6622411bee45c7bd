"""What is said of a channel's index while it comes: once, and only where it matters."""

from __future__ import annotations

import pytest

from resume_dl.indexes.channel_notes import ChannelNotes
from resume_dl.indexes.index_sources import IndexSources
from resume_dl.indexes.whole import WholeIndex
from resume_dl.model.channel import Channel
from resume_dl.model.index_report import Vouched
from resume_dl.model.mirror import Mirror, MirrorTable
from resume_dl.model.url import RedactedUrl
from resume_dl.transfer.source_places import Places
from support.in_process import Heard


def said(base: str, *, offline: bool = False, vouched: Vouched = Vouched.AUTHORITY) -> list[str]:
    """What the user is told of two subdirs of the channel at ``base``, which a mirror carries over plain http."""
    mirror = Mirror("one", carries={"conda:lab": "http://mirror.example/lab"})
    table = MirrorTable({"conda:lab": base}, (mirror,))
    channel = Channel("lab", "conda:lab", RedactedUrl(base), RedactedUrl(base))
    heard = Heard()
    named = ("one",) if vouched is Vouched.NAMED else ()
    notes = ChannelNotes(IndexSources(Places(table), named), heard, offline=offline)
    for subdir in ("linux-64", "noarch"):
        notes.whole((channel, subdir), WholeIndex(carried_by=("one",)), vouched)
    return heard.lines


def test_an_authority_over_plain_http_is_named_once():
    (line,) = said("http://10.0.0.7/lab")
    assert line == "the index of lab comes from 10.0.0.7 over plain http, so it can be altered on the way"


@pytest.mark.parametrize("base", ["https://10.0.0.7/lab", "http://127.0.0.1:8080/lab", "http://localhost/lab"])
def test_https_and_loopback_authorities_are_not_reported(base):
    """The plain http of a mirror counts for nothing: its index does not decide."""
    assert said(base) == []


def test_an_authority_that_was_not_asked_is_not_reported():
    assert said("http://10.0.0.7/lab", offline=True) == []
    assert said("http://10.0.0.7/lab", vouched=Vouched.NAMED) == ["index of lab from one, as --index-from says"]
