"""What lies in the package cache before, during and after a fetch: repeated, damaged, shared, refused, full."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import threading
import time

import pytest
import zstandard

from faults.behaviours import Flip, Latency, Ok, Stall, Status
from resume_dl.store.part import PartStore
from support.channels import build_pytorch_channels
from support.conda_cache import Offer
from support.fetching import Done, User, finish

WANTED = "pytorch=1.7"
SOCKETS = 256 << 10
"""Bytes that may be under way when a request is cut short: the server has sent them, we have not read them."""
LARGE = "pytorch-1.7.1-py3.8_cuda11.0.221_cudnn8.0.5_0.conda"


@pytest.fixture
def served(offer, nginx_mirrors):
    return nginx_mirrors([offer.root, offer.root])


@pytest.fixture
def user(tmp_path, served):
    user = User(tmp_path / "user")
    user.mirrors(one=served.base(0), two=served.base(1))
    return user


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """Channels whose pytorch is large enough for a journal (1 MiB)."""
    root = tmp_path_factory.mktemp("big")
    channels = build_pytorch_channels(root, large=3_000_000, medium=50_000)
    packages = [package for channel in channels.values() for package in channel.packages]
    wanted = {package.filename: package for package in packages if package.spec.version != "1.7.0"}
    return Offer(root, wanted, root)


def wait_until(condition, *, patience=60.0):
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_second_run_is_cached(user, served, offer):
    """The second run finds everything: no archive request, every status and the totals say so."""
    first = user.fetch(WANTED, "--json")
    assert first.code == 0, first.err
    total = sum(package.size for package in offer.wanted.values())
    assert set(first.statuses.values()) == {"downloaded"}
    assert first.report["totals"] == {
        "artifacts": len(offer.wanted), "bytes": total, "downloaded": total, "resumed": 0, "cached": 0, "wasted": 0
    }  # fmt: skip
    served.reset_log()
    second = user.fetch(WANTED, "--json")
    assert second.code == 0, second.err
    assert served.archive_requests() == []
    assert {request.status for request in served.requests()} == {304}, "nor is it asked for shards, which it lacks"
    assert set(second.statuses.values()) == {"cached"}
    assert (second.report["totals"]["cached"], second.report["totals"]["downloaded"]) == (total, 0)
    user.assert_complete(offer.wanted)
    assert list((user.pkgs / ".resume-dl").iterdir()) == []


def test_damaged_entry_is_fetched_again(user, served, offer):
    """An extracted folder that lost a file, its archive gone: that one package is fetched again and replaced."""
    assert user.fetch(WANTED).code == 0
    package = offer.wanted[f"pytorch/{LARGE}"]
    folder = user.pkgs / package.spec.stem
    (user.pkgs / package.filename).unlink()
    lost = folder / "lib" / "python3.8" / "site-packages" / "torch" / "__init__.py"
    lost.unlink()
    served.reset_log()
    done = user.fetch(WANTED, "--json")
    assert done.code == 0, done.err
    assert {name for name, status in done.statuses.items() if status != "cached"} == {LARGE}
    assert served.body_bytes() == package.size
    assert lost.is_file()
    user.assert_complete(offer.wanted)


def test_damaged_folder_beside_its_archive(user, served, offer):
    """With the verified archive still there the folder is unpacked anew, and nobody is asked."""
    assert user.fetch(WANTED).code == 0
    package = offer.wanted[f"pytorch/{LARGE}"]
    shutil.rmtree(user.pkgs / package.spec.stem / "lib")
    served.reset_log()
    done = user.fetch(WANTED, "--json")
    assert done.code == 0, done.err
    assert served.archive_requests() == []
    user.assert_complete(offer.wanted)
    assert (user.pkgs / package.spec.stem / "lib").is_dir()


def test_damaged_archive_is_replaced(user, served, offer):
    """A bare archive of the right name with wrong bytes is not believed: fetched again."""
    package = offer.wanted[f"pytorch/{LARGE}"]
    user.pkgs.mkdir()
    (user.pkgs / LARGE).write_bytes(bytes(package.size))
    done = user.fetch(WANTED, "--json")
    assert done.code == 0, done.err
    assert set(done.statuses.values()) == {"downloaded"}
    user.assert_complete(offer.wanted)


def test_archives_placed_by_hand_are_unpacked(user, served, offer):
    """Right archives without an entry: verified and unpacked, not asked for."""
    offer.put_by_hand(user.pkgs)
    done = user.fetch(WANTED, "--json")
    assert done.code == 0, done.err
    assert served.archive_requests() == []
    assert set(done.statuses.values()) == {"cached"}
    user.assert_complete(offer.wanted)


# --- folders that cannot be used -----------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["condarc", "--pkgs-dir", "--dest"])
def test_read_only(user, served, option):
    """A folder that cannot be written: exit 5 before any request, naming the folder and what to do."""
    user.pkgs.mkdir()
    user.pkgs.chmod(0o555)
    chosen = [] if option == "condarc" else [option, user.pkgs]
    done = user.fetch(WANTED, "--json", *chosen, as_root=False)
    assert done.code == 5, done.err
    assert done.report["error"]["type"] == "NotWritableError"
    assert str(user.pkgs) in done.report["error"]["message"]
    assert "--pkgs-dir" in done.err or "--dest" in done.err
    assert served.requests() == []
    assert list(user.pkgs.iterdir()) == []


def test_a_file_in_place_of_the_cache_folder(user, served):
    """The same for a file in the folder's place."""
    user.pkgs.write_text("not a folder")
    done = user.fetch(WANTED, "--json")
    assert done.code == 5, done.err
    assert str(user.pkgs) in done.err
    assert served.archive_requests() == []


@contextlib.contextmanager
def small_disk(folder, size):
    folder.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("a small file system can be mounted by root only")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="there is no mount")
@pytest.mark.parametrize("dry", [True, False])
def test_full_disk(user, served, offer, dry):
    """Too little room: exit 5 before any archive is asked for, with what is needed and what is free."""
    with small_disk(user.pkgs, "1m"):
        done = user.fetch(WANTED, "--json", *["--dry-run"] * dry)
        assert served.archive_requests() == []
        if dry:
            assert done.code == 0
            return
        assert done.code == 5, done.err
        error = done.report["error"]
        assert error["type"] == "OutOfSpaceError"
        total = sum(package.size for package in offer.wanted.values())
        assert f"{total / 1e6:.1f} MB" in error["message"] or f"{total / 1e3:.1f} kB" in error["message"]
        assert "are free" in error["message"]
        assert user.archives() == set()


@pytest.mark.skipif(shutil.which("mount") is None, reason="there is no mount")
def test_a_full_disk_during_a_download(user, big, nginx_mirrors):
    """Another program takes the room meanwhile: exit 5, nothing half is published; with room again it goes on."""
    served = nginx_mirrors([big.root], rate=700_000)
    user.mirrors(only=served.base(0))
    with small_disk(user.pkgs, "32m"):
        filler = user.pkgs / "filler"
        with user.start("fetch", *user.options, WANTED, "--json") as process:
            wait_until(lambda: any(part.done for part in PartStore(user.pkgs / ".resume-dl").unfinished() if part.size))
            with filler.open("wb", buffering=0) as other, contextlib.suppress(OSError):
                while True:
                    other.write(bytes(65536))
            done = finish(process)
        assert done.code == 5, done.err
        assert "Traceback" not in done.err
        failed = [each for each in done.report["artifacts"] if each["error"]]
        assert {each["error"]["type"] for each in failed} == {"OutOfSpaceError"}, done.err
        assert LARGE in {each["filename"] for each in failed}
        filler.unlink()
        served.set_rate(0, None)
        again = user.fetch(WANTED, "--json")
        assert again.code == 0, again.err
        assert again.artifact("pytorch")["status"] == "resumed"
        user.assert_complete(big.wanted)


# --- bytes that cannot be trusted --------------------------------------------------------------------------------


def test_wrong_digest_everywhere(faulty, offer):
    """Both mirrors have wrong bytes of one file: exit 4, both were tried, it is never published; the others are."""
    server, user = faulty
    server.always(None, Flip(1000), path=f"*{LARGE}")
    done = user.fetch(WANTED, "--json")
    assert done.code == 4, done.err
    wrong = done.artifact("pytorch")
    assert (wrong["status"], wrong["error"]["type"], wrong["path"]) == ("failed", "DigestMismatchError", None)
    assert {source["mirror"] for source in wrong["sources"]} == {"one", "two"}
    # a copy, and the other mirror's to compare it with but for what the format's own checksums prove
    assert done.report["totals"]["wasted"] >= 1.9 * wrong["size"]
    assert "one and two agree" in wrong["error"]["message"]
    assert {name for name, status in done.statuses.items() if status == "failed"} == {LARGE}
    others = [package for package in offer.wanted.values() if package.filename != LARGE]
    user.assert_complete(others)
    assert LARGE in done.err
    assert "Traceback" not in done.err


def test_wrong_digest_at_one_mirror(faulty, offer):
    """One mirror has wrong bytes: the other one's are taken, exit 0, and the waste is counted."""
    server, user = faulty
    server.always(0, Flip(1000), path=f"*{LARGE}")
    done = user.fetch(WANTED, "--json", "--no-deps")
    assert done.code == 0, done.err
    user.assert_complete([offer.wanted[f"pytorch/{LARGE}"]])
    sources = {source["mirror"]: source["bytes"] for source in done.artifact("pytorch")["sources"]}
    assert sources["two"] > 0  # of the other one's what was compared and is right is kept
    assert sum(sources.values()) == done.artifact("pytorch")["size"]
    assert done.report["totals"]["downloaded"] == done.artifact("pytorch")["size"]
    assert done.report["totals"]["wasted"] == server.body_bytes(path=f"*{LARGE}") - done.artifact("pytorch")["size"]


@pytest.mark.parametrize("name", ["../evil-1-0.conda", "/tmp/evil-1-0.conda", "C:\\evil-1-0.conda", "a\0-1-0.conda"])
def test_hostile_filenames(tmp_path, nginx_mirrors, name):
    """A file name in repodata that leads elsewhere: refused (4) with the name shown, nothing fetched or written."""
    root = tmp_path / "root" / "pytorch"
    record = {"name": "evil", "version": "1", "build": "0", "build_number": 0, "depends": [], "size": 3,
              "md5": "0" * 32, "sha256": "0" * 64, "subdir": "linux-64"}  # fmt: skip
    (root / "linux-64").mkdir(parents=True)
    document = {"info": {"subdir": "linux-64"}, "packages": {}, "packages.conda": {name: record}}
    (root / "linux-64" / "repodata.json").write_text(json.dumps(document))
    served = nginx_mirrors([root.parent])
    user = User(tmp_path / "user")
    user.mirrors(one=served.base(0))
    done = user.fetch("evil", "-c", "pytorch", "--override-channels", "--json")
    assert done.code == 4, done.err
    assert done.report["error"]["type"] == "IntegrityError"
    assert "evil-1-0.conda" in done.err or "u0000-1-0.conda" in done.err
    assert "Traceback" not in done.err
    assert served.archive_requests() == []
    assert user.archives() == set()


# --- two at once, and one that is stopped ------------------------------------------------------------------------


def test_two_at_once(faulty, offer):
    """Two runs on one cache: each file is downloaded once; who waits says for whom, and ends cached."""
    server, user = faulty
    told = threading.Event()
    server.always(None, Latency(0.1, lambda: float(told.is_set())), path="*.conda")  # until the second waits
    with user.start("fetch", *user.options, WANTED, "--json") as first:
        wait_until(lambda: any(user.pkgs.glob(".resume-dl/*.part")))
        with user.start("fetch", *user.options, WANTED, "--json", "--progress", "json") as second:
            lines = []
            for line in second.stderr:
                lines.append(line)
                if f"process {first.pid}" in line:
                    break
            server.always(None, Ok(), path="*.conda")
            told.set()
            one, two = finish(first), finish(second)
    two = Done(two.code, two.out, "".join(lines) + two.err)
    assert (one.code, two.code) == (0, 0), one.err + two.err
    notes = {event["note"] for event in two.events() if event.get("state") == "locked"}
    assert any(f"process {first.pid}" in note for note in notes), two.err
    assert set(one.statuses.values()) | set(two.statuses.values()) <= {"downloaded", "cached"}
    for name in one.statuses:
        assert sorted([one.statuses[name], two.statuses[name]]) == ["cached", "downloaded"]
    total = sum(package.size for package in offer.wanted.values())
    assert sum(each.report["totals"]["downloaded"] for each in (one, two)) == total
    # The server's own count holds what it gave to connections that were closed while it kept silent.
    assert total <= sum(server.body_bytes(path=f"*{kind}") for kind in (".conda", ".tar.bz2"))
    assert sum(each.report["totals"]["wasted"] for each in (one, two)) <= SOCKETS
    user.assert_complete(offer.wanted)


def test_no_wait(faulty):
    """--no-wait ends with 5 where another run has the file, and says who; that run goes on."""
    server, user = faulty
    server.script(None, [Stall(after=1000)], path=f"*{LARGE}")
    options = [*user.options, WANTED, "--no-deps"]
    with user.start("fetch", *options) as first:
        wait_until(lambda: any(user.pkgs.glob(".resume-dl/*.part")))
        wait_until(lambda: any(request.path.endswith(LARGE) for request in server.requests()))
        second = user.run("fetch", *options, "--no-wait", "--json")
        assert first.poll() is None
        first.send_signal(signal.SIGINT)
        assert finish(first).code == 130
    assert second.code == 5, second.err
    error = second.artifact("pytorch")["error"]
    assert error["type"] == "LockedError"
    assert f"process {first.pid}" in error["message"]


def test_ctrl_c(user, big, nginx_mirrors):
    """SIGINT: exit 130, how much is safe and what to do next; the next run takes only what is missing."""
    served = nginx_mirrors([big.root], rate=600_000)
    user.mirrors(only=served.base(0))
    with user.start("fetch", *user.options, WANTED, "--no-deps", "--json") as process:
        wait_until(lambda: any(path.stat().st_size > 200 for path in user.pkgs.glob(".resume-dl/*.journal")))
        with served.paused():
            process.send_signal(signal.SIGINT)
            done = finish(process)
    assert done.code == 130, done.err
    assert user.archives() == set()
    stopped = done.artifact("pytorch")
    safe = stopped["error"]["resumable_bytes"]
    assert (stopped["status"], stopped["error"]["type"]) == ("stopped", "Interrupted")
    assert 0 < safe < big.wanted[LARGE].size
    assert "safe on disk" in done.err
    assert "run the same command again" in done.err
    assert "Traceback" not in done.err
    served.set_rate(0, None)
    served.reset_log()
    again = user.fetch(WANTED, "--no-deps", "--json")
    assert again.code == 0, again.err
    assert again.artifact("pytorch")["status"] == "resumed"
    totals = again.report["totals"]
    assert totals["resumed"] == safe
    assert totals["resumed"] + totals["downloaded"] == totals["bytes"]
    assert totals["downloaded"] <= served.body_bytes() <= totals["downloaded"] + SOCKETS
    user.assert_complete([big.wanted[LARGE]])


def test_ctrl_c_during_the_download_of_an_index(tmp_path, offer, fault_server):
    """SIGINT before there is a solution: exit 130 too, without a traceback."""
    server = fault_server()
    server.mount(offer.root)
    server.always(None, Stall(after=10))
    user = User(tmp_path / "user")
    user.mirrors(one=server.base(0))
    with user.start("fetch", *user.options, WANTED, "--json") as process:
        wait_until(lambda: bool(server.requests()))
        process.send_signal(signal.SIGINT)
        done = finish(process)
    assert done.code == 130, done.err
    assert done.report["error"]["type"] == "Interrupted"
    assert "Traceback" not in done.err


# --- indexes that fail or are old --------------------------------------------------------------------------------


def write_index(channel, document):
    """All the forms in which a channel serves one index."""
    data = json.dumps(document).encode()
    for name in ("repodata.json", "current_repodata.json"):
        (channel / name).write_bytes(data)
        (channel / f"{name}.zst").write_bytes(zstandard.compress(data))


def older_copy(offer, root, change):
    """The same channels a day before, at a mirror that is behind; ``change`` edits pytorch's records."""
    shutil.copytree(offer.root, root)
    channel = root / "pytorch" / "linux-64"
    document = json.loads((channel / "repodata.json").read_text())
    for record in document["packages.conda"].values():
        record["timestamp"] -= 86_400_000
    change(document["packages.conda"])
    write_index(channel, document)
    return root


def three_mirrors(fault_server, old, good):
    """Three ports that serve both folders by name; the third is busy when it is first asked for pytorch's index."""
    served = fault_server(ports=3)
    served.mount(old.parent)
    served.mount(good.parent)
    served.script(2, [Status(503), Ok()], path="*/pytorch/linux-64/repodata.json.zst")
    return served


def test_the_index_comes_from_the_third_mirror(tmp_path, offer, fault_server):
    """One mirror has no index (404), one an old one without the package, the third is good: it works."""

    def lacks_it(records):
        records.pop(LARGE)

    served = three_mirrors(fault_server, older_copy(offer, tmp_path / "old", lacks_it), offer.root)
    served.always(0, Status(404))
    user = User(tmp_path / "user")
    user.mirrors(lacking=served.base(0), old=f"{served.base(1)}/old", good=f"{served.base(2)}/{offer.root.name}")
    done = user.fetch("pytorch=1.7.1", "--json")
    assert done.code == 0, done.err
    assert "good has a different index of pytorch" in done.err
    user.assert_complete(offer.wanted)


def test_stale_index_whose_archive_is_gone(tmp_path, offer, fault_server):
    """The first mirror's index names a build that no mirror has any more: the newer index of another one is used."""

    def other_build(records):
        record = records.pop(LARGE)
        gone = {**record, "build": "gone_1", "build_number": 99, "sha256": "1" * 64, "md5": "1" * 32}
        records["pytorch-1.7.1-gone_1.conda"] = gone

    served = three_mirrors(fault_server, older_copy(offer, tmp_path / "old", other_build), offer.root)
    user = User(tmp_path / "user")
    user.mirrors(old=f"{served.base(1)}/old", good=f"{served.base(2)}/{offer.root.name}")
    done = user.fetch(WANTED, "--json")
    assert done.code == 0, done.err
    assert {request.port for request in served.requests(path="*gone_1*")} == {1, 2}
    assert "checking the other mirrors for a newer index" in done.err
    assert LARGE in done.statuses
    user.assert_complete(offer.wanted)


def test_an_index_that_is_a_page(tmp_path, offer, fault_server):
    """A hotel's sign-in page or an error in place of the index at one mirror: the other one is asked."""
    server = fault_server(ports=2)
    server.mount(offer.root)
    server.always(0, Status(503))
    user = User(tmp_path / "user")
    user.mirrors(bad=server.base(0), good=server.base(1))
    done = user.fetch(WANTED, "--json")
    assert done.code == 0, done.err
    server.script(0, [Ok()])
    user.assert_complete(offer.wanted)
