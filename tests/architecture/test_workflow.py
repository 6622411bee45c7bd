"""The forge's workflow names what is there: make targets, folders and files of tests, the Pythons that are declared."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from resume_dl.yaml_text import load_yaml

PROJECT = Path(__file__).resolve().parents[2]
WORKFLOW = PROJECT / ".github" / "workflows" / "test.yml"
POSIX_ONLY = {"fcntl", "pty", "resource", "termios", "pwd", "grp"}


def jobs() -> dict[str, Any]:
    return load_yaml(WORKFLOW.read_text(encoding="utf-8"))["jobs"]


def commands(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def classifiers() -> list[str]:
    text = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    return ast.literal_eval(re.search(r"^classifiers = (\[.*?^\])", text, re.MULTILINE | re.DOTALL)[1])


def test_every_target_and_path_is_there():
    text = (PROJECT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
    for job in jobs().values():
        for command in commands(job):
            assert set(re.findall(r"\bmake ([a-z-]+)", command)) <= targets
            for path in re.findall(r"\btests/[\w./-]+", command):
                assert (PROJECT / path).exists(), path


def test_each_file_of_tests_can_be_imported_on_windows():
    """A file with such an import at its top would end the collection there; ``pytest.importorskip`` skips it."""
    last = commands(jobs()["windows"])[-1]
    skipped = [PROJECT / path for path in re.findall(r"--ignore=(\S+)", last)]
    left = []
    for path in sorted((PROJECT / "tests").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {each.name for node in tree.body if isinstance(node, ast.Import) for each in node.names}
        imported |= {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
        if imported & POSIX_ONLY and not any(path.is_relative_to(one) for one in skipped):
            left.append(path.relative_to(PROJECT).as_posix())
    assert left == []


def test_each_system_runs_every_python():
    found = jobs()
    assert {re.sub(r"-.*", "", job["runs-on"]) for job in found.values()} == {"ubuntu", "macos", "windows"}
    for name, job in found.items():
        if name == "wine":  # the one whose DLLs a wheel brings
            continue
        assert job["strategy"]["matrix"]["python"] == [f"3.{minor}" for minor in range(10, 15)]


def test_it_may_do_little_and_uses_pinned_actions():
    document = load_yaml(WORKFLOW.read_text(encoding="utf-8"))
    assert document["permissions"] == {"contents": "read"}
    for job in jobs().values():
        for step in job["steps"]:
            assert re.fullmatch(r"actions/[a-z-]+@(v\d+(\.\d+)*|[0-9a-f]{40})", step.get("uses", "actions/x@v1"))
            assert "checkout" not in step.get("uses", "") or step["with"] == {"persist-credentials": False}


def test_classifiers_claim_only_what_was_run():
    """Tests ran on Linux with CPython 3.11; other systems and Pythons are declared by the workflow alone."""
    claimed = [each for each in classifiers() if each.startswith(("Operating System", "Programming Language"))]
    assert claimed == [
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: Implementation :: CPython",
    ]
