"""A package whose own index.json is malformed, and a thread that breaks: each is one file's failure, nothing waits."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from resume_dl.caches.conda.lookup import is_whole
from resume_dl.caches.conda.publish import Unplaced
from resume_dl.caches.conda.record import repodata_record
from resume_dl.caches.package_caches import CondaCache
from resume_dl.caches.rattler import publish_for_rattler
from resume_dl.errors import IntegrityError, InternalError, StoreError
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.transfer.extraction import Extractor
from support.fetching import User

GUARD = 60.0
"""Seconds; only a test that would hang needs them."""
INDEX = {"name": "a", "version": "1", "build": "0", "build_number": 0, "subdir": "linux-64", "depends": []}
MALFORMED = [
    {"timestamp": "2020-01-01"},
    {"timestamp": float("nan")},
    {"timestamp": 10**400},
    {"depends": 5},
    {"depends": [1]},
    {"constrains": {"a": "b"}},
    {"size": "12"},
    {"build_number": True},
    {"name": ["a"]},
    {"license": {}},
    {"track_features": [None]},
    {"features": 7},
    {"flags": 1.5},
    {"noarch": 1},
]


def package(folder: Path, name: str, index: object) -> Artifact:
    """An archive with nothing but its metadata, in a package cache, as a list would name it."""
    path = folder / f"{name}-1-0.tar.bz2"
    with tarfile.open(path, "w:bz2") as tar:
        for member, text in {"info/index.json": json.dumps(index), "info/files": ""}.items():
            info = tarfile.TarInfo(member)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    data = path.read_bytes()
    url = RedactedUrl(f"https://conda.example/linux-64/{path.name}")
    sha256 = hashlib.sha256(data).hexdigest()
    return Artifact(kind="conda", filename=path.name, url=url, client_url=url, size=len(data), sha256=sha256)


def unpack(extractor: Extractor, *artifacts: Artifact) -> dict[str, object]:
    """File name -> error of each; fails where the extractor waits for ever."""
    found: dict[str, object] = {}

    def run() -> None:
        for each in artifacts:
            extractor.submit(each)
        found.update({each.artifact.filename: each.error for each in extractor.finish()})

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(GUARD)
    assert not thread.is_alive(), "the extractor waits for ever"
    return found


@pytest.mark.parametrize("wrong", MALFORMED, ids=repr)
def test_a_malformed_index_is_refused_by_field(tmp_path, wrong):
    """No field of an archive's own index has a type that would surprise the code behind."""
    artifact = package(tmp_path, "a", INDEX)
    with pytest.raises(IntegrityError, match=next(iter(wrong))) as caught:
        repodata_record(artifact, {**INDEX, **wrong})
    assert artifact.filename in caught.value.message


def test_null_fields_are_ignored():
    """What condas wrote as null, and what only newer ones know, is no reason to refuse a package."""
    url = RedactedUrl("https://conda.example/linux-64/a-1-0.tar.bz2")
    artifact = Artifact(kind="conda", filename="a-1-0.tar.bz2", url=url, sha256="0" * 64)
    index = {**INDEX, "license": None, "features": None, "timestamp": 1.5e9, "noarch": True, "unheard-of": {"x": 1}}
    assert repodata_record(artifact, index)["timestamp"] == 1_500_000_000_000


@pytest.mark.parametrize("wrong", [{"timestamp": "2020-01-01"}, {"depends": 5}], ids=repr)
def test_packages_beside_a_malformed_one_are_unpacked(tmp_path, wrong):
    """It fails by its name, as bytes that cannot be trusted; the others become complete entries."""
    bad = [package(tmp_path, f"bad{number}", {**INDEX, **wrong}) for number in range(2)]
    good = [package(tmp_path, f"good{number}", INDEX) for number in range(3)]
    errors = unpack(Extractor(CondaCache(tmp_path)), *bad, *good)
    for each in bad:
        error = errors[each.filename]
        assert isinstance(error, IntegrityError)
        assert error.exit_code == 4
        assert each.filename in error.message
        assert not (tmp_path / each.filename.removesuffix(".tar.bz2")).exists()
    for each in good:
        assert errors[each.filename] is None
        assert is_whole(tmp_path / each.filename.removesuffix(".tar.bz2"))
    assert list((tmp_path / ".resume-dl").iterdir()) == []


def test_the_rattler_cache_refuses_a_malformed_package_too(tmp_path):
    """The same check stands before both caches."""
    artifact = package(tmp_path, "a", INDEX)
    extracted = tmp_path / ".resume-dl" / "x"
    (extracted / "info").mkdir(parents=True)
    (extracted / "info" / "index.json").write_text(json.dumps({**INDEX, "depends": 5}))
    named = Artifact(
        **{name: getattr(artifact, name) for name in ("kind", "filename", "url", "sha256")},
        name="a",
        version="1",
        build="0",
    )
    with pytest.raises(IntegrityError, match="depends"):
        publish_for_rattler(tmp_path, named, extracted)
    assert not (tmp_path / "a-1-0").exists()


class BrokenCache(CondaCache):
    """A cache whose code has a defect."""

    error: type[BaseException] = TypeError

    def place(self, entries: Sequence[Unplaced]) -> list[StoreError | None]:
        if any(each.artifact.filename.startswith("bad") for each in entries):
            raise self.error("a defect")
        return super().place(entries)


def test_an_unexpected_exception_becomes_the_files_result(tmp_path):
    """Exit code 70 with the file named; the threads go on with the others."""
    artifacts = [package(tmp_path, name, INDEX) for name in ("bad0", "good0", "bad1", "bad2", "good1")]
    errors = unpack(Extractor(BrokenCache(tmp_path)), *artifacts)
    for artifact in artifacts:
        error = errors[artifact.filename]
        if artifact.filename.startswith("good"):
            assert error is None
            continue
        assert isinstance(error, InternalError)
        assert error.exit_code == 70
        assert artifact.filename in error.message
        assert "TypeError" in error.message


def test_a_wait_ends_with_the_last_thread(tmp_path, monkeypatch):
    """Where the threads themselves are gone, what they had not done has failed, by name."""
    monkeypatch.setattr(BrokenCache, "error", SystemExit)
    artifacts = [package(tmp_path, f"bad{number}", INDEX) for number in range(4)]
    errors = unpack(Extractor(BrokenCache(tmp_path)), *artifacts)
    assert set(errors) == {each.filename for each in artifacts}
    assert {type(error) for error in errors.values()} == {InternalError}


def test_a_listed_package_that_is_malformed(tmp_path, fault_server):
    """A whole run: exit code 4, the file and the field named; the package beside it is in the cache."""
    (tmp_path / "mirror").mkdir()
    listed = [package(tmp_path / "mirror", "bad", {**INDEX, "depends": 5}), package(tmp_path / "mirror", "good", INDEX)]
    server = fault_server()
    for each in listed:
        server.put(f"/linux-64/{each.filename}", (tmp_path / "mirror" / each.filename).read_bytes())
    lines = [f"{server.base()}/linux-64/{each.filename}#sha256:{each.sha256}" for each in listed]
    user = User(tmp_path / "user")
    (user.folder / "list.txt").write_text("\n".join(["@EXPLICIT", *lines]), encoding="utf-8")
    done = user.fetch("--file", user.folder / "list.txt", "--json")
    assert done.code == 4, done.err
    assert done.statuses == {"bad-1-0.tar.bz2": "failed", "good-1-0.tar.bz2": "downloaded"}
    assert "bad-1-0.tar.bz2: its own info/index.json is malformed: 'depends'" in done.err
    assert user.archives() == {"good-1-0.tar.bz2", "good-1-0"}
