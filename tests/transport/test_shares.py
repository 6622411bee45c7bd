"""A Windows share gets the user's login with the first request: only those that the user names are asked."""

from __future__ import annotations

import pytest

from resume_dl.errors import NetworkError
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.http import RangeRequest
from resume_dl.model.url import RedactedUrl, share_hosts, unc_host
from resume_dl.settings.network import load_network
from resume_dl.transport import file_transport
from resume_dl.transport.file_transport import FileExchange

SPELLINGS = [
    "file://evil/s/a.conda",
    "file://EVIL/s/a.conda",
    "FILE://evil/s/a.conda",
    "file:////evil/s/a.conda",
    "file://///evil/s/a.conda",
    "file:///%5C%5Cevil/s/a.conda",
    "file:///%2F%2Fevil/s/a.conda",
    "file://localhost//evil/s/a.conda",
    "file://localhost/%5Cevil%5Cs%5Ca.conda",
]
DEVICES = ["file:////%3F/UNC/evil/s/a.conda", "file:////./UNC/evil/s", "file://./UNC/evil/s"]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a Windows machine would open."""
    paths: list[str] = []
    monkeypatch.setattr(file_transport, "_WINDOWS", True)
    monkeypatch.setattr(file_transport, "_opened", lambda path: paths.append(str(path)))
    return paths


@pytest.mark.parametrize("url", SPELLINGS + DEVICES)
def test_no_other_share_is_asked_however_it_is_spelt(opened: list[str], url: str) -> None:
    """Not even opened: the login would be gone by then."""
    for shares in (frozenset[str](), frozenset({"mine"})):
        with pytest.raises(NetworkError, match=r"your settings do not name"):
            FileExchange(RangeRequest(RedactedUrl(url), whole=True), shares).open()
    assert opened == []


@pytest.mark.parametrize("url", SPELLINGS)
def test_one_that_is_named_is_asked_however_it_is_spelt(opened: list[str], url: str) -> None:
    for named in (["--channel=file://Evil/c"], [r"\\evil\c"], ["-c", "//evil/c"], [url]):
        assert FileExchange(RangeRequest(RedactedUrl(url), whole=True), share_hosts(named)).open().head.status == 404
    assert len(opened) == 4


def test_files_of_this_machine_are_read(opened: list[str]) -> None:
    for url in ("file:///C:/a", "file:///D%3A/a", "file://localhost/C:/a"):
        FileExchange(RangeRequest(RedactedUrl(url), whole=True)).open()
    assert len(opened) == 3


def test_what_is_no_share() -> None:
    texts = ["https://host/x", "file:///C:/x", "C:\\\\x", "a//b", "python=3.10//x", "file:", "file://[", "//?/C:/x"]
    assert share_hosts(texts) == frozenset()
    assert [unc_host(path) for path in ("C:/a", "/a", "a//b", "//h/s", r"\\H\s")] == ["", "", "", "h", "h"]


def test_the_users_settings_name_shares() -> None:
    conda = CondaSettings(
        source="files",
        subdir="win-64",
        channels=("file://one/c",),
        default_channels=(RedactedUrl("file://two/c"),),
        custom_channels={"x": RedactedUrl("file://three/c")},
        custom_multichannels={"y": (RedactedUrl("file://four/c"),)},
        channel_alias=RedactedUrl("file://five"),
    )
    env = {"PIP_FIND_LINKS": r"\\six\wheels", "CONDA_CHANNELS": "file://seven/c", "HOME": "/", "OTHER": "file://no/c"}
    names = {"one", "two", "three", "four", "five", "six", "seven", "eight"}
    assert load_network(env, conda, ["get", "file://eight/f"]).shares == names
