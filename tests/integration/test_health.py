"""The look through package caches, without a conda: what counts as damage, as unfinished, and as neither."""

from __future__ import annotations

import json
import sys

import pytest

from resume_dl.app.health import Finding, Trouble, examine
from resume_dl.caches.conda.lookup import stem
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.store.staged import staged_path
from support.condas_lock import another_conda_works_on

BASE = "https://conda.example"
ARTIFACT = Artifact(
    kind="conda",
    filename="waits-1.0-0.conda",
    url=RedactedUrl(f"{BASE}/noarch/waits-1.0-0.conda"),
    size=300_000,
    sha256="ab" * 32,
)


@pytest.fixture
def pkgs(offer, tmp_path):
    """A cache of whole entries."""
    folder = tmp_path / "pkgs"
    offer.publish_all(folder, BASE)
    return folder


def half_extracted(folder):
    (folder / "elsewhere" / "info").mkdir(parents=True)
    return folder / "elsewhere"


def test_complete_entries_and_other_files_are_not_findings(offer, pkgs, tmp_path):
    """Archives of another name, a user's own folder, conda's index cache, a link and an absent cache are left out."""
    (pkgs / "cache").mkdir()
    (pkgs / "my-own-folder").mkdir()
    (pkgs / "notes.partial").write_text("x")
    if sys.platform != "win32":
        (pkgs / "linked-1.0-0").symlink_to(half_extracted(tmp_path))
    packed = next(iter(offer.wanted.values()))
    twin = pkgs / f"{stem(packed.filename)}{'.conda' if packed.filename.endswith('.tar.bz2') else '.tar.bz2'}"
    twin.write_bytes(b"the record beside it speaks of the other archive")
    (pkgs / "packed-1.0-0.conda").write_bytes(b"nothing is known of it")
    health = examine([pkgs, pkgs, tmp_path / "absent"], hashing=True)
    assert health.findings == ()
    assert health.packages == len(offer.wanted) + 1
    assert health.hashed == len(offer.wanted)


def test_each_kind_of_damage_is_reported(offer, pkgs):
    """A lost file, a folder without record, a wrong length; a wrong digest only where it is asked for."""
    lost, half, short, wrong = sorted(pkgs / package.filename for package in offer.wanted.values())[:4]
    folder = {path: pkgs / stem(path.name) for path in (lost, half)}
    listed = json.loads((folder[lost] / "info" / "paths.json").read_text())["paths"]
    (folder[lost] / listed[0]["_path"]).unlink()
    for name in ("repodata_record.json", "paths.json", "files"):
        (folder[half] / "info" / name).unlink(missing_ok=True)
    size = short.stat().st_size
    short.write_bytes(short.read_bytes()[:-1])
    data = bytearray(wrong.read_bytes())
    data[-1] ^= 1
    wrong.write_bytes(data)
    damage = {
        Finding(Trouble.DAMAGED, folder[lost]),
        Finding(Trouble.HALF_EXTRACTED, folder[half]),
        Finding(Trouble.WRONG_SIZE, short, size - 1, size),
    }
    assert set(examine([pkgs]).damage) == damage
    thorough = examine([pkgs], hashing=True)
    (found,) = set(thorough.damage) - damage
    assert thorough.hashed == len(offer.wanted) - 2  # the half one has no record, the short one is wrong already
    assert (found.trouble, found.path) == (Trouble.WRONG_DIGEST, wrong)
    assert found.actual != found.expected


def test_unfinished_downloads_are_listed_with_their_bytes_and_their_user(tmp_path):
    """A part file, a waiting archive and conda's ``.partial``; busy while another process has its lock."""
    pkgs = tmp_path / "pkgs"
    part = PartStore(pkgs / FOLDER).open(ARTIFACT, journaled=True)
    part.resume()
    part.write(0, b"x" * 1000)
    part.record_written(0, 1000, 0, "one")
    part.close()
    staged_path(pkgs, ARTIFACT).write_bytes(b"y" * 2000)
    partial = pkgs / "left-1.0-0.tar.bz2.partial"
    partial.write_bytes(b"z" * 3000)
    expected = {
        Finding(Trouble.UNFINISHED, part.path, 1000, 300_000),
        Finding(Trouble.WAITING, staged_path(pkgs, ARTIFACT), 2000, 2000),
        Finding(Trouble.PARTIAL, partial, 3000),
    }
    health = examine([pkgs])
    assert (set(health.unfinished), health.damage) == (expected, ())
    if sys.platform == "win32":
        return
    with another_conda_works_on(partial):
        assert [each.path for each in examine([pkgs]).unfinished if each.busy] == [partial]
