"""Installation of the bundle's wheels by pip, and of no others."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from resume_dl.offline_tools.installation.child import run_to_end
from resume_dl.offline_tools.installation.options import InstallError, Run, first_few
from resume_dl.offline_tools.installation.package_bytes import holds_bytes
from resume_dl.offline_tools.installation.plan import Plan
from resume_dl.offline_tools.installation.prefix import refuse_other_python
from resume_dl.offline_tools.installation.stage import Stage
from resume_dl.offline_tools.machine.pip_python import python_of
from resume_dl.offline_tools.machine.programs import SHORT, WINDOWS, run_quietly
from resume_dl.python_command import isolated_command

_HAS_NO_PIP = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pip') is None)"
"""Asked without running pip: one that fails for another reason is the user's, and is not replaced."""


def make_venv(run: Run, plan: Plan, stage: Stage) -> None:
    """Make a virtual environment with this Python. Raises InstallError."""
    command = isolated_command(sys.executable, "-m", "venv", str(plan.prefix))
    code = run_to_end(run, command, python_environment(run), stage)
    if code:
        hint = "give this Python venv and ensurepip (Debian: python3-venv), or give an environment that is there"
        raise InstallError(f"{sys.executable} could not make the environment {plan.prefix}", hint, 5)


def install_wheels(run: Run, plan: Plan, stage: Stage, *, existed: bool) -> None:
    """Install the wheels with the environment's own pip. Raises InstallError, OSError."""
    python = python_of(plan.prefix)
    refuse_other_python(run, plan, python)
    if run_quietly(isolated_command(str(python), "-c", _HAS_NO_PIP), python_environment(run, plan.prefix), SHORT)[0]:
        run.log("pip is missing: installing it with this Python's ensurepip")
        if run_to_end(
            run, isolated_command(str(python), "-m", "ensurepip"), python_environment(run, plan.prefix), stage
        ):
            hint = "install pip there, or make the bundle again with pip among its conda packages"
            raise InstallError(f"{plan.prefix} has no pip, and the wheels are not installed", hint, 5)
    listed = stage.folder / "requirements.txt"
    listed.write_bytes(
        "".join("{name}=={version} --hash=sha256:{sha256}\n".format(**each.entry) for each in plan.pip).encode("ascii")
    )
    folders = list(dict.fromkeys(str(each.source.parent) for each in plan.pip))
    command = [*isolated_command(str(python), "-m", "pip", "install"), "--isolated", "--no-index", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-input", "--no-warn-script-location"]
    # The set was solved as a whole. pip does not see conda packages without its metadata and would look for them,
    # so dependencies are checked afterwards.
    command += ["--no-deps", "--require-hashes", "-r", str(listed)]
    if existed:  # pip would keep an installed wheel of the same version, even with other bytes
        command.append("--force-reinstall")
    for folder in folders:
        command += ["--find-links", folder]
    if all(each.entry["kind"] == "wheel" for each in plan.pip):
        command += ["--only-binary", ":all:"]
    run.log(f"pip install --no-index --require-hashes: {len(plan.pip)} packages")
    code = run_to_end(run, command, python_environment(run, plan.prefix), stage)
    if code:
        changed = [each.filename for each in plan.pip if not holds_bytes(each.source, each.entry)]
        if changed:
            hint = "copy these files again, then run the same command again"
            raise InstallError(f"pip ended with exit code {code}; files have changed: {first_few(changed)}", hint, 4)
        hint = "look at what it says above, repair that, then run the same command again"
        raise InstallError(f"pip ended with exit code {code}", hint, 5)
    if run_to_end(
        run,
        isolated_command(str(python), "-m", "pip", "--isolated", "check"),
        python_environment(run, plan.prefix),
        stage,
    ):
        run.warn("pip check found missing or conflicting packages in this environment: see above")


def python_environment(run: Run, prefix: Path | None = None) -> dict[str, str]:
    """Environment variables for a Python, without those that name indexes or module folders."""
    env = {name: value for name, value in run.env.items() if not name.upper().startswith(("PIP_", "PYTHON"))}
    env["PIP_CONFIG_FILE"] = os.devnull
    if prefix is not None:
        folders = ["", "Library/bin", "Scripts"] if WINDOWS else ["bin"]
        own = os.pathsep.join(str(prefix / folder) for folder in folders)
        env["PATH"] = own + os.pathsep + env.get("PATH", os.defpath)
    return env
