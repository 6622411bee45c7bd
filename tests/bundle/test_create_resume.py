"""``bundle create`` that is killed, stopped, or run twice at once: it goes on, and nothing unfinished looks whole."""

from __future__ import annotations

import signal
import sys

import pytest

from support.bundles import LINUX, Maker, archives_of, begun, build_world, files_of, sums_hold, wait_until
from support.fetching import finish
from support.pip_index import build_wheel, write_index
from support.processes import KILL

pytestmark = [pytest.mark.nginx, pytest.mark.skipif(sys.platform == "win32", reason="signals")]
MIB = 1 << 20
LARGE = 16 * MIB
WANTED = ("pytorch", "--platform", "linux-64", "--cuda", "11.0", "--pip", "fast")


@pytest.fixture(scope="session")
def large_world(tmp_path_factory):
    """One with 16 MiB in pytorch."""
    return build_world(tmp_path_factory.mktemp("large"), large=LARGE)


@pytest.fixture
def slow(large_world, nginx_mirrors, tmp_path):
    """Two mirrors of it that give 2 MiB a second over a connection."""
    return Maker(tmp_path / "maker", nginx_mirrors([large_world.root] * 2, rate=2 * MIB))


def size_of(world):
    wheel = next(wheel for wheel in world.wheels if "manylinux" in wheel.filename)
    return world.size(LINUX) + wheel.size


@pytest.mark.parametrize("how", [KILL, signal.SIGINT])
@pytest.mark.parametrize("name", ["out", "out.tar"])
def test_interrupted(large_world, slow, how, name):
    """In the middle of the large file; the same command asks for the rest alone."""
    out = slow.folder / name
    place = out if name == "out" else out.with_name("out.tar.workshop")
    with slow.begin(*WANTED, out=out) as process:
        stopped = slow.interrupt(process, how, at=LARGE // 2, folder=place)
    assert stopped.code == (130 if how == signal.SIGINT else -how)
    if how == signal.SIGINT:
        assert "run the same command again" in stopped.err
        assert "safe on disk" in stopped.err
        assert "manifest sha256" not in stopped.out
    for unfinished in ("manifest.json", "SHA256SUMS"):
        assert not (place / unfinished).exists()
    assert not (slow.folder / "out.tar").exists()
    if name == "out":
        assert slow.run("bundle", "verify", out).code == 4
    for number in range(2):
        slow.nginx.set_rate(number, None)
    done = slow.create(*WANTED, "--json", out=out)
    assert done.code == 0, done.err
    assert done.artifact("pytorch")["status"] == "resumed"
    size = size_of(large_world)
    assert size <= slow.nginx.body_bytes() <= size + 2 * MIB
    checked = slow.run("bundle", "verify", out)
    assert checked.code == 0, checked.err
    left = {path.name for path in slow.folder.iterdir() if path.name.startswith("out")}
    assert left == {name}
    if name == "out":
        assert archives_of(out) > LINUX
        assert sums_hold(out)


def test_killed_over_a_whole_bundle(slow):
    """From the moment on that something of it is changed it is whole no more."""
    assert slow.create("mkl", "--platform", "linux-64").code == 0
    with slow.begin("pytorch", "--platform", "linux-64", "--cuda", "11.0") as process:
        slow.interrupt(process, KILL, at=MIB, folder=slow.out)
    assert not {"manifest.json", "SHA256SUMS"} & files_of(slow.out).keys()
    assert slow.run("bundle", "verify", slow.out).code == 4
    done = slow.create("mkl", "--platform", "linux-64")
    assert done.code == 0, done.err
    assert archives_of(slow.out) == {"channel/linux-64/mkl-2020.2-256.conda"}
    assert sums_hold(slow.out)


def test_two_at_once(slow):
    """The second is told who is at work, and the first is not disturbed."""
    with slow.begin(*WANTED) as process:
        wait_until(lambda: begun(slow.out) > 0, process)
        second = slow.create("mkl", "--platform", "linux-64", "--json")
        assert second.code == 5, second.err
        assert second.report["error"]["type"] == "LockedError"
        assert second.report["bundle"] is None
        assert f"process {process.pid} " in second.err
        assert str(slow.out) in second.err
        assert "--no-wait" not in second.err  # it would not wait for a whole bundle without it either
        first = finish(process)
    assert first.code == 0, first.err
    assert archives_of(slow.out) > LINUX
    assert sums_hold(slow.out)


def test_a_wheel_killed(slow, tmp_path):
    """In the wheel dir of a bundle without any conda package, in place of one that was whole."""
    assert slow.create("mkl", "--platform", "linux-64").code == 0
    slow.nginx.reset_log()
    wheel = build_wheel(tmp_path / "built", "torch", "1.6.0", filler=LARGE)
    root = tmp_path / "wheels-only"
    write_index(root, [wheel])
    wanted = ("--pip", "torch", "--python", "3.8", "--platform", "linux-64")
    slow.nginx.change(0, root=root)
    with slow.begin(*wanted) as process:
        slow.interrupt(process, KILL, at=LARGE // 2, folder=slow.out / "wheels")
    assert archives_of(slow.out) == {"channel/linux-64/mkl-2020.2-256.conda"}
    assert not {"manifest.json", "SHA256SUMS"} & files_of(slow.out).keys()
    assert slow.run("bundle", "verify", slow.out).code == 4
    slow.nginx.set_rate(0, None)
    done = slow.create(*wanted, "--json")
    assert done.code == 0, done.err
    assert done.artifact("torch")["status"] == "resumed"
    assert wheel.size <= slow.nginx.body_bytes() <= wheel.size + 2 * MIB
    assert archives_of(slow.out) == {f"wheels/{wheel.filename}"}
    assert sums_hold(slow.out)
