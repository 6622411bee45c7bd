"""The tree stays easy to find one's way in: short modules, and names that say which module is meant."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

import resume_dl

ROOT = Path(resume_dl.__file__).parent
LONGEST = 400
MEDIAN = 120


def modules() -> dict[str, int]:
    """Path below the package -> lines."""
    return {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in sorted(ROOT.rglob("*.py"))
    }


def test_modules_are_short():
    lines = modules()
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}
    assert statistics.median(lines.values()) <= MEDIAN


def test_no_basename_stands_thrice():
    """What every room has (``__init__``, ``__main__``) is left out."""
    counted = Counter(Path(name).name for name in modules() if not Path(name).stem.startswith("__"))
    assert {name: count for name, count in counted.items() if count > 2} == {}
