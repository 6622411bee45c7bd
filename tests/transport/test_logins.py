"""Logins come from the URL or from netrc, for exactly one host, and a bad netrc costs a warning."""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path

import pytest

from resume_dl.transport.credentials import Logins
from transport.asking import body_of
from transport.tiny import TinyServer, answer


def basic(login: str) -> str:
    return "Basic " + base64.b64encode(login.encode()).decode()


def netrc_file(folder: Path, text: str) -> Path:
    path = folder / "netrc"
    path.write_text(text)
    return path


def test_netrc_is_looked_up_for_each_host(run, transport, tmp_path):
    """A redirect to another host takes that host's login, never the first one's."""
    file = run(TinyServer(lambda conn, _: conn.sendall(answer(b"x"))))
    there = file.base.replace("localhost", "127.0.0.1")
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(b"", 302, Location=f"{there}/f"))))
    path = netrc_file(tmp_path, "machine localhost login a password first\nmachine 127.0.0.1 login b password second\n")
    body_of(transport(netrc_path=path), f"{server.base}/f")
    assert server.requests[0].headers["authorization"] == basic("a:first")
    assert file.requests[0].headers["authorization"] == basic("b:second")


def test_the_urls_own_login_wins_and_is_decoded(tmp_path):
    """Userinfo is percent-decoded; an explicit one goes before netrc's."""
    logins = Logins(netrc_file(tmp_path, "machine h login a password first\n"), pytest.fail)
    assert logins.authorization("https://u%40x:p%3Aw@h/f") == basic("u@x:p:w")
    assert logins.authorization("https://H:8443/f") == basic("a:first")
    assert logins.authorization("https://other/f") is None


def test_a_login_may_lack_user_or_password(tmp_path):
    """A user name or a password alone, in the URL or in netrc, where ``account`` stands for a login."""
    logins = Logins(
        netrc_file(tmp_path, "machine a login me\nmachine b password secret\nmachine c account me\n"), print
    )
    assert logins.authorization("https://token@h/f") == basic("token:")
    assert logins.authorization("https://:secret@h/f") == basic(":secret")
    assert logins.authorization("https://a/f") == basic("me:")
    assert logins.authorization("https://b/f") == basic(":secret")
    assert logins.authorization("https://c/f") == basic("me:")
    assert logins.authorization("https://token@a/f") == basic("token:")


def test_the_default_entry_is_not_for_every_mirror(tmp_path):
    """A netrc default would hand a login to hosts that the user never named."""
    logins = Logins(netrc_file(tmp_path, "default login a password first\n"), pytest.fail)
    assert logins.authorization("https://h/f") is None
    assert logins.authorization("https://default/f") is None


def test_without_a_file_there_is_no_warning(tmp_path):
    """Most people have none."""
    assert Logins(tmp_path / "none", pytest.fail).authorization("https://h/f") is None
    assert Logins(None, pytest.fail).authorization("https://h/f") is None


@pytest.mark.parametrize(
    "content", [b"machine h login a passwort secret\n", b"machine \x81\xff login a\n", b"secret\n"]
)
def test_a_malformed_file_is_a_warning_without_its_content(tmp_path, content):
    """The file is named and nothing of what stands in it; 81 FF is no text in UTF-8, at 1252 and at 936."""
    path = tmp_path / "netrc"
    path.write_bytes(content)
    warnings: list[str] = []
    logins = Logins(path, warnings.append)
    assert logins.authorization("https://h/f") is None
    assert len(warnings) == 1
    assert str(path) in warnings[0]
    assert "secret" not in warnings[0]


@pytest.mark.skipif(sys.platform == "win32" or not hasattr(os, "geteuid"), reason="POSIX modes")
def test_a_file_open_to_others_is_used_as_it_is(tmp_path, run, transport):
    """Modes that the standard library would refuse in the default place do not stop a run."""
    path = netrc_file(tmp_path, "machine localhost login a password first\n")
    path.chmod(0o666)
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(b"x"))))
    body_of(transport(netrc_path=path, warn=pytest.fail), f"{server.base}/f")
    assert server.requests[0].headers["authorization"] == basic("a:first")


def test_a_folder_as_netrc_is_a_warning(tmp_path):
    """Whatever the system says about the file is a line, not a crash."""
    warnings: list[str] = []
    Logins(tmp_path, warnings.append)
    assert len(warnings) == 1
