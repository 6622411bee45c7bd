"""How values of options are read, and which of them each command has."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import subprocess
import sys

import click
import pytest
from click.shell_completion import ShellComplete

from resume_dl.cli import group
from resume_dl.cli.bundle_create import command as create
from resume_dl.cli.bundle_install import command as install_bundle
from resume_dl.cli.fetch import command as fetch
from resume_dl.cli.get import command as get
from resume_dl.cli.help_sections import SECTIONS, SectionedCommand
from resume_dl.cli.main import main
from resume_dl.cli.options import Duration, Rate
from resume_dl.cli.pip import install
from resume_dl.cli.run import show_errors
from resume_dl.errors import EXIT_CODE_PRECEDENCE, ResumeDLError, worst_exit_code
from resume_dl.settings.config import OPTIONS


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("2M", 2e6), ("500k", 5e5), ("1.5m", 1.5e6), ("1G", 1e9), ("12345", 12345.0), ("2MB/s", 2e6), ("2 MiB", 2e6),
        (2000, 2000.0), ("0.5k", 500.0), (" 2M ", 2e6),
    ],
)  # fmt: skip
def test_rates(text, rate):
    """Bytes a second, in powers of ten."""
    assert Rate().convert(text, None, None) == rate


@pytest.mark.parametrize("text", ["", "fast", "-1", "0", "0k", "2T", "2 M M", "inf", "nan", "1e3", "k", True])
def test_no_rates(text):
    """Anything else is refused, and the message shows how to write one."""
    with pytest.raises(click.BadParameter, match="500k or 2M"):
        Rate().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86400), ("never", math.inf), ("NEVER", math.inf),
     ("0.5s", 0.5), (600, 600.0), ("1.5 m", 90), ("0", 0)],
)  # fmt: skip
def test_durations(text, seconds):
    """Seconds; never is infinity."""
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5", "5w", "1h30m", "inf", "s", "10 minutes", True])
def test_no_durations(text):
    """Anything else is refused, and the message shows how to write one."""
    with pytest.raises(click.BadParameter, match="90s, 10m, 2h or never"):
        Duration().convert(text, None, None)


def test_every_option_has_its_variable():
    """Each long option reads RESUME_DL_<NAME>."""
    for option in fetch.params:
        if isinstance(option, click.Option) and option.name != "help":
            long = next(name for name in option.opts if name.startswith("--"))
            assert option.envvar == "RESUME_DL_" + long[2:].replace("-", "_").upper()


def test_every_option_can_be_set_in_the_config_file():
    """config.toml knows each option of fetch by its long name, and no other."""
    names = {option.name for option in fetch.params if isinstance(option, click.Option)}
    longs = {
        next(name for name in option.opts if name.startswith("--"))[2:].replace("-", "_")
        for option in fetch.params
        if isinstance(option, click.Option)
    }
    assert names == longs
    assert names - {"help"} == set(OPTIONS)


def test_interface_options_are_there():
    """What docs/interface.md promises for fetch from this version on."""
    promised = {
        "channel", "override_channels", "platform", "no_deps", "only_deps", "file", "virtual_package", "cuda",
        "channel_priority", "pkgs_dir", "dest", "no_extract", "dry_run", "prefix", "name", "solver", "lock", "mirrors",
        "mirror", "no_upstream", "connections", "per_host", "limit_rate", "json", "progress", "give_up_after",
        "no_wait", "quiet", "verbose", "debug", "offline",
    }  # fmt: skip
    assert promised <= {option.name for option in fetch.params}


def test_exit_codes_order():
    """When several hold: 130, 70, 5, 4, 3, 6, 1; and none is 0."""
    assert worst_exit_code([]) == 0
    order = [130, 70, 5, 4, 3, 6, 1]
    assert list(EXIT_CODE_PRECEDENCE[:7]) == order
    for number, code in enumerate(order):
        assert worst_exit_code([*order[:number:-1], code]) == code
    assert worst_exit_code([99]) == 70


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"], ["fetch", "--help"], ["fetch", "-h"]])
def test_help_and_version(capsys, arguments, monkeypatch, tmp_path):
    """Help and version end in 0, on stdout alone, even beside a broken config.toml."""
    monkeypatch.setenv("RESUME_DL_CONFIG_DIR", str(tmp_path))
    (tmp_path / "config.toml").write_text("= broken")
    assert main(arguments) == 0
    shown = capsys.readouterr()
    assert shown.out
    assert shown.err == ""


@pytest.mark.parametrize("arguments", [["fecth"], ["fetch", "a", "--nope"], ["fetch"], ["--nope"]])
def test_wrong_usage(capsys, arguments, monkeypatch, tmp_path):
    """Wrong usage ends in 2 with a reason on stderr, stdout empty."""
    monkeypatch.setenv("RESUME_DL_CONFIG_DIR", str(tmp_path))
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Error: " in shown.err or "error: " in shown.err


def test_a_wrong_value_names_the_config_file(capsys, monkeypatch, tmp_path):
    """The message names config.toml, not only an option that nobody gave."""
    monkeypatch.setenv("RESUME_DL_CONFIG_DIR", str(tmp_path))
    (tmp_path / "config.toml").write_text("connections = 99\n")
    assert main(["fetch", "x"]) == 2
    assert str(tmp_path / "config.toml") in capsys.readouterr().err
    assert main(["fetch", "x", "--connections", "98"]) == 2
    assert "config.toml" not in capsys.readouterr().err


def test_shared_advice_is_given_once(capsys):
    """Each failure has its line; the same hint follows the last of them only."""
    show_errors([ResumeDLError("a", hint="look"), ResumeDLError("b", hint="wait"), ResumeDLError("c", hint="look")])
    assert capsys.readouterr().err == "error: a\nerror: b\n  wait\nerror: c\n  look\n"


def test_every_listed_command_is_there():
    """No name in the help leads nowhere."""
    for name in group.COMMANDS:
        context = click.Context(group.cli)
        assert isinstance(group.cli.get_command(context, name), click.Command)
    assert group.cli.get_command(click.Context(group.cli), "nothing") is None


def test_the_help_of_fetch_has_five_sections_and_three_examples():
    """In this order; every option is listed once, and the specs are not taken for one."""
    text = fetch.get_help(click.Context(fetch, info_name="resume-dl fetch"))
    parts = [line[:-1] for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert parts == [*SECTIONS, "Examples"]
    listed = [
        line.split()[0 if line.split()[0].startswith("--") else 1]
        for line in text.splitlines()
        if line[:4].strip().startswith("-")
    ]
    longs = [
        next(name for name in each.opts if name.startswith("--"))
        for each in fetch.params
        if isinstance(each, click.Option)
    ]
    assert sorted(listed) == sorted([*longs, "--help"])
    assert "[SPEC]..." not in text.partition("What:")[2]
    assert len(fetch.examples) == 3


@pytest.mark.parametrize("command", [fetch, get, create, install_bundle, install], ids=lambda each: each.name)
def test_examples_of_the_help_are_valid(command, tmp_path, monkeypatch):
    """Each is parsed by the command that shows it, and is shown as it is."""
    assert isinstance(command, SectionedCommand)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torch").mkdir()
    for name in ("environment.yml", "target.json", "torch.tar"):
        (tmp_path / name).touch()
    text = command.get_help(click.Context(command, info_name="x", max_content_width=100))
    assert len(command.examples) == 3
    for example in command.examples:
        assert f"  {example}\n" in f"{text}\n"
        words = shlex.split(example)
        at = words.index(command.name) + 1
        command.make_context("x", words[at:])


def test_help_takes_the_names_of_commands(capsys, monkeypatch, tmp_path):
    """As --help of that command, of nested ones too, and beside a broken config.toml."""
    monkeypatch.setenv("RESUME_DL_CONFIG_DIR", str(tmp_path))
    (tmp_path / "config.toml").write_text("= broken")
    for words in ([], ["get"], ["bundle", "create"]):
        assert main([*words, "--help"]) == 0
        wanted = capsys.readouterr().out
        assert main(["help", *words]) == 0
        assert capsys.readouterr().out == wanted
    assert main(["help", "bundel"]) == 2
    assert "did you mean bundle?" in capsys.readouterr().err
    assert main(["help", "get", "more"]) == 2


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["fecth"], "did you mean fetch?"),
        (["bundle", "creat"], "did you mean create?"),
        (["xyzzy"], "commands: fetch,"),
    ],
)
def test_an_unknown_command_names_the_nearest(words, hint, capsys, monkeypatch, tmp_path):
    """One that resembles no other lists them."""
    monkeypatch.setenv("RESUME_DL_CONFIG_DIR", str(tmp_path))
    assert main(words) == 2
    assert hint in capsys.readouterr().err


def test_short_options(capsys):
    """-V is --version; -q and -v are --quiet and --verbose of the commands that download."""
    assert main(["-V"]) == 0
    assert capsys.readouterr().out.startswith("resume-dl, version ")
    for command in (fetch, get, create):
        shorts = {name: each.name for each in command.params for name in each.opts}
        assert (shorts["-q"], shorts["-v"]) == ("quiet", "verbose")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_prints_the_shells_script(shell, capsys, monkeypatch, tmp_path):
    """How to install it, then the script, which asks this program; beside a broken config.toml too."""
    monkeypatch.setenv("RESUME_DL_CONFIG_DIR", str(tmp_path))
    (tmp_path / "config.toml").write_text("= broken")
    assert main(["completion", shell]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("# ")
    assert "_RESUME_DL_COMPLETE" in shown
    assert f"{shell}_complete" in shown
    assert "%(" not in shown


@pytest.mark.skipif(sys.platform == "win32" or shutil.which("bash") is None, reason="needs bash and a POSIX script")
def test_completion_completes_in_bash(tmp_path):
    """The script is sourced by a real bash, whose function then finds commands and options."""
    program = tmp_path / "resume-dl"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m resume_dl "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(resume-dl completion bash)"; complete -p resume-dl; COMP_WORDS=(resume-dl "$1" "$2"); '
        'COMP_CWORD=$3; _resume_dl_completion resume-dl; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    for first, second, number, wanted in (("ver", "", 1, "verify"), ("get", "--sha", 2, "--sha256")):
        env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-c", script, "bash", first, second, str(number)],
            capture_output=True, text=True, check=True, timeout=120, env=env,
        )  # fmt: skip
        assert done.stdout.splitlines()[1:] == [wanted], done.stderr


@pytest.mark.parametrize(
    ("words", "incomplete", "wanted"),
    [(["get", "--mirror"], "tun", "tuna"), (["fetch", "--index-from"], "ups", "upstream"),
     (["fetch", "--channel"], "pytor", "pytorch")],
)  # fmt: skip
def test_names_of_mirrors_and_channels_are_completed(words, incomplete, wanted, monkeypatch, tmp_path):
    """From the table; a broken one of the user completes nothing and fails nothing."""
    monkeypatch.setenv("RESUME_DL_CONFIG_DIR", str(tmp_path))
    complete = ShellComplete(group.cli, {}, "resume-dl", "_RESUME_DL_COMPLETE")
    assert wanted in [each.value for each in complete.get_completions(words, incomplete)]
    (tmp_path / "mirrors.toml").write_text("= broken")
    assert {each.value for each in complete.get_completions(words, incomplete)} <= {"upstream"}


@pytest.mark.parametrize(
    ("words", "incomplete", "wanted"),
    [
        (["fetch", "--platform"], "win-", ["win-32", "win-64", "win-arm64"]),
        (["fetch", "-n"], "", ["base", "other", "torch"]),
        (["bundle", "install", "x", "--name"], "to", ["torch"]),
        (["bundle", "install", "x", "--platform"], "osx-a", ["osx-arm64"]),
    ],
)
def test_platforms_and_environments_are_completed(words, incomplete, wanted, monkeypatch, tmp_path):
    """Environments are those that conda has noted; without its list there are none but base."""
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    (tmp_path / ".conda").mkdir()
    noted = [tmp_path / "conda" / "envs" / "torch", tmp_path / "x" / "envs" / "other", tmp_path / "conda"]
    (tmp_path / ".conda" / "environments.txt").write_text("\n".join(map(str, noted)))
    complete = ShellComplete(group.cli, {}, "resume-dl", "_RESUME_DL_COMPLETE")
    assert [each.value for each in complete.get_completions(words, incomplete)] == wanted
    found = complete.get_completions(["fetch", "-p"], str(tmp_path / "conda"))
    assert [each.value for each in found if each.type == "plain"] == [str(noted[0]), str(noted[2])]
    assert [each.type for each in found if each.type != "plain"] != []
    (tmp_path / ".conda" / "environments.txt").unlink()
    (tmp_path / ".conda" / "environments.txt").mkdir()
    assert [each.value for each in complete.get_completions(["fetch", "-n"], "")] == ["base"]


def completed(capsys, monkeypatch, words, incomplete):
    """What the script of PowerShell reads; nothing may come on stderr."""
    for name, value in (
        ("_RESUME_DL_COMPLETE", "powershell_complete"), ("COMP_WORDS", "\n".join(words)), ("COMP_CWORD", incomplete)
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    assert main([]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    return [line for line in shown.out.splitlines() if line]


def test_powershell_gets_values_with_their_help(capsys, monkeypatch, tmp_path):
    """One a line: value, tab, help. Words with blanks and other letters are whole."""
    monkeypatch.setenv("RESUME_DL_CONFIG_DIR", str(tmp_path))
    (line,) = completed(capsys, monkeypatch, ["resume-dl"], "resu")
    assert line.startswith("resume\t")
    lines = completed(capsys, monkeypatch, ["resume-dl", "get", "a b ü"], "--sha")
    assert [line.partition("\t")[0] for line in lines] == ["--sha256"]
    assert completed(capsys, monkeypatch, ["resume-dl", "fetch", "--file"], "x") == []  # left to PowerShell


def test_nothing_wrong_disturbs_a_completion(capsys, monkeypatch, tmp_path):
    """Broken settings, an unknown command, a name that is not UTF-8, an internal error: no line, no traceback, 0."""
    monkeypatch.setenv("RESUME_DL_CONFIG_DIR", str(tmp_path))
    for name in ("config.toml", "mirrors.toml"):
        (tmp_path / name).write_text("= broken")
    assert completed(capsys, monkeypatch, ["resume-dl", "fetch", "--mirror"], "tu") == []
    assert completed(capsys, monkeypatch, ["resume-dl", "fecth"], "x") == []
    if sys.platform != "win32":
        monkeypatch.setenv("RESUME_DL_MIRROR", "a\udcff")
    assert [line.partition("\t")[0] for line in completed(capsys, monkeypatch, ["resume-dl"], "resu")] == ["resume"]
    monkeypatch.setattr("resume_dl.settings.mirrors.load_mirrors", lambda **_: 1 / 0)
    assert completed(capsys, monkeypatch, ["resume-dl", "fetch", "--mirror"], "tu") == []
    monkeypatch.setenv("_RESUME_DL_COMPLETE", "noshell_complete")
    assert main([]) == 0
    assert capsys.readouterr() == ("", "")
