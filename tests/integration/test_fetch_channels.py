"""``resume-dl fetch`` and channels that not everybody may use: logins, and the lists of allowed and denied ones."""

from __future__ import annotations

from urllib.parse import quote_plus

import pytest

from faults.behaviours import Demand, Status
from support.fetching import User
from support.logins import BASIC, SECRET, archives, build_small_channels, files_with_a_secret, serve


@pytest.fixture(scope="module")
def channels(tmp_path_factory):
    return build_small_channels(tmp_path_factory.mktemp("channels"), "ab")


@pytest.fixture
def server(channels, fault_server):
    """Two ports with the channels a and b; a is at the first with a token and with a login, too."""
    server = fault_server(ports=2)
    for name in "ab":
        serve(server, channels / name, f"/{name}")
    serve(server, channels / "a", f"/t/{SECRET}/a")
    serve(server, channels / "a", "/login/a")
    server.always(None, Demand("authorization", BASIC), path="/login/*")
    return server


@pytest.fixture
def user(tmp_path):
    user = User(tmp_path / "user")
    user.condarc = {"pkgs_dirs": [str(user.pkgs)]}
    user.options.append("--override-channels")
    return user


def mirrors(user, carries, origins=None):
    return ("--mirrors", user.write_mirrors(carries, origins=origins))


def assert_no_leak(user, done):
    assert SECRET not in done.out + done.err
    assert files_with_a_secret(user.folder) <= {"home/.condarc", f"data/{quote_plus('http://127.0.0.1')}.token"}


def test_logins_go_to_their_own_place(user, server):
    """A token in a channel's address, and condarc's login for a name: no other place is asked, nothing is written."""
    host = server.base(0).removeprefix("http://")
    user.condarc["custom_channels"] = {"a": f"http://me:{SECRET}@{host}/login"}
    two = {"two": {"conda:a": f"{server.base(1)}/a"}, "one": {"conda:a": f"{server.base(0)}/a"}}
    for channel in (f"{server.base(0)}/t/{SECRET}/a", "a"):
        done = user.fetch("a", "-c", channel, "--json", *mirrors(user, two))
        assert done.code == 0, done.err
        assert done.statuses == {"a-1-0.conda": "downloaded"}
        assert_no_leak(user, done)
        (user.pkgs / "a-1-0.conda").unlink()
        for path in sorted((user.pkgs / "a-1-0").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (user.pkgs / "a-1-0").rmdir()
    assert [each.path for each in archives(server)] == [
        f"/t/{SECRET}/a/linux-64/a-1-0.conda",
        "/login/a/linux-64/a-1-0.conda",
    ]
    assert server.requests(1) == []


def test_mirrors_of_a_channel_with_a_token(user, server):
    """Where the user's file names the channel as an origin, its mirror gives the index and the package."""
    server.always(0, Status(500))
    own = {"conda:own": f"{server.base(0)}/a"}
    carried = {"one": {"conda:own": f"{server.base(1)}/a"}}
    channel = f"{server.base(0)}/t/{SECRET}/a"
    done = user.fetch(
        "a", "-c", channel, "--json", "--no-upstream", "--index-from", "one", *mirrors(user, carried, own)
    )
    assert done.code == 0, done.err
    assert server.requests(0) == []
    assert SECRET not in repr([(each.path, each.headers) for each in server.requests(1)])
    assert_no_leak(user, done)


def test_a_token_of_anaconda_client(user, server):
    """The token that is kept for a host is sent there, as conda does, and not to a mirror."""
    folder = user.folder / "data"
    folder.mkdir()
    (folder / f"{quote_plus(server.base(0))}.token").write_text(SECRET, encoding="utf-8")
    env = {"BINSTAR_CONFIG_DIR": str(user.folder)}
    own = {"conda:own": f"{server.base(0)}/a"}
    carried = {"one": {"conda:own": f"{server.base(1)}/nothing-here"}}
    done = user.fetch("a", "-c", f"{server.base(0)}/a", "--json", *mirrors(user, carried, own), env=env)
    assert done.code == 0, done.err
    assert [each.path for each in archives(server, 0)] == [f"/t/{SECRET}/a/linux-64/a-1-0.conda"]
    assert server.requests(1)
    assert SECRET not in repr([(each.path, each.headers) for each in server.requests(1)])
    assert SECRET not in done.out + done.err
    assert files_with_a_secret(user.folder) == {f"data/{quote_plus(server.base(0))}.token"}


def test_a_login_of_a_plugin_is_reported(user, server):
    """Only conda can ask its plugin: the mirrors of that channel are not asked, and the user learns why it may fail."""
    user.condarc["channel_settings"] = [{"channel": f"{server.base(0)}/a", "auth": "corp"}]
    two = {"two": {"conda:a": f"{server.base(1)}/a"}, "one": {"conda:a": f"{server.base(0)}/a"}}
    done = user.fetch("a", "-c", f"{server.base(0)}/a", "--dry-run", *mirrors(user, two))
    assert done.code == 0, done.err
    assert "is provided by a conda plugin" in done.err
    assert server.requests(1) == []
    user.condarc["channel_settings"] = []
    user.fetch("a", "-c", f"{server.base(0)}/a", "--dry-run", "--mirror", "two", *mirrors(user, two))
    assert server.requests(1)


def test_channels_that_conda_denies(user, server, tmp_path):
    """A channel that is not allowed is refused by every way in; a place that is not allowed is never asked."""
    asked, strange = f"{server.base(0)}/a", f"{server.base(1)}/a"
    user.condarc |= {"allowlist_channels": [asked, strange], "denylist_channels": [strange]}
    carried = mirrors(user, {"m1": {"conda:test-a": strange}}, {"conda:test-a": asked})
    listed = tmp_path / "list.txt"
    listed.write_text(f"@EXPLICIT\n{strange}/linux-64/a-1-0.conda\n", encoding="utf-8")
    for refused in (("b", "-c", f"{server.base(0)}/b"), ("a", "-c", strange), ("--file", listed)):
        done = user.fetch(*refused, *carried)
        assert (done.code, "do not allow" in done.err) == (2, True), done.err
    done = user.run("get", f"{strange}/linux-64/a-1-0.conda", *carried, "--no-upstream")
    assert (done.code, "do not allow" in done.err) == (2, True), done.err
    assert server.requests() == []
    done = user.fetch("a", "-c", asked, "--json", *carried)
    assert done.code == 0, done.err
    assert server.requests(1) == []
