"""One module shows the way from a request to files, and every use case that downloads takes it."""

from __future__ import annotations

import ast
from pathlib import Path

import resume_dl
from resume_dl.app import cache_repair, conda_fetch, get, pip_fetch, pipeline, prefetch, self_install

ROOT = Path(resume_dl.__file__).parent
PIPELINE = ROOT / "app" / "pipeline.py"
MOST_LINES = 150
OWN = {"engine_for", "Engine", "WatchedEngine", "Transfer", "Job"}
"""What starts a transfer. In the rooms of the use cases and of the plugin, the pipeline alone may name it."""
LINES = {"fetch": 250, "get": 250, "bundle_create": 250, "conda_fetch": 250, "pip_fetch": 250}


def named(source: str) -> set[str]:
    """The names of ``OWN`` that are imported or used, whatever they are called there."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
    return found & OWN


def called_methods(source: str) -> set[str]:
    """``destination.fetch`` and ``engine.run``: what is called on which last name."""
    return {
        f"{ast.unparse(node.func.value).rpartition('.')[2]}.{node.func.attr}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }


def test_the_way_fits_on_a_page():
    """It is there to be read as a whole."""
    assert len(PIPELINE.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_no_other_use_case_starts_a_transfer():
    """A module that opens an engine by itself has its own order of steps and its own errors."""
    modules = [
        path for room in ("app", "conda_plugin", "cli", "bundle_creation") for path in (ROOT / room).rglob("*.py")
    ]
    found = {path.relative_to(ROOT).as_posix(): named(path.read_text(encoding="utf-8")) for path in modules}
    assert {name: names for name, names in found.items() if names} == {
        "app/pipeline.py": {"engine_for", "WatchedEngine"}
    }


def test_no_other_use_case_fetches_into_its_destination():
    """A batch gives its parts; the pipeline calls them, in one order for all."""
    found = {
        path.name
        for path in (ROOT / "app").glob("*.py")
        if called_methods(path.read_text(encoding="utf-8")) & {"destination.fetch", "engine.run"}
    }
    assert found == {"pipeline.py"}


def test_the_checks_see_what_they_are_for():
    """A renamed import, an attribute and a call are found."""
    assert named("from a import engine_for as e\nimport b\nb.Transfer(1)") == {"engine_for", "Transfer"}
    assert called_methods("self.destination.fetch(x)\nengine.run([])") == {"destination.fetch", "engine.run"}


def test_the_use_cases_are_batches():
    """Each gives what differs, and takes what is the same for all from the pipeline."""
    batches = {
        get.UrlFiles, conda_fetch.FetchConda, pip_fetch.FetchPip, prefetch.Prefetch, self_install.Wheels,
        cache_repair.CacheRepair,
    }  # fmt: skip
    found = {each for each in pipeline.Batch.__subclasses__() if each.__module__.startswith("resume_dl.")}
    assert found == batches
    assert not [each for each in batches if {"carry_out", "_transfer", "engine"} & {*vars(each)}]


def test_the_use_cases_stay_small():
    """What does not fit belongs into the room of what it does."""
    sizes = {name: len((ROOT / "app" / f"{name}.py").read_text(encoding="utf-8").splitlines()) for name in LINES}
    assert {name: size for name, size in sizes.items() if size > LINES[name]} == {}
