"""What an interrupted conda has left is continued by ``fetch``: bytes are counted at the servers."""

from __future__ import annotations

import sys
import time
import zipfile
from zlib import crc32

import pytest

from faults.behaviours import Ok, Stall
from resume_dl.caches.conda.partial_adoption import LABEL, adopt_partial, remove_adopted
from resume_dl.demo.channel import PackageSpec, build_channel
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.store.part import FOLDER, PartStore
from support.conda_cache import build_large_offer
from support.condas_lock import another_conda_works_on
from support.fetching import TIMEOUT, User

MIB = 1 << 20
WANTED = ("pytorch=1.7", "--no-deps", "--json")


@pytest.fixture(scope="module")
def offer(tmp_path_factory):
    """Channels whose pytorch is large enough for a journal."""
    return build_large_offer(tmp_path_factory.mktemp("big"), large=6 * MIB)


@pytest.fixture
def torch(offer):
    return offer.package("pytorch")


@pytest.fixture
def user(user):
    user.pkgs.mkdir(parents=True)
    return user


@pytest.fixture
def alone(user, server):
    """A user with one mirror only."""
    user.mirrors(one=server.base(0))
    return user


def left_by_conda(user, package, data):
    path = user.pkgs / f"{package.filename}.partial"
    path.write_bytes(data)
    return path


def fetched(server):
    """Archive bytes that left the server."""
    return server.body_bytes(path="*.conda") + server.body_bytes(path="*.bz2")


def assert_fetched_from(offset, done, package, requests):
    """Only bytes from ``offset`` on were asked for, and each counts once.

    What the kernel buffers of a connection that is closed early depends on the machine's speed: it is not counted.
    """
    assert done.report["totals"]["resumed"] == offset
    assert done.report["totals"]["downloaded"] == package.size - offset
    archive = [request for request in requests if request.path.endswith(package.filename)]
    assert archive
    for request in archive:
        assert int(request.range.removeprefix("bytes=").partition("-")[0]) >= offset


def run(user, torch):
    done = user.fetch(*WANTED)
    assert done.code == 0, done.err
    user.assert_complete([torch])
    return done


@pytest.mark.conda
def test_the_partial_of_a_killed_conda_is_continued(test_conda, offer, torch, fault_server, tmp_path):
    """A real conda, killed while it downloads, has left a .partial: fetch asks for what is missing and no more."""
    served = fault_server()
    served.mount(offer.root)
    served.script(0, [Stall(after=2 * MIB + 100_000), Ok()], path=f"*/{torch.filename}")  # it waits to be killed
    test_conda.configure(channels=offer.urls(served.base(0)))
    partial = test_conda.pkgs / f"{torch.filename}.partial"
    arguments = ("create", "-p", tmp_path / "env", "pytorch=1.7", "--no-deps", "--download-only", "--yes")
    with test_conda.start(*arguments, plugin=False) as conda:
        deadline = time.monotonic() + TIMEOUT
        while not (partial.exists() and partial.stat().st_size >= 2 * MIB):
            assert conda.poll() is None, conda.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        conda.kill()
    had = partial.stat().st_size
    assert had < torch.size
    by_conda = len(served.requests())
    user = User(tmp_path / "user", pkgs=test_conda.pkgs)
    user.mirrors(one=served.base(0))
    done = user.fetch(*WANTED)
    assert done.code == 0, done.err
    assert_fetched_from(had, done, torch, served.requests()[by_conda:])
    assert not partial.exists()
    assert (test_conda.pkgs / torch.filename).read_bytes() == torch.path.read_bytes()


@pytest.mark.parametrize("extract", [True, False])
def test_a_prefix_is_continued(user, server, torch, extract):
    """Not one byte that conda had is asked for again; the user is told, and the .partial is gone with its use."""
    partial = left_by_conda(user, torch, torch.path.read_bytes()[: 4 * MIB])
    done = user.fetch(*WANTED, *([] if extract else ["--no-extract"]))
    assert done.code == 0, done.err
    assert_fetched_from(4 * MIB, done, torch, server.requests())
    assert "that conda downloaded" in done.err
    assert not partial.exists()
    assert (user.pkgs / torch.filename).read_bytes() == torch.path.read_bytes()
    assert list((user.pkgs / FOLDER).iterdir()) == []


def test_a_complete_partial_needs_no_server(user, server, torch):
    """A .partial with every byte, which conda had not renamed yet: verified, nothing is downloaded."""
    left_by_conda(user, torch, torch.path.read_bytes())
    run(user, torch)
    assert fetched(server) == 0


@pytest.mark.parametrize("case", ["page", "other format", "longer", "link", "zeros", "short"])
def test_a_partial_that_does_not_begin_the_package_is_not_touched(user, server, torch, case):
    """A page, another format, more bytes than the package has, a link: not taken, not removed, and no harm done."""
    data = torch.path.read_bytes()
    contents = {
        "page": b"<!DOCTYPE html><html>" + b"x" * MIB,
        "other format": b"BZh9" + data[4:MIB],
        "longer": data + b"more",
        "zeros": bytes(MIB),
        "short": data[:10],
        "link": b"",
    }
    partial = user.pkgs / f"{torch.filename}.partial"
    if case == "link":
        partial.symlink_to(torch.path)
    else:
        partial.write_bytes(contents[case])
    done = user.fetch(*WANTED)
    assert done.code == 0, done.err
    assert done.report["totals"]["resumed"] == 0
    assert partial.is_symlink() if case == "link" else partial.read_bytes() == contents[case]


def test_members_with_wrong_checksums_are_not_copied(user, server, torch):
    """From the first member of a .conda whose CRC is wrong on nothing is taken: it would only be thrown away later."""
    data = bytearray(torch.path.read_bytes())
    with zipfile.ZipFile(torch.path) as archive:
        members = archive.infolist()
    assert len(members) > 1
    last = members[-1]
    data[members[0].header_offset + 60] ^= 0xFF
    left_by_conda(user, torch, bytes(data[: last.header_offset + 100]))
    done = user.fetch(*WANTED)
    assert done.code == 0, done.err
    assert done.report["totals"]["resumed"] == 0


def test_zeros_after_a_power_cut_are_not_copied(user, server, torch):
    """Where a crash has left zeros, the prefix ends: all before is kept, all behind is fetched."""
    data = bytearray(torch.path.read_bytes()[: 4 * MIB])
    data[2 * MIB :] = bytes(2 * MIB)
    left_by_conda(user, torch, bytes(data))
    done = run(user, torch)
    assert_fetched_from(2 * MIB, done, torch, server.requests())


def damaged(torch, *, at=MIB, count=4 * MIB):
    data = bytearray(torch.path.read_bytes()[:count])
    data[at] ^= 0xFF
    return bytes(data)


def test_wrong_bytes_cost_their_own_refetch(user, server, torch):
    """One wrong byte inside conda's prefix: finished right by the other sources, for no more than what was wrong."""
    partial = left_by_conda(user, torch, damaged(torch))
    run(user, torch)
    assert not partial.exists()
    assert fetched(server) <= torch.size + torch.size


def test_wrong_bytes_with_one_source_only(alone, server, torch):
    """With nobody to compare with, conda's bytes are dropped and fetched once; never a failure that was not there."""
    partial = left_by_conda(alone, torch, damaged(torch))
    run(alone, torch)
    assert not partial.exists()
    assert fetched(server) <= 2 * torch.size


def test_wrong_bytes_do_not_come_back(alone, server, torch):
    """Killed after conda's bytes were found wrong, the next run does not take them a second time."""
    left_by_conda(alone, torch, damaged(torch))
    artifact = artifact_of(alone, torch)
    first = adopt_partial(alone.pkgs, artifact)
    assert first is not None
    assert first.count == 4 * MIB
    part = PartStore(alone.pkgs / FOLDER).open(artifact, journaled=True)
    part.resume()
    part.forget([(0, 4 * MIB)])
    part.write(5 * MIB, b"one")
    part.record_written(5 * MIB, 5 * MIB + 3, crc32(b"one"), "http://one")
    part.close()
    again = adopt_partial(alone.pkgs, artifact)
    assert again is not None
    assert again.count == 0


def artifact_of(user, torch):
    return Artifact(
        kind="conda",
        filename=torch.filename,
        url=RedactedUrl("https://example.org/x"),
        size=torch.size,
        sha256=torch.sha256,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="fcntl")
def test_a_file_that_conda_is_writing_is_not_touched(user, server, torch):
    """While another process holds conda's lock its .partial is neither read nor removed, and we go our own way."""
    prefix = torch.path.read_bytes()[: 4 * MIB]
    partial = left_by_conda(user, torch, prefix)
    with another_conda_works_on(partial):
        done = user.fetch(*WANTED)
    assert done.code == 0, done.err
    assert done.report["totals"]["resumed"] == 0
    assert partial.read_bytes() == prefix


def test_our_own_part_file_has_precedence(user, server, torch):
    """A part file of ours with more bytes is not touched by conda's; one with fewer gets only what it lacks."""
    data = torch.path.read_bytes()
    artifact = artifact_of(user, torch)
    left_by_conda(user, torch, data[: 2 * MIB])

    def have(start, end):
        from zlib import crc32

        part = PartStore(user.pkgs / FOLDER).open(artifact, journaled=True)
        part.resume()
        part.write(start, data[start:end])
        part.record_written(start, end, crc32(data[start:end]), "http://one")
        part.record_durable(part.sync_data())
        part.close()

    have(MIB, MIB + MIB // 2)
    found = adopt_partial(user.pkgs, artifact)
    assert found is not None
    assert found.count == 2 * MIB - MIB // 2
    part = PartStore(user.pkgs / FOLDER).open(artifact, journaled=True)
    owners = dict(part.resume().owners)
    part.close()
    assert owners[LABEL] == ((0, MIB), (MIB + MIB // 2, 2 * MIB))
    PartStore(user.pkgs / FOLDER).remove(artifact.key)
    have(0, 3 * MIB)
    assert adopt_partial(user.pkgs, artifact) is None


def test_a_partial_that_has_changed_is_not_removed(user, torch):
    """conda has gone on with its file meanwhile: it is conda's, and stays."""
    partial = left_by_conda(user, torch, torch.path.read_bytes()[: 2 * MIB])
    found = adopt_partial(user.pkgs, artifact_of(user, torch))
    assert found is not None
    with partial.open("ab") as file:
        file.write(b"more")
    remove_adopted(found)
    assert partial.exists()


def test_a_tar_bz2_is_continued(user, server, tmp_path, torch):
    """The old format has no checksums to look at before: its prefix is taken, and the digest decides."""
    spec = PackageSpec(
        name="old", version="1", build="0", format="tar.bz2", payload_size=3 * MIB, depends=(), subdir="linux-64"
    )
    channel = build_channel(tmp_path / "chan" / "pytorch", [spec])
    build_channel(tmp_path / "chan" / "pkgs" / "main", [])
    server.mount(tmp_path / "chan")
    for subdir in ("linux-64", "noarch"):
        for name in ("repodata.json", "repodata.json.zst"):
            server.put(f"/pytorch/{subdir}/{name}", (tmp_path / "chan/pytorch" / subdir / name).read_bytes())
    package = channel.packages[0]
    assert package.size > 2 * MIB
    left_by_conda(user, package, package.path.read_bytes()[: 2 * MIB])
    done = user.fetch("old", "--no-deps", "--json")
    assert done.code == 0, done.err
    assert_fetched_from(2 * MIB, done, package, server.requests())
