"""CONTRIBUTING.md leads to files that are there, and names nothing that has gone."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
TEXT = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PATH = re.compile(
    r"(?<![\w/-])(?:P|src|tests|docs|benchmarks|recipe)/[\w./-]*\w/?|`[\w.-]+\.(?:toml|md)`|\]\(([^)]+)\)"
)


def paths(text: str) -> list[str]:
    """Every path in ``text``: in code, in links and in commands."""
    found = [match[1] or match[0].strip("`") for match in PATH.finditer(text)]
    return [f"src/resume_dl/{path[2:]}" if path.startswith("P/") else path for path in found]


def test_every_path_is_there():
    named = paths(TEXT)
    assert len(named) > 40
    assert [path for path in named if not (PROJECT / path).exists()] == []


def test_every_target_and_setting_is_there():
    targets = re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z-]+)", TEXT)) <= {*targets}
    policy = (PROJECT / "src/resume_dl/core/policy.py").read_text(encoding="utf-8")
    assert all(
        f"    {name}: float" in policy
        for name in ("first_byte_seconds", "silent_seconds", "stall_seconds", "silent_give_up")
    )


def test_the_check_sees_paths():
    text = "`P/core/policy.py`, [a](docs/x.md), `mirrors.toml`, `pytest tests/a/b.py -k x`, P/cli/ and `make lint`"
    assert paths(text) == [
        "src/resume_dl/core/policy.py",
        "docs/x.md",
        "mirrors.toml",
        "tests/a/b.py",
        "src/resume_dl/cli/",
    ]
