"""A stop does not wait until a large file is hashed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from resume_dl.core import events as ev
from resume_dl.engine.store_calls import AT_ONCE, advance, check
from resume_dl.ports import DigestProgress

SIZE = 100 * AT_ONCE + 1


class Part:
    """A part file whose run is stopped while its third piece is hashed."""

    def __init__(self, running: SimpleNamespace, stops: int) -> None:
        self._running, self._stops = running, stops
        self.position = 5 * AT_ONCE  # of an earlier call
        self.pieces = 0

    def advance_digest(self, upto: int) -> DigestProgress:
        if upto > self.position:
            self.pieces += 1
            self.position = upto
            self._running.stopped = self.pieces == self._stops
        return DigestProgress(self.position)

    def digest(self) -> dict[str, str]:
        return {"sha256": "good"}


@pytest.fixture
def running() -> SimpleNamespace:
    artifact = SimpleNamespace(digest=SimpleNamespace(algorithm="sha256", hex="good"))
    return SimpleNamespace(stopped=False, job=SimpleNamespace(artifact=artifact), download=SimpleNamespace(size=SIZE))


def test_hashing_ends_with_the_piece_at_hand(running):
    part = Part(running, stops=3)
    assert advance(running, part, SIZE) == ev.DigestAdvanced(8 * AT_ONCE)


def test_a_check_that_was_stopped_is_no_verdict(running):
    """Neither right nor wrong: the bytes are kept for the next run."""
    assert check(running, Part(running, stops=1)) == ev.DigestAdvanced(6 * AT_ONCE)


def test_a_check_that_was_not_stopped_comes_to_the_end(running):
    part = Part(running, stops=0)
    assert check(running, part) == ev.DigestChecked(matches=True, expected="good", actual="good")
    assert part.pieces == 96
