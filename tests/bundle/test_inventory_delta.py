"""What a machine has already, by digest."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from resume_dl.bundle_creation.delta import Delta
from resume_dl.bundle_creation.target_description import Held, Inventory
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.offline_tools.machine import inventory

SHA, OTHER, MD5 = "ab" * 32, "ef" * 32, "cd" * 16
HELD = Held("a-1-0.conda", 7, SHA, MD5)
WHEEL = Held("a-1-py3-none-any.whl", 9, OTHER)
DELTA = Delta([Inventory((HELD,), ()), Inventory((), (WHEEL,))])
PACKAGE = Artifact(
    kind="conda", filename=HELD.filename, url=RedactedUrl("https://host/a-1-0.conda"), size=7, sha256=SHA, md5=MD5
)
OLD = replace(PACKAGE, sha256=None)


@pytest.mark.parametrize(
    "artifact", [PACKAGE, replace(PACKAGE, md5=None), replace(PACKAGE, size=None), OLD], ids=range(4)
)
def test_the_target_has_it(artifact):
    """By sha256; by md5 and size where the record is old. The sha256 that it has there comes back."""
    assert DELTA.find(artifact) == HELD


@pytest.mark.parametrize(
    "artifact",
    [
        replace(PACKAGE, sha256=OTHER),
        replace(PACKAGE, size=8),
        replace(PACKAGE, filename="b-1-0.conda"),
        replace(PACKAGE, kind="wheel"),
        replace(OLD, kind="wheel"),
        replace(OLD, size=8),
        replace(OLD, size=None),
        replace(OLD, md5="12" * 16),
        replace(OLD, md5=None),
    ],
    ids=range(9),
)
def test_the_target_does_not_have_it(artifact):
    """Another digest is another file, whatever its name; an md5 without a size is not enough."""
    assert DELTA.find(artifact) is None


def test_wheels_and_several_inventories():
    """Each counts; a name may stand for several files."""
    wheel = replace(PACKAGE, kind="wheel", filename=WHEEL.filename, size=9, sha256=OTHER, md5=None)
    assert DELTA.find(wheel) == WHEEL
    another = replace(HELD, sha256=OTHER, md5="12" * 16)
    both = Delta([Inventory((HELD, another))])
    assert (both.find(PACKAGE), both.find(replace(PACKAGE, sha256=OTHER))) == (HELD, another)
    assert Delta([]).find(PACKAGE) is None


def test_progress_never_exceeds_its_total(tmp_path, monkeypatch):
    """A file that grows while it is hashed, as a download there does, enlarges the total."""
    monkeypatch.setattr(inventory, "SECONDS_BETWEEN_LINES", 0.0)  # a line for each block
    monkeypatch.setattr(inventory, "show_bytes", str)
    growing = tmp_path / "a-1-0.conda"
    growing.write_bytes(b"x")
    lines = []

    def log(line):
        if not lines:  # the sizes are known, nothing is read yet
            growing.write_bytes(bytes(5000))
        lines.append(line)

    (held,) = inventory.inventory([tmp_path], [], log)["packages"]
    assert held["size"] == 5000
    progress = [[int(number) for number in re.findall(r"\d+", line)] for line in lines[1:]]
    assert progress
    assert all(done <= size for done, size in progress)
