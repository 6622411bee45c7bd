"""The values of ``exclude_newer`` mean what they mean to conda."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from resume_dl.model.exclude_newer import cutoff_of

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7d", NOW - timedelta(days=7)),
        (" 1w 2D 3h4m5s ", NOW - timedelta(weeks=1, days=2, hours=3, minutes=4, seconds=5)),
        ("P7D", NOW - timedelta(days=7)),
        ("p2wT36h", NOW - timedelta(weeks=2, hours=36)),
        ("86400", NOW - timedelta(days=1)),
        ("0", NOW),
        ("2026-04-01", datetime(2026, 4, 2, tzinfo=timezone.utc)),
        ("2026-04-01T12:00:00Z", datetime(2026, 4, 1, 12, tzinfo=timezone.utc)),
        ("2026-04-01T12:00:00", datetime(2026, 4, 1, 12, tzinfo=timezone.utc)),
        ("2026-04-01T12:00:00+02:00", datetime(2026, 4, 1, 10, tzinfo=timezone.utc)),
    ],
)
def test_dates_and_durations(text: str, expected: datetime) -> None:
    """A date counts to the end of its day in UTC; a time without a zone is in UTC."""
    assert cutoff_of(text, NOW) == expected


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "yesterday", "7y", "-7d", "2026-13-01", "9999-12-31", "99999999w", "9" * 13]
)
def test_anything_else_is_refused(text: str) -> None:
    """No value is guessed: a rule that is not understood must not be dropped."""
    with pytest.raises(ValueError, match="not a date or duration"):
        cutoff_of(text, NOW)
