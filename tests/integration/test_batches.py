"""The pipeline: in which order its steps run, and that nothing is transferred once a step has refused."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from resume_dl.app.pipeline import Batch, run
from resume_dl.errors import OutOfSpaceError, PackageNotFoundError, SourcesExhaustedError
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.progress.console import Console
from resume_dl.progress.none import NoneReporter
from resume_dl.transfer.plan import Planned, Space, Wanted
from resume_dl.transfer.report import ArtifactResult, RunResult


def artifact(name):
    return Artifact(kind="file", filename=name, url=RedactedUrl(f"http://127.0.0.1:9/{name}"))


class Told(NoneReporter):
    """What was announced, and what it takes the place of."""

    def __init__(self, log):
        super().__init__(Console(io.StringIO()))
        self.log = log

    def plan(self, files, *, replaces=()):
        self.log.append(("announce", len(files), len(replaces)))


class Folder:
    """A destination without a disk; ``free`` bytes, ``broken`` names that cannot be had."""

    def __init__(self, log, *, free, broken):
        self.log, self.free, self.broken = log, free, broken

    def plan(self, artifacts, *, touch):
        self.log.append(("look", touch))
        return [Planned(each, "missing") for each in artifacts]

    def spaces(self, planned):
        return [Space(Path("/nowhere"), len(planned), 0, self.free)]

    def files(self, planned):
        return list(planned)

    def fetch(self, planned, engine, *, thorough):
        self.log.append(("fetch", [each.artifact.filename for each in planned]))
        return [
            ArtifactResult(each.artifact, "failed", error=SourcesExhaustedError("gone"))
            if each.artifact.filename in self.broken
            else ArtifactResult(each.artifact, "downloaded")
            for each in planned
        ]


class Recorded(Batch):
    """A batch that writes down what is asked of it."""

    engine = None

    def __init__(self, log, name, *, error=None, free=10, newer=None, **options):
        super().__init__(None, Told(log), lambda: False, begin=lambda: log.append((name, "begin")), **options)
        self.log, self.name, self.error, self.newer = log, name, error, newer
        self.destination = Folder(log, free=free, broken={name} if newer else ())

    def resolve(self):
        self.log.append((self.name, "resolve"))
        if self.error is not None:
            raise self.error
        return Wanted([artifact(self.name), artifact(f"{self.name}-has")])

    def renew(self, results):
        broken = [each for each in results if each.error is not None]
        return Wanted([artifact(self.newer), artifact(f"{self.name}-has")]) if broken and self.newer else None

    def report(self, result, done):
        self.log.append((self.name, "report", [each.status for each in done]))

    def close(self):
        self.log.append((self.name, "close"))


def test_all_are_resolved_and_planned_before_one_is_fetched():
    """Two batches of one request: a file of the first is asked for when the second is known to be possible."""
    log = []
    result = run([Recorded(log, "a"), Recorded(log, "b")], RunResult("test"))
    steps = [row for row in log if row[0] in {"a", "b", "fetch"} and row[1] != "close"]
    assert steps == [
        ("a", "resolve"),
        ("b", "resolve"),
        ("a", "begin"),
        ("b", "begin"),
        ("fetch", ["a", "a-has"]),
        ("a", "report", ["downloaded", "downloaded"]),
        ("fetch", ["b", "b-has"]),
        ("b", "report", ["downloaded", "downloaded"]),
    ]
    assert [each.artifact.filename for each in result.artifacts] == ["a", "a-has", "b", "b-has"]


@pytest.mark.parametrize(
    ("options", "error"), [({"error": PackageNotFoundError("b")}, PackageNotFoundError), ({"free": 1}, OutOfSpaceError)]
)
def test_a_refused_request_closes_every_batch(options, error):
    """An error of a step is raised, after every batch was closed; nothing of the refused one was fetched."""
    log = []
    with pytest.raises(error):
        run([Recorded(log, "a"), Recorded(log, "b", **options)], RunResult("test"))
    assert {row[0] for row in log if row[1:] == ("close",)} == {"a", "b"}
    assert ("fetch", ["b", "b-has"]) not in log
    assert error is OutOfSpaceError or not [row for row in log if row[0] in {"fetch", "look"}]


def test_a_dry_run_changes_nothing():
    """No folder is begun, nothing is put near, nothing is fetched or checked for room; what is left out is named."""
    log = []
    batch = Recorded(log, "a", free=0, dry_run=True, leave_out=lambda each: each.filename == "a-has")
    result = run([batch], RunResult("test"))
    assert [(each.artifact.filename, each.status) for each in result.artifacts] == [
        ("a", "planned"),
        ("a-has", "left-out"),
    ]
    assert ("look", False) in log
    assert not [row for row in log if row[0] == "fetch" or row[1:] == ("begin",)]


def test_a_newer_index_is_requested_once():
    """What it names takes the place of what could not be had; the second round ends whatever comes of it."""
    log = []
    result = run([Recorded(log, "a", newer="a-newer")], RunResult("test"))
    assert [row for row in log if row[0] in {"fetch", "announce"}] == [
        ("announce", 2, 0),
        ("fetch", ["a", "a-has"]),
        ("announce", 2, 1),
        ("fetch", ["a-newer", "a-has"]),
    ]
    assert [(each.artifact.filename, each.error) for each in result.artifacts] == [("a-newer", None), ("a-has", None)]
