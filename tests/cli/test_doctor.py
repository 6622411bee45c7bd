"""``resume-dl doctor``: the object, the page and the exit code."""

from __future__ import annotations

import json

import pytest

from resume_dl.cli.main import main


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine of the user's own files only; no conda is run, no server asked."""
    condarc = tmp_path / "condarc"
    for name, value in {
        "HOME": tmp_path,
        "USERPROFILE": tmp_path,
        "CONDARC": condarc,
        "RESUME_DL_CONDA": "none",
        "RESUME_DL_CONFIG_DIR": tmp_path / "config",
        "RESUME_DL_CACHE_DIR": tmp_path / "cache",
        "RESUME_DL_STATE_DIR": tmp_path / "state",
        "https_proxy": "http://u:secret@127.0.0.1:9",
        "PIP_CONFIG_FILE": tmp_path / "pip.conf",
        "PATH": "",
    }.items():
        monkeypatch.setenv(name, str(value))
    for name in ("CONDA_PREFIX", "VIRTUAL_ENV", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return condarc


def test_the_object_and_the_exit_code(machine, capsys):
    machine.write_text("channels: ['https://mirrors.tuna.tsinghua.edu.cn/anaconda/cloud/nvidia', \"\\e[2J\"]\n")
    assert main(["doctor", "--offline", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["schema"], said["command"], said["ok"], said["exit_code"]) == (1, "doctor", False, 1)
    assert {frozenset(each) for each in said["checks"]} == {frozenset({"name", "status", "text", "command"})}
    (retired,) = [each for each in said["checks"] if each["name"] == "condarc"]
    assert (retired["status"], "conda config" in retired["command"]) == ("problem", True)
    assert "secret" not in json.dumps(said)


def test_the_page_in_ascii(machine, capsys, monkeypatch):
    machine.write_text("channels: [conda-forge]\nssl_verify: false\n")
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["doctor", "--offline"]) == 1
    page = capsys.readouterr().out
    assert "problem  tls" in page
    assert "run: conda config --set ssl_verify true" in page
    assert "secret" not in page
    assert "\x1b" not in page
