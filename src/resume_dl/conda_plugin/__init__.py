"""Entry points of the conda plugin, which supplies verified packages and indexes before conda would download them.

conda imports this module at every command, so it defines the hooks and nothing else; each hook imports its module when
it is called. What depends on the version of conda is in ``compat``.
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
    """Register the action that runs before conda requests channel indexes."""
    yield CondaPreSolve(name="resume-dl", action=_before_solve)


@hookimpl
def conda_post_solves() -> Iterator[CondaPostSolve]:
    """Register the action that runs before conda prints its plan, prompts and downloads."""
    yield CondaPostSolve(name="resume-dl", action=_after_solve)


@hookimpl
def conda_pre_commands() -> Iterator[CondaPreCommand]:
    """Register the action for commands that install packages by URL or read indexes without a solve."""
    commands = {"create", "install", "update", "env_update"}  # env create runs as "create" if it supports such lists
    commands |= {"search", "env_create"}
    yield CondaPreCommand(name="resume-dl", action=_before_command, run_for=commands)


@hookimpl
def conda_settings() -> Iterator[CondaSetting]:
    """Register the settings below ``plugins:``. All are strings, so that an invalid one does not stop conda."""
    text = {
        "resume_dl_prefetch": ("ask, always or never: fetch packages ahead of conda", "ask"),
        "resume_dl_min_size": ("leave commands that download less than this to conda, for example 10MB", "0"),
        "resume_dl_mirrors": ("a mirrors.toml to use instead of the built-in one and your own", ""),
        "resume_dl_index": ("auto or never: fetch channel indexes ahead of conda", "auto"),
    }
    for name, (description, default) in text.items():
        yield CondaSetting(name, description, PrimitiveParameter(default, element_type=str))


@hookimpl
def conda_subcommands() -> Iterator[CondaSubcommand]:
    """Register ``conda resume-dl …``, which passes its arguments on to the command line unparsed."""
    summary = "Fetch packages over unreliable networks: resumable, from every mirror, verified."
    yield CondaSubcommand(name="resume-dl", summary=summary, action=_command_line)


@hookimpl
def conda_health_checks() -> Iterator[CondaHealthCheck]:
    """Register the package cache check of ``conda doctor``."""
    from resume_dl.conda_plugin.doctor import health_check

    yield health_check()


@hookimpl(optionalhook=True)
def conda_error_hints(error: Any) -> Iterator[Any]:
    """Suggest how to continue after an error of conda. conda before 26 does not have this hook."""
    from resume_dl.conda_plugin.hints import hints

    yield from hints(error)


def _before_command(command: str) -> None:
    """Import the implementation only if files or archives are named. Only an altered local archive stops conda."""
    from conda.base.context import context

    with _failures_reported(CondaError):
        arguments = context._argparse_args  # noqa: SLF001 - the only place that has them in all versions
        if command in {"search", "env_create"}:
            from resume_dl.conda_plugin.solver_indexes import fetch_for_command

            fetch_for_command(command, arguments)
            return
        named = " ".join(arguments.get("packages") or ())
        if arguments.get("file") or ".conda" in named or ".tar.bz2" in named:
            from resume_dl.conda_plugin.explicit import before_command

            before_command(command)


def _before_solve(specs_to_add: Any, specs_to_remove: Any) -> None:
    """Import the implementation and run it. After any failure conda requests its indexes itself."""
    from conda.base.context import context

    with _failures_reported():
        if context.plugins.resume_dl_index == "never":
            return
        from resume_dl.conda_plugin.solver_indexes import fetch_for_solver

        fetch_for_solver(specs_to_add, specs_to_remove)


def _after_solve(repodata_fn: str, unlink_precs: tuple[Any, ...], link_precs: tuple[Any, ...]) -> None:
    """Import the implementation and run it. Only an altered local archive stops conda."""
    del repodata_fn, unlink_precs
    if "resume_dl.conda_plugin.index_hold" in sys.modules:
        from resume_dl.conda_plugin.index_hold import end_hold

        end_hold()
    if not link_precs:
        return
    from conda.base.context import context

    with _failures_reported(CondaError):
        from resume_dl.conda_plugin.cache_check import uncached

        if records := uncached(link_precs, context.pkgs_dirs):
            from resume_dl.conda_plugin.post_solve import after_solve

            after_solve(records)


def _command_line(arguments: tuple[str, ...]) -> int:
    from resume_dl.conda_plugin.subcommand import run

    return run(arguments)


@contextmanager
def _failures_reported(*passing: type[Exception]) -> Iterator[None]:
    """Report an exception in one line and let conda continue; types in ``passing`` propagate."""
    try:
        yield
    except passing:
        raise
    except Exception as error:  # noqa: BLE001 - no defect of the plugin may stop conda
        with suppress(Exception):  # in a broken installation even this import may fail
            from resume_dl.conda_plugin.messages import in_one_line, say_failure

            say_failure(f"nothing was fetched ({in_one_line(error)}); conda continues on its own", error)
