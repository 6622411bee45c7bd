"""``resume-dl bundle verify``, the same as verify.py of a bundle, but independent of the bundle."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from resume_dl.cli.help_sections import OUTPUT, WHAT
from resume_dl.cli.options import option
from resume_dl.cli.run import guarded, say, say_json, stopped, tell
from resume_dl.errors import ConfigurationError, IntegrityError, ResumeDLError, StoreError

if TYPE_CHECKING:
    from resume_dl.offline_tools.verification.findings import Problem, Report

_Command = TypeVar("_Command", bound=Callable[..., Any])
_PATH = click.Path(path_type=Path)
_ERRORS: dict[int, type[ResumeDLError]] = {4: IntegrityError, 5: StoreError}
"""Errors by exit code."""


class _Some(click.ParamType[str, str]):
    """A text that is not empty: an empty one would silently check less."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse an empty text."""
        if not str(value).strip():
            from resume_dl.offline_tools.verification.findings import EMPTY

            self.fail(f"it {EMPTY}", param, ctx)
        return str(value)


def trust_options(command: _Command) -> _Command:
    """``--manifest-sha256``, ``--allowed-signers``, ``--signer``: ``verify.check``'s, None if not given."""
    for add in (
        option("--signer", type=_Some(), metavar="IDENTITY", help="Accept only this one of them.", section=WHAT),
        option(
            "--allowed-signers",
            "allowed_signers",
            type=_Some(),
            callback=lambda _ctx, _param, value: None if value is None else Path(value),
            metavar="FILE",
            help="Signers whose signature is accepted; ssh-keygen's.",
            section=WHAT,
        ),
        option(
            "--manifest-sha256",
            "manifest_sha256",
            type=_Some(),
            metavar="HEX",
            help="As `bundle create` printed it.",
            section=WHAT,
        ),
    ):
        command = add(command)
    return command


@click.command("verify")
@click.argument("bundle", metavar="FOLDER|TAR", type=_PATH)
@trust_options
@option("--deep", is_flag=True, help="Inspect packages even if a digest vouches for them.")
@option(
    "--json", "as_json", is_flag=True, help="One JSON object on stdout at the end, nothing else there.", section=OUTPUT
)
@option("--quiet", is_flag=True, help="Errors only.", section=OUTPUT)
def command(
    bundle: Path,
    manifest_sha256: str | None,
    allowed_signers: Path | None,
    signer: str | None,
    *,
    deep: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Verify every file of a bundle; nothing is used or changed."""
    codes = [0]

    def call() -> None:
        from resume_dl.offline_tools.tarred.tar_check import check_any
        from resume_dl.offline_tools.verification.findings import UsageError, lines

        started = time.monotonic()
        try:
            report = check_any(
                bundle,
                manifest_sha256=manifest_sha256,
                allowed_signers=allowed_signers,
                signer=signer,
                log=None if quiet else tell,
                deep=deep,
            )
        except UsageError as error:
            raise ConfigurationError(str(error)) from error
        except KeyboardInterrupt as error:
            raise stopped() from error
        codes.append(report.exit_code)
        for line in lines(report):
            if report.problems:
                tell(line)
            elif not (quiet or as_json):
                say(line)
        if as_json:
            say_json(_as_json(report, bundle, time.monotonic() - started))

    return guarded("bundle verify", call, as_json=as_json) or codes[-1]


def _as_json(report: Report, bundle: Path, elapsed: float) -> dict[str, Any]:
    code = report.exit_code
    error: ResumeDLError | None = None
    if report.problems:
        first = report.problems[0]
        more = f", and {len(report.problems) - 1} more" if len(report.problems) > 1 else ""
        error = _ERRORS[code](first.text + more, hint=first.hint)
    artifacts = _artifacts(report, bundle if bundle.is_dir() else None)
    return {
        "schema": 1,
        "command": "bundle verify",
        "ok": code == 0,
        "exit_code": code,
        "elapsed": round(elapsed, 3),
        "error": None if error is None else _error_json(error),
        "totals": {"artifacts": len(artifacts), "bytes": sum(each["size"] for each in artifacts)},
        "artifacts": artifacts,
        "problems": [_problem_json(problem) for problem in report.problems],
        "warnings": [_problem_json(problem) for problem in report.warnings],
        "trust": report.trust if code == 0 else None,
        "signer": report.signer or None,
        "manifest_sha256": report.manifest_sha256 or None,
    }


def _artifacts(report: Report, folder: Path | None) -> list[dict[str, Any]]:
    """The packages in the bundle, if its manifest is readable; without those that a delta leaves out."""
    errors: dict[str, ResumeDLError] = {}
    for problem in report.problems:
        kind = StoreError if problem.what == "machine" else IntegrityError
        errors.setdefault(problem.path, kind(problem.text, hint=problem.hint))
    shown = ("name", "version", "build", "subdir", "channel", "kind", "url", "size", "sha256", "md5")
    packages = [] if report.manifest is None else report.manifest["packages"]
    rows = []
    for package in packages:
        path = package["path"]
        error = errors.get(path)
        if package["included"]:
            row = {name: package.get(name) for name in shown} | {"filename": path.rpartition("/")[2]}
            row["path"] = None if folder is None else str(folder / path)
            row["status"] = "verified" if error is None and path in report.verified else "failed"
            rows.append(row | {"error": None if error is None else _error_json(error)})
    return rows


def _problem_json(problem: Problem) -> dict[str, Any]:
    return {"path": problem.path, "what": problem.what, "message": problem.text, "hint": problem.hint}


def _error_json(error: ResumeDLError) -> dict[str, Any]:
    from resume_dl.transfer.report import error_json

    return error_json(error)
