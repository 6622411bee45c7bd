"""``resume-dl pip config``: measured mirrors, the lines of pip.conf, and what the real pip makes of them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from faults.behaviours import Latency, NeverAnswer, Page
from resume_dl.app import pip_config
from resume_dl.app.pip_config import Timed, advise, apply, retired_mirrors
from resume_dl.errors import ConfigurationError, Interrupted, NotWritableError
from resume_dl.model.mirror import MirrorTable
from resume_dl.model.pip import PipIndexes
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.mirrors import load_mirrors
from resume_dl.settings.pip_find import find_python
from resume_dl.settings.pip_settings import load_pip_settings
from resume_dl.transfer.setup import Setup, TransferOptions, load_setup
from settings.users_machine import Machine
from support.fetching import User

PAGE = b'<!DOCTYPE html><html><body><a href="../../packages/pip-1-py3-none-any.whl">pip</a></body></html>'
INSTEAD = "which is retired: use tuna, ustc, sjtu or aliyun"


@pytest.fixture
def wheels(machine: Machine) -> Path:
    return machine.folder / "wheels"


def setup_of(machine: Machine, bases: dict[str, str], **options: object) -> Setup:
    """Mirrors of these names, each with an index of its own below its base; nobody else is asked."""
    text = "schema = 1\n"
    for name, base in bases.items():
        text += f'[[mirror]]\nname = "{name}"\n[mirror.carries]\n"pypi:simple" = "{base}/simple"\n'
    file = machine.folder / "mirrors.toml"
    file.write_text(text, encoding="utf-8")
    return load_setup(TransferOptions(mirrors_file=file, upstream=False, **options), machine.env)


def offline(machine: Machine, *names: str) -> Setup:
    return setup_of(machine, {name: f"https://{name}.example" for name in names or ("one", "two")}, offline=True)


def pip_conf(machine: Machine) -> Path:
    return machine.home / ".config" / "pip" / "pip.conf"


def test_mirrors_are_sorted_by_speed_with_failing_ones_last(
    machine: Machine, fault_server, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is asked once, at the same time; slow, closed, silent and a portal's page."""
    monkeypatch.setattr(pip_config, "_TIMEOUT", 3.0)
    server = fault_server(ports=5)
    server.put("/simple/pip/", PAGE)
    server.always(0, Latency(1.0))
    server.always(2, Page())
    server.always(3, NeverAnswer())
    server.close_port(4)
    names = ("slow", "quick", "portal", "silent", "closed")
    advice = advise(setup_of(machine, {name: server.base(at) for at, name in enumerate(names)}), wheels)
    assert [one.mirror for one in advice.timed] == ["quick", "slow", "portal", "silent", "closed"]
    assert [one.seconds is None for one in advice.timed] == [False, False, True, True, True]
    assert advice.settings == (("index-url", (RedactedUrl(f"{server.base(1)}/simple"),)), ("find-links", (wheels,)))
    assert sorted(request.port for request in server.requests()) == [0, 1, 2, 3]
    assert advice.lines()[1:] == ("[global]", f"index-url = {server.base(1)}/simple", f"find-links = {wheels}")
    assert "no answer: portal, silent, closed" in advice.lines()[0]


def test_a_stop_ends_it(machine: Machine, fault_server, wheels: Path) -> None:
    """Ctrl-C while nobody answers."""
    server = fault_server()
    server.always(0, NeverAnswer())
    with pytest.raises(Interrupted):
        advise(setup_of(machine, {"silent": server.base(0)}), wheels, cancelled=lambda: bool(server.requests()))


def test_no_mirror_answers(machine: Machine, fault_server, wheels: Path) -> None:
    """The table's order, and that is said."""
    server = fault_server(ports=1)
    server.close_port(0)
    advice = advise(setup_of(machine, {"gone": server.base(0)}), wheels)
    assert advice.settings[0][0] == "index-url"
    assert "no mirror answered" in advice.notes[0]


def test_offline_sends_no_request(machine: Machine, wheels: Path) -> None:
    """The first of the table."""
    advice = advise(offline(machine), wheels)
    assert advice.lines() == (
        "# not measured: offline",
        "[global]",
        "index-url = https://one.example/simple",
        f"find-links = {wheels}",
    )


def test_a_private_index_stays(machine: Machine, wheels: Path) -> None:
    """What is no known mirror may hold packages that no mirror has; its password is not shown."""
    machine.write(".config/pip/pip.conf", "[global]\nindex-url = https://me:hush@corp.example/simple\n")
    advice = advise(offline(machine), wheels)
    assert [name for name, _ in advice.settings] == ["find-links"]
    assert "index-url stays https://***@corp.example/simple" in advice.notes[1]
    assert "hush" not in "".join(advice.lines()) + json.dumps(advice.as_json()) + repr(advice)


def test_the_default_index_may_be_the_quickest() -> None:
    """Then nothing is set; over a mirror that was set, its address is."""
    table = MirrorTable({"pypi:simple": "https://up.example/simple"}).merge(load_mirrors())
    timed = (
        Timed("upstream", RedactedUrl("https://up.example/simple"), 0.1),
        Timed("x", RedactedUrl("https://x"), 0.2),
    )
    assert pip_config._index(timed, PipIndexes(), table)[0] is None
    mirror = next(mirror for mirror in table.mirrors if "pypi:simple" in mirror.carries)
    now = PipIndexes(index_url=RedactedUrl(mirror.carries["pypi:simple"]))
    assert pip_config._index(timed, now, table)[0] == RedactedUrl("https://up.example/simple")


# --------------------------------------------------------------------------- --apply


@pytest.mark.parametrize("has_pip", [True, False])
def test_apply_writes_what_the_real_pip_then_uses(
    machine: Machine, wheels: Path, has_pip: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By pip itself, or without one; what the user had stays; done twice it changes nothing."""
    if not find_python(machine.env).has_pip:
        pytest.skip("the tests' own Python has no pip")
    if not has_pip:
        _take_pip_away(monkeypatch)
    file = machine.write(
        ".config/pip/pip.conf",
        "[global]\ntimeout = 60\nfind-links = https://old.example/f.html\n[list]\nformat = json\n",
    )
    setup = offline(machine)
    for _ in range(2):
        assert apply(advise(setup, wheels), setup, wheels) == (file, ())
    found = load_pip_settings(machine.env)
    assert found.indexes.index_url == RedactedUrl("https://one.example/simple")
    assert found.indexes.find_links == (RedactedUrl("https://old.example/f.html"), wheels)
    assert wheels.is_dir()
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list", "--user"],
        env=machine.env,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert sorted(listed) == [
        f"global.find-links='https://old.example/f.html {wheels}'",
        "global.index-url='https://one.example/simple'",
        "global.timeout='60'",
        "list.format='json'",
    ]


def _take_pip_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    monkeypatch.setattr(pip_config, "find_python", lambda env: replace(find_python(env), has_pip=False))
    monkeypatch.setattr(pip_config, "default_index", lambda *_, **__: RedactedUrl("https://up.example/simple"))


def test_a_file_that_is_not_there_is_made_for_its_user_alone(
    machine: Machine, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may come to hold a password."""
    _take_pip_away(monkeypatch)
    setup = offline(machine)
    file, _ = apply(advise(setup, wheels), setup, wheels)
    assert file == pip_conf(machine)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [*file.parent.iterdir()] == [file]


def test_a_login_stays_and_goes_over_no_command_line(machine: Machine, wheels: Path, tmp_path: Path) -> None:
    """The words of a command can be read by everyone on the machine: such a value is written without pip."""
    runs = tmp_path / "runs"
    venv = _venv_with_spy(tmp_path / "venv", runs)
    machine.env["VIRTUAL_ENV"] = str(venv)
    page = "https://me:hush@corp.example/f.html"
    file = machine.write(".config/pip/pip.conf", f"[global]\nfind-links = {page}\n")
    file.chmod(0o640)
    setup = offline(machine)
    advice = advise(setup, wheels)
    assert "hush" not in "".join(advice.lines())
    apply(advice, setup, wheels)
    assert load_pip_settings(machine.env).indexes.find_links == (RedactedUrl(page), wheels)
    assert file.stat().st_mode & 0o777 == 0o640
    assert "global.index-url" in runs.read_text(encoding="utf-8")
    assert "hush" not in runs.read_text(encoding="utf-8")


def test_the_file_is_on_the_disk_before_it_has_its_name(
    machine: Machine, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut leaves pip's old settings or the new ones, and never an empty file."""
    _take_pip_away(monkeypatch)
    happened: list[str] = []

    def note(name: str) -> None:
        real = getattr(os, name)

        def noting(*words: object, **more: object) -> object:
            is_folder = name == "fsync" and stat.S_ISDIR(os.fstat(words[0]).st_mode)
            happened.append("fsync of the folder" if is_folder else name)
            return real(*words, **more)

        monkeypatch.setattr(os, name, noting)

    note("fsync")
    note("replace")
    setup = offline(machine)
    advice = advise(setup, wheels)
    happened.clear()
    apply(advice, setup, wheels)
    assert happened[:3] == ["fsync", "replace", "fsync of the folder"]


def _venv_with_spy(folder: Path, runs: Path) -> Path:
    """An environment whose Python writes down the words that it is run with, and has the tests' own pip."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$@" >> {runs}\nexec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return folder


def test_a_folder_with_a_blank_is_one_word_for_pip(machine: Machine) -> None:
    """pip parts values at blanks."""
    wheels = machine.folder / "my wheels"
    setup = offline(machine)
    apply(advise(setup, wheels), setup, wheels)
    assert "my%20wheels" in pip_conf(machine).read_text(encoding="utf-8")
    assert load_pip_settings(machine.env).indexes.find_links == (wheels,)


def test_settings_with_higher_precedence_are_named(machine: Machine, wheels: Path) -> None:
    """A variable, or a section for the command."""
    machine.write(".config/pip/pip.conf", "[install]\nindex-url = https://two.example/simple\n")
    machine.env["PIP_FIND_LINKS"] = "/elsewhere"
    setup = offline(machine)
    file, overruled = apply(advise(setup, wheels), setup, wheels)
    assert overruled == (
        f"index-url was written to {file}, but {file} overrides it",
        f"find-links was written to {file}, but PIP_FIND_LINKS overrides it",
    )


def test_pip_that_reads_no_settings(machine: Machine, wheels: Path) -> None:
    """PIP_CONFIG_FILE may switch them off: nothing is written anywhere."""
    machine.env["PIP_CONFIG_FILE"] = os.devnull
    setup = offline(machine)
    with pytest.raises(ConfigurationError, match="reads no settings"):
        apply(advise(setup, wheels), setup, wheels)


@pytest.mark.parametrize("has_pip", [True, False])
def test_settings_that_cannot_be_written(
    machine: Machine, wheels: Path, has_pip: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 5, with the file's name."""
    if not has_pip:
        _take_pip_away(monkeypatch)
    machine.write(".config/pip", "a file where the folder should be")
    setup = offline(machine)
    with pytest.raises(NotWritableError, match=r"pip/pip\.conf"):
        apply(advise(setup, wheels), setup, wheels)


# --------------------------------------------------------------------------- retired mirrors


def test_a_retired_mirror_is_named_with_what_to_use_instead(machine: Machine, wheels: Path) -> None:
    """Where it stands, and once; the shipped table knows them."""
    file = machine.write(
        ".config/pip/pip.conf",
        "[global]\nindex-url = http://pypi.douban.com/simple/\n"
        "extra-index-url = https://pypi.hustunique.com/simple https://pypi.tuna.tsinghua.edu.cn/simple\n",
    )
    table = load_mirrors()
    settings = load_pip_settings(machine.env)
    told = retired_mirrors(settings.indexes, table, settings.origins)
    hust = "Huazhong University of Science and Technology"
    assert told == (
        f"index-url in {file} names http://pypi.douban.com/simple (Douban), {INSTEAD}",
        f"extra-index-url in {file} names https://pypi.hustunique.com/simple ({hust}), {INSTEAD}",
    )
    setup = load_setup(TransferOptions(offline=True), machine.env)
    advice = advise(setup, wheels)
    assert advice.warnings == told
    assert advice.settings[0] == ("index-url", (RedactedUrl("https://pypi.tuna.tsinghua.edu.cn/simple"),))


def test_a_command_line_setting_has_no_file() -> None:
    """The address and its mirror."""
    indexes = PipIndexes(index_url=RedactedUrl("https://pypi.sdutlinux.org/simple"))
    assert retired_mirrors(indexes, load_mirrors())[0].startswith(
        "index-url names https://pypi.sdutlinux.org/simple (Shan"
    )


# --------------------------------------------------------------------------- as a command


def test_the_command(tmp_path: Path, fault_server) -> None:
    """stdout is what belongs into pip.conf, or one JSON object; warnings stand beside it; --apply writes."""
    server = fault_server()
    server.put("/simple/pip/", PAGE)
    index = f"{server.base(0)}/simple"
    user = User(tmp_path / "user")
    gone = '\n[[mirror]]\nname = "old"\nstatus = "retired"\nnote = "use near"\n[mirror.carries]\n'
    table = user.write_mirrors({"near": {"pypi:simple": index}})
    table.write_text(
        f'{table.read_text(encoding="utf-8")}{gone}"pypi:simple" = "https://o.invalid"\n', encoding="utf-8"
    )
    conf = user.folder / "pip.conf"
    conf.write_text("[global]\nindex-url = https://o.invalid\n", encoding="utf-8")
    call = ("pip", "config", "--mirrors", table, "--no-upstream", "--wheel-dir", user.folder / "wheels")
    env = {"PIP_CONFIG_FILE": str(conf)}

    done = user.run(*call, env=env)
    assert done.code == 0, done.err
    assert f"\n[global]\nindex-url = {index}\nfind-links = " in done.out
    assert done.err == f"warning: index-url in {conf} names https://o.invalid (old), which is retired: use near\n"
    assert index not in conf.read_text(encoding="utf-8")

    report = user.run(*call, "--apply", "--json", env=env).report
    assert report["ok"]
    assert report["written"] == str(conf)
    assert report["settings"]["index-url"] == [index]
    assert [(each["name"], each["seconds"] is not None) for each in report["mirrors"]] == [("near", True)]
    assert f"index-url = {index}\n" in conf.read_text(encoding="utf-8")


def test_the_users_own_defaults_hold(tmp_path: Path) -> None:
    """config.toml, as for every command."""
    user = User(tmp_path / "user")
    table = user.write_mirrors({"near": {"pypi:simple": "https://near.invalid/simple"}})
    user.own["config"].mkdir()
    text = f"mirrors = '{table}'\noffline = true\nwheel-dir = '{user.folder / 'w'}'\njson = true\n"
    (user.own["config"] / "config.toml").write_text(text, encoding="utf-8")
    done = user.run("pip", "config", env={"PIP_CONFIG_FILE": os.devnull})
    assert done.code == 0, done.err
    assert done.report["settings"] == {
        "index-url": ["https://near.invalid/simple"],
        "find-links": [str(user.folder / "w")],
    }
