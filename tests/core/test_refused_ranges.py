"""A source that cannot give ranges, asked for several of them at once."""

from __future__ import annotations

import pytest

from core.line import Line
from resume_dl.core import actions as act
from resume_dl.core.failures import FailureKind
from resume_dl.core.policy import MIB


@pytest.mark.parametrize("kind", [FailureKind.RANGE_IGNORED, FailureKind.RANGE_WRONG])
def test_two_refusals_at_once_are_one(kind: FailureKind) -> None:
    """Both first ranges are refused: then the whole file is asked for, and only if that is refused too it is over."""
    line = Line(size=100 * MIB)
    assert len(line.leases) == 2
    line.close(0, kind=kind)
    assert line.leases == []
    line.close(1, kind=kind)
    (order,) = line.of(act.OpenRange)
    assert (order.whole, order.start) == (True, 0)
    line.close(order.connection, kind=FailureKind.RANGE_WRONG)
    assert [fail.reason for fail in line.of(act.Fail)] == ["exhausted"]
