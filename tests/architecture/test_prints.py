"""What others wrote reaches the screen through one function, ``progress.console.presentable``."""

from __future__ import annotations

import ast
from pathlib import Path

import resume_dl
from resume_dl.trace.__main__ import main

ROOT = Path(resume_dl.__file__).parent
PRINTING = {"cli/run.py", "cli/probe.py"}
"""The one place of the command line, where each text is made presentable; and a script of ours or a profile in ASCII,
which ``probe`` gives out as bytes. ``Console`` has its stream from its caller."""
OF_ITS_OWN = ("offline_tools/",)
"""They run without this package, and have a function of their own (``shown``)."""
CALLS = {"print", "echo", "secho"}
STREAMS = {"stdout", "stderr", "buffer", "tqdm"}


def prints(source: str) -> list[int]:
    """Lines that write to the screen what is neither a constant nor made presentable in the same call."""
    found = []
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        path = ast.unparse(call.func).split(".")
        is_stream = path[-1] in {"write", "writelines"} and path[-2:-1] and path[-2] in STREAMS
        if (path[-1] in CALLS or is_stream) and not all(map(is_harmless, call.args)):
            found.append(call.lineno)
    return sorted(found)


def is_harmless(argument: ast.expr) -> bool:
    """Whether it cannot hold what others wrote."""
    if isinstance(argument, ast.Call):
        return ast.unparse(argument.func).rpartition(".")[2] == "presentable"
    return isinstance(argument, ast.Constant)


def test_texts_are_printed_by_the_one_place():
    found = {
        name: lines
        for path in sorted(ROOT.rglob("*.py"))
        if (lines := prints(path.read_text(encoding="utf-8")))
        and (name := path.relative_to(ROOT).as_posix()) not in PRINTING
        and not name.startswith(OF_ITS_OWN)
    }
    assert found == {}


def test_the_check_sees_what_is_printed():
    """Every spelling is found; constants and presentable texts pass."""
    bad = ["print(a)", "click.echo(f'{a}')", "sys.stderr.write(a)", "sys.stdout.buffer.write(a)", "tqdm.write(a)"]
    good = ["print()", "print('stopped', file=sys.stderr)", "print(presentable(a))", "console.write(a)"]
    assert prints("\n".join(bad + good)) == [1, 2, 3, 4, 5]


def test_a_name_in_the_picture_of_a_trace_drives_no_terminal(tmp_path, capfd):
    """Its name is the user's own choice, or that of a folder that came with the trace."""
    missing = tmp_path / "a\x1b]0;title\x07b"
    assert main([str(missing)]) != 0
    said = capfd.readouterr()
    assert "title" in said.err
    assert "\x1b" not in said.err + said.out
