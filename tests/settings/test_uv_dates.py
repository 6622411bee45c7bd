"""``exclude-newer`` of uv: its forms, measured with uv 0.13, its files and their order."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.settings import uv_dates
from resume_dl.settings.uv_dates import cutoff_of_pip, cutoff_of_uv, load_uv_cutoff

NOW = datetime(2026, 6, 15, 12, 0, tzinfo=timezone.utc)
SHANGHAI = timezone(timedelta(hours=8))


@pytest.fixture(autouse=True)
def no_system_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uv_dates, "_system_file", lambda env: None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-04-01", datetime(2026, 4, 1, 16, tzinfo=timezone.utc)),
        ("2026-04-01T12:00:00", datetime(2026, 4, 1, 16, tzinfo=timezone.utc)),
        ("2026-04-01 12:00:00Z", datetime(2026, 4, 1, 12, tzinfo=timezone.utc)),
        ("2026-04-01T12:00:00.25+02:00", datetime(2026, 4, 1, 10, 0, 0, 250_000, tzinfo=timezone.utc)),
        ("7d", NOW - timedelta(days=7)),
        ("+7 days", NOW - timedelta(days=7)),
        ("3 wks", NOW - timedelta(weeks=3)),
        ("1w 2d, 3 hrs", NOW - timedelta(days=9, hours=3)),
        ("24h30m", NOW - timedelta(hours=24, minutes=30)),
        ("P1W2D", NOW - timedelta(days=9)),
        ("PT36H", NOW - timedelta(hours=36)),
        ("P1DT2H", NOW - timedelta(days=1, hours=2)),
        ("false", None),
    ],
)
def test_a_form_of_uv(text: str, expected: datetime | None) -> None:
    assert cutoff_of_uv(text, NOW, SHANGHAI) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "604800",
        "1 month",
        "2W",
        "soon",
        "2026-13-01",
        "P",
        "PT",
        "P1M",
        "7 dayz",
        "9" * 9 + "w",
        "2026-04-01T25:00:00",
        "\u0663 days",
    ],
)
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        cutoff_of_uv(text, NOW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P7D", NOW - timedelta(days=7)),
        ("2026-04-01T12:00:00Z", datetime(2026, 4, 1, 12, tzinfo=timezone.utc)),
        ("2026-04-01T12:00:00+08:00", datetime(2026, 4, 1, 4, tzinfo=timezone.utc)),
    ],
)
def test_a_form_of_pip(text: str, expected: datetime) -> None:
    assert cutoff_of_pip(text, "--uploaded-prior-to", NOW) == expected
    with pytest.raises(ConfigurationError, match="--uploaded-prior-to: not a date or duration: 'soon'"):
        cutoff_of_pip("soon", "--uploaded-prior-to", NOW)


def day(number: int) -> str:
    return f"2026-03-{number:02}T00:00:00Z"


def time(number: int) -> datetime:
    return datetime(2026, 3, number, tzinfo=timezone.utc)


def test_the_order_of_the_places(tmp_path: Path) -> None:
    """Variable, the project's file, the user's; ``uv.toml`` hides the table of pyproject.toml beside it."""
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "APPDATA": str(tmp_path / "config"), "HOME": str(tmp_path)}
    project = tmp_path / "project"
    (project / "inner").mkdir(parents=True)
    (tmp_path / "config" / "uv").mkdir(parents=True)
    user = tmp_path / "config" / "uv" / "uv.toml"
    user.write_text(f'exclude-newer = "{day(1)}"\nexclude-newer-package = {{ Old_One = "{day(9)}", free = false }}\n')
    cutoff = load_uv_cutoff(env, project / "inner", NOW)
    assert (cutoff.time, cutoff.packages, cutoff.origin) == (time(1), {"old-one": time(9), "free": None}, str(user))
    (project / "pyproject.toml").write_text(f'[tool.uv]\nexclude-newer = "{day(2)}"\n')
    assert load_uv_cutoff(env, project / "inner", NOW).time == time(2)
    (project / "uv.toml").write_text(f"exclude-newer = {day(3)}\n")  # a date of TOML's own
    assert load_uv_cutoff(env, project / "inner", NOW).time == time(3)
    (project / "uv.toml").write_text(f'exclude-newer = "{day(3)}"\n[pip]\nexclude-newer = "{day(4)}"\n')
    found = load_uv_cutoff(env, project / "inner", NOW)
    assert (found.time, found.packages) == (time(4), {"old-one": time(9), "free": None})
    assert load_uv_cutoff({**env, "UV_EXCLUDE_NEWER": day(5)}, project, NOW).time == time(5)
    assert load_uv_cutoff({**env, "UV_NO_CONFIG": "1"}, project, NOW).time is None
    (tmp_path / "own.toml").write_text(f'exclude-newer = "{day(6)}"\n')
    assert load_uv_cutoff({**env, "UV_CONFIG_FILE": str(tmp_path / "own.toml")}, project, NOW).time == time(6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("exclude-newer = 7", "exclude-newer in .*uv.toml is not a text"),
        ('exclude-newer = "soon"', "exclude-newer in .*uv.toml: not a date or duration: 'soon'"),
        ('exclude-newer-package = "7d"', "exclude-newer-package in .*uv.toml is not a table"),
        ('exclude-newer-package = {a = "soon"}', "exclude-newer-package of a in .*uv.toml: not a date"),
        ("exclude-newer = ", "uv.toml is not valid TOML"),
    ],
)
def test_a_rule_that_cannot_be_read_is_an_error(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "uv.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        load_uv_cutoff({"HOME": str(tmp_path / "none")}, tmp_path, NOW)


def test_a_pyproject_of_others_is_no_error(tmp_path: Path) -> None:
    """One that says nothing of dates, somewhere above the folder, does not end a download."""
    (tmp_path / "pyproject.toml").write_text("[tool.uv\n")
    (tmp_path / "inner").mkdir()
    assert load_uv_cutoff({"HOME": str(tmp_path / "none")}, tmp_path / "inner", NOW).time is None


@pytest.mark.parametrize("name", ["uv.toml", "pyproject.toml"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"x = {'9' * 5000}", "is not valid TOML"),
        (f"x = {'[' * 100_000}", "is not valid TOML"),
        (f'exclude-newer = "{"x" * 1_000_000}"', "not a date or duration.*characters"),
        ('exclude-newer = "https://me:hush@h/"', "not a date or duration"),
        (f'exclude-newer-package = {{"me:hush@h{"x" * 5000}" = "soon"}}', "exclude-newer-package of me.*characters"),
    ],
)
def test_a_hostile_file_is_refused_in_one_short_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    """A project's own files may come from anybody; a pyproject.toml without the key may be broken in any way."""
    head = "[tool.uv]\n" if name == "pyproject.toml" else ""
    (tmp_path / name).write_text(f"{head}{text}\n", encoding="utf-8")
    env = {"XDG_CONFIG_HOME": str(tmp_path / "none"), "APPDATA": str(tmp_path / "none")}
    if head and "exclude-newer" not in text:
        assert load_uv_cutoff(env, tmp_path, NOW).time is None
        return
    with pytest.raises(ConfigurationError, match=said) as caught:
        load_uv_cutoff(env, tmp_path, NOW)
    assert len(caught.value.message) < 500 + len(str(tmp_path))
    assert "hush" not in caught.value.message
