"""Wheels into a folder by the engine: with a hash, without one, and when what is there changes."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import replace

import pytest

from resume_dl.caches.wheel_record import check_archive
from resume_dl.errors import DigestMismatchError, IntegrityError, Interrupted, TransferError
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.progress.console import Console
from resume_dl.progress.none import NoneReporter
from resume_dl.store.part import FOLDER
from resume_dl.store.pins import Pins
from resume_dl.transfer.setup import TransferOptions, engine_for, load_setup
from resume_dl.transfer.wheel_transfer import WheelDir, first_seen
from support.fetching import User
from support.pip_index import build_wheel, put, write_index


@pytest.fixture
def wheels(tmp_path):
    """Fetch artifacts into a wheel dir as one run would."""
    user = User(tmp_path / "user")
    options = TransferOptions(give_up_after=20, mirrors_file=user.write_mirrors({}))
    setup = load_setup(options, user.environment())

    class Wheels:
        folder = tmp_path / "wheels"
        pins = Pins(setup.paths.pins)

        def fetch(self, *artifacts, offline=False):
            artifacts = [replace(each, sources=setup.places.of(each.url)) for each in artifacts]
            silent = NoneReporter(Console(io.StringIO()))
            with engine_for(setup, silent, lambda: False) as engine:
                target = WheelDir(self.folder, self.pins, silent)
                return target.fetch(target.plan(artifacts), engine, offline=offline)

        def names(self):
            return {path.name for path in self.folder.iterdir()} if self.folder.exists() else set()

    return Wheels()


def artifact_of(file, base, *, hashed):
    return Artifact(
        kind="wheel",
        filename=file.filename,
        url=RedactedUrl(f"{base}/{file.url_path}"),
        size=file.size if hashed else None,
        sha256=file.sha256 if hashed else None,
        name=file.name,
        version=file.version,
    )


END_GAME = 256 * 1024
"""What nginx may have handed to the kernel for connections that were not read to their end."""


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_wheel_with_a_hash(tmp_path, nginx_mirrors, wheels):
    """Fetched once, verified by its hash; found the second time."""
    file = build_wheel(tmp_path / "built", "app", "1.0", filler=3_000_000)
    write_index(tmp_path / "root", [file])
    nginx = nginx_mirrors([tmp_path / "root"])
    artifact = artifact_of(file, nginx.base(), hashed=True)
    (done,) = wheels.fetch(artifact)
    assert (done.status, done.verified_by, done.downloaded) == ("downloaded", "digest", file.size)
    assert digest(wheels.folder / file.filename) == file.sha256
    (again,) = wheels.fetch(artifact)
    assert (again.status, again.verified_by) == ("cached", "digest")
    assert file.size <= nginx.body_bytes() <= file.size + END_GAME
    assert wheels.names() == {file.filename}
    assert first_seen([done, again]) == []


def test_a_wheel_without_a_hash_is_pinned(tmp_path, nginx_mirrors, wheels):
    """Verified by its RECORD, its hash told; the next run knows it by that."""
    file = build_wheel(tmp_path / "built", "app", "1.0", filler=3_000_000)
    write_index(tmp_path / "root", [file])
    nginx = nginx_mirrors([tmp_path / "root"])
    artifact = artifact_of(file, nginx.base(), hashed=False)
    (done,) = wheels.fetch(artifact)
    assert (done.status, done.verified_by, done.artifact.sha256) == ("downloaded", "record", file.sha256)
    assert done.artifact.size == file.size
    (note,) = first_seen([done])
    assert "hash first seen here" in note
    assert file.sha256 in note
    pin = wheels.pins.find(artifact)
    assert pin.sha256 == file.sha256
    (again,) = wheels.fetch(artifact)
    assert (again.status, again.verified_by, again.artifact.sha256) == ("cached", "pin", file.sha256)
    (wheels.folder / file.filename).unlink()
    (third,) = wheels.fetch(artifact)
    assert (third.status, third.verified_by) == ("downloaded", "pin")
    assert 2 * file.size <= nginx.body_bytes() <= 2 * file.size + END_GAME
    assert wheels.names() == {file.filename}


def test_bytes_that_contradict_a_pin_are_refused(tmp_path, nginx_mirrors, wheels):
    """Exit 4 with both hashes, and what is there stays; without the pin the new file is accepted."""
    file = build_wheel(tmp_path / "built", "app", "1.0", filler=2_000_000)
    other = build_wheel(tmp_path / "other", "app", "1.0", filler=2_000_000, files={"app/more.py": b""})
    write_index(tmp_path / "root", [file])
    nginx = nginx_mirrors([tmp_path / "root"])
    artifact = artifact_of(file, nginx.base(), hashed=False)
    wheels.fetch(artifact)
    (wheels.folder / file.filename).unlink()
    put(tmp_path / "root" / file.url_path, other)
    (done,) = wheels.fetch(artifact)
    assert isinstance(done.error, DigestMismatchError)
    assert done.error.exit_code == 4
    assert file.sha256 in done.error.message
    assert other.sha256 in done.error.message
    pin = wheels.pins.find(artifact)
    assert str(pin.path) in done.error.hint
    assert file.filename not in wheels.names()
    pin.path.unlink()
    (done,) = wheels.fetch(artifact)
    assert done.artifact.sha256 == other.sha256


def test_a_wheel_that_contradicts_its_record(tmp_path, nginx_mirrors, wheels):
    """Exit 4; nothing gets a name, nothing is pinned, nothing is left."""
    file = build_wheel(tmp_path / "built", "app", "1.0", filler=2_000_000, wrong_record=True)
    write_index(tmp_path / "root", [file])
    artifact = artifact_of(file, nginx_mirrors([tmp_path / "root"]).base(), hashed=False)
    (done,) = wheels.fetch(artifact)
    assert isinstance(done.error, IntegrityError)
    assert "RECORD gives" in done.error.message
    assert (done.status, done.path, done.verified_by) == ("failed", None, None)
    assert (done.downloaded, done.wasted) == (0, file.size)
    assert wheels.pins.find(artifact) is None
    assert wheels.names() <= {FOLDER}
    assert not any((wheels.folder / FOLDER).glob("*.whl"))


def test_a_wheel_that_waited_for_its_record(tmp_path, nginx_mirrors, wheels):
    """A run that was killed after the last byte: the next one downloads nothing."""
    file = build_wheel(tmp_path / "built", "app", "1.0", filler=2_000_000)
    write_index(tmp_path / "root", [file])
    nginx = nginx_mirrors([tmp_path / "root"])
    artifact = artifact_of(file, nginx.base(), hashed=False)
    waiting = wheels.folder / FOLDER / f"{artifact.key.removeprefix('url-')[:16]}-{file.filename}"
    put(waiting, file)
    (done,) = wheels.fetch(artifact)
    assert (done.status, done.resumed, done.downloaded) == ("resumed", file.size, 0)
    assert nginx.body_bytes() == 0
    assert wheels.names() == {file.filename}


def test_a_wheel_that_was_pinned_and_had_no_name_yet(tmp_path, nginx_mirrors, wheels):
    """A run that was killed between the two: the next one gives it its name."""
    file = build_wheel(tmp_path / "built", "app", "1.0", filler=2_000_000)
    write_index(tmp_path / "root", [file])
    nginx = nginx_mirrors([tmp_path / "root"])
    artifact = artifact_of(file, nginx.base(), hashed=False)
    wheels.pins.add(artifact, file.sha256)
    put(wheels.folder / FOLDER / f"{artifact.key.removeprefix('url-')[:16]}-{file.filename}", file)
    (done,) = wheels.fetch(artifact)
    assert (done.error, done.verified_by) == (None, "pin")
    assert nginx.body_bytes() == 0
    assert wheels.names() == {file.filename}


def test_another_process_takes_the_file_while_we_look_at_it(tmp_path, nginx_mirrors, wheels, monkeypatch):
    """Two look at the same waiting file: the one that comes second finds it under its name, by its pin."""
    file = build_wheel(tmp_path / "built", "app", "1.0", filler=2_000_000)
    write_index(tmp_path / "root", [file])
    artifact = artifact_of(file, nginx_mirrors([tmp_path / "root"]).base(), hashed=False)

    def and_the_other_is_done(path, name, *, cancelled):
        check_archive(path, name, cancelled=cancelled)
        wheels.pins.add(artifact, file.sha256)
        path.rename(wheels.folder / file.filename)

    monkeypatch.setattr("resume_dl.transfer.wheel_transfer.check_archive", and_the_other_is_done)
    (done,) = wheels.fetch(artifact)
    assert (done.error, done.verified_by, done.artifact.sha256) == (None, "pin", file.sha256)
    assert wheels.names() == {file.filename}


def test_a_wheel_that_waits_to_be_read_is_safe(tmp_path, nginx_mirrors, wheels, monkeypatch):
    """Stopped before its RECORD was read: all of it is told as safe, and the next run fetches nothing."""
    file = build_wheel(tmp_path / "built", "app", "1.0")
    write_index(tmp_path / "root", [file])
    nginx = nginx_mirrors([tmp_path / "root"])
    artifact = artifact_of(file, nginx.base(), hashed=False)

    def stopped(*_, **__):
        raise Interrupted("stopped")

    with monkeypatch.context() as patched:
        patched.setattr("resume_dl.transfer.wheel_transfer.check_archive", stopped)
        (done,) = wheels.fetch(artifact)
    assert (done.outcome, done.error.resumable_bytes) == ("stopped", file.size)
    before = nginx.body_bytes()
    (again,) = wheels.fetch(artifact)
    assert (again.error, nginx.body_bytes()) == (None, before)


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("field", ["hashes", "allowed", "md5"])
def test_other_hashes(tmp_path, nginx_mirrors, wheels, field, right):
    """A sha512 of the index, one of several that were asked for, an MD5 of old: it must fit; the sha256 is told."""
    file = build_wheel(tmp_path / "built", "app", "1.0")
    write_index(tmp_path / "root", [file])
    data = file.path.read_bytes() if right else b"other"
    other = {
        "hashes": {"record": {"hashes": {"sha512": hashlib.sha512(data).hexdigest()}}},
        "allowed": {"record": {"allowed": [f"sha256:{'0' * 64}", f"sha384:{hashlib.sha384(data).hexdigest()}"]}},
        "md5": {"md5": hashlib.md5(data).hexdigest()},
    }[field]
    artifact = replace(artifact_of(file, nginx_mirrors([tmp_path / "root"]).base(), hashed=False), **other)
    (done,) = wheels.fetch(artifact)
    if right:
        assert (done.error, done.verified_by, done.artifact.sha256) == (None, "digest", file.sha256)
        assert first_seen([done]) == []
    else:
        assert isinstance(done.error, DigestMismatchError)
        assert wheels.names() <= {FOLDER}
        assert wheels.pins.find(replace(artifact, md5=None)) is None


def test_a_pin_cannot_be_read(tmp_path, nginx_mirrors, wheels):
    """It is as if there were none."""
    file = build_wheel(tmp_path / "built", "app", "1.0")
    write_index(tmp_path / "root", [file])
    artifact = artifact_of(file, nginx_mirrors([tmp_path / "root"]).base(), hashed=False)
    wheels.fetch(artifact)
    pin = wheels.pins.find(artifact)
    assert json.loads(pin.path.read_text())["url"] == str(artifact.url)
    for text in ("", "{", "[]", '{"sha256": "xyz", "first_seen": "2026-01-01"}'):
        pin.path.write_text(text)
        assert wheels.pins.find(artifact) is None
    (done,) = wheels.fetch(artifact)
    assert done.verified_by == "record"


def test_offline(tmp_path, nginx_mirrors, wheels):
    """What is here is found; what is not is an error, and nobody is asked."""
    files = [build_wheel(tmp_path / "built", name, "1.0") for name in ("app", "other")]
    write_index(tmp_path / "root", files)
    nginx = nginx_mirrors([tmp_path / "root"])
    here, away = (artifact_of(file, nginx.base(), hashed=True) for file in files)
    wheels.fetch(here)
    first, second = wheels.fetch(here, away, offline=True)
    assert first.status == "cached"
    assert isinstance(second.error, TransferError)
    assert len(nginx.archive_requests()) == 1
