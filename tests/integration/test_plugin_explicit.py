"""Packages that are named by their addresses: a real conda, which solves nothing then, finds them in its cache."""

from __future__ import annotations

import json
import os
import shutil
import sys
from base64 import b64encode
from random import Random

import pytest
import zstandard

from faults.behaviours import Drop, NeverAnswer, Page, Stall, Status
from resume_dl.demo.channel import build_channel
from resume_dl.demo.package import PackageSpec
from support.plugin import our_lines, records, use_mirrors

pytestmark = pytest.mark.conda

OLD = (25, 0)
"""Before it, conda reads md5 alone, and lists by ``create``, ``install`` and ``update`` only."""


@pytest.fixture
def served(offer, nginx_mirrors):
    """The same channels at two places."""
    return nginx_mirrors([offer.root, offer.root])


def address(offer, key, base, digest="md5"):
    """One line of a list."""
    package = offer.wanted[key]
    marks = {"md5": f"#{package.md5}", "sha256": f"#sha256:{package.sha256}", "none": ""}
    return offer.artifact(key, base).url.reveal() + marks[digest]


def write_list(conda, lines, name="explicit.txt"):
    path = conda.folder / name
    path.write_text("\n".join(["# a list", "@EXPLICIT", *lines]) + "\n", encoding="utf-8")
    return path


def whole_list(conda, offer, base, digest="md5"):
    lines = [address(offer, key, base, digest) for key in offer.wanted]
    return write_list(conda, lines, f"{digest}.txt")


def create(conda, *arguments, expect=0, name="env", **options):
    done = conda.run("create", "-p", conda.folder / name, *arguments, **options)
    assert done.returncode == expect, done.stdout + done.stderr
    assert "resume-dl: " not in done.stdout
    return done


def linked(conda, name="env"):
    return {json.loads(path.read_text())["fn"] for path in (conda.folder / name / "conda-meta").glob("*.json")}


def assert_all_ours(served, count):
    """So many archives were asked for, all by us."""
    asked = served.archive_requests()
    assert len({request.uri for request in asked}) == count
    assert all(request.is_ours for request in asked)
    return asked


@pytest.mark.parametrize("digest", ["md5", "sha256", "none"])
def test_a_list_is_fetched_by_the_plugin_and_conda_sends_no_request(test_conda, offer, served, digest):
    """From every mirror; what conda remembers is what it remembers without us, and the entries outlast the plugin."""
    use_mirrors(test_conda, served.base(0), [served.base(1)])
    names = {package.filename for package in offer.wanted.values()}
    listed = whole_list(test_conda, offer, served.base(0), digest)
    if digest == "sha256" and test_conda.version() < OLD:
        refused = create(test_conda, "--file", listed, expect=1)
        assert "ParseError" in refused.stderr
        assert "resume-dl" not in refused.stderr
        assert served.requests() == []
        return
    done = create(test_conda, "--file", listed, "--json")
    assert done.stdout == ""  # conda has nothing to say here, and stdout is its own
    assert linked(test_conda) == names, done.stderr
    assert {request.mirror for request in assert_all_ours(served, len(names))} > {0}
    reads_index = any(not request.is_archive for request in served.requests())
    assert reads_index is (digest == "none")  # a line with a digest needs no index

    served.reset_log()
    create(test_conda, "--file", listed, name="second", plugin=False)
    assert served.requests() == []
    create(test_conda, "--file", whole_list(test_conda, offer, served.base(0), "md5"), name="third", plugin=False)
    assert served.requests() == []

    test_conda.configure(pkgs_dirs=[str(test_conda.folder / "other-pkgs")])
    create(test_conda, "--file", listed, name="plain", plugin=False)
    expected = records(test_conda.folder / "plain")
    found = records(test_conda.folder / "env")
    places = ("extracted_package_dir", "package_tarball_full_path")
    for record in (*expected.values(), *found.values()):
        for place in places:
            del record[place]
    assert found == expected


def test_a_connection_that_always_breaks_stops_conda_but_not_the_plugin(test_conda, offer, fault_server):
    """Without the plugin the same command fails on the same server."""
    server = fault_server()
    server.mount(offer.root)
    server.always(0, Drop(after=60_000))
    key = max(offer.wanted, key=lambda key: offer.wanted[key].size)
    listed = write_list(test_conda, [address(offer, key, server.base(0))])
    failed = test_conda.run("create", "-p", test_conda.folder / "plain", "--file", listed, plugin=False)
    assert failed.returncode == 1
    assert not (test_conda.folder / "plain" / "conda-meta").exists()
    create(test_conda, "--file", listed)
    assert linked(test_conda) == {offer.wanted[key].filename}
    assert not list(test_conda.pkgs.glob("*.partial"))


def test_addresses_on_the_command_line(test_conda, offer, served, fault_server):
    """Verified by their channels' indexes; one of no channel is conda's, and so is what conda refuses."""
    use_mirrors(test_conda, served.base(0), [served.base(1)])
    first, second, third, *_ = offer.wanted
    shop = fault_server()
    lonely = offer.wanted[third]
    shop.put(f"/files/{lonely.filename}", lonely.path.read_bytes())
    outside = f"{shop.base(0)}/files/{lonely.filename}"

    refused = create(test_conda, address(offer, first, served.base(0), "none"), "numpy", expect=1)
    assert "resume-dl" not in refused.stderr
    refused = create(test_conda, "--file", write_list(test_conda, [outside, "not an address"]), expect=1)
    assert "resume-dl" not in refused.stderr
    assert served.requests() == []
    assert shop.requests() == []

    addresses = [address(offer, key, served.base(0), "none") for key in (first, second)]
    done = create(test_conda, *addresses, outside)
    assert linked(test_conda) == {offer.wanted[key].filename for key in (first, second, third)}, done.stderr
    assert_all_ours(served, 2)
    archives = [request for request in shop.requests() if request.path == f"/files/{lonely.filename}"]
    assert len(archives) == 1
    assert not archives[0].headers["user-agent"].startswith("resume-dl/")

    served.reset_log()
    test_conda.run("install", "-p", test_conda.folder / "env", *addresses, outside)
    assert served.requests() == []


def test_no_request_with_dry_run_offline_or_never(test_conda, offer, served):
    """--dry-run writes nothing; offline and never take what is at hand under another address, and leave the rest."""
    listed = whole_list(test_conda, offer, served.base(0))
    create(test_conda, "--file", listed, "--dry-run", expect=0)
    assert not test_conda.pkgs.exists()
    first, second, *others = offer.wanted
    for key in others:
        offer.publish(test_conda.pkgs, key, served.base(1))
    offer.put_by_hand(test_conda.pkgs, [second])
    done = create(test_conda, "--file", listed, "--offline", expect=1)
    assert f"{len(offer.wanted) - 1} packages: verified and at hand" in done.stderr
    here = write_list(test_conda, [address(offer, key, served.base(0)) for key in (second, *others)])
    create(test_conda, "--file", here, "--offline")
    assert linked(test_conda) == {offer.wanted[key].filename for key in (second, *others)}
    assert served.requests() == []

    test_conda.configure(plugins={"resume_dl_prefetch": "never"})
    unsaid = write_list(test_conda, [address(offer, first, served.base(0), "none")])
    create(test_conda, "--file", unsaid, name="left")
    (asked,) = served.requests()
    assert asked.is_archive
    assert not asked.is_ours


def test_small_downloads_and_failures_are_left_to_conda(test_conda, offer, served):
    """A least size where sizes are known; a broken mirrors.toml is one line, and the result is conda's."""
    first, second, *_ = offer.wanted
    test_conda.configure(plugins={"resume_dl_min_size": "1GB"})
    create(test_conda, address(offer, second, served.base(0), "none"))
    assert [request.is_ours for request in served.archive_requests()] == [False]
    served.reset_log()
    create(test_conda, "--file", write_list(test_conda, [address(offer, first, served.base(0))]), name="unknown")
    assert [request.is_ours for request in served.archive_requests()] == [True]

    served.reset_log()
    broken = test_conda.folder / "broken.toml"
    broken.write_text("schema = [", encoding="utf-8")
    test_conda.configure(plugins={"resume_dl_mirrors": str(broken)}, pkgs_dirs=[str(test_conda.folder / "other-pkgs")])
    done = create(test_conda, "--file", whole_list(test_conda, offer, served.base(0)), name="broken")
    assert len(our_lines(done.stderr)) == 1
    assert "conda continues on its own" in done.stderr
    assert len(served.archive_requests()) == len(offer.wanted)
    assert linked(test_conda, "broken") == {package.filename for package in offer.wanted.values()}


def test_a_login_in_an_address_is_used_and_written_nowhere(test_conda, offer, nginx_mirrors, tmp_path):
    """anaconda.org's ``/t/<token>/`` and a password: asked for by us, found by conda, in none of its files."""
    behind = tmp_path / "behind"
    (behind / "t" / "tk-12345").mkdir(parents=True)
    for name in ("pytorch", "pkgs"):
        (behind / "t" / "tk-12345" / name).symlink_to(offer.root / name)
    served = nginx_mirrors([behind, offer.root])
    served.change(1, login="user:pa55word")
    bases = (f"{served.base(0)}/t/tk-12345", served.base(1).replace("://", "://user:pa55word@"))
    keys = list(offer.wanted)[:4]
    lines = [address(offer, key, bases[number % 2], ("md5", "none")[number // 2]) for number, key in enumerate(keys)]
    for name in ("env", "again"):
        done = create(test_conda, "--file", write_list(test_conda, lines), name=name)
        assert linked(test_conda, name) == {offer.wanted[key].filename for key in keys}
        assert not any(secret in done.stdout + done.stderr for secret in ("tk-12345", "pa55word"))
    assert_all_ours(served, len(keys))
    for folder in (test_conda.pkgs, test_conda.home, test_conda.folder / "env"):
        for path in folder.rglob("*"):
            if path.is_file():
                assert b"tk-12345" not in path.read_bytes(), path
                assert b"pa55word" not in path.read_bytes(), path


def test_broken_entries_of_the_cache_are_replaced(test_conda, offer, served):
    """Archives beside half-extracted folders: conda alone fails; unpacked by us, and nobody is asked."""
    first, second, *_ = offer.wanted
    lines = [address(offer, first, served.base(0), "none"), address(offer, second, served.base(0))]
    listed = write_list(test_conda, lines)
    offer.put_by_hand(test_conda.pkgs, [first, second])
    info = test_conda.pkgs / offer.wanted[first].spec.stem / "info"
    info.mkdir(parents=True)
    (info / "index.json").write_bytes(
        (offer.extracted / offer.wanted[first].filename / "info" / "index.json").read_bytes()
    )
    (test_conda.pkgs / "urls.txt").write_text(address(offer, first, served.base(0), "none") + "\n", encoding="utf-8")
    offer.publish(test_conda.pkgs, second, served.base(1))
    (test_conda.pkgs / offer.wanted[second].spec.stem / "info" / "paths.json").unlink()
    copy = test_conda.folder / "copy"
    shutil.copytree(test_conda.pkgs, copy)
    test_conda.configure(pkgs_dirs=[str(copy)])
    create(test_conda, "--file", listed, "--offline", name="plain", plugin=False, expect=1)
    test_conda.configure(pkgs_dirs=[str(test_conda.pkgs)])
    create(test_conda, "--file", listed)
    found = records(test_conda.folder / "env")
    for key in (first, second):
        paths = json.loads((offer.extracted / offer.wanted[key].filename / "info" / "paths.json").read_text())["paths"]
        assert found[f"{offer.wanted[key].spec.stem}.json"]["files"] == [path["_path"] for path in paths]
    assert served.archive_requests() == []
    assert not list(test_conda.pkgs.glob("*.partial"))


def test_other_commands_that_take_a_list(test_conda, offer, served):
    """``--download-only``, ``install``, ``env create`` and ``env update``: what conda would ask for, we do."""
    old = test_conda.version() < OLD
    key, *_ = offer.wanted
    listed = write_list(test_conda, [address(offer, key, served.base(0))])
    done = create(test_conda, "--file", listed, "--download-only", "--json", name="not-made")
    assert done.stdout == ""
    assert "resume-dl" not in done.stderr
    assert_all_ours(served, 1)
    served.reset_log()
    create(test_conda, name="env")
    test_conda.run("install", "-p", test_conda.folder / "env", "--file", listed)
    assert linked(test_conda) == {offer.wanted[key].filename}
    assert served.requests() == []

    _, key, last, *_ = offer.wanted
    listed = write_list(test_conda, [address(offer, key, served.base(0))])
    done = test_conda.run("env", "create", "-p", test_conda.folder / "made", "-f", listed)
    assert done.returncode == int(old), done.stderr
    assert len(served.archive_requests()) == int(not old)
    listed = write_list(test_conda, [address(offer, last, served.base(0))])
    done = test_conda.run("env", "update", "-p", test_conda.folder / "env", "-f", listed)
    assert done.returncode == int(old), done.stderr
    assert_all_ours(served, 0 if old else 2)


def test_local_archives_are_compared_with_their_line_or_index(test_conda, tmp_path):
    """A tampered one is refused and nothing installed; the right ones are linked, and one that nothing is known of."""
    spec = PackageSpec(name="first", version="1.0", subdir="noarch", payload_size=5_000)
    package = build_channel(tmp_path / "a channel", [spec]).find("first")
    right = package.path.read_bytes()
    line = f"{package.path.as_uri()}#{package.md5}"
    unsaid = write_list(test_conda, [str(package.path)], "unsaid.txt")
    said = write_list(test_conda, [line], "said.txt")

    damaged = bytearray(right)
    damaged[len(damaged) // 2] ^= 0xFF
    package.path.write_bytes(damaged)
    done = create(test_conda, "--file", said, "--json", expect=1)
    told = json.loads(done.stdout)
    assert told["exception_name"] == "LocalArchiveMismatchError"
    assert f"md5 in the line: {package.md5}" in told["message"]
    for arguments in (["--file", unsaid], [package.path]):
        done = create(test_conda, *arguments, expect=1)
        assert f"sha256 in the index: {package.sha256}" in done.stderr
    assert not (test_conda.folder / "env").exists()
    assert not list(test_conda.pkgs.glob("first*"))

    package.path.write_bytes(right)
    create(test_conda, "--file", said)
    assert linked(test_conda) == {package.filename}
    alone = tmp_path / "alone" / package.filename
    alone.parent.mkdir()
    alone.write_bytes(right)
    done = create(test_conda, alone, name="alone")
    assert linked(test_conda, "alone") == {package.filename}
    assert "resume-dl" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="there a pipe has no path")
@pytest.mark.parametrize("name", ["/dev/stdin", "/dev/fd/0"])
def test_a_list_from_a_pipe_is_left_to_conda(test_conda, offer, served, name):
    """It can be read once: the same environment as without us (a conda of 2026 reads it twice, and finds nothing)."""
    listed = whole_list(test_conda, offer, served.base(0)).read_text(encoding="utf-8")
    create(test_conda, "--file", name, answer=listed, name="plain", plugin=False)
    shutil.rmtree(test_conda.pkgs, ignore_errors=True)
    served.reset_log()
    done = create(test_conda, "--file", name, answer=listed)
    assert linked(test_conda) == linked(test_conda, "plain")
    assert "resume-dl" not in done.stderr
    assert [request for request in served.requests() if request.is_ours] == []
    if test_conda.version() < OLD:
        assert linked(test_conda) == {package.filename for package in offer.wanted.values()}


def test_a_pipe_beside_an_archive_is_not_waited_for(test_conda, tmp_path):
    """Nor is one in the archive's place: conda has its own words for it."""
    if sys.platform == "win32":
        pytest.skip("there a pipe has no path")
    spec = PackageSpec(name="first", version="1.0", subdir="noarch", payload_size=5_000)
    package = build_channel(tmp_path / "channel", [spec]).find("first")
    index = package.path.with_name("repodata.json")
    index.unlink()
    os.mkfifo(index)
    create(test_conda, package.path)
    assert linked(test_conda) == {package.filename}
    package.path.unlink()
    os.mkfifo(package.path)
    shutil.rmtree(test_conda.pkgs)
    listed = write_list(test_conda, [f"{package.path.as_uri()}#{package.md5}"])
    done = create(test_conda, "--file", listed, name="pipe", expect=1, timeout=60)
    assert "resume-dl" not in done.stderr


@pytest.fixture
def lab(tmp_path):
    """A channel of three packages, small as a lab's own."""
    names = ("first", "second", "third")
    specs = [PackageSpec(name=name, version="1.0", subdir="noarch", payload_size=20_000) for name in names]
    return build_channel(tmp_path / "lab", specs)


def grow(lab, size):
    """Make the index at least so many bytes larger, packed or not."""
    path = lab.root / "noarch" / "repodata.json"
    document = {
        **json.loads(path.read_text(encoding="utf-8")),
        "padding": b64encode(Random(0).randbytes(size)).decode(),
    }
    data = json.dumps(document).encode()
    path.write_bytes(data)
    path.with_name(f"{path.name}.zst").write_bytes(zstandard.compress(data))


def test_a_large_index_is_not_fetched_for_a_package(test_conda, lab, nginx_mirrors):
    """A kept one is used, however large the channel's has become; without one the line is conda's."""
    served = nginx_mirrors([lab.root])
    first, second, third = (f"{served.base(0)}/{package.url_path}" for package in lab.packages)
    create(test_conda, first)
    assert_all_ours(served, 1)

    grow(lab, 9_000_000)
    served.reset_log()
    create(test_conda, second, name="kept")
    assert_all_ours(served, 1)
    assert sum(request.bytes for request in served.requests() if not request.is_archive) < 100

    for number in range(2):
        served.reset_log()
        shutil.rmtree(test_conda.pkgs)
        elsewhere = {"RESUME_DL_CACHE_DIR": str(test_conda.folder / f"cache-{number}")}
        done = create(test_conda, third, name=f"left-{number}", env=elsewhere)
        assert linked(test_conda, f"left-{number}") == {lab.packages[2].filename}
        assert [request.is_ours for request in served.archive_requests()] == [False]
        asked = [request for request in served.requests() if request.is_ours]
        assert len(asked) == 1 + number
        assert sum(request.bytes for request in asked) < 1000
        assert our_lines(done.stderr) == []
        assert "repodata" not in done.stderr
        (lab.root / "noarch" / "repodata.json.zst").unlink(missing_ok=True)  # the other one is as large


@pytest.mark.parametrize(
    ("behaviour", "most"),
    [
        (Stall(0), 4),
        (NeverAnswer(), 1),
        (Status(500), 1),
        (Status(429, retry_after=60), 1),
        (Status(404), 2),
        (Page(), 1),
    ],
    ids=str,
)
def test_an_unavailable_index_is_not_waited_for(test_conda, lab, fault_server, behaviour, most):
    """A few requests and seconds, no word, and conda's own download."""
    server = fault_server()
    server.mount(lab.root)
    server.always(0, behaviour, path="*repodata*")
    done = create(test_conda, f"{server.base(0)}/{lab.packages[0].url_path}", timeout=60)
    assert linked(test_conda) == {lab.packages[0].filename}
    (archive,) = server.requests(path="*.conda")
    assert not archive.headers["user-agent"].startswith("resume-dl/")
    assert 0 < len(server.requests(path="*repodata*")) <= most
    assert our_lines(done.stderr) == []
    assert "repodata" not in done.stderr
