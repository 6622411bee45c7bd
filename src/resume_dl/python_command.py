"""Command lines that run a Python of this machine: for resume-dl and for the offline tools (Python 3.8). Pure."""

from __future__ import annotations

from typing import Mapping


def isolated_command(python: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs ``python`` for a task of ours, with ``arguments`` after its options.

    ``-I``: no module of the current folder, no ``PYTHON*`` variable and no user site folder changes what runs. ``-X
    utf8``: it reads, writes and prints UTF-8, and does not fail over a path that the system's code page lacks.
    """
    return (python, "-I", "-X", "utf8", *arguments)


def users_command(python: str, *arguments: str) -> tuple[str, ...]:
    """The same for a question about the user's own packages: PYTHONPATH and the user's site folder count.

    It runs with ``utf8_output``, in a folder without modules of others.
    """
    return (python, "-X", "utf8", *arguments)


def module_arguments(module: str, *, before: str = "") -> tuple[str, str]:
    """The arguments that make a Python run ``module`` as ``-m`` does, without the current folder on ``sys.path``.

    ``python -m pip`` runs ``./pip/__main__.py`` if there is one. ``-P`` exists from 3.11 only, and ``-I`` would also
    leave out PYTHONPATH and the user's site folder, where pip itself may be. Not ``-X utf8`` for pip and conda: they
    read pip.ini and condarc in the code page of the system, where the user has written them (``tolerant_output``).
    ``before`` is a statement to run first.
    """
    # Nothing but sys, which is built in, is imported while the folder is still on the path.
    start = "import sys; sys.path[:] = [place for place in sys.path if place]; "
    then = f"{before}; " if before else ""
    return "-c", f"{start}{then}import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"


def utf8_output(env: Mapping[str, str]) -> dict[str, str]:
    """``env`` for a Python whose output we read: PYTHONIOENCODING would outweigh ``-X utf8``."""
    return {**env, "PYTHONIOENCODING": "utf-8:backslashreplace"}


def tolerant_output(env: Mapping[str, str]) -> dict[str, str]:
    """``env`` for pip or conda whose output the user reads: in its encoding, which may lack letters of a path."""
    encoding = env.get("PYTHONIOENCODING", "").partition(":")[0]
    return {**env, "PYTHONIOENCODING": f"{encoding}:backslashreplace"}
