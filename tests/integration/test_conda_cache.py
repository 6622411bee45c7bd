"""What we put into a package cache is what a real conda leaves there, and whole at every moment."""

from __future__ import annotations

import hashlib
import json
import os
import shutil

import pytest

from resume_dl.caches.conda.extraction_folders import extraction_folder, sweep
from resume_dl.caches.conda.lookup import State, find_entry, is_whole, stem, verify_file
from resume_dl.caches.conda.partial import duplicate, place, withdraw_orphans
from resume_dl.caches.conda.publish import claim_for_client, publish_entry
from resume_dl.caches.conda.record import channel_of, read_json, repodata_record, without_credentials
from resume_dl.caches.conda.urls import add_url, origin_of
from resume_dl.demo.channel import PackageSpec, build_channel
from resume_dl.errors import LockedError
from resume_dl.model.artifact import Artifact
from resume_dl.model.digest import Digest
from resume_dl.model.url import RedactedUrl
from resume_dl.store.part import FOLDER
from support.conda_cache import Offer, extract_all
from support.condas_lock import another_conda_works_on
from support.killing import kill_at

MKL = "pkgs/main/mkl-2020.2-256.conda"
BASE = "http://mirror.example"


# --- the same as conda writes


@pytest.mark.conda
def test_entries_are_those_that_conda_leaves(test_conda, offer, nginx_mirrors, tmp_path):
    """After the same packages: records byte for byte those of conda 24 (of newer ones: equal), and the same URLs."""
    served = nginx_mirrors([offer.root])
    test_conda.configure(channels=offer.urls(served.base(0)))
    done = test_conda.run("create", "-p", test_conda.folder / "env", "pytorch=1.7", plugin=False)
    assert done.returncode == 0, done.stderr
    offer.publish_all(tmp_path / "ours", served.base(0))
    assert_same_cache(test_conda, tmp_path / "ours", [package.filename for package in offer.wanted.values()])


ODD = {
    "noarch-py": {"noarch": "python", "license_family": "BSD"},
    "noarch-true": {"noarch": True},
    "old-features": {"features": "mkl", "track_features": "a b,c", "preferred_env": None},
    "feature-list": {"track_features": ["x", "y"]},
    "seconds": {"timestamp": 1609459200},
    "odd-milliseconds": {"timestamp": 1609459200123},
    "no-arch": {"arch": None, "platform": None, "license": None},
    "legacy": {"legacy_bz2_md5": "d41d8cd98f00b204e9800998ecf8427e", "legacy_bz2_size": 7},
    "constrained": {"constrains": ["never >=2"], "app_type": "web", "namespace": "global"},
    "not-ascii": {"license": "Lizenz für alle, 许可"},
}


@pytest.mark.conda
def test_odd_records_are_written_as_conda_does(test_conda, nginx_mirrors, tmp_path):
    """Features, noarch of several kinds, timestamps, nulls and unknown fields come out as in conda's own record."""
    specs = [
        PackageSpec(name=name, version="1", subdir="noarch" if "noarch" in record else "linux-64", record=record)
        for name, record in ODD.items()
    ]
    channel = build_channel(tmp_path / "root" / "odd", specs)
    wanted = {f"odd/{package.filename}": package for package in channel.packages}
    extract_all((package.path for package in wanted.values()), tmp_path / "extracted")
    offer = Offer(tmp_path / "root", wanted, tmp_path / "extracted")
    served = nginx_mirrors([offer.root])
    test_conda.configure(channels=[f"{served.base(0)}/odd"], track_features=["mkl", "a", "b", "c", "x", "y"])
    done = test_conda.run("create", "-p", test_conda.folder / "env", "--download-only", *ODD, plugin=False)
    assert done.returncode == 0, done.stderr
    offer.publish_all(tmp_path / "ours", served.base(0))
    assert_same_cache(test_conda, tmp_path / "ours", [package.filename for package in wanted.values()])


def assert_same_cache(conda, ours, filenames):
    old = conda.version() < (25, 0)
    for name in filenames:
        theirs_record, our_record = (folder / stem(name) / "info/repodata_record.json" for folder in (conda.pkgs, ours))
        if old:
            assert our_record.read_text() == theirs_record.read_text()
        assert json.loads(our_record.read_text()) == json.loads(theirs_record.read_text())
        assert (ours / name).read_bytes() == (conda.pkgs / name).read_bytes()
    lines = [sorted((folder / "urls.txt").read_text().splitlines()) for folder in (conda.pkgs, ours)]
    assert lines[0] == lines[1]
    assert sorted(path.name for path in ours.iterdir() if path.name not in {FOLDER, "urls.txt"}) == sorted(
        path.name for path in conda.pkgs.iterdir() if path.name not in {"cache", "urls", "urls.txt"}
    )


# --- whole at every moment


def assert_nothing_half(pkgs, offer, artifact, before):
    """Every name that a client takes is a whole and verified thing, or what lay there before us."""
    archive, folder = pkgs / artifact.filename, pkgs / stem(artifact.filename)
    names = {path.name for path in pkgs.iterdir()}
    assert names <= {FOLDER, "urls.txt", archive.name, folder.name}
    if archive.exists():
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == offer.wanted[MKL].sha256
    if folder.exists() and not (before and not (folder / "info" / "repodata_record.json").exists()):
        assert is_whole(folder)
        assert read_json(folder / "info/repodata_record.json")["md5"] == artifact.md5
    if (pkgs / "urls.txt").exists():
        assert (pkgs / "urls.txt").read_text() in {"", artifact.url.reveal() + "\n"}
    assert not (archive.exists() and folder.exists() and not is_whole(folder))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child does nothing but files
@pytest.mark.parametrize("stale", [False, True])
def test_a_kill_at_every_file_operation(offer, tmp_path, stale):
    """Publishing is killed before each of its file operations in turn: nothing half ever has a client's name, and
    publishing again ends well."""
    artifact = offer.artifact(MKL, BASE)
    survived = False
    number = 0
    while not survived:
        number += 1
        pkgs = tmp_path / f"pkgs-{number}"
        part, folder = lay_out(offer, pkgs, artifact, stale=stale)
        child = os.fork()
        if child == 0:
            kill_at(number)
            publish_entry(pkgs, artifact, archive=part, extracted=folder)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        survived = not os.WIFSIGNALED(status)
        assert survived == (status == 0)
        assert_nothing_half(pkgs, offer, artifact, stale)
        if not survived:
            part, folder = lay_out(offer, pkgs, artifact, stale=False)
            assert publish_entry(pkgs, artifact, archive=part, extracted=folder).state is State.COMPLETE
            assert_nothing_half(pkgs, offer, artifact, before=False)
        sweep(pkgs)
        assert not list((pkgs / FOLDER).glob("aside-*"))
    assert number > 8


def lay_out(offer, pkgs, artifact, *, stale):
    """A verified part and its extraction; with ``stale`` a half-extracted folder of that name lies in the cache."""
    part = pkgs / FOLDER / f"{artifact.key}.part"
    part.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(offer.wanted[MKL].path, part)
    folder = extraction_folder(pkgs)
    shutil.copytree(offer.extracted / artifact.filename, folder, dirs_exist_ok=True)
    if stale:
        shutil.copytree(offer.extracted / artifact.filename / "info", pkgs / stem(artifact.filename) / "info")
    return part, folder


# --- finding and claiming


def test_find_an_entry_by_its_state(offer, tmp_path):
    """A complete entry goes before an extracted one, that before an archive; one of the client's URL before all."""
    artifact = offer.artifact(MKL, BASE)
    folders = [tmp_path / name for name in ("absent", "archive", "extracted", "other", "own")]
    offer.put_by_hand(folders[1], [MKL])
    offer.publish(folders[2], MKL, "http://other.example").archive.unlink()
    offer.publish(folders[3], MKL, "http://other.example")
    offer.publish(folders[4], MKL, BASE)
    assert find_entry(folders[:1], artifact) is None
    states = [find_entry(folders[: n + 1], artifact) for n in range(1, 5)]
    assert [entry.state for entry in states] == [State.ARCHIVE, State.EXTRACTED, State.EXTRACTED, State.COMPLETE]
    assert [entry.is_for(artifact) for entry in states] == [False, False, False, True]


def test_a_folder_of_another_package_is_not_an_entry(offer, tmp_path):
    """The same file name with another digest in its record is somebody else's package."""
    offer.publish(tmp_path, MKL, BASE)
    package = offer.wanted[MKL]
    other = Artifact(kind="conda", filename=package.filename, url=RedactedUrl(BASE), md5="0" * 32, size=package.size)
    found = find_entry([tmp_path], other)
    assert found.state is State.ARCHIVE
    assert not verify_file(found.archive, Digest("md5", "0" * 32), package.size)
    assert verify_file(found.archive, Digest("md5", package.md5), package.size)
    assert not verify_file(found.archive, Digest("md5", package.md5), package.size + 1)


def test_claim_changes_record_and_urls(offer, tmp_path):
    """An entry of another mirror becomes the client's: URL, channel and the line that counts, nothing else."""
    entry = offer.publish(tmp_path, MKL, "http://other.example")
    before = read_json(entry.extracted / "info/repodata_record.json")
    artifact = offer.artifact(MKL, BASE)
    claimed = claim_for_client(find_entry([tmp_path], artifact), artifact)
    after = read_json(entry.extracted / "info/repodata_record.json")
    assert claimed.is_for(artifact)
    assert {name for name in before if before[name] != after[name]} == {"url", "channel"}
    assert after["channel"] == f"{BASE}/pkgs/main/linux-64"
    assert origin_of(tmp_path, artifact.filename) == after["url"]


def test_publishing_an_existing_entry_keeps_it(offer, tmp_path):
    """A matching whole folder is not replaced, only claimed, and what was brought is cleared away."""
    entry = offer.publish(tmp_path, MKL, "http://other.example")
    inode = entry.extracted.stat().st_ino
    entry = offer.publish(tmp_path, MKL, BASE)
    assert entry.extracted.stat().st_ino == inode
    assert entry.is_for(offer.artifact(MKL, BASE))
    assert not list((tmp_path / FOLDER).iterdir())


def test_no_credentials_in_records(offer, tmp_path):
    """Token and password of a private channel's URL are in no file that we write."""
    secret = "http://user:pass@host.example/t/tk-secret"
    entry = offer.publish(tmp_path, MKL, secret)
    written = b"".join(
        path.read_bytes() for path in (tmp_path / "urls.txt", entry.extracted / "info/repodata_record.json")
    )
    assert b"pass" not in written
    assert b"tk-secret" not in written
    assert entry.record["channel"] == "http://host.example/pkgs/main/linux-64"
    assert channel_of("https://u:p@h/t/abc/c/noarch/a-1-0.conda") == "https://h/c/noarch"
    assert without_credentials("https://h/c/linux-64/a-1-0.conda") == "https://h/c/linux-64/a-1-0.conda"


def test_urls_txt_is_appended_by_whole_lines(tmp_path):
    """A torn last line is ended first, nothing is written twice, and the last line of a name counts."""
    urls = tmp_path / "urls.txt"
    urls.write_bytes(b"http://a/x-1-0.conda\nhttp://a/torn")
    assert not add_url(tmp_path, "http://a/x-1-0.conda")
    assert add_url(tmp_path, "http://b/x-1-0.conda")
    assert urls.read_text().splitlines() == ["http://a/x-1-0.conda", "http://a/torn", "http://b/x-1-0.conda"]
    assert not add_url(tmp_path, "http://b/x-1-0.conda")
    assert add_url(tmp_path, "http://a/x-1-0.conda")
    assert origin_of(tmp_path, "x-1-0.conda") == "http://a/x-1-0.conda"
    assert origin_of(tmp_path, "y-1-0.conda") is None


def test_a_record_without_a_channel_is_made_of_the_archive(offer):
    """A package named by its URL alone: the archive's own index and the verified digests make the record."""
    package = offer.wanted[MKL]
    artifact = Artifact(
        kind="conda",
        filename=package.filename,
        url=RedactedUrl(f"{BASE}/linux-64/{package.filename}"),
        sha256=package.sha256,
        size=package.size,
    )
    record = repodata_record(artifact, read_json(offer.extracted / package.filename / "info/index.json"))
    assert record["sha256"] == package.sha256
    assert (record["name"], record["depends"], record["channel"]) == ("mkl", [], f"{BASE}/linux-64")


# --- the complete .partial


@pytest.mark.skipif(os.name == "nt", reason="conda's lock is another one on Windows")
def test_a_partial_that_conda_has_locked_is_not_touched(tmp_path):
    """While another process holds conda's lock (one byte at offset 21) its .partial is neither replaced nor removed."""
    (tmp_path / FOLDER).mkdir()
    partial = tmp_path / "a-1-0.conda.partial"
    partial.write_bytes(b"prefix")
    with another_conda_works_on(partial):
        verified = tmp_path / FOLDER / "copy-1"
        verified.write_bytes(b"whole")
        with pytest.raises(LockedError):
            place(tmp_path, "a-1-0.conda", verified)
        assert partial.read_bytes() == b"prefix"
    verified.write_bytes(b"whole")
    handed = place(tmp_path, "a-1-0.conda", verified)
    assert partial.read_bytes() == b"whole"
    withdraw_orphans(tmp_path)
    assert partial.exists()  # its maker, this process, lives
    handed.withdraw()
    assert not partial.exists()
    assert not list((tmp_path / FOLDER).iterdir())


def test_a_partial_that_conda_used_is_not_removed(tmp_path):
    """What has another inode under the .partial's name is not ours to withdraw."""
    (tmp_path / FOLDER).mkdir()
    verified = tmp_path / FOLDER / "copy-1"
    verified.write_bytes(b"whole")
    handed = place(tmp_path, "a-1-0.conda", verified)
    (tmp_path / "a-1-0.conda.partial").rename(tmp_path / "a-1-0.conda")
    (tmp_path / "a-1-0.conda.partial").write_bytes(b"a new prefix")
    handed.withdraw()
    assert (tmp_path / "a-1-0.conda.partial").read_bytes() == b"a new prefix"


def test_duplicates_are_linked_only_where_harmless(tmp_path):
    """A plain file gets a second name; a symbolic link, and whatever must not be shared, is copied."""
    source, link = tmp_path / "source", tmp_path / "link"
    source.write_bytes(b"bytes")
    link.symlink_to(source)
    assert duplicate(source, tmp_path / "pkgs").samefile(source)
    for copy in (duplicate(link, tmp_path / "pkgs"), duplicate(source, tmp_path / "pkgs", link=False)):
        assert not copy.is_symlink()
        assert not copy.samefile(source)
        assert copy.read_bytes() == b"bytes"
