"""What a user is told of wrong bytes."""

from __future__ import annotations

import dataclasses

import pytest

from engine.running import artifact
from resume_dl.core.actions import Fail
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.engine.job import error_of, labels_of
from resume_dl.errors import DigestMismatchError, Interrupted, SourcesExhaustedError
from resume_dl.model.artifact import Source
from resume_dl.model.url import RedactedUrl

RECORD, CAME = "a" * 64, "b" * 64
WRONG = Failure(FailureKind.CONTENT, f"its bytes have digest {CAME}")
WHAT = artifact("http://one.example", "http://two.example", "http://three.example")


def told(what=WHAT, **fail):
    fail = {"expected": RECORD, "actual": CAME, **fail}
    error = error_of(Fail(**fail), what, what.sources)
    assert type(error) is DigestMismatchError
    assert (error.exit_code, error.expected, error.actual) == (4, RECORD, CAME)
    assert error.resumable_bytes == fail.get("resumable_bytes", 0)
    return str(error), error.hint


def test_a_single_source():
    """Nobody to compare with: both digests, what was kept, and where else to look."""
    said, hint = told(reason="single", causes=((1, WRONG),), resumable_bytes=123456)
    assert RECORD in said
    assert CAME in said
    assert "m1" in said
    assert "no other source to compare with" in said
    assert "123,456 bytes that are known to be good are kept" in hint
    assert "--mirror" in hint
    _, hint = told(reason="single", causes=((1, WRONG),))
    assert "nothing of it was kept" in hint


def test_every_source():
    """None gave the right bytes: each and why, and what was kept."""
    said, hint = told(reason="digest", causes=((0, WRONG), (2, WRONG)), resumable_bytes=5)
    assert f"m0: {WRONG.message}; m2: {WRONG.message}" in said
    assert "5 bytes that are known to be good are kept" in hint
    assert "nothing of it was kept" in told(reason="digest")[1]


@pytest.mark.parametrize("reason", ["disputed", "record"])
def test_the_record(reason):
    """The sources agree against the record: who, and both digests; the record is suspected, not they."""
    said, hint = told(reason=reason, agreeing=(0, 2), resumable_bytes=77)
    assert f"m0 and m2 agree on bytes with digest {CAME}, its record says {RECORD}" in said
    assert "the record is probably out of date, or the package was replaced upstream" in hint
    assert "what is on disk is kept" in hint
    assert "kept" not in told(reason=reason, agreeing=(0, 2))[1]


def test_addresses_of_one_name():
    """Where the sources have no names of their own, their hosts tell them apart."""
    sources = tuple(dataclasses.replace(each, mirror="given") for each in WHAT.sources)
    said, _ = told(dataclasses.replace(WHAT, sources=sources), reason="record", agreeing=(0, 1))
    assert "one.example and two.example agree" in said


def exhausted(reason, failures=(), kept=0):
    broken = Failure(FailureKind.BROKEN, "the connection ended before the body did")
    error = error_of(Fail(reason, ((0, broken), (2, broken)), kept), WHAT, WHAT.sources, failures)
    assert type(error) is SourcesExhaustedError
    assert error.resumable_bytes == kept
    return error.hint


@pytest.mark.parametrize("kind", [FailureKind.RANGE_IGNORED, FailureKind.RANGE_WRONG])
def test_a_mirror_without_ranges(kind):
    """One that cannot continue a download is named, so that a user knows why every try ends at the same place."""
    ordinary = {FailureKind.BROKEN.value: 4}
    hint = exhausted("exhausted", [ordinary, ordinary, {kind.value: 1, **ordinary}], kept=5)
    assert "m2 cannot resume a download" in hint
    assert "m0" not in hint
    assert "what is on disk is kept" in hint
    assert "continue" not in exhausted("exhausted", [ordinary, {kind.value: 1}, ordinary])


def stopped(what, failures=(), kept=0, received=0):
    error = error_of(Fail("cancelled", (), kept), what, what.sources, failures, received=received)
    assert (type(error), error.resumable_bytes) == (Interrupted, kept)
    return error.hint


def test_stopped():
    """What the next run can use of it decides what is said: all of it, or that it begins at the first byte."""
    unbound = dataclasses.replace(WHAT, sha256=None, size=None)
    ignored = {FailureKind.RANGE_IGNORED.value: 1}
    assert stopped(WHAT, kept=5, received=5).endswith("what is on disk is kept")
    assert stopped(unbound).endswith("what is on disk is kept")
    assert "starts from the first byte" in stopped(unbound, received=5)
    assert "m0 and m1 and m2 cannot resume" in stopped(WHAT, [ignored] * 3, kept=5, received=5)
    assert "cannot resume" not in stopped(WHAT, [ignored, {}, ignored], kept=5, received=5)


def test_lacking():
    """Bytes of an earlier run are not lost with their source, and that is said; without any nothing is."""
    assert "what is on disk is kept" in exhausted("lacking", kept=7)
    assert "kept" not in exhausted("lacking")


def test_labels_tell_all_sources_apart():
    """Where the redacted addresses are equal, a hash of the whole one does; and no secret stands in any."""
    urls = [f"https://h.example/f?token={token}" for token in ("s3cret", "0ther")]
    one, two, three = labels_of([Source("given", RedactedUrl(url)) for url in [*urls, "https://i.example/f?token=x"]])
    assert one != two
    assert three == "https://i.example/f?token=***"
    assert labels_of([Source("given", RedactedUrl(urls[1]))]) == ["https://h.example/f?token=***"]
    assert not any(secret in label for secret in ("s3cret", "0ther") for label in (one, two))
