"""What counts as the same record at a second operator: all that is verified, solved with or linked by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resume_dl.indexes.trust import Stated, compare
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl

SHA256, MD5 = "a" * 64, "b" * 32
RECORD = {
    "name": "app", "version": "1.0", "build": "0", "size": 5, "sha256": SHA256, "md5": MD5,
    "depends": ["lib >=1"], "subdir": "linux-64",
}  # fmt: skip
ARTIFACT = Artifact(
    kind="conda",
    filename="app-1.0-0.conda",
    url=RedactedUrl("https://conda.example/lab/linux-64/app-1.0-0.conda"),
    name="app",
    version="1.0",
    build="0",
    size=5,
    sha256=SHA256,
    md5=MD5,
    subdir="linux-64",
    record=RECORD,
)


def test_the_same_record():
    assert compare(ARTIFACT, RECORD) is Stated.ALIKE
    assert compare(ARTIFACT, None) is Stated.ABSENT


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_a_digest_that_the_witness_lacks_is_unconfirmed(kind):
    """It may be the one that is verified: md5 that agree vouch for no sha256."""
    assert compare(ARTIFACT, {**RECORD, kind: None}) is Stated.ABSENT
    assert compare(replace(ARTIFACT, **{kind: None}), RECORD) is Stated.ALIKE


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_another_digest(kind):
    assert compare(ARTIFACT, {**RECORD, kind: "c" * len(RECORD[kind])}) is Stated.OTHERWISE


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", "1.1"),
        ("size", 6),
        ("size", [5]),
        ("depends", ["lib >=1", "trojan"]),
        ("constrains", ["lib <1"]),
        ("noarch", "python"),
        ("subdir", "noarch"),
        ("python_site_packages_path", "../../home"),
    ],
)
def test_fields_that_solvers_and_installers_use_must_agree(key, value):
    """These bring other packages, or link files elsewhere."""
    assert compare(ARTIFACT, {**RECORD, key: value}) is Stated.ABSENT


def test_the_pip_that_conda_adds_to_python_is_ignored():
    depends = [*RECORD["depends"], "pip"]
    assert compare(replace(ARTIFACT, record={**RECORD, "depends": depends}), RECORD) is Stated.ALIKE
