"""What tells two files without a digest apart: the whole address, and a validator that stands for these very bytes."""

from __future__ import annotations

import random
import signal
from email.utils import formatdate

import pytest

from faults.behaviours import Headers, Stall
from support.fetching import User, finish

MIB = 1 << 20
_NO_TAG = Headers({"ETag": None})


@pytest.fixture
def user(tmp_path):
    return User(tmp_path / "user")


def interrupted(user, server, *arguments):
    """A `get` that is stopped by Ctrl-C once the server has sent 2 MiB."""
    with user.start("get", *arguments) as process:
        while server.body_bytes() < 2 * MIB:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        done = finish(process)
    assert done.code == 130, done
    return done


def kept(user):
    return list((user.folder / ".resume-dl").glob("*.part"))


@pytest.mark.parametrize("name", ["token", "monkey"])
def test_addresses_that_differ_in_a_query_value_are_two_files(user, fault_server, name):
    """A run for one of them never goes on with the bytes of the other, whatever the value's name."""
    server = fault_server()
    first, second = (random.Random(seed).randbytes(3 * MIB) for seed in (1, 2))
    server.put(f"/dl?{name}=a", first)
    server.put(f"/dl?{name}=b", second)
    server.script(0, [(_NO_TAG, Stall(2 * MIB)), _NO_TAG])
    interrupted(user, server, f"{server.base()}/dl?{name}=a", "-o", "a")
    (left,) = kept(user)
    done = user.run("get", f"{server.base()}/dl?{name}=b", "-o", "b", "--json")
    assert done.code == 0, done
    assert (user.folder / "b").read_bytes() == second
    assert kept(user) == [left]
    # ... and the first one is still continued
    done = user.run("get", f"{server.base()}/dl?{name}=a", "-o", "a", "--json")
    assert (done.code, done.report["artifacts"][0]["status"]) == (0, "resumed")
    assert (user.folder / "a").read_bytes() == first


def test_no_name_of_a_file_has_a_login_in_it(user, fault_server):
    """One address with two logins, or with two tokens of a channel, is one part file."""
    server = fault_server()
    data = random.Random(1).randbytes(3 * MIB)
    for token in ("tk-one", "tk-two"):
        server.put(f"/t/{token}/dl", data)
    server.script(0, [(_NO_TAG, Stall(2 * MIB)), _NO_TAG])
    host = server.base().removeprefix("http://")
    interrupted(user, server, f"http://ann:one@{host}/t/tk-one/dl")
    done = user.run("get", f"http://bob:two@{host}/t/tk-two/dl", "--json")
    assert (done.code, done.report["artifacts"][0]["status"]) == (0, "resumed"), done
    assert (user.folder / "dl").read_bytes() == data


@pytest.mark.parametrize(
    ("date", "resumes"),
    [("Fri, 01 Jan 2021 00:00:01 GMT", True), ("Fri, 01 Jan 2021 00:00:00 GMT", False), (None, False)],
)
def test_last_modified_binds_bytes_only_if_it_is_strong(user, fault_server, date, resumes):
    """A file changed in the second in which it was served has its old Last-Modified: nothing is appended to it."""
    server = fault_server()
    old, new = (random.Random(seed).randbytes(3 * MIB) for seed in (1, 2))
    served = Headers({"ETag": None, "Last-Modified": "Fri, 01 Jan 2021 00:00:00 GMT", "Date": date})
    server.put("/f.bin", old)
    server.script(0, [(served, Stall(2 * MIB)), (_NO_TAG, Headers({"Date": formatdate(usegmt=True)}))])
    interrupted(user, server, f"{server.base()}/f.bin")
    if not resumes:
        server.put("/f.bin", new)
    done = user.run("get", f"{server.base()}/f.bin", "--json")
    assert done.code == 0, done
    assert (user.folder / "f.bin").read_bytes() == (old if resumes else new)
    (last,) = server.requests()[1:]
    assert bool(last.range) is resumes


def test_a_weak_tag_binds_nothing(user, fault_server):
    """RFC 9110 13.1.5: neither the weak tag nor the date beside it may be sent as If-Range."""
    server = fault_server()
    weak = Headers({"ETag": 'W/"same"'})
    server.put("/f.bin", random.Random(1).randbytes(3 * MIB))
    server.script(0, [(weak, Stall(2 * MIB)), weak])
    interrupted(user, server, f"{server.base()}/f.bin")
    server.put("/f.bin", new := random.Random(2).randbytes(3 * MIB))
    done = user.run("get", f"{server.base()}/f.bin", "--json")
    assert done.code == 0, done
    assert (user.folder / "f.bin").read_bytes() == new
