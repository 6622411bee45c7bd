"""Logins of package indexes out of the user's keyring, as the real pip takes them; the secret goes nowhere else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from resume_dl.core.policy import DEFAULTS
from resume_dl.errors import ChannelUnavailableError
from resume_dl.model.index_logins import IndexLogins
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.resolution.pip_access import host_name
from resume_dl.settings import pip_keyring
from resume_dl.settings.pip_keyring import Keyring, KeyringMemory
from resume_dl.transport.client import HttpTransport
from support.fetching import User, finish
from support.installable import venv_with_pip
from support.keyrings import StoredKeyring
from support.logins import BASIC, SECRET, files_with_a_secret
from support.pip_index import build_wheel, write_index
from support.pip_resolving import Resolving
from support.processes import has_ended
from transport.asking import ask, body_of
from transport.tiny import TinyServer, answer

LOGIN = f"me:{SECRET}"


@pytest.fixture
def stored(tmp_path):
    return StoredKeyring(tmp_path / "keyring")


@pytest.fixture
def wheels(tmp_path):
    """A program that needs two more packages, whose pages are requested at once."""
    needed = [build_wheel(tmp_path / "built", name, "1.0") for name in ("demo-one", "demo-two")]
    app = build_wheel(tmp_path / "built", "demo-app", "1.0", requires=["demo-one", "demo-two"])
    write_index(tmp_path / "root", [app, *needed])
    return [app, *needed]


@pytest.fixture
def private(tmp_path, nginx_mirrors, wheels):
    """An index that wants a login for everything."""
    nginx = nginx_mirrors([tmp_path / "root"])
    nginx.change(0, login=LOGIN)
    return nginx


@pytest.fixture
def user(tmp_path):
    found = User(tmp_path / "user")
    found.options = ["--give-up-after", "20s", "--mirrors", str(found.write_mirrors({}))]
    return found


def asked_once(questions):
    return list(dict.fromkeys(questions))


# --- what pip does ----------------------------------------------------------------------------------------------------


@pytest.mark.nginx
@pytest.mark.parametrize(
    ("provider", "username"), [("import", None), ("subprocess", "me"), (None, None)], ids=["import", "program", "auto"]
)
def test_the_same_login_as_pip(tmp_path, private, user, stored, wheels, provider, username):
    """Pages and wheels come with the login that the real pip takes; one question a run; no file and no line has it."""
    host = private.base().partition("://")[2]
    stored.put(f"http://{host}/simple/", "me", SECRET)
    stored.put(host, "me", "the host's, which is asked for last")
    index = f"http://{'' if username is None else username + '@'}{host}/simple"
    option = () if provider is None else ("--keyring-provider", provider)
    trace = user.folder / "trace"
    done = user.fetch(
        *("--pip", "demo-app", "--index-url", index, *option, "--json", "--verbose", "--debug-trace", trace),
        env=stored.env,
    )
    assert done.code == 0, done.err
    assert set(done.statuses) == {wheel.filename for wheel in wheels}
    assert SECRET not in done.out + done.err
    assert files_with_a_secret(user.folder) == set()
    ours = stored.questions
    assert ours == [(f"http://{host}/simple/", username)]

    stored.reset()
    # pip looks past a program keyring that is beside it
    python = venv_with_pip(tmp_path / "venv") if provider == "subprocess" else sys.executable
    theirs = subprocess.run(
        [python, "-m", "pip", "download", "-d", tmp_path / "theirs", "-i", index, *option, "demo-app"],
        env=user.environment(stored.env),
        cwd=user.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert theirs.returncode == 0, theirs.stderr
    assert asked_once(stored.questions) == ours


PIP_ASKS = """
import json, sys
from pip._internal.network.auth import MultiDomainBasicAuth

found = []
for indexes, url in json.load(sys.stdin):
    auth, asked = MultiDomainBasicAuth(prompting=True, index_urls=indexes, keyring_provider="disabled"), []
    auth._get_keyring_auth = lambda service, username: service and asked.append([service, username])
    known = auth._get_new_credentials(url, allow_netrc=False, allow_keyring=True)
    found.append([asked, known if None not in known else None])
print(json.dumps(found))
"""
CELLS = [
    (["https://h.example/a/simple"], "https://h.example/a/simple/demo/"),
    (["https://h.example/a/simple"], "https://h.example/a/simple"),
    (["https://me@h.example/a/simple"], "https://h.example/files/demo-1.0.whl"),
    (["https://m%40e@h.example:8443/a/simple/"], "https://h.example:8443/a/simple/demo/"),
    (["https://h.example/a/simple", "https://me@h.example/b/simple"], "https://h.example/b/simple/demo/"),
    (["https://h.example/a/simple", "https://me@h.example/b/simple"], "https://h.example/files/x.whl"),
    (["https://me:hush@h.example/a/simple"], "https://h.example/a/simple/demo/"),
    (["https://h.example/a/simple"], "https://files.example/demo-1.0.whl"),
    (["https://h.example/a/simple"], "https://me:hush@h.example/a/simple/demo/"),
    ([], "https://h.example/demo-1.0.whl"),
]


def test_the_questions_are_pips():
    """Index first, then the host; the user name of the index; nothing where a login is complete."""
    program = [sys.executable, "-c", PIP_ASKS]
    theirs = subprocess.run(program, input=json.dumps(CELLS), capture_output=True, text=True, check=True)
    for (indexes, url), (asked, known) in zip(CELLS, json.loads(theirs.stdout), strict=True):
        logins = IndexLogins(indexes=tuple(map(RedactedUrl, indexes)))
        question = logins.question(url, url)
        ours = [] if question is None else [[service, question.username] for service in question.services]
        assert ours == asked, url
        if "@" not in url:
            assert logins.of_index(url) == (None if known is None else tuple(known)), url


@pytest.mark.parametrize(
    ("url", "first"),
    [
        ("http://h.example/simple/demo/", "http://h.example/simple/demo/"),
        ("https://mirror.example/simple/demo/", "https://mirror.example/simple/demo/"),
        ("https://h.example/demo-1.0.whl", "https://mirror.example/demo-1.0.whl"),
        ("https://-x.example/demo-1.0.whl", "https://-x.example/demo-1.0.whl"),
        ("https://-u@h.example/demo-1.0.whl", "https://-u@h.example/demo-1.0.whl"),
        ("https://m%0Ae@h.example/demo-1.0.whl", "https://m%0Ae@h.example/demo-1.0.whl"),
    ],
    ids=["unencrypted", "a mirror", "led there by a mirror", "option", "option as a user", "control character"],
)
def test_no_question(url, first):
    """Stricter than pip: nothing for an unencrypted host, for a mirror, and for what would not be one plain word."""
    logins = IndexLogins(indexes=(RedactedUrl("https://h.example/simple"),), excluded=frozenset({"mirror.example"}))
    assert logins.question(url, first) is None


def test_an_unencrypted_host_that_is_trusted():
    assert IndexLogins(trusted_hosts=("h.example",)).question("http://h.example/x", "http://h.example/x") is not None


def test_a_token_in_the_path_is_no_argument():
    """The index's URL holds one: only the host is looked up."""
    logins = IndexLogins(indexes=(RedactedUrl("https://h.example/t/s3cr3tT0k3n/simple"),))
    question = logins.question("https://h.example/t/s3cr3tT0k3n/simple/demo/", "https://h.example/")
    assert question is not None
    assert question.services == ("h.example",)


# --- runs in this process ---------------------------------------------------------------------------------------------


@pytest.fixture
def resolving(tmp_path, stored, user):
    found = Resolving(tmp_path / "user")
    found.env = stored.env
    return found


def refused(resolving, index, **env):
    """What a user reads of an index that stays closed."""
    resolving.env = {**resolving.env, **env}
    with pytest.raises(ChannelUnavailableError) as caught:
        resolving.resolve("demo-app", index=index)
    assert caught.value.exit_code == 6
    assert "--keyring-provider" in caught.value.hint
    text = f"{caught.value.message} {caught.value.hint} {resolving.told.text}"
    assert SECRET not in text
    assert files_with_a_secret(resolving.folder) == set()
    return caught.value.message


@pytest.mark.nginx
@pytest.mark.parametrize("env", [{"PIP_KEYRING_PROVIDER": "disabled"}, {"PIP_NO_INPUT": "1"}], ids=["disabled", "auto"])
def test_a_keyring_that_is_not_asked(private, stored, resolving, env):
    """By its setting, and ``auto`` where pip may not ask the user for anything, as in pip."""
    host = private.base().partition("://")[2]
    stored.put(host, "me", SECRET)
    assert refused(resolving, f"{private.base()}/simple", **env).endswith("refuses (status 401)")
    assert stored.questions == []


@pytest.mark.nginx
def test_a_token_as_user_name_is_no_argument(private, stored, resolving, tmp_path):
    """``https://TOKEN@host/``: the library's process gets it by its stdin."""
    seen = tmp_path / "arguments"
    (stored.folder / "sitecustomize.py").write_text(
        f"import sys\nwith open({str(seen)!r}, 'a') as file:\n    print(sys.orig_argv, file=file)\n", encoding="utf-8"
    )
    refused(resolving, f"{private.base()}/simple".replace("://", f"://{SECRET}@"))
    assert stored.questions[0][1] == SECRET
    assert "import keyring" in seen.read_text(encoding="utf-8")
    assert SECRET not in seen.read_text(encoding="utf-8")


@pytest.mark.nginx
def test_keyrings_that_bring_nothing(tmp_path, private, stored, resolving):
    """The reason is named, and nothing that the keyring said."""
    host, index = private.base().partition("://")[2], f"{private.base()}/simple"
    assert "has no login for it" in refused(resolving, index)
    assert stored.questions == [(f"{index}/", None), (host, None)]
    stored.put(host, "me", "wr0ng")
    assert "the login from the keyring is refused" in refused(resolving, index)
    stored.put(host, "me", f"{SECRET}\r\nX-Header: {SECRET}")
    assert "control character" in refused(resolving, index)
    stored.does(f"raise {SECRET}")
    assert "failed (RuntimeError)" in refused(resolving, index)
    assert "gave no login" in refused(resolving, index, PIP_KEYRING_PROVIDER="subprocess")
    assert "keyring is on PATH" in refused(resolving, index, PIP_KEYRING_PROVIDER="subprocess", PATH="/usr/bin:/bin")
    if os.name == "posix":
        program = tmp_path / "bin" / "keyring"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho '{SECRET} is no answer'\n", encoding="utf-8")
        program.chmod(0o755)
        said = refused(resolving, index, PIP_KEYRING_PROVIDER="subprocess", PATH=f"{program.parent}:/usr/bin:/bin")
        assert "an answer that cannot be read" in said
        program.write_text("#!/bin/sh\ncat /dev/zero\n", encoding="utf-8")
        assert "an answer that cannot be read" in refused(resolving, index)


@pytest.mark.nginx
@pytest.mark.skipif(os.name == "nt", reason="a program that is a script")
def test_an_ipv6_mirror_gets_no_login():
    """Brackets and port are no part of the host that is compared."""
    base = "https://[2001:db8::1]:8443/simple"
    logins = IndexLogins(excluded=frozenset({host_name(RedactedUrl(base))}))
    assert logins.question(f"{base}/demo/", f"{base}/demo/") is None


def test_an_older_program(tmp_path, private, resolving, wheels):
    """One that knows no ``--mode`` (exit code 2) is asked for the password of the user in the URL."""
    program = tmp_path / "bin" / "keyring"
    program.parent.mkdir()
    service = f"{private.base()}/simple/"
    program.write_text(
        f'#!/bin/sh\ntest "$1" = get || exit 2\ntest "$2 $3" = "{service} me" && echo "{SECRET}"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    resolving.env = {"PIP_KEYRING_PROVIDER": "subprocess", "PATH": path}
    found = resolving.resolve("demo-app", index=service.replace("//", "//me@", 1))
    assert {each.filename for each in found.artifacts} == {wheel.filename for wheel in wheels}


@pytest.mark.nginx
def test_a_mirror_gets_no_login(private, stored, resolving):
    """The keyring has one for the host of a mirror that only mirrors.toml names: it is not asked."""
    stored.put(private.base().partition("://")[2], "me", SECRET)
    resolving.mirror("lab", pypi_simple=f"{private.base()}/simple")
    resolving.origins = {"pypi:simple": "http://127.0.0.1:9/simple"}
    with pytest.raises(ChannelUnavailableError, match="401"):
        resolving.resolve("demo-app")
    assert stored.questions == []


# --- one exchange -----------------------------------------------------------------------------------------------------


@pytest.fixture
def keyring_for(stored):
    """``keyring_for("https://host/simple")`` gives a Keyring over the stored one."""
    made = []

    def make(*indexes, memory=None, provider="import", **settings):
        logins = IndexLogins(indexes=tuple(map(RedactedUrl, indexes)))
        env = {**os.environ, **stored.env}
        keyring = Keyring(provider, logins, memory or KeyringMemory(), python=Path(sys.executable), env=env, **settings)
        made.append(keyring)
        return keyring

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def opened():
    """``opened(keyring)`` gives a transport, closed at the end."""
    made = []

    def make(keyring, **settings):
        made.append(HttpTransport(NetworkSettings(**settings), keyring=keyring))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def tiny():
    """``tiny(handler)`` gives a server, stopped at the end."""
    made = []

    def make(handler):
        made.append(TinyServer(handler))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def wants_login(conn, request):
    conn.sendall(answer(b"x" if request.headers.get("authorization") == BASIC else b"no", *_status(request)))


def _status(request):
    return () if request.headers.get("authorization") == BASIC else (401,)


def test_threads_wait_for_one_answer(stored, keyring_for, opened, tiny):
    """Eight requests are refused at once; later requests, of other transports too, have the login from the start."""
    together, memory = threading.Barrier(8), KeyringMemory()

    def handler(conn, request):
        if "authorization" not in request.headers:
            together.wait(60)
        wants_login(conn, request)

    server = tiny(handler)
    index = f"{server.base}/simple"
    stored.put(f"{index}/", "me", SECRET)
    transport = opened(keyring_for(index, memory=memory))
    with ThreadPoolExecutor(8) as pool:
        bodies = list(pool.map(lambda number: body_of(transport, f"{index}/p{number}/"), range(8)))
    assert bodies == [b"x"] * 8
    assert stored.questions == [(f"{index}/", None)]
    assert len(server.requests) == 16
    assert body_of(opened(keyring_for(index, memory=memory)), f"{index}/p9/") == b"x"
    assert (len(server.requests), len(stored.questions)) == (17, 1)


def test_the_login_stays_at_its_origin(stored, keyring_for, opened, tiny):
    """A redirect to another server takes nothing along."""
    other = tiny(lambda conn, _: conn.sendall(answer(b"x")))

    def handler(conn, request):
        if request.headers.get("authorization") == BASIC:
            conn.sendall(answer(b"", 302, Location=f"{other.base}/f"))
        else:
            conn.sendall(answer(b"", 401))

    server = tiny(handler)
    stored.put(f"{server.base}/simple/", "me", SECRET)
    assert body_of(opened(keyring_for(f"{server.base}/simple")), f"{server.base}/simple/f") == b"x"
    assert ["authorization" in request.headers for request in (*server.requests, *other.requests)] == [
        False,
        True,
        False,
    ]


def test_a_refusal_has_its_reason(stored, keyring_for, opened, tiny):
    """The body of a 401 is read before the keyring is asked; a caller that reads it again waits for nothing."""
    server = tiny(wants_login)
    response = opened(keyring_for(f"{server.base}/simple")).exchange(ask(f"{server.base}/simple/")).open()
    assert response.head.status == 401
    assert response.head.login.endswith("has no login for it")
    assert b"".join(response.chunks()) == b""


def test_netrc_before_the_keyring(tmp_path, stored, keyring_for, opened, tiny):
    """As in pip: netrc's login completes a user name and is tried first; the keyring is asked if it is refused."""
    server = tiny(wants_login)
    index = f"{server.base.replace('//', '//me@')}/simple"
    path = tmp_path / "netrc"
    path.write_text(f"machine localhost login me password {SECRET}\n", encoding="utf-8")
    assert body_of(opened(keyring_for(index), netrc_path=path), f"{index}/") == b"x"
    assert stored.questions == []
    path.write_text("machine localhost login me password old\n", encoding="utf-8")
    stored.put(f"{server.base}/simple/", "me", SECRET)
    transport = opened(keyring_for(index), netrc_path=path)
    assert body_of(transport, f"{index}/") == b"x"
    assert body_of(transport, f"{index}/") == b"x"
    assert [request.headers.get("authorization") == BASIC for request in server.requests] == [True, False, True, True]


# --- keyrings that hang -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["import", "subprocess"])
def test_a_keyring_that_hangs(stored, keyring_for, provider):
    """At the time-out it is ended with its child, the reason is said, and it is not asked again in this run."""
    if os.name == "nt":
        pytest.skip("Windows ends no grandchildren")
    stored.does("hang")
    keyring = keyring_for(provider=provider, patience=5.0)
    while not stored.pids:  # a slow machine may need more than the time-out to start it
        keyring = keyring_for(provider=provider, patience=keyring._patience * 2)
        found = keyring.ask("https://h.example/x", "https://h.example/x", lambda: False)
    assert found.login is None
    assert f"did not answer within {keyring._patience:g} s" in found.why
    assert all(has_ended(pid) for pid in stored.pids)
    assert DEFAULTS.unreached_give_up > pip_keyring.PATIENCE  # else a silent host would be named as the reason
    stored.reset()
    stored.does("answer")
    assert keyring.ask("https://i.example/x", "https://i.example/x", lambda: False) == found
    assert stored.questions == []


@pytest.mark.skipif(os.name == "nt", reason="SIGINT")
def test_ctrl_c_ends_the_question(stored, user, tiny):
    """While a keyring waits for its user, Ctrl-C ends the run, the keyring, and the keyring's child."""
    server = tiny(wants_login)
    stored.does("hang")
    wanted = ["--pip", "demo-app", "--index-url", f"{server.base}/simple"]
    env = {**stored.env, "NO_PROXY": "127.0.0.1,localhost"}
    with user.start("fetch", *user.options, *wanted, env=env) as process:
        deadline = time.monotonic() + 120
        while not stored.pids:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        done = finish(process)
    assert done.code == 130, done.err
    assert "Traceback" not in done.err
    assert all(has_ended(pid) for pid in stored.pids)


# --- files without a page ---------------------------------------------------------------------------------------------


@pytest.mark.nginx
def test_a_lock_file(tmp_path, private, user, stored, wheels):
    """No index is read: the first refusal is that of a wheel, and two wheels need one question."""
    host = private.base().partition("://")[2]
    stored.put(host, "me", SECRET)
    lock = tmp_path / "pylock.toml"
    text = 'lock-version = "1.0"\ncreated-by = "a test"\n'
    for wheel in wheels:
        text += f'[[packages]]\nname = "{wheel.name}"\nversion = "1.0"\n[[packages.wheels]]\n'
        text += f'url = "{private.base()}/{wheel.url_path}"\nhashes = {{sha256 = "{wheel.sha256}"}}\n'
    lock.write_text(text, encoding="utf-8")
    done = user.fetch("--file", lock, "--json", env=stored.env)
    assert done.code == 0, done.err
    assert set(done.statuses) == {wheel.filename for wheel in wheels}
    assert stored.questions == [(host, None)]
    assert files_with_a_secret(user.folder) == set()
    closed = user.fetch("--file", lock, "--wheel-dir", user.folder / "w", "--keyring-provider", "disabled", "--json")
    assert closed.code == 1
    assert "refuses (status 401)" in closed.err
    assert "--keyring-provider" in closed.err


# --- bundles ----------------------------------------------------------------------------------------------------------


@pytest.mark.nginx
def test_a_bundle_has_no_secret(private, user, stored, wheels):
    """Its wheels came with the keyring's login, which is in none of its files."""
    host = private.base().partition("://")[2]
    stored.put(host, "me", SECRET)
    options = ["--mirrors", user.folder / "mirrors.toml", "--index-url", f"http://me@{host}/simple", "--python", "3.10"]
    out = user.folder / "bundle"
    done = user.run("bundle", "create", *options, "--pip", "demo-app", "-o", out, env=stored.env)
    assert done.code == 0, done.err
    assert {path.name for path in (out / "wheels").iterdir()} == {wheel.filename for wheel in wheels}
    assert SECRET not in done.out + done.err
    assert files_with_a_secret(user.folder) == set()
