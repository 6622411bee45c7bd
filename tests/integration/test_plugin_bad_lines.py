"""``conda create`` over lines that break: with the plugin it arrives, without it the same command fails."""

from __future__ import annotations

import signal
import time

import pytest

from faults.behaviours import Drop, Flip, Ok, Quota, RefuseRange, Stall
from resume_dl.store.part import FOLDER, PartStore
from support.conda_cache import SPEC, build_large_offer
from support.fetching import TIMEOUT
from support.plugin import our_lines, records, use_mirrors

pytestmark = pytest.mark.conda
MB = 1_000_000
ARCHIVES = ("*.conda", "*.tar.bz2")
SPARE = 2 * MB
"""Bytes that may come twice: what a kill had not recorded, and the end of a body that was dropped."""


@pytest.fixture(scope="module")
def offer(tmp_path_factory):
    """A pytorch of 30 MB."""
    return build_large_offer(tmp_path_factory.mktemp("large") / "channels", large=30 * MB)


@pytest.fixture
def torch(offer):
    return next(package for key, package in offer.wanted.items() if key.startswith("pytorch/"))


def sent(server, port=None):
    return sum(server.body_bytes(port, pattern) for pattern in ARCHIVES)


def total(offer):
    return sum(package.size for package in offer.wanted.values())


def create(conda, *arguments, expect=0, **options):
    done = conda.run("create", "-y", "-p", conda.folder / "env", *SPEC, *arguments, **options)
    assert (done.returncode == 0) is (expect == 0), done.stdout + done.stderr
    return done


def wait_for_two_thirds(conda, at_work, torch):
    """Until the journal has nearly all of the large archive that the server gives, with this conda still at work.

    What has left the server may still be in the kernel's buffers, which end with the process that is killed.
    """
    deadline = time.monotonic() + TIMEOUT
    parts = PartStore(conda.pkgs / FOLDER)
    while sum(part.done for part in parts.unfinished() if part.size == torch.size) < two_thirds(torch) - SPARE * 3 // 4:
        assert at_work.poll() is None, at_work.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def two_thirds(torch):
    return torch.size * 2 // 3


def test_a_line_that_drops_every_8_mb_and_a_mirror_that_stalls(test_conda, offer, server):
    """With the plugin the environment is made and little comes twice; without it the same command fails."""
    server.always(0, Drop(8 * MB), path="*.conda")
    server.always(1, Stall(1 * MB), path="*.conda")
    use_mirrors(test_conda, server.base(0), [server.base(1)])
    create(test_conda, plugin=False, expect=1)
    assert not (test_conda.folder / "env" / "conda-meta").exists()
    before = sent(server)
    create(test_conda)
    assert len(records(test_conda.folder / "env")) == len(offer.wanted)
    assert sent(server) - before <= total(offer) + SPARE


def test_a_killed_conda_command_continues(test_conda, offer, torch, server):
    """kill -9 at two thirds: the next ``conda create`` asks for the rest, and for nothing that had come."""
    server.always(None, Quota(two_thirds(torch)), path=f"*/{torch.filename}")
    use_mirrors(test_conda, server.base(0), [server.base(1)])
    with test_conda.start("create", "-y", "-p", test_conda.folder / "env", *SPEC) as conda:
        wait_for_two_thirds(test_conda, conda, torch)
        conda.kill()
        assert conda.wait(TIMEOUT) == -signal.SIGKILL
    assert sent(server) < total(offer)
    server.always(None, Ok())
    create(test_conda)
    assert sent(server) <= total(offer) + SPARE
    assert len(records(test_conda.folder / "env")) == len(offer.wanted)
    assert not list((test_conda.pkgs / FOLDER).glob("*.part"))


def test_ctrl_c_keeps_the_bytes_and_says_how_to_continue(test_conda, offer, torch, server):
    """One Ctrl-C: conda ends as it does, we say what is safe, and the next run downloads the rest alone."""
    server.always(None, Quota(two_thirds(torch)), path=f"*/{torch.filename}")
    use_mirrors(test_conda, server.base(0), [server.base(1)])
    with test_conda.start("create", "-y", "-p", test_conda.folder / "env", *SPEC) as conda:
        wait_for_two_thirds(test_conda, conda, torch)
        conda.send_signal(signal.SIGINT)
        _, err = conda.communicate(timeout=120)
    assert conda.returncode == 1
    (line,) = [line for line in our_lines(err) if "stopped" in line]
    assert "safe on disk" in line
    assert "run the same conda command again to continue" in line
    assert "KeyboardInterrupt" in err  # conda's own words for it
    server.always(None, Ok())
    create(test_conda)
    assert sent(server) <= total(offer) + SPARE


@pytest.fixture
def stuck(test_conda, offer, torch, server):
    """conda's own dead end: whole answers break off at 8 MB, and 416 to every Range makes it begin again, for ever."""
    use_mirrors(test_conda, server.base(0), [])
    server.always(0, Drop(8 * MB), RefuseRange(), path=f"*/{torch.filename}")
    for _ in range(3):
        create(test_conda, plugin=False, expect=1)
    partial = test_conda.pkgs / f"{torch.filename}.partial"
    assert partial.stat().st_size in range(8 * MB - 8192, 8 * MB + 1)  # whole blocks of its own
    return test_conda


def test_a_partial_that_conda_cannot_continue_is_finished_from_a_mirror(stuck, offer, torch, server):
    """Another mirror gives the rest: the bytes that conda had are kept."""
    use_mirrors(stuck, server.base(0), [server.base(1)])
    before = sent(server, 1)
    create(stuck)
    assert sent(server, 1) - before <= total(offer) - 8 * MB + SPARE
    assert len(records(stuck.folder / "env")) == len(offer.wanted)


def test_a_partial_that_conda_cannot_continue_ends_in_a_clear_error_without_a_mirror(stuck, offer, torch, server):
    """One line says why and what is safe; conda begins anew and fails; a server that heals is asked for the rest."""
    asked = len(server.requests(path=f"*/{torch.filename}"))
    done = create(stuck, expect=1)
    line = our_lines(done.stderr)[-1]
    assert torch.filename in line
    assert "8.0 MB are safe on disk; conda continues on its own" in line
    last = server.requests(path=f"*/{torch.filename}")[asked:][-1]
    assert last.range == ""  # conda's own, from the start: our bytes had been taken out of its way
    server.always(0, Ok(), path=f"*/{torch.filename}")
    before = sent(server)
    create(stuck)
    assert sent(server) - before <= torch.size - 8 * MB + SPARE


def test_a_mirror_with_wrong_bytes_is_identified(test_conda, offer, torch, server):
    """What is installed is right although one mirror lies; conda itself never sees the wrong bytes."""
    server.always(1, Flip(5 * MB, 12 * MB), path=f"*/{torch.filename}")
    use_mirrors(test_conda, server.base(0), [server.base(1)])
    done = create(test_conda)
    assert "ChecksumMismatch" not in done.stderr
    assert (test_conda.pkgs / torch.filename).read_bytes() == torch.path.read_bytes()
