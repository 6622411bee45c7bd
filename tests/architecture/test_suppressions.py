"""Comments that turn a rule off are few, and each says why."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
MOST = 60
"""Of ``noqa``, in all; 321 stood in ``src`` before late imports got a rule of their own."""
NOQA = re.compile(r"#\s*noqa\b(?P<codes>:\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*)?(?P<reason>.*)", re.IGNORECASE)
IGNORE = re.compile(r"#\s*type:\s*ignore(?P<codes>\[[^\]]+\])?(?P<reason>.*)")


def suppressions(source: str) -> list[tuple[int, str, bool]]:
    """Line, ``noqa`` or ``ignore``, and whether it names its rules and its reason, for each such comment."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        for kind, pattern in (("noqa", NOQA), ("ignore", IGNORE)):
            if match := pattern.search(token.string):
                reason = re.sub(r"^[\s#-]+|# noqa.*", "", match["reason"])
                found.append((token.start[0], kind, bool(match["codes"] and len(reason.split()) > 1)))
    return found


def in_the_tree() -> dict[str, list[tuple[int, str, bool]]]:
    return {
        path.relative_to(PROJECT).as_posix(): found
        for folder in ("src", "tests", "benchmarks")
        for path in sorted((PROJECT / folder).rglob("*.py"))
        if (found := suppressions(path.read_text(encoding="utf-8")))
    }


def test_they_are_few():
    every = [kind for found in in_the_tree().values() for _, kind, _ in found]
    assert every.count("noqa") <= MOST
    assert every.count("ignore") <= 20


def test_each_names_its_rule_and_its_reason():
    bare = [f"{name}:{line}" for name, found in in_the_tree().items() for line, _, is_argued in found if not is_argued]
    assert bare == []


def test_the_check_sees_them():
    """Whatever is a comment counts; what only looks like one does not."""
    source = (
        "a = 1  # noqa\n"
        "b = 1  # noqa: S101\n"
        "c = 1  # noqa: S101, E501 - said by the caller\n"
        "d = 1  # type: ignore\n"
        "e = 1  # type: ignore[misc]  # no types there\n"
        "f = '# noqa'\n"
    )
    assert suppressions(source) == [
        (1, "noqa", False),
        (2, "noqa", False),
        (3, "noqa", True),
        (4, "ignore", False),
        (5, "ignore", True),
    ]
