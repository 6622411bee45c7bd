"""Arguments to run a module of another Python in the user's folder, from which ``-m`` would import."""

from __future__ import annotations


def module_arguments(module: str, *, before: str = "") -> tuple[str, str]:
    """The arguments that make a Python run ``module`` as ``-m`` does, without the current folder on ``sys.path``.

    ``python -m pip`` runs ``./pip/__main__.py`` if there is one. ``-P`` exists from 3.11 only, and ``-I`` would also
    leave out PYTHONPATH and the user's site folder, where pip itself may be. ``before`` is a statement to run first.
    """
    # Nothing but sys, which is built in, is imported while the folder is still on the path.
    start = "import sys; sys.path[:] = [place for place in sys.path if place]; "
    then = f"{before}; " if before else ""
    return "-c", f"{start}{then}import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
