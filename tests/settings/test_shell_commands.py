"""A command that is shown does, when pasted, what was meant: whatever the names in it, in each shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from resume_dl.shell_commands import Shell, Step, activation, command_line, quote_word, shell_of, this_shell

HOSTILE = [
    "plain",
    "a b",
    "o'clock",
    "typographic \u2019quote\u2018",
    "$HOME",
    "%PATH%",
    "100% of %x",
    "`id`",
    "a & b | c > d < e",
    "(x) ^ !y!",
    "环境 ü",
    "a;b,c=d",
    "-x.y",
    "1.0",
    "@list",
    "~",
    "C:\\a b\\",
    "C:\\plain\\path.txt",
]
WITH_MARK = ['say "hi"', 'a\\"b & c', '%x"%y']
SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ.get('WHO', ''), os.getcwd()]))"


def run_in(shell: list[str], line: str) -> list[object]:
    env = {**os.environ, "PYTHONUTF8": "1"}
    done = subprocess.run([*shell, line], env=env, capture_output=True, check=True, timeout=120)
    return list(json.loads(done.stdout))


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
def test_a_posix_shell_takes_every_name(tmp_path):
    folder = tmp_path / "a 'b' $c `d` & 环"
    folder.mkdir()
    words, value = [*HOSTILE, *WITH_MARK, "", "line\nend"], "a 'b' $c \"%d\" & 环"
    step = Step((sys.executable, "-c", SHOW, *words), [("WHO", value)], str(folder))
    assert run_in(["sh", "-c"], command_line([step], Shell.POSIX)) == [words, value, str(folder)]


@pytest.mark.skipif(sys.platform != "win32", reason="cmd.exe")
def test_cmd_takes_every_name(tmp_path):
    """``cmd /c`` reads a line as the prompt does, and takes the first and the last quotation mark away with ``/s``."""
    folder = tmp_path / "a 'b' $c & 环 %x%"
    folder.mkdir()
    script = tmp_path / "show.py"
    script.write_text(SHOW, encoding="utf-8")
    words, value = [*HOSTILE, *WITH_MARK], "a 'b' $c %d% & 环"
    step = Step((sys.executable, str(script), *words), [("WHO", value)], str(folder))
    done = subprocess.run(
        f'cmd /s /c "{command_line([step], Shell.CMD)}"', capture_output=True, check=False, timeout=120
    )
    assert json.loads(done.stdout) == [words, value, str(folder)], (done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("word", "cmd", "powershell"),
    [
        ("plain", "plain", "plain"),
        ("--file", "--file", "--file"),
        ("C:\\a\\b.txt", "C:\\a\\b.txt", "C:\\a\\b.txt"),
        ("a b", '"a b"', "'a b'"),
        ("o'clock", '"o\'clock"', "'o''clock'"),
        ("\u2019", '"\u2019"', "'\u2019\u2019'"),
        ("$HOME", '"$HOME"', "'$HOME'"),
        ("`id`", '"`id`"', "'`id`'"),
        ("a&b", '"a&b"', "'a&b'"),
        ("100%", '"100"%""', "'100%'"),
        ("a\\%PATH%", '"a\\\\"%"PATH"%""', "'a\\%PATH%'"),
        ("环境", '"环境"', "'环境'"),
        ("1.0", '"1.0"', "'1.0'"),
        ("-x.y", '"-x.y"', "'-x.y'"),
        ("a,b", '"a,b"', "'a,b'"),
        ("", '""', "''"),
        ("C:\\a b\\", '"C:\\a b\\\\"', "'C:\\a b\\'"),
        ('say "hi"', '^"say \\^"hi\\^"^"', "'say \\\"hi\\\"'"),
    ],
)
def test_words_of_windows(word, cmd, powershell):
    assert (quote_word(word, Shell.CMD), quote_word(word, Shell.POWERSHELL)) == (cmd, powershell)


def test_steps_depend_on_each_other():
    """PowerShell 5 has no ``&&``; ``set`` and ``NAME=value`` make no variable of the environment there."""
    conda = Step(("conda", "create", "--name", "NAME"), [("CONDA_PKGS_DIRS", "D:\\p q"), ("CONDA_SUBDIR", "win-64")])
    pip = Step(("C:\\a b\\python.exe", "-m", "pip"), folder="D:\\it's")
    assert command_line([conda, pip], Shell.POSIX) == (
        "CONDA_PKGS_DIRS='D:\\p q' CONDA_SUBDIR=win-64 conda create --name NAME"
        " && cd 'D:\\it'\"'\"'s' && 'C:\\a b\\python.exe' -m pip"
    )
    assert command_line([conda, pip], Shell.CMD) == (
        'set "CONDA_PKGS_DIRS=D:\\p q" && set "CONDA_SUBDIR=win-64" && conda create --name NAME'
        ' && cd /d "D:\\it\'s" && "C:\\a b\\python.exe" -m pip'
    )
    assert command_line([conda, pip], Shell.POWERSHELL) == (
        "$env:CONDA_PKGS_DIRS='D:\\p q'; $env:CONDA_SUBDIR='win-64'; if ($?) { conda create --name NAME; if ($?) {"
        " Set-Location -LiteralPath 'D:\\it''s'; if ($?) { & 'C:\\a b\\python.exe' -m pip } } }"
    )
    assert [command_line([], shell) for shell in Shell] == ["", "", ""]


def test_an_environment_is_activated_in_each_shell():
    assert activation("/a b/bin/activate", Shell.POSIX) == ". '/a b/bin/activate'"
    assert activation("C:\\a b\\Scripts\\activate", Shell.CMD) == '"C:\\a b\\Scripts\\activate"'
    assert activation("C:\\it's\\Scripts\\activate", Shell.POWERSHELL) == "& 'C:\\it''s\\Scripts\\Activate.ps1'"


@pytest.mark.parametrize(
    ("programs", "shell"),
    [
        (["python.exe", "resume-dl.exe", "powershell.exe", "explorer.exe"], Shell.POWERSHELL),
        (["python.exe", "pwsh.exe", "WindowsTerminal.exe"], Shell.POWERSHELL),
        (["python.exe", "CMD.EXE", "powershell.exe"], Shell.CMD),
        (["C:\\Program Files\\Git\\usr\\bin\\bash.exe", "cmd.exe"], Shell.POSIX),
        (["python.exe", "explorer.exe"], Shell.CMD),
        ([], Shell.CMD),
    ],
)
def test_the_shell_is_the_nearest_one_above_us(programs, shell):
    assert shell_of(programs) is shell


def test_this_machine_has_one():
    """Windows names the programs above a process; whatever started these tests is none of the shells, or is one."""
    assert this_shell() in ({Shell.POSIX} if sys.platform != "win32" else set(Shell))


@pytest.mark.skipif(sys.platform != "win32", reason="cmd.exe")
def test_cmd_is_seen_above_a_process():
    ask = (
        "from resume_dl.shell_commands import this_shell, _programs_above as above; print(this_shell().name, *above())"
    )
    done = subprocess.run(
        ["cmd", "/c", sys.executable, "-c", ask], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split()[0] == "CMD"
    assert "cmd.exe" in done.stdout.lower()
