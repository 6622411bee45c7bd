"""What conda's process answers about a plugin's login is hostile until it is checked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from resume_dl.model.access import PluginLogin
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.settings import plugin_logins
from resume_dl.settings.plugin_logins import CondaLogins, checked

URL = "https://corp.example/a/noarch/repodata.json"
SECRET = "s3cr3tS3CR3T"


def answer(**changed: Any) -> dict[str, Any]:
    return {"url": URL, "headers": {"X-Corp": SECRET}, "by_handler": True, **changed}


def test_an_answer() -> None:
    """The headers of a login are taken; those that frame or select the response are ours alone."""
    ours = {"Range": "bytes=0-1", "Host": "evil.example", "Transfer-Encoding": "chunked", "Content-Length": "5"}
    login = checked(URL, answer(url=f"{URL}?sig={SECRET}", headers={"X-Corp": SECRET, **ours}), 1)
    assert isinstance(login, PluginLogin)
    assert (login.url.reveal(), dict(login.headers)) == (f"{URL}?sig={SECRET}", {"x-corp": SECRET})
    assert SECRET not in repr(login)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"error": SECRET + "\n"},
        {"error": ["RuntimeError"]},
        answer(by_handler=False),
        answer(url=None),
        answer(url=f"{URL}\r\nX-Evil: 1"),
        answer(url="https://" + "a" * 9000),
        answer(url="file:///etc/passwd"),
        answer(url=URL.replace("corp", "evil")),
        answer(url=URL.replace("https", "http")),
        answer(url=URL.replace("corp.example", "corp.example:444")),
        answer(url=URL.replace("corp.example", "[corp")),
        answer(headers=[["X-Corp", SECRET]]),
        answer(headers={"X-Corp": 5}),
        answer(headers={"X-Corp": f"{SECRET}\r\nX-Evil: 1"}),
        answer(headers={"X-Corp": f"{SECRET}\n"}),
        answer(headers={"X-Corp\r\nX-Evil": SECRET}),
        answer(headers={"X Corp": SECRET}),
        answer(headers={"": SECRET}),
        answer(headers={"X-Corp": "\u4f60"}),
        answer(headers={"X-Corp": "a" * 20_000}),
        answer(headers={f"X-{number}": "a" for number in range(100)}),
    ],
)
def test_hostile_answers(said: dict[str, Any]) -> None:
    """A wrong type, another server, a line break or too much of anything: no login, and no word of the answer."""
    why = checked(URL, said, 1)
    assert isinstance(why, str)
    assert SECRET not in why


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("import time; time.sleep(600)", "conda's plugin did not answer within 0.5 s"),
        ("pass", "conda's process ended"),
        ("print('a' * 1_000_000)", "the answer of conda's process is too long"),
        (
            "print('[]\\n{}\\nnull\\n{\"id\": 7}\\n' * 100, flush=True)\nimport time; time.sleep(600)",
            "the answer of conda's process is unreadable",
        ),
    ],
    ids=["silent", "ended", "long", "noise"],
)
def test_a_process_that_gives_no_answer(monkeypatch: pytest.MonkeyPatch, script: str, why: str) -> None:
    """It is asked once a run; the cause is told once a server."""
    monkeypatch.setattr(plugin_logins.pkgutil, "get_data", lambda *_: script.encode())
    conda = CondaSettings(conda_command=(sys.executable, "-m", "conda"))
    logins = CondaLogins(conda, lambda _: "", {}, timeout=0.5 if "did not" in why else 60)
    told: list[str] = []
    try:
        for name in ("a", "b"):
            url = RedactedUrl(f"https://corp.example/{name}.conda")
            assert logins.login(url, cancelled=lambda: False, warn=told.append) is None
            monkeypatch.setattr(plugin_logins.pkgutil, "get_data", pytest.fail)
    finally:
        logins.close()
    (text,) = told
    assert f"not available here: {why};" in text


def test_a_login_for_each_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin may sign each request: every URL is asked for, once; lines of others in the process are passed over."""
    script = """
import json, sys
print("hello", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    said = {"url": asked["url"], "headers": {"x-sig": asked["url"][-1] + asked["channel"]}, "by_handler": True}
    print(json.dumps({"id": asked["id"], **said}), flush=True)
"""
    monkeypatch.setattr(plugin_logins.pkgutil, "get_data", lambda *_: script.encode())
    conda = CondaSettings(conda_command=(sys.executable, "-m", "conda"))
    logins = CondaLogins(conda, lambda url: {"x.example": "ch", "y.example": ""}.get(url.host), {})

    def sent(url: str) -> object:
        login = logins.login(RedactedUrl(url), cancelled=lambda: False, warn=pytest.fail)
        return None if login is None else dict(login.headers)

    try:
        assert sent("https://x.example/1#sha256") == {"x-sig": "1ch"}
        assert sent("https://x.example/2") == {"x-sig": "2ch"}
        assert sent("https://x.example/1") == {"x-sig": "1ch"}
        assert sent("https://y.example/3") == {"x-sig": "3"}
        assert sent("https://other.example/4") is None
    finally:
        logins.close()


def test_a_renewal_in_vain_is_not_repeated_for_ever(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server that answers 403 for each missing file costs three processes, not one a file."""
    script = f"""
import json, os, sys
open({str(tmp_path)!r} + "/" + str(os.getpid()), "w").close()
for line in sys.stdin:
    asked = json.loads(line)
    said = {{"url": asked["url"], "headers": {{"x": "1"}}, "by_handler": True}}
    print(json.dumps({{"id": asked["id"], **said}}), flush=True)
"""
    monkeypatch.setattr(plugin_logins.pkgutil, "get_data", lambda *_: script.encode())
    conda = CondaSettings(conda_command=(sys.executable, "-m", "conda"))
    logins = CondaLogins(conda, lambda _: "ch", {})
    how = {"cancelled": lambda: False, "warn": pytest.fail}
    try:
        for number in range(6):
            url = RedactedUrl(f"https://x.example/{number}")
            login = logins.login(url, **how)
            assert login is not None
            logins.accepted(login)
            assert logins.renewed(login, url, **how) is None
    finally:
        logins.close()
    assert len(list(tmp_path.iterdir())) == 4


def test_no_conda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a conda nothing is started."""
    monkeypatch.setattr(plugin_logins.pkgutil, "get_data", pytest.fail)
    told: list[str] = []
    logins = CondaLogins(CondaSettings(), lambda _: "", {})
    assert logins.login(RedactedUrl(URL), cancelled=lambda: False, warn=told.append) is None
    assert "no conda answers on this machine" in told[0]
