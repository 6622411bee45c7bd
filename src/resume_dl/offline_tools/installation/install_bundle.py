"""Verification and installation of a bundle by this machine's conda, mamba or micromamba and pip."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Callable, Mapping

from resume_dl.fs.removal import remove
from resume_dl.offline_tools.archive import archive_file
from resume_dl.offline_tools.console import Log, tell
from resume_dl.offline_tools.installation.conda_part import install_conda_packages
from resume_dl.offline_tools.installation.options import CONDAS, InstallError, Options, Outcome, Run, first_few
from resume_dl.offline_tools.installation.pip_part import install_wheels, make_venv
from resume_dl.offline_tools.installation.plan import Plan
from resume_dl.offline_tools.installation.plan_maker import make_plan, show_plan, with_state
from resume_dl.offline_tools.installation.prefix import refuse_other_content
from resume_dl.offline_tools.installation.stage import Stage
from resume_dl.offline_tools.installation.unfinished_environment import (
    BEGUN,
    refuse_foreign_files,
    remove_environment,
    token_in,
)
from resume_dl.offline_tools.machine.conda_info import CondaInfo
from resume_dl.offline_tools.tarred.tar_check import check_any
from resume_dl.offline_tools.tarred.unpack_tar import unpack
from resume_dl.offline_tools.tool_names import INSIDE
from resume_dl.offline_tools.verification.findings import Report, UsageError, lines
from resume_dl.python_command import isolated_command


def install(
    bundle: Path, options: Options, *, log: Log | None = None, env: Mapping[str, str] | None = None, output: int = 1
) -> Outcome:
    """Verify ``bundle`` (a folder or a tar), then install it. Raises InstallError; KeyboardInterrupt passes.

    ``log`` gets lines for people; conda's and pip's output goes to the file descriptor ``output``.
    """
    run = Run(options, log or tell, dict(os.environ if env is None else env), output)
    try:
        return _of(run, Path(bundle))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        hint = "check this disk, its free space and the permissions; then run the same command again"
        raise InstallError(where + (error.strerror or str(error)), hint, 5) from error


def _of(run: Run, bundle: Path) -> Outcome:
    _refuse_nonsense(run)
    if bundle.is_dir() or not bundle.exists() or run.options.dry_run:
        return _verified(run, bundle, _verify(run, bundle))
    if run.options.unpack_to is not None:
        return _unpacked(run, bundle, run.options.unpack_to)
    beside = str(bundle.absolute().parent)
    place = beside if os.access(beside, os.W_OK) else None  # else the system's default
    folder = Path(tempfile.mkdtemp(prefix=bundle.name + ".", dir=place))
    try:
        return _unpacked(run, bundle, folder)
    finally:
        remove(folder)


def _refuse_nonsense(run: Run) -> None:
    options = run.options
    if bool(options.name) == (options.prefix is not None):
        what = "-n and -p exclude each other" if options.name else "no environment is given"
        raise InstallError(what, "give -n NAME (an environment of your conda) or -p PREFIX (a folder)", 2)
    if options.name and (options.name in (".", "..") or re.search(r"[/\\ :#]", options.name)):
        raise InstallError(f"{options.name!r} is not a valid environment name", "give a folder as -p PREFIX", 2)
    if options.client not in ("", "pip", *CONDAS):
        raise InstallError(f"{options.client!r} is unknown", "--with takes conda, mamba, micromamba or pip", 2)


def _verify(run: Run, bundle: Path) -> Report:
    return _trusted(run, lambda **options: check_any(bundle, **options))


def _unpacked(run: Run, tar: Path, folder: Path) -> Outcome:
    run.log(f"unpacking {tar} to {folder}")
    report = _trusted(run, lambda **options: unpack(tar, folder, **options))
    return _verified(run, folder, report)


def _trusted(run: Run, check: Callable[..., Report]) -> Report:
    options = run.options
    try:
        report = check(
            manifest_sha256=options.manifest_sha256,
            allowed_signers=options.allowed_signers,
            signer=options.signer,
            log=run.log,
        )
    except UsageError as error:
        raise InstallError(str(error), "see --help", 2) from error
    for line in lines(report):
        run.log(line)
    if report.problems or report.manifest is None:
        files = sorted({problem.path for problem in report.problems})
        if report.exit_code == 5:
            hint = "check the files named above, then run the same command again"
            raise InstallError("this machine failed; nothing was installed: " + first_few(files), hint, 5)
        raise InstallError(
            "the bundle must not be used; nothing was installed: " + first_few(files),
            "replace the files named above, then run the same command again",
            report.exit_code or 4,
        )
    run.warnings += [problem.text for problem in report.warnings]
    return report


def _verified(run: Run, folder: Path, report: Report) -> Outcome:
    plan = make_plan(run, folder.absolute(), report.manifest or {})
    if report.unlooked and folder.is_dir():
        _look_inside_by_conda(run, folder.absolute(), report.unlooked, plan.info)
    outcome = Outcome(
        prefix=plan.prefix,
        platform=plan.platform,
        trust=report.trust,
        existed=plan.existed,
        client=plan.client.name if plan.client is not None and plan.conda else "",
        packages=[{**each.entry, "found": str(each.source)} for each in (*plan.conda, *plan.pip)],
        warnings=run.warnings,
        planned=run.options.dry_run,
    )
    if run.options.dry_run:
        show_plan(run, plan)
    else:
        _do(run, plan)
    return outcome


def _look_inside_by_conda(run: Run, folder: Path, paths: list[str], info: CondaInfo | None) -> None:
    """Let conda's own Python inspect the packages that this one cannot unpack."""
    code = 2
    if info is not None and info.python:
        run.log(f"inspecting them with {info.python}")
        with suppress(OSError), archive_file() as tools:
            command = isolated_command(info.python, str(tools), INSIDE, str(folder))
            code = subprocess.run(
                command, input="\n".join(paths).encode("utf-8"), stdout=run.output, check=False
            ).returncode
    if code == 4:
        raise InstallError("the bundle must not be used; nothing was installed", "see above", 4)
    if code != 0:
        run.warn(f"{len(paths)} .conda packages were not inspected: no Python with zstandard was found")


def _do(run: Run, plan: Plan) -> None:
    with Stage(plan) as stage:
        for refused in stage.refused:
            run.warn(refused)
        plan = with_state(run, plan)  # once more, now under the lock
        refuse_other_content(plan)
        refuse_foreign_files(plan)
        stage.begin()
        existed = plan.existed
        token = ""
        if plan.rest:
            run.log(f"an earlier run stopped while it made {plan.prefix}: starting again")
            if plan.conda:
                remove_environment(plan.prefix)
            else:  # venv completes a folder in place
                token = token_in(plan.prefix / BEGUN)
        if existed:
            stage.unmark()
            run.log(f"installing into the existing environment {plan.prefix}")
        else:
            if plan.marks:
                stage.mark(token)
            run.log(f"making a new environment: {plan.prefix}")
        if plan.conda:
            install_conda_packages(run, plan, stage, existed=existed)
        elif not existed:
            make_venv(run, plan, stage)
        stage.unmark()
        if plan.pip:
            install_wheels(run, plan, stage, existed=existed)
