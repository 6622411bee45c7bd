"""conda's plugin: what conda is about to download is handed to it instead, verified, from disk or from every mirror.

conda imports this module at every command, so it defines hooks and imports nothing else of ours; the work is in the
modules beside it, and all that depends on conda's version in ``compat``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from conda import CondaError
from conda.common.configuration import PrimitiveParameter
from conda.plugins import hookimpl
from conda.plugins.types import (
    CondaHealthCheck,
    CondaPostSolve,
    CondaPreCommand,
    CondaPreSolve,
    CondaSetting,
    CondaSubcommand,
)


@hookimpl
def conda_pre_solves() -> Iterator[CondaPreSolve]:
    """Act before conda asks for its channels' indexes."""
    yield CondaPreSolve(name="resume-dl", action=_before_solve)


@hookimpl
def conda_post_solves() -> Iterator[CondaPostSolve]:
    """Act before conda prints its plan, asks, and downloads."""
    yield CondaPostSolve(name="resume-dl", action=_after_solve)


@hookimpl
def conda_pre_commands() -> Iterator[CondaPreCommand]:
    """Act before conda installs packages that are named by their addresses, or reads indexes without a solve."""
    commands = {"create", "install", "update", "env_update"}  # env create is "create" where it reads such lists
    commands |= {"search", "env_create"}
    yield CondaPreCommand(name="resume-dl", action=_before_command, run_for=commands)


@hookimpl
def conda_settings() -> Iterator[CondaSetting]:
    """What users may set under ``plugins:``; all are texts, so that we report a wrong one and conda goes on."""
    text = {
        "resume_dl_prefetch": ("ask, always or never: fetch packages ahead of conda", "ask"),
        "resume_dl_min_size": ("leave commands that download less than this to conda, as 10MB", "0"),
        "resume_dl_mirrors": ("a mirrors.toml to use instead of the shipped and your own", ""),
        "resume_dl_index": ("auto or never: fetch channel indexes ahead of conda", "auto"),
    }
    for name, (description, default) in text.items():
        yield CondaSetting(name, description, PrimitiveParameter(default, element_type=str))


@hookimpl
def conda_subcommands() -> Iterator[CondaSubcommand]:
    """``conda resume-dl …`` is the command line: conda hands over all that follows, unread."""
    summary = "Fetch packages over bad lines: resumable, from every mirror, verified."
    yield CondaSubcommand(name="resume-dl", summary=summary, action=_command_line)


@hookimpl
def conda_health_checks() -> Iterator[CondaHealthCheck]:
    """What ``conda doctor`` says of the package caches; no other command asks."""
    from resume_dl.conda_plugin.doctor import health_check

    yield health_check()


@hookimpl(optionalhook=True)
def conda_error_hints(error: Any) -> Iterator[Any]:
    """What goes on after conda's own error; condas before 26 do not know this hook, and do not ask."""
    from resume_dl.conda_plugin.hints import hints

    yield from hints(error)


def _before_command(command: str) -> None:
    """Import the rest only where files or archives are named; an altered local archive alone stops conda."""
    from conda.base.context import context

    with _left_to_conda(CondaError):
        arguments = context._argparse_args  # noqa: SLF001 - the one place that has them, in all versions
        if command in {"search", "env_create"}:
            from resume_dl.conda_plugin.solver_indexes import fetch_for_command

            fetch_for_command(command, arguments)
            return
        named = " ".join(arguments.get("packages") or ())
        if arguments.get("file") or ".conda" in named or ".tar.bz2" in named:
            from resume_dl.conda_plugin.explicit import before_command

            before_command(command)


def _before_solve(specs_to_add: Any, specs_to_remove: Any) -> None:
    """Import the rest only now; whatever goes wrong, conda asks for its indexes by itself (this is the net)."""
    from conda.base.context import context

    with _left_to_conda():
        if context.plugins.resume_dl_index == "never":
            return
        from resume_dl.conda_plugin.solver_indexes import fetch_for_solver

        fetch_for_solver(specs_to_add, specs_to_remove)


def _after_solve(repodata_fn: str, unlink_precs: tuple[Any, ...], link_precs: tuple[Any, ...]) -> None:
    """Import the rest only now, and let nothing of ours stop conda but an altered local archive (this is the net)."""
    del repodata_fn, unlink_precs
    if "resume_dl.conda_plugin.index_hold" in sys.modules:
        from resume_dl.conda_plugin.index_hold import end_hold

        end_hold()
    if not link_precs:
        return
    from conda.base.context import context

    with _left_to_conda(CondaError):
        from resume_dl.conda_plugin.glance import unsettled

        if records := unsettled(link_precs, context.pkgs_dirs):
            from resume_dl.conda_plugin.post_solve import after_solve

            after_solve(records)


def _command_line(arguments: tuple[str, ...]) -> int:
    from resume_dl.conda_plugin.subcommand import run

    return run(arguments)


@contextmanager
def _left_to_conda(*passing: type[Exception]) -> Iterator[None]:
    """Report an exception in one line, but for those in ``passing``: conda does by itself what is left."""
    try:
        yield
    except passing:
        raise
    except Exception as error:  # noqa: BLE001 - no defect of the plugin may stop conda
        with suppress(Exception):  # an installation that is broken has not even this
            from resume_dl.conda_plugin.saying import in_one_line, say_failure

            say_failure(f"nothing is fetched ({in_one_line(error)}); conda goes on by itself", error)
