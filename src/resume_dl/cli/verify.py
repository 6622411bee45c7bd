"""``resume-dl verify``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resume_dl.cli.help_sections import SectionedCommand
from resume_dl.cli.options import transfer_options
from resume_dl.cli.run import Cancelled, guarded, run, say, say_json, show_error, stopped, tell, transfer_of
from resume_dl.cli.summary import sums
from resume_dl.errors import IntegrityError

if TYPE_CHECKING:
    from resume_dl.app.cache_repair import RepairResult
    from resume_dl.app.cache_verification import Flaw, Verification
    from resume_dl.ports import Reporter
    from resume_dl.transfer.report import RunResult

_DIR = click.Path(path_type=Path, file_okay=False)
_EVERY = 5.0
"""Seconds between two lines of progress."""


@click.command("verify", cls=SectionedCommand, examples=("resume-dl verify", "resume-dl verify --repair --mirror tuna"))
@click.option("--pkgs-dir", "pkgs_dir", multiple=True, type=_DIR, help="Verify this package cache; repeatable.")
@click.option("--wheel-dir", "wheel_dir", multiple=True, type=_DIR, help="Verify this folder of wheels; repeatable.")
@click.option("--repair", is_flag=True, help="Fetch again what is damaged, and replace it.")
@transfer_options
def command(pkgs_dir: tuple[Path, ...], wheel_dir: tuple[Path, ...], *, repair: bool, **options: Any) -> int:
    """Hash everything in package caches and wheel folders, and name what is damaged.

    Without a folder: conda's and rattler's package caches and our own wheels. Without --repair nothing is changed. Exit
    code 4 if something is damaged, and was not repaired.
    """
    if repair:
        return _repair(pkgs_dir, wheel_dir, options)
    codes = [0]
    quiet, as_json = options["quiet"], options["json"]

    def call() -> None:
        from resume_dl.app.cache_verification import verify

        started = time.monotonic()
        caches, wheels = (pkgs_dir, wheel_dir) if pkgs_dir or wheel_dir else _default_places()
        found = verify(caches, wheels, progress=_Progress(tell, quiet=quiet))
        error = _error(found)
        codes.append(0 if error is None else error.exit_code)
        if as_json:
            say_json(_as_json(found, error, time.monotonic() - started))
        elif not quiet:
            _show(found)
        if error is not None:
            if quiet and not as_json:
                _show_flaws(found.damaged)
            show_error(error)

    return guarded("verify", call, as_json=as_json) or codes[-1]


def _repair(pkgs_dir: Sequence[Path], wheel_dir: Sequence[Path], options: Mapping[str, Any]) -> int:
    from resume_dl.app.cache_repair import RepairResult, repair

    made: list[RepairResult] = []

    def call(reporter: Reporter, cancelled: Cancelled) -> RunResult:
        from resume_dl.app.cache_verification import verify
        from resume_dl.transfer.setup import load_setup

        caches, wheels = (pkgs_dir, wheel_dir) if pkgs_dir or wheel_dir else _default_places()

        def progress(done: int, total: int) -> None:
            if cancelled():
                raise stopped()
            lines(done, total)

        lines = _Progress(reporter.message, quiet=False)
        found = verify([folder.absolute() for folder in caches], wheels, progress=progress)
        made.append(repair(found, load_setup(transfer_of(options), os.environ), reporter, cancelled=cancelled))
        if options["quiet"] and not options["json"]:
            _show_unrepaired(made[0])
        return made[0]

    def report(result: RunResult) -> None:
        for path in made[0].repaired:
            say(f"{'repaired':>14}  {path}")
        _show_unrepaired(made[0])
        damaged = len(made[0].found.damaged)
        say(f"verified {made[0].found.checked}: {damaged} damaged, {len(made[0].repaired)} repaired")
        say(sums(result, "package"))
        if made[0].repaired:
            say("environments that were created from what was damaged may be damaged too")

    return run("verify", options, call, empty=lambda: RepairResult("verify"), report=report)[1]


def _show_unrepaired(result: RepairResult) -> None:
    for each in result.unrepaired:
        say(f"{'not repaired':>14}  {each.path}: {each.message}")
        if each.hint:
            say(f"{'':16}{each.hint}")


class _Progress:
    """Prints a line every few seconds."""

    def __init__(self, say_line: Callable[[str], None], *, quiet: bool) -> None:
        self._say_line = say_line
        self._quiet = quiet
        self._last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if not self._quiet and now - self._last >= _EVERY:
            self._last = now
            self._say_line(f"verified {done} of {total}")


def _default_places() -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    from resume_dl.settings.rattler_cache import rattler_packages_dir
    from resume_dl.transfer.setup import TransferOptions, load_setup

    setup = load_setup(TransferOptions(), os.environ)
    return (*setup.conda.pkgs_dirs, rattler_packages_dir(setup.env)), (setup.paths.wheels,)


def _error(found: Verification) -> IntegrityError | None:
    if not found.damaged:
        return None
    return IntegrityError(
        f"damaged: {len(found.damaged)} (of {found.checked} packages and wheels)",
        hint="resume-dl verify --repair fetches it again; environments that were created from it may be damaged too",
    )


def _show(found: Verification) -> None:
    _show_flaws(found.flaws)
    wrong = len(found.damaged)
    say(f"verified {found.checked}: {wrong} damaged, {len(found.unknown)} that cannot be judged")


def _show_flaws(flaws: tuple[Flaw, ...]) -> None:
    for each in flaws:
        say(f"{each.what:>14}  {each.path}: {each.message}")
        for name in each.files:
            say(f"{'':16}{name}")


def _as_json(found: Verification, error: IntegrityError | None, elapsed: float) -> dict[str, Any]:
    from resume_dl.transfer.report import error_json

    return {
        "schema": 1,
        "command": "verify",
        "ok": error is None,
        "exit_code": 0 if error is None else error.exit_code,
        "elapsed": round(elapsed, 3),
        "error": None if error is None else error_json(error),
        **found.as_json(),
    }
