"""Channels as conda has them, through a real conda with the plugin: logins, certificates, proxies, lists.

What a channel's own place was asked for, and what reached anybody else, is counted at the servers; afterwards no file
of ours and no line of output holds a secret.
"""

from __future__ import annotations

import json
import re
import shutil
import ssl
import subprocess
from urllib.parse import quote_plus

import pytest

from faults.behaviours import Demand, Redirect, Status
from support.logins import BASIC, SECRET, archives, build_small_channels, files_with_a_secret, serve
from support.plugin import our_lines
from transport.tiny import TinyHttpProxy, authority

pytestmark = pytest.mark.conda

CONDAS_OWN = re.compile(r"condarc|home/\.netrc|data/.*\.token|pkgs/cache/.*|env/conda-meta/history|on-pythonpath/.*")
"""What a user or conda itself writes secrets into, also without us."""


@pytest.fixture(scope="module")
def channels(tmp_path_factory):
    """Channels a to e, each with the one package of its name, as they lie on disk."""
    return build_small_channels(tmp_path_factory.mktemp("channels"), "abcde")


@pytest.fixture(params=["classic", "rattler"])
def conda(request, test_conda):
    """A conda with each of its solvers."""
    if request.param == "rattler" and test_conda.conda.python is None:
        pytest.skip("conda-rattler-solver wants a conda of 2025 or later")
    test_conda.configure(solver=request.param)
    return test_conda


def offer(server, channels, name, at=None):
    """The channel ``name`` at the path ``at`` of every port."""
    serve(server, channels / name, at or f"/{name}")


def write_mirrors(conda, origins, **carries):
    """A user's mirrors.toml, which condarc names; each of ``carries`` is a mirror's name -> its origins and bases."""
    lines = ["schema = 1", "[origins]", *(f'"{name}" = "{base}"' for name, base in origins.items())]
    for mirror, bases in carries.items():
        lines += ["[[mirror]]", f'name = "{mirror}"', "[mirror.carries]"]
        lines += [f'"{name}" = "{base}"' for name, base in bases.items()]
    path = conda.folder / "mirrors.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    conda.configure(plugins={"resume_dl_mirrors": str(path)})


def create(conda, *specs, env=None, expect=0):
    done = conda.run("create", "-p", conda.folder / "env", *specs, env=env)
    assert done.returncode == expect, done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    return done


def fetched_by_us(requests):
    return [each.headers.get("user-agent", "").startswith("resume-dl/") for each in requests]


def assert_no_leak(conda):
    """No secret lies in any file, but where it would without us."""
    assert [path for path in files_with_a_secret(conda.folder) if not CONDAS_OWN.fullmatch(path)] == []


def test_every_kind_of_login(conda, channels, fault_server):
    """A token, logins in addresses and settings, anaconda-client's token, netrc: as conda sends them, to no mirror."""
    server = fault_server(ports=3)
    mirror = 2
    host = server.base(0).removeprefix("http://")
    offer(server, channels, "a", f"/t/{SECRET}/a")
    for name in "abcde":
        offer(server, channels, name, f"/mirror/{name}")
    for name, paths in {"b": "/b/*", "c": "/deep/c/*", "e": "/e/*"}.items():
        offer(server, channels, name, paths.removesuffix("/*"))
        server.always(0, Demand("authorization", BASIC), path=paths)
    offer(server, channels, "d", f"/t/{SECRET}/d")
    (conda.home / ".netrc").write_text(f"machine localhost login me password {SECRET}\n", encoding="utf-8")
    (conda.folder / "data").mkdir()
    (conda.folder / "data" / f"{quote_plus(server.base(1))}.token").write_text(SECRET, encoding="utf-8")
    conda.configure(
        channels=[
            f"{server.base(0)}/t/{SECRET}/a",
            f"http://me:{SECRET}@{host}/b",
            "c",
            f"{server.base(1)}/d",
            f"http://localhost:{server.port(0)}/e",
        ],
        custom_channels={"c": f"http://me:{SECRET}@{host}/deep"},
    )
    # another mirror of the same channels: known as such, but not by the user's origins
    there = {"a": server.base(0), "b": server.base(0), "c": f"{server.base(0)}/deep"}
    write_mirrors(
        conda,
        {},
        first={f"conda:{name}": f"{server.base(mirror)}/mirror/{name}" for name in there},
        second={f"conda:{name}": f"{base}/{name}" for name, base in there.items()},
    )
    done = create(conda, *"abcde", env={"BINSTAR_CONFIG_DIR": str(conda.folder)})
    assert our_lines(done.stderr) == []
    assert sorted(each.path for each in archives(server)) == [
        "/b/linux-64/b-1-0.conda",
        "/deep/c/linux-64/c-1-0.conda",
        "/e/linux-64/e-1-0.conda",
        f"/t/{SECRET}/a/linux-64/a-1-0.conda",
        f"/t/{SECRET}/d/linux-64/d-1-0.conda",
    ]
    assert all(fetched_by_us(archives(server)))
    assert server.requests(mirror) == []
    assert_no_leak(conda)
    assert len(list((conda.folder / "env" / "conda-meta").glob("*-1-0.json"))) == 5


def test_mirrors_where_the_users_file_says_so(conda, channels, fault_server):
    """Named by the user's own origins: the mirror is asked, without the login; what it lacks comes from its place."""
    server = fault_server(ports=2)
    for name in "ab":
        offer(server, channels, name, f"/t/{SECRET}/{name}")
        offer(server, channels, name, f"/mirror/{name}")
    server.always(1, Status(404), path="/mirror/b/*")
    conda.configure(channels=[f"{server.base(0)}/t/{SECRET}/{name}" for name in "ab"])
    write_mirrors(
        conda,
        {f"conda:own-{name}": f"{server.base(0)}/{name}" for name in "ab"},
        one={f"conda:own-{name}": f"{server.base(1)}/mirror/{name}" for name in "ab"},
    )
    for name in "ab":
        create(conda, name, "--download-only")
    assert [each.path for each in archives(server, 0)] == [f"/t/{SECRET}/b/linux-64/b-1-0.conda"]
    asked = archives(server, 1)
    assert [each.path for each in asked] == [f"/mirror/{name}/linux-64/{name}-1-0.conda" for name in "ab"]
    assert not [each for each in server.requests(1) if SECRET in repr((each.path, each.headers))]
    assert all(fetched_by_us(archives(server)))
    assert_no_leak(conda)


def test_an_environment_file_with_a_token(conda, channels, fault_server):
    """Channels that no condarc and no option names, but the file alone, are asked with their login as well."""
    server = fault_server()
    offer(server, channels, "a", f"/t/{SECRET}/a")
    file = conda.folder / "environment.yml"
    content = {"channels": [f"{server.base()}/t/{SECRET}/a"], "dependencies": ["a"]}
    file.write_text(json.dumps(content), encoding="utf-8")
    done = conda.run("env", "create", "-p", conda.folder / "env", "-f", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert fetched_by_us(archives(server)) == [True]
    assert SECRET not in done.stdout + done.stderr
    file.unlink()
    assert_no_leak(conda)


LOGIN_PLUGIN = f"""
    from conda.plugins import hookimpl
    from conda.plugins.types import CondaAuthHandler, ChannelAuthBase

    class Login(ChannelAuthBase):
        def __call__(self, request):
            request.headers["X-Corp"] = "{SECRET}"
            return request

    class Broken(ChannelAuthBase):
        def __call__(self, request):
            if request.url.endswith(".conda"):
                raise RuntimeError("nobody is logged in")
            return request

    @hookimpl
    def conda_auth_handlers():
        yield CondaAuthHandler(name="corp", handler=Login)
        yield CondaAuthHandler(name="broken", handler=Broken)
"""
HEADERS_PLUGIN = f"""
    from conda.plugins import hookimpl
    from conda.plugins.types import CondaRequestHeader

    @hookimpl
    def conda_request_headers(host, path):
        if path.startswith("/b/"):
            yield CondaRequestHeader(name="X-Api-Key", value="{SECRET}")
        yield CondaRequestHeader(name="X-Kind", value="conda")
"""


def test_a_plugins_login(test_conda, channels, fault_server):
    """What conda's own session would send is sent to that place alone: not to a mirror, not where it redirects to."""
    server = fault_server(ports=3)
    for name in "ab":
        offer(server, channels, name)
    server.always(0, Demand("x-corp", SECRET), path="/a/*")
    server.always(0, Redirect(f"{server.base(2)}/a/linux-64/a-1-0.conda"), path="/a/*.conda")
    test_conda.configure(
        channels=[f"{server.base(0)}/a", f"{server.base(0)}/b"],
        channel_settings=[{"channel": f"{server.base(0)}/a", "auth": "corp"}],
    )
    bases = {f"conda:{name}": name for name in "ab"}
    write_mirrors(
        test_conda,
        {},
        first={origin: f"{server.base(1)}/{name}" for origin, name in bases.items()},
        second={origin: f"{server.base(0)}/{name}" for origin, name in bases.items()},
    )
    test_conda.add_plugin("corp_login", entry="corp-login = corp_login", source=LOGIN_PLUGIN)
    headers = test_conda.version() >= (25,)
    if headers:
        test_conda.add_plugin("corp_headers", entry="corp-headers = corp_headers", source=HEADERS_PLUGIN)
        server.always(0, Demand("x-api-key", SECRET), path="/b/*")
    done = create(test_conda, "a", "b")
    assert our_lines(done.stderr) == []
    (first,) = server.requests(0, "/a/*.conda")
    (second,) = server.requests(2)
    assert (first.headers["x-corp"], first.headers.get("x-kind")) == (SECRET, "conda" if headers else None)
    assert "x-corp" not in second.headers
    assert all(fetched_by_us(archives(server)))
    assert len(archives(server, 1)) == (0 if headers else 1)
    assert SECRET not in repr([each.headers for each in server.requests(1)])
    assert_no_leak(test_conda)


def test_a_plugin_that_cannot_log_in(test_conda, channels, fault_server):
    """Nobody else is asked for its channel; conda asks it itself and says what it said; the others are fetched."""
    server = fault_server(ports=1)
    for name in "ab":
        offer(server, channels, name)
    server.always(0, Status(401), path="/a/*.conda")
    test_conda.configure(
        channels=[f"{server.base(0)}/a", f"{server.base(0)}/b"],
        channel_settings=[{"channel": f"{server.base(0)}/a", "auth": "broken"}],
    )
    test_conda.add_plugin("corp_login", entry="corp-login = corp_login", source=LOGIN_PLUGIN)
    done = create(test_conda, "a", "b", expect=1)
    assert "nobody is logged in" in done.stdout + done.stderr
    assert all(fetched_by_us(server.requests(0, "/b/*.conda")))


def test_certificates(test_conda, channels, fault_server, tmp_path):
    """Our own authority by ssl_verify, a client's certificate with its key, and the system's store."""
    with authority(tmp_path) as made:
        made.server.verify_mode = ssl.CERT_REQUIRED
        made.ca.configure_trust(made.server)
        mine = made.ca.issue_cert("me@corp.example")
        mine.private_key_pem.write_to_path(str(tmp_path / "me.key"))
        mine.cert_chain_pems[0].write_to_path(str(tmp_path / "me.pem"))
        server = fault_server(tls=made.server)
        offer(server, channels, "a")
        test_conda.configure(
            channels=[f"{server.base()}/a"],
            ssl_verify=str(tmp_path / "ca.pem"),
            client_ssl_cert=str(tmp_path / "me.pem"),
            client_ssl_cert_key=str(tmp_path / "me.key"),
        )
        done = create(test_conda, "a", "--download-only")
        assert our_lines(done.stderr) == []
        assert fetched_by_us(archives(server)) == [True]
        shutil.rmtree(test_conda.pkgs)
        asked = [str(test_conda.python), "-c", "import truststore"]
        if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            test_conda.configure(ssl_verify="truststore")
            # what OpenSSL takes for the system's store
            done = create(test_conda, "a", "--download-only", env={"SSL_CERT_FILE": str(tmp_path / "ca.pem")})
            assert our_lines(done.stderr) == []
            assert fetched_by_us(archives(server)) == [True, True]


def test_a_proxy(test_conda, channels, fault_server):
    """condarc's proxy_servers, with a login: all that we ask for goes through it."""
    server = fault_server()
    offer(server, channels, "a")
    proxy = TinyHttpProxy(BASIC)
    try:
        test_conda.configure(
            channels=[f"{server.base()}/a"], proxy_servers={"http": f"http://me:{SECRET}@127.0.0.1:{proxy.port}"}
        )
        done = create(test_conda, "a")
    finally:
        proxy.stop()
    assert our_lines(done.stderr) == []
    assert fetched_by_us(archives(server)) == [True]
    asked = [each for each in proxy.requests if each.path.endswith(".conda")]
    assert {each.headers.get("proxy-authorization") for each in asked} == {BASIC}
    assert_no_leak(test_conda)


def test_only_allowed_mirrors_are_used(test_conda, channels, fault_server):
    """A mirror that is not on the list of allowed channels, or that is denied, is never asked."""
    server = fault_server(ports=4)
    offer(server, channels, "a")
    asked, allowed, strange, denied = (f"{server.base(port)}/a" for port in range(4))
    test_conda.configure(channels=[asked], allowlist_channels=[asked, allowed, denied], denylist_channels=[denied])
    bases = {"m1": strange, "m2": denied, "m3": allowed}
    write_mirrors(test_conda, {"conda:test-a": asked}, **{name: {"conda:test-a": base} for name, base in bases.items()})
    create(test_conda, "a")
    assert server.requests(2) == []
    if test_conda.version() >= (25,):  # older ones know no denied channels
        assert server.requests(3) == []
    assert all(fetched_by_us(archives(server)))
    assert {each.port for each in archives(server)} <= {0, 1, 3}
