"""``resume-dl fetch`` and channels whose login a plugin of conda provides: a real conda is asked for it."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from faults.behaviours import Demand, Redirect
from support.fetching import User, finish
from support.logins import SECRET, archives, build_small_channels, files_with_a_secret, serve
from support.processes import has_ended

pytestmark = pytest.mark.conda

PLUGIN = """
    import os, time
    from pathlib import Path
    from conda.plugins import hookimpl
    from conda.plugins.types import CondaAuthHandler, ChannelAuthBase

    SEEN = Path(os.environ["HANDLER_NOTES"])  # the ids of the processes in which a handler was called

    class Handler(ChannelAuthBase):
        def __call__(self, request):
            kind = request.url.split("/")[3]
            known = SEEN / kind
            before = known.read_text().split() if known.exists() else []
            if str(os.getpid()) not in before:
                known.write_text(" ".join([*before, str(os.getpid())]))
            getattr(self, kind)(request, before)
            return request

        def good(self, request, before):
            print("handler says", "{secret}", flush=True)
            os.system("echo {secret}")
            request.headers["X-Corp"] = "{secret}"

        def expired(self, request, before):
            stale = not before or before[0] == str(os.getpid())
            request.headers["X-Corp"] = "stale" if stale else "{secret}"

        def wrong(self, request, before):
            request.headers["X-Corp"] = "wrong %d" % time.monotonic_ns()

        def raising(self, request, before):
            raise RuntimeError("{secret}")

        def asking(self, request, before):
            input("Password: ")

        def hanging(self, request, before):
            time.sleep(600)

    @hookimpl
    def conda_auth_handlers():
        yield CondaAuthHandler(name="corp", handler=Handler)
""".replace("{secret}", SECRET)
KINDS = ("good", "expired", "wrong", "raising", "asking", "hanging", "absent")


@pytest.fixture(scope="module")
def channel(tmp_path_factory):
    return build_small_channels(tmp_path_factory.mktemp("channels"), "a") / "a"


@pytest.fixture
def server(channel, fault_server):
    """A channel for each kind of handler, which port 0 gives to those with the login alone."""
    server = fault_server(ports=3)
    for kind in KINDS:
        serve(server, channel, f"/{kind}")
        server.always(0, Demand("x-corp", SECRET), path=f"/{kind}/*")
    return server


@pytest.fixture
def user(test_conda, server, tmp_path):
    """A user of this conda, whose condarc names the plugin for every channel of the server."""
    names = {kind: "none-such" if kind == "absent" else "corp" for kind in KINDS}
    test_conda.configure(
        channel_settings=[{"channel": f"{server.base(0)}/{kind}", "auth": name} for kind, name in names.items()]
    )
    test_conda.add_plugin("corp_login", entry="corp-login = corp_login", source=PLUGIN)
    notes = tmp_path / "notes"
    notes.mkdir()
    env = {**test_conda.environment({"HANDLER_NOTES": str(notes)}), "RESUME_DL_CONDA": str(test_conda.python)}
    user = User(tmp_path / "user", env=env, pkgs=test_conda.pkgs)
    user.options += ["--override-channels"]
    return user


def processes(user: User, kind: str) -> list[int]:
    """The processes in which the handler of this channel was called."""
    assert user.given is not None
    file = Path(user.given["HANDLER_NOTES"]) / kind
    return [int(pid) for pid in file.read_text(encoding="utf-8").split()] if file.exists() else []


def fetch(user, server, kind, *options):
    done = user.fetch("a", "-c", f"{server.base(0)}/{kind}", "--json", "--debug", *options)
    assert SECRET not in done.out + done.err
    assert files_with_a_secret(user.folder) | files_with_a_secret(user.pkgs) == set()
    return done


def test_the_login_of_a_plugin(user, server):
    """Index and package come with the header, which goes to no mirror, no other server, no output and no file."""
    server.always(0, Redirect(f"{server.base(2)}/good/linux-64/a-1-0.conda"), path="/good/*.conda")
    mirrors = user.write_mirrors(
        {"one": {"conda:own": f"{server.base(1)}/nothing-here"}, "two": {"conda:a": f"{server.base(1)}/good"}},
        origins={"conda:own": f"{server.base(0)}/good"},
    )
    trace = user.folder / "trace.jsonl"
    done = fetch(user, server, "good", "--mirrors", mirrors, "--debug-trace", trace)
    assert (done.code, done.statuses) == (0, {"a-1-0.conda": "downloaded"}), done.err
    assert [(each.path, each.headers) for each in server.requests(0) if each.headers.get("x-corp") != SECRET] == [], [
        each.path for each in server.requests(0)
    ]
    assert server.requests(1)
    assert {each.path for each in archives(server, 2)} == {"/good/linux-64/a-1-0.conda"}
    assert SECRET not in repr([each.headers for port in (1, 2) for each in server.requests(port)])
    assert len(processes(user, "good")) == 1
    assert has_ended(processes(user, "good")[0])


def test_a_refused_login_is_renewed_once(user, server):
    """A new process of conda is asked after a 401: one more, and only once while nothing was accepted."""
    done = fetch(user, server, "expired")
    assert (done.code, done.statuses) == (0, {"a-1-0.conda": "downloaded"}), done.err
    assert {each.headers["x-corp"] for each in server.requests(0)} == {"stale", SECRET}
    assert {each.headers["x-corp"] for each in archives(server, 0)} == {SECRET}
    assert len(processes(user, "expired")) == 2
    before = len(server.requests(0))
    done = fetch(user, server, "wrong")
    assert done.code != 0
    assert "401" in done.err
    assert len(processes(user, "wrong")) == 2
    asked = [each.headers["x-corp"] for each in server.requests(0)[before:]]
    assert all(text.startswith("wrong ") for text in asked)


def test_a_plugin_without_a_login(user, server):
    """The run goes on without a login, and says why the server refuses it; conda's plugin has no terminal."""
    reasons = {
        "raising": "it fails (RuntimeError)",
        "asking": "it fails (EOFError)",
        "absent": "conda has no such plugin",
    }
    for kind, why in reasons.items():
        done = fetch(user, server, kind)
        assert done.code != 0
        told = (
            f"channel_settings) and not available here: {why}; if the server refuses access, install with conda itself"
        )
        assert done.err.count(told) == 1, done.err
        assert "401" in done.err


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to one process")
def test_an_interrupt_while_conda_is_asked(user, server):
    """Ctrl-C ends the wait for the plugin and its process."""
    with user.start("fetch", *user.options, "a", "-c", f"{server.base(0)}/hanging") as process:
        while not processes(user, "hanging"):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        done = finish(process)
    assert done.code == 130, done.err
    assert has_ended(processes(user, "hanging")[0])
    assert server.requests(0) == []
