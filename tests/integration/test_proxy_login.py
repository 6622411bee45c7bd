"""``resume-dl`` behind a proxy that wants NTLM: its own processes, real connections, both ends computed by pyspnego."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("there pyspnego uses Windows' own logins, which know no user of a test", allow_module_level=True)

from faults.behaviours import Drop, Ok, Status
from support.fetching import User
from transport.login_proxy import LOGIN, PASSWORD, LoginProxy, keep_users, wanted
from transport.tiny import TinyServer, authority

DATA = random.Random(17).randbytes(3_000_000)
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoginProxy]:
    keep_users(tmp_path, monkeypatch)
    proxy = LoginProxy()
    yield proxy
    proxy.stop()


@pytest.fixture
def alone(tmp_path: Path) -> User:
    return User(tmp_path / "user")


def through(proxy: LoginProxy | TinyServer, login: str = LOGIN) -> dict[str, str]:
    address = f"http://{login}@localhost:{proxy.port}"
    return {"HTTPS_PROXY": address, "HTTP_PROXY": address, "NO_PROXY": ""}


def test_a_broken_download_goes_on(proxy, alone, fault_server, tmp_path):
    """In a run and in the next one; each new connection logs in, and the password is in no file and no output."""
    with authority(tmp_path) as made:
        server = fault_server(tls=made.server)
    server.put("/data.bin", DATA)
    server.script(0, [Drop(after=400_000), Drop(after=300_000), Status(404), Ok()])
    env = {**through(proxy), "SSL_CERT_FILE": str(made.ca_file), "RESUME_DL_PROXY_AUTH": "ntlm"}
    command = ["get", f"{server.base()}/data.bin", "--sha256", SHA256, "--connections", "1", "--debug-trace", "t.jsonl"]
    first = alone.run(*command, "--verbose", env=env)
    assert first.code == 1, first.err
    seen = len(server.requests())
    assert seen == 3
    second = alone.run(*command, "--verbose", "--debug", env=env)
    assert second.code == 0, second.err
    assert (alone.folder / "data.bin").read_bytes() == DATA
    assert int(server.requests()[-1].range.removeprefix("bytes=").split("-")[0]) > 600_000
    assert proxy.schemes == {"NTLM"}
    assert proxy.proofs == len({each.connection for each in server.requests()})
    written = [each.read_bytes() for each in alone.folder.rglob("*") if each.is_file() and each.name != "data.bin"]
    for text in (first.out, first.err, second.out, second.err, *(each.decode("latin-1") for each in written)):
        assert PASSWORD not in text


@pytest.mark.parametrize("right", [True, False])
def test_fetch_with_the_setting_in_config_toml(proxy, user, server, offer, right):
    """Indexes and packages over plain http; a wrong password reaches the proxy once in the whole run."""
    (user.folder / "config").mkdir()
    (user.folder / "config" / "config.toml").write_text('proxy_auth = "ntlm"\n', encoding="utf-8")
    done = user.fetch("pytorch=1.7", "--json", env=through(proxy, LOGIN if right else "DOMAIN%5Cme:wrong"))
    assert proxy.schemes == {"NTLM"}
    if right:
        assert done.code == 0, done.err
        assert set(done.statuses.values()) == {"downloaded"}
        return
    assert (done.code, proxy.proofs) == (2, 1)
    assert done.report["error"]["type"] == "ConfigurationError"
    assert "refuses the login by NTLM" in done.report["error"]["message"]
    assert "wrong" not in done.out + done.err
    assert not server.requests()


def test_a_proxy_that_wants_ntlm_is_an_error_at_once(alone):
    """Not after all attempts of a host that does not answer; it names the option and the extra."""
    proxy = TinyServer(lambda conn, _: conn.sendall(wanted("NTLM", "Negotiate")))
    done = alone.run("get", "https://example.invalid/f", env=through(proxy))
    proxy.stop()
    assert done.code == 1
    assert "wants a login by NTLM or Negotiate" in done.err
    assert "--proxy-auth ntlm" in done.err
    assert "resume-dl[proxy-login]" in done.err
    assert len(proxy.requests) == 1
