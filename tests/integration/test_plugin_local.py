"""Archives of file: channels: a real conda links the right ones, and none that is not what its index says."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

from resume_dl.demo.channel import build_channel
from resume_dl.demo.package import PackageSpec

pytestmark = pytest.mark.conda

PACKAGES = (
    PackageSpec(name="first", version="1.0", subdir="noarch", payload_size=5_000),
    PackageSpec(name="second", version="2.0", payload_size=5_000, format="tar.bz2", depends=("first",)),
    PackageSpec(name="third", version="3.0", payload_size=5_000, md5_only=True, depends=("first",)),
)


def build(folder, packages=PACKAGES):
    """A channel, below a folder whose name must be percent-encoded in an address."""
    return build_channel(folder / "a channel", packages)


def tamper(path, *, keep_size=True):
    """Another content under the same name: the middle byte is another, or one byte is there more."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data if keep_size else data + b"x")


def contents(folder):
    """Every file below a folder and what it holds."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def linked(prefix):
    return {path.name.split("-")[0] for path in (prefix / "conda-meta").glob("*.json")}


def without_digests(channel):
    """The same index as if nobody had computed digests."""
    for path in channel.root.glob("*/*repodata.json"):
        document = json.loads(path.read_text())
        for kind in ("packages", "packages.conda"):
            for record in document[kind].values():
                record.pop("md5", None)
                record.pop("sha256", None)
        path.write_text(json.dumps(document))
    for path in channel.root.glob("*/*.zst"):
        path.unlink()


def test_tampered_archives_are_refused_and_right_ones_are_not(test_conda, tmp_path):
    """A damaged ``.conda``, ``.tar.bz2`` or one of which only the md5 is known: nothing is linked, all is named."""
    channel = build(tmp_path)
    prefix = tmp_path / "env"
    test_conda.configure(channels=[channel.root.as_uri()])
    done = test_conda.run("create", "-p", prefix, "first")
    assert (done.returncode, linked(prefix)) == (0, {"first"}), done.stdout + done.stderr
    assert "resume-dl" not in done.stderr
    before = contents(prefix)

    right = {name: channel.find(name).path.read_bytes() for name in ("second", "third")}
    tamper(channel.find("second").path)
    tamper(channel.find("third").path)
    done = test_conda.run("install", "-p", prefix, "second", "third")
    assert done.returncode == 1
    assert "LocalArchiveMismatchError: " in done.stderr
    for package, algorithm in ((channel.find("second"), "sha256"), (channel.find("third"), "md5")):
        assert str(package.path) in done.stderr
        assert f"{algorithm} in the index: {getattr(package, algorithm)}" in done.stderr
        assert hashlib.new(algorithm, package.path.read_bytes()).hexdigest() in done.stderr
    assert "run the same command again" in done.stderr
    assert contents(prefix) == before
    assert not list(test_conda.pkgs.glob("second*")) + list(test_conda.pkgs.glob("third*"))

    done = test_conda.run("install", "-p", prefix, "second", "third", "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["exception_name"] == "LocalArchiveMismatchError"
    assert {each["path"] for each in told["differences"]} == {
        str(channel.find(name).path) for name in ("second", "third")
    }
    done = test_conda.run("create", "-p", tmp_path / "other", "second", "--download-only")
    assert done.returncode == 1
    done = test_conda.run("create", "-p", tmp_path / "other", "second", "--dry-run")
    assert "LocalArchiveMismatchError" not in done.stderr
    assert not (tmp_path / "other").exists()

    for name, data in right.items():
        channel.find(name).path.write_bytes(data)
    done = test_conda.run("install", "-p", prefix, "second", "third")
    assert (done.returncode, linked(prefix)) == (0, {"first", "second", "third"}), done.stdout + done.stderr


def test_without_the_plugin_conda_links_a_tampered_archive(test_conda, tmp_path):
    """Another package under the right name is linked without us, with exit code 0: it is the plugin that refuses."""
    channel = build(tmp_path)
    impostor = build(tmp_path / "impostor", [PackageSpec(name="first", version="1.0", subdir="noarch", payload_size=9)])
    channel.find("first").path.write_bytes(impostor.find("first").path.read_bytes())
    test_conda.configure(channels=[channel.root.as_uri()])
    done = test_conda.run("create", "-p", tmp_path / "env", "first", plugin=False)
    assert (done.returncode, linked(tmp_path / "env")) == (0, {"first"})
    test_conda.configure(pkgs_dirs=[str(tmp_path / "empty")])
    done = test_conda.run("create", "-p", tmp_path / "other", "first")
    assert done.returncode == 1
    assert f"sha256 in the index: {channel.find('first').sha256}" in done.stderr
    assert not linked(tmp_path / "other")


def test_cached_archives_are_not_read_again_and_missing_digests_are_reported(test_conda, tmp_path):
    """conda takes its entry, not the channel's file; an index without digests costs one line, a wrong size counts."""
    channel = build(tmp_path)
    test_conda.configure(channels=[channel.root.as_uri()])
    assert test_conda.run("create", "-p", tmp_path / "env", "second").returncode == 0
    for name in ("first", "second"):
        tamper(channel.find(name).path)
    done = test_conda.run("create", "-p", tmp_path / "again", "second")
    assert (done.returncode, linked(tmp_path / "again")) == (0, {"first", "second"}), done.stdout + done.stderr

    other = build(tmp_path / "no digests")
    without_digests(other)
    test_conda.configure(channels=[other.root.as_uri()])
    done = test_conda.run("create", "-p", tmp_path / "third", "second", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("resume-dl: ")]
    assert "not verified" in line
    assert all(other.find(name).filename in line for name in ("first", "second"))
    tamper(other.find("third").path, keep_size=False)
    done = test_conda.run("install", "-p", tmp_path / "third", "third")
    assert done.returncode == 1
    assert f"size in the index: {other.find('third').size}" in done.stderr
    assert linked(tmp_path / "third") == {"first", "second"}


def test_a_missing_archive_is_left_to_conda(test_conda, tmp_path):
    """conda's own error, the same with and without us; the others are compared all the same."""
    channel = build(tmp_path)
    channel.find("first").path.unlink()
    test_conda.configure(channels=[channel.root.as_uri()])
    ends = []
    for plugin in (True, False):
        done = test_conda.run("create", "-p", tmp_path / "env", "first", "--json", plugin=plugin)
        ends.append((done.returncode, json.loads(done.stdout)["exception_name"]))
        assert "resume-dl" not in done.stderr
    assert ends[0] == ends[1]
    assert ends[0][0] != 0
    tamper(channel.find("second").path)
    done = test_conda.run("create", "-p", tmp_path / "env", "second", "--json")
    assert json.loads(done.stdout)["exception_name"] == "LocalArchiveMismatchError"


def test_an_unverified_copy_of_conda_is_not_used_for_another_url(test_conda, tmp_path, fault_server):
    """A tampered archive, cached without us as a file: channel's with its digests: over HTTP the right one comes."""
    right = build(tmp_path, [PackageSpec(name="first", version="1.0", subdir="noarch", files={"share/it": b"right"})])
    wrong = build_channel(
        tmp_path / "wrong", [PackageSpec(name="first", version="1.0", subdir="noarch", files={"share/it": b"wrong"})]
    )
    local = tmp_path / "local"
    shutil.copytree(right.root, local)
    shutil.copyfile(wrong.find("first").path, local / "noarch" / wrong.find("first").filename)
    test_conda.configure(channels=[local.as_uri()])
    assert test_conda.run("create", "-p", tmp_path / "before", "first", plugin=False).returncode == 0
    assert (tmp_path / "before" / "share" / "it").read_bytes() == b"wrong"

    server = fault_server()
    server.mount(right.root)
    test_conda.configure(channels=[server.base(0)])
    done = test_conda.run("create", "-p", tmp_path / "env", "first")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "env" / "share" / "it").read_bytes() == b"right"
