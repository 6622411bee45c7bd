"""A machine whose resolver says no, or that has no network at all: one line, soon, and the documented exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.fetching import User
from support.offline import _namespace

RESOLVER = """
import os, socket
real = socket.getaddrinfo
def getaddrinfo(host, *more, **options):
    name = host.decode() if isinstance(host, bytes) else host
    if name in ("127.0.0.1", "localhost", *filter(None, os.environ.get("RESOLVES", "").split())):
        return real("127.0.0.1", *more, **options)
    with open(os.environ["LOOKUPS"], "a") as log:
        log.write(name + "\\n")
    raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
socket.getaddrinfo = getaddrinfo
"""
"""As sitecustomize: a resolver that answers no at once."""


class Cut:
    """Runs resume-dl where no name resolves."""

    def __init__(self, user: User, namespace: list[str]) -> None:
        self.user, self.namespace = user, namespace
        self.lookups = user.folder / "lookups"
        (user.folder / "site").mkdir()
        (user.folder / "site" / "sitecustomize.py").write_text(RESOLVER)

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        own = self.user.environment()
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
            own.pop(name)
        if not self.namespace:
            own |= {"PYTHONPATH": str(self.user.folder / "site"), "LOOKUPS": str(self.lookups)}
        command = [*self.namespace, sys.executable, "-m", "resume_dl", *arguments]
        return subprocess.run(
            command, env={**own, **env}, cwd=self.user.folder, capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture(params=["no network", "a resolver that says no"])
def cut(request: pytest.FixtureRequest, tmp_path: Path) -> Cut:
    """Both ways of being cut off."""
    namespace = _namespace() if request.param == "no network" else []
    if request.param == "no network" and not namespace:
        pytest.skip("no network namespace can be made here (unshare --net)")
    user = User(tmp_path / "user")
    user.condarc["channels"] = ["defaults"]
    return Cut(user, namespace)


def errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("error: ")]


def test_fetch(cut: Cut) -> None:
    """Seven mirrors of which none resolves are one line, with the first one's cause; exit 6, retryable."""
    done = cut.run("fetch", "pytorch=1.7", "--platform", "linux-64", "--json")
    assert done.returncode == 6, done.stderr
    (line,) = errors(done)
    assert line.startswith("error: no network: none of 7 hosts resolves (")
    assert line.count("cannot resolve host name") == 1
    error = json.loads(done.stdout)["error"]
    assert (error["type"], error["retryable"]) == ("ChannelUnavailableError", True)
    assert "--give-up-after" in error["hint"]


def test_get(cut: Cut) -> None:
    """Files of several hosts are one line too; each has its own error in the JSON object."""
    done = cut.run("get", "https://one.example/a", "https://two.example/b", "https://one.example/c", "--json")
    assert done.returncode == 1, done.stderr
    (line,) = errors(done)
    assert line.startswith("error: no network: none of 2 hosts resolves (one.example: ")
    report = json.loads(done.stdout)
    assert [each["error"]["type"] for each in report["artifacts"]] == ["NoNetworkError"] * 3


def test_one_unresolved_host_may_be_a_typing_error(cut: Cut) -> None:
    """With one host it cannot be told whether the network or the address is wrong, and both are said."""
    done = cut.run("get", "https://exmaple.org/a")
    assert done.returncode == 1
    assert errors(done)[0].startswith("error: no network, or a wrong address: exmaple.org does not resolve (")


def test_pip_packages(cut: Cut) -> None:
    """Their index pages are asked for in another way, and say the same."""
    if cut.namespace:
        pytest.skip("uv asks us over loopback, which a new network namespace has not got up")
    done = cut.run("fetch", "--pip", "numpy")
    assert done.returncode == 6, done.stderr
    assert "no network: none of " in errors(done)[0]
    asked = cut.lookups.read_text().split()
    assert len(asked) <= 4 * len(set(asked)), "a few tries each at most"


def test_an_explicit_give_up_after_is_respected(cut: Cut) -> None:
    """--give-up-after goes on asking for as long as it says: lines come back."""
    if cut.namespace:
        pytest.skip("lookups are counted by the resolver that says no")
    quick = cut.run("get", "https://one.example/a")
    tries = len(cut.lookups.read_text().split())
    cut.lookups.write_text("")
    patient = cut.run("get", "https://one.example/a", "--give-up-after", "20s")
    assert (quick.returncode, patient.returncode) == (1, 1)
    assert len(cut.lookups.read_text().split()) > tries


def test_one_answering_host_means_there_is_a_network(cut: Cut, fault_server) -> None:
    """One mirror that answers is all the network that a run needs, whatever else does not resolve."""
    if cut.namespace:
        pytest.skip("no server can be reached there")
    server = fault_server(ports=1)
    server.put("/a", b"x" * 1000)
    here = f"http://mirror.example:{server.port()}/a"
    done = cut.run("get", "https://one.example/a", "--mirror-url", here, "-o", "a", RESOLVES="mirror.example")
    assert done.returncode == 0, done.stderr
    assert (Path(cut.user.folder) / "a").read_bytes() == b"x" * 1000
