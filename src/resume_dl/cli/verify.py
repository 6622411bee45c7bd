"""``resume-dl verify``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resume_dl.cli.options import option
from resume_dl.cli.run import guarded, say, say_json, show_error, tell
from resume_dl.errors import IntegrityError

if TYPE_CHECKING:
    from resume_dl.app.cache_verification import Flaw, Verification

_DIR = click.Path(path_type=Path, file_okay=False)
_EVERY = 5.0
"""Seconds between two lines of progress."""


@click.command("verify")
@click.option("--pkgs-dir", "pkgs_dir", multiple=True, type=_DIR, help="Verify this package cache; repeatable.")
@click.option("--wheel-dir", "wheel_dir", multiple=True, type=_DIR, help="Verify this folder of wheels; repeatable.")
@option("--quiet", "-q", is_flag=True, help="Show errors only.")
@option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(pkgs_dir: tuple[Path, ...], wheel_dir: tuple[Path, ...], *, quiet: bool, as_json: bool) -> int:
    """Hash everything in package caches and wheel folders, and name what is damaged.

    Without a folder: conda's and rattler's package caches and our own wheels. Nothing is changed. Exit code 4 if
    something is damaged.
    """
    codes = [0]

    def call() -> None:
        from resume_dl.app.cache_verification import verify

        started = time.monotonic()
        caches, wheels = (pkgs_dir, wheel_dir) if pkgs_dir or wheel_dir else _default_places()
        found = verify(caches, wheels, progress=_Progress(quiet=quiet))
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


class _Progress:
    """Prints a line to stderr every few seconds."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if not self._quiet and now - self._last >= _EVERY:
            self._last = now
            tell(f"verified {done} of {total}")


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
        hint="remove what is named, an archive together with the folder of the same name, and fetch it again; "
        "environments that were created from it may be damaged too",
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
        "checked": found.checked,
        "damaged": [_row(each) for each in found.damaged],
        "unknown": [_row(each) for each in found.unknown],
    }


def _row(flaw: Flaw) -> dict[str, Any]:
    return {"path": str(flaw.path), "what": flaw.what, "message": flaw.message, "files": list(flaw.files)}
