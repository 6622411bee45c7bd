"""The environment's folder, and checks that conda and pip can work there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from resume_dl import fs
from resume_dl.offline_tools.console import shown
from resume_dl.offline_tools.installation.client import named_and_lost
from resume_dl.offline_tools.installation.environments import (
    ask_version,
    can_be_made,
    is_conda_environment,
    is_empty,
    is_environment,
)
from resume_dl.offline_tools.installation.options import InstallError, Run
from resume_dl.offline_tools.installation.plan import Plan
from resume_dl.offline_tools.installation.target_machine import version_numbers
from resume_dl.offline_tools.machine.conda_info import CondaInfo
from resume_dl.offline_tools.machine.pip_python import python_of
from resume_dl.offline_tools.machine.programs import WINDOWS
from resume_dl.offline_tools.machine.virtual_packages import current_platform


def find_prefix(run: Run, info: CondaInfo | None) -> Path:
    """The folder of the requested environment. Raises InstallError."""
    if run.options.prefix is not None:
        try:
            prefix = run.options.prefix.expanduser()
        except RuntimeError as error:
            what = f"{run.options.prefix}: there is no such user, or no home"
            raise InstallError(what, "write ./ before a folder name that begins with ~", 2) from error
        return fs.absolute(str(prefix))
    if info is None:
        return _venv_of_name(run)
    if run.options.name == "base":
        return Path(info.root_prefix)
    places = [Path(folder, run.options.name) for folder in info.envs_dirs]
    for place in places:
        if is_environment(place):
            return place
    for place in places:
        if place.exists() or can_be_made(place.parent):
            return place
    raise InstallError("no folder for environments of this conda is writable", "give -p PREFIX", 5)


def _venv_of_name(run: Run) -> Path:
    """The folder of the virtual environment that ``-n`` names without conda; it may be missing."""
    name, lost = run.options.name, named_and_lost(run)
    if lost or name == "base":
        what = f"no conda was found that knows environment {name!r}"
        raise InstallError(f"{what}, {lost}" if lost else what, "give -p PREFIX, the folder of an environment", 5)
    home = run.env.get("USERPROFILE" if WINDOWS else "HOME") or os.path.expanduser("~")  # noqa: PTH111 - it raises nothing
    folder = Path(run.env.get("WORKON_HOME") or f"{home}/.virtualenvs")
    prefix = folder / name
    if not folder.is_absolute() or not (prefix.exists() or can_be_made(folder)):
        hint = f"give the folder of the environment, as in -p .{os.sep}{name}"
        raise InstallError(f"no conda is here, and {folder}, for virtual environments, cannot be written", hint, 5)
    run.log(f"no conda is used: {name!r} is the virtual environment {prefix} (another place: -p PREFIX)")
    return prefix


def refuse_prefix(run: Run, plan: Plan) -> None:
    """Raise InstallError if pip or conda could not work in the prefix."""
    if plan.conda and plan.existed and not is_conda_environment(plan.prefix):
        text = f"{plan.prefix} is an environment that conda did not make: it installs nothing into it"
        raise InstallError(text, "choose another place with -p or -n", 2)
    refuse_other_content(plan)
    if plan.conda and not plan.existed and _refuses_blanks(plan) and " " in plan.prefix.name:
        text = f"conda 25 and newer do not make an environment with a blank in its folder name: {plan.prefix}"
        raise InstallError(text, "choose another name; only the last part of the path matters", 2)
    if not plan.pip or any(each.entry["name"] == "python" for each in plan.conda):
        return
    if plan.existed:
        refuse_other_python(run, plan, python_of(plan.prefix))
    elif plan.conda:
        hint = "install it into an environment that has one: -p PREFIX or -n NAME of an existing one"
        raise InstallError("the bundle has wheels, and no Python for a new environment", hint, 2)
    elif run.options.name and plan.info is not None:
        hint = "name an existing environment, or a folder for a new one of this Python: -p PREFIX; or --with pip"
        raise InstallError(f"there is no environment {run.options.name!r}, and the bundle brings no Python", hint, 2)
    elif not sys.executable:
        raise InstallError("the path of this Python is unknown", "run install.py with a Python on disk", 5)
    elif not plan.foreign and current_platform() != plan.platform:
        text = f"the wheels are for {plan.platform}; {sys.executable} is of {current_platform()}"
        raise InstallError(text, "run install.py with a Python of that platform", 5)
    else:
        refuse_other_python(run, plan, Path(sys.executable))


def refuse_other_python(run: Run, plan: Plan, python: Path) -> None:
    """Raise InstallError unless ``python`` runs and is of the version that the wheels are for."""
    wanted = shown(plan.python).split(".")[:2]
    version = ask_version(python, run.env)
    if not version:
        hint = "give another environment, or a new folder"
        raise InstallError(f"{python} does not run", hint, 5)
    if len(wanted) == 2 and version.split(".")[:2] != wanted:
        text = f"the wheels are for Python {'.'.join(wanted)}; {python} is {version}"
        hint = f"run install.py with a Python {'.'.join(wanted)}, or give an environment that has one: -p PREFIX"
        raise InstallError(text, hint, 5)


def refuse_other_content(plan: Plan) -> None:
    """Raise InstallError if the prefix is a folder but not an environment."""
    if not plan.existed and not plan.rest and plan.prefix.exists() and not is_empty(plan.prefix):
        text = f"{plan.prefix} exists and is not an environment"
        raise InstallError(text, "choose another place with -p or -n, or empty it first", 2)


def _refuses_blanks(plan: Plan) -> bool:
    if plan.client is None or plan.info is None or plan.client.name != "conda":
        return False
    return version_numbers(plan.info.version)[:1] >= version_numbers("25")
