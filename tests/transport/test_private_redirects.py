"""A public server leads nobody into a private network: neither by an address nor by a name that resolves to one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from resume_dl.model.private_address import is_private_address, is_private_host
from resume_dl.transport.redirects import RedirectRefusedError, target_of


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "0x7f000001", "2130706433", "017700000001", "0.0.0.0", "10.1.2.3", "100.100.100.200",
        "169.254.169.254", "172.31.0.1", "192.168.1.1", "localhost", "LocalHost.", "a.localhost", "::1", "[::1]", "::",
        "fd00::1", "fe80::1%eth0", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::a00:1",
    ],
)  # fmt: skip
def test_private_addresses(host):
    assert is_private_host(host)


@pytest.mark.parametrize(
    "host",
    ["example.org", "localhost.org", "1.1.1.1", "172.32.0.1", "198.18.0.5", "100.63.0.1", "2606:4700::1", "face.cafe",
     "dead", "", "08.1", "1.2.3.4.5", "99999999999", "64:ff9b::101:101", "::ffff:1.1.1.1"],
)  # fmt: skip
def test_public_addresses(host):
    assert not is_private_host(host)


def test_a_name_is_no_address():
    assert not is_private_address("localhost")


def test_only_a_public_server_is_refused():
    """A mirror that the user's own table puts into a private network may lead to another place there."""
    there = "http://10.0.0.2/f"
    assert target_of("http://10.0.0.1/f", there, {"http://10.0.0.1/f"}) == there
    with pytest.raises(RedirectRefusedError, match=r"private network, to 10\.0\.0\.2"):
        target_of("http://mirror.example/f", there, {"http://mirror.example/f"}, public=True)


def _namespace(tmp_path: Path, program: Path) -> list[str]:
    """The command that runs ``program`` where 203.0.113.1 is this machine."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost inside.example\n203.0.113.1 outside.example\n")
    set_up = 'ip link set lo up && ip addr add 203.0.113.1/32 dev lo && mount --bind "$1" /etc/hosts && exec "$2" "$3"'
    return [
        "unshare",
        "--map-root-user",
        "--net",
        "--mount",
        "sh",
        "-c",
        set_up,
        "sh",
        str(hosts),
        sys.executable,
        str(program),
    ]


@pytest.fixture
def found(tmp_path):
    """What the program beside this file has seen."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("needs unshare and ip (util-linux, iproute2)")
    if subprocess.run(["unshare", "-rnm", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs leave to make a network namespace")
    command = _namespace(tmp_path, Path(__file__).with_name("private_redirects.py"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_real_servers(found):
    """Names count by where they lead, on kept connections too; nothing is sent to the inside."""
    refused = {"/literal": "127.0.0.1"}
    refused |= {"/short": "127.1", "/mapped": "::ffff:127.0.0.1", "/localhost": "localhost"}
    refused |= {"/name": "inside.example:Q", "kept connection": "inside.example:Q"}
    for path, where in refused.items():
        assert found[path] == [f"203.0.113.1:P: it redirects into a private network, to {where} (final)", 0], path
    twice = "outside.example:P: it redirects into a private network, to inside.example:Q (final)"
    assert found["/twice"] == [twice, 0]
    assert found["/outside"] == ["body", 0]
    assert found["inside, asked for"] == ["body", 1]
    assert found["inside to inside"] == ["body", 2]
