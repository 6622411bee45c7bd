"""``doctor``: gathering facts, with hostile servers, programs and files."""

from __future__ import annotations

import os
import socket

import pytest

from resume_dl.cli.doctor import lines_of, wrapped
from resume_dl.diagnosis.conda_probe import look_at_conda
from resume_dl.diagnosis.finding import problem
from resume_dl.diagnosis.folder_probe import look_at_folders
from resume_dl.diagnosis.gpu_probe import look_at_gpu
from resume_dl.diagnosis.network_probe import NetworkProbe, questions, skew_of
from resume_dl.diagnosis.settings_probe import look_at_settings
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.http import ResponseHead
from resume_dl.model.network import NetworkSettings
from resume_dl.offline_tools.machine import programs
from resume_dl.progress.text_width import width
from resume_dl.settings.mirrors import load_mirrors
from resume_dl.settings.paths import Paths

posix = pytest.mark.skipif(os.name == "nt", reason="a script stands for a program")


@pytest.fixture
def silent():
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/noarch/repodata.json"


def test_a_server_that_never_answers_is_silent_and_ends(silent):
    probe = NetworkProbe([("a", silent, False)], NetworkSettings(), seconds=0.3)
    (answer,) = probe.answers()
    assert answer.silent or answer.trouble


def test_a_server_is_asked_for_one_byte(fault_server):
    server = fault_server()
    server.put("/noarch/repodata.json", b"x" * 5000)
    url = f"{server.base()}/noarch/repodata.json"
    (answer,) = NetworkProbe([("a", url, True)], NetworkSettings(), seconds=60).answers()
    assert (answer.status, answer.trouble, answer.portal) == (206, "", False)
    assert {each.range for each in server.requests()} == {"bytes=0-0"}


def test_every_active_mirror_is_asked_once():
    table = load_mirrors()
    asked = questions(table)
    names = [name for name, _, canonical in asked if not canonical]
    assert names == [mirror.name for mirror in table.mirrors if mirror.active]
    assert [name for name, _, canonical in asked if canonical] == [
        "conda.anaconda.org",
        "repo.anaconda.com",
    ]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"date": "Thu, 01 Jan 1970 00:10:00 GMT"}, 590.0),
        ({"date": "Thu, 01 Jan 1970 00:10:00 GMT", "age": "100"}, 690.0),
        ({"date": "Thu, 01 Jan 1970 00:10:00 GMT", "age": "-5"}, 590.0),
        ({"date": "Thu, 99 Foo 99999"}, None),
        ({}, None),
    ],
)
def test_the_clock_of_a_server(headers, expected):
    assert skew_of(ResponseHead(200, headers), 10.0) == expected


@posix
def test_a_conda_that_prints_far_too_much_is_read_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "MOST_BYTES", 1000)
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nhead -c 100000 /dev/zero\necho 'resume-dl-doctor:{}'\n")
    python.chmod(0o755)
    facts = look_at_conda(CondaSettings(conda_executable=tmp_path / "conda", root_prefix=tmp_path), dict(os.environ))
    assert (facts.python, facts.answer) == (str(python), None)


@posix
def test_a_conda_that_hangs_is_ended(tmp_path):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    python.chmod(0o755)
    conda = CondaSettings(conda_executable=tmp_path / "conda", root_prefix=tmp_path)
    assert look_at_conda(conda, dict(os.environ), timeout=0.5).answer is None


def test_the_driver_of_the_kernel_module(tmp_path):
    module = tmp_path / "version"
    module.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  450.80.02  Wed Sep 23 01:13:39 UTC 2020\n")
    assert look_at_gpu({"PATH": ""}, module).driver == "450.80.02"
    module.write_bytes(b"\xff\x1b[2J" * 500)
    assert look_at_gpu({"PATH": ""}, module).driver == ""


def test_folders_leave_nothing_behind(tmp_path):
    cache, environments = tmp_path / "pkgs", tmp_path / "envs"
    cache.mkdir()
    environments.mkdir()
    paths = Paths(tmp_path, tmp_path, tmp_path)
    facts = look_at_folders(CondaSettings(pkgs_dirs=(cache,), envs_dirs=(environments,)), paths)
    assert (facts.cache, facts.links, facts.refusal) == (str(cache), True, "")
    assert [*cache.iterdir(), *environments.iterdir()] == []


@posix
def test_a_cache_that_everyone_can_write_is_named(tmp_path):
    cache = tmp_path / "pkgs"
    cache.mkdir()
    cache.chmod(0o777)
    facts = look_at_folders(CondaSettings(pkgs_dirs=(cache,)), Paths(tmp_path, tmp_path, tmp_path))
    assert facts.exposed_to_all


def test_settings_of_every_quality(tmp_path):
    condarc, pip = tmp_path / "condarc", tmp_path / "pip.conf"
    pip.write_text("[global]\nindex-url = http://pypi.tuna.tsinghua.edu.cn/simple\n")
    env = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path), "CONDARC": str(condarc), "PIP_CONFIG_FILE": str(pip)}
    for text, troubles in ((b"channels: [https://x/y]\n", 0), (b"\x81\xff: [", 1), (b"a: [" * 3000, 1)):
        condarc.write_bytes(text)
        facts = look_at_settings(CondaSettings(), env)
        assert [name for name, _ in facts.troubles] == ["condarc"] * troubles
        assert [each.key for each in facts.addresses if each.client == "pip"] == ["global.index-url"]
    pip.write_text("[global\n")
    assert "pip.conf" in [name for name, _ in look_at_settings(CondaSettings(), env).troubles]


LONG = problem(
    "condarc", "一个很长的路径 " * 9 + "\x1b[2J https://u:secret@h/x end", "conda config --set a b" + " c" * 60
)


@pytest.mark.parametrize("columns", [39, 79, 99])
def test_the_page_fits_and_its_command_stays_whole(columns):
    *lines, command = lines_of(LONG, columns)
    assert all(width(line) <= columns for line in lines)
    assert command.endswith("run: " + LONG.command)
    assert "\x1b" not in "".join(lines)
    assert "secret" not in "".join(lines)


def test_a_text_without_blanks_has_one_line():
    assert [*wrapped("a" * 200, 10)] == ["a" * 200]
