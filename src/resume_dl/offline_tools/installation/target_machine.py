"""Comparison of this machine with the one that the bundle was solved for."""

from __future__ import annotations

import re
from typing import Any

from resume_dl.offline_tools.console import shown
from resume_dl.offline_tools.installation.options import Run
from resume_dl.offline_tools.machine.conda_info import CondaInfo, plain_environment
from resume_dl.offline_tools.machine.virtual_packages import virtual_packages


def compare_machine(run: Run, platform: dict[str, Any], info: CondaInfo | None, name: str) -> None:
    """Warn if this machine is older or less capable than the one that the bundle was solved for."""
    have = dict(info.virtual_packages) if info is not None else {}
    have = have or virtual_packages(name, plain_environment(run.env))
    for wanted in platform["virtual_packages"]:
        package, version, build = [*shown(str(wanted)).split("="), "", ""][:3]
        own = have.get(package)
        if own is None:
            lack = {"__cuda": "no NVIDIA driver was found here"}.get(package, "this machine has none")
            run.warn(f"the bundle was made for {package} {version} or newer; {lack}")
        elif package == "__archspec":
            own_level, level = (_x86_level(each) for each in (own.partition("=")[2], build))
            if own_level < level:
                run.warn(f"the bundle was made for a {build} processor; this one is {own.partition('=')[2]}")
        elif version_numbers(own) < version_numbers(version):
            run.warn(f"the bundle was made for {package} {version} or newer; this machine has {own}")


def version_numbers(version: str) -> list[tuple[int, str]]:
    """A sort key of any length: each number as the count of its digits and the digits."""
    found = re.findall(r"0*([0-9]+)", version.partition("=")[0])
    return [(len(digits), digits) for digits in found]


def _x86_level(name: str) -> int:
    found = re.fullmatch(r"x86_64_v(\d)", name)
    return int(found.group(1)) if found else 1 if name == "x86_64" else 9
