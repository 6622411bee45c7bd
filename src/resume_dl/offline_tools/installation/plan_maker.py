"""The decision what is installed where and by which client; nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from resume_dl.byte_units import show_bytes
from resume_dl.offline_tools.installation.client import choose_client, no_client
from resume_dl.offline_tools.installation.environments import is_environment
from resume_dl.offline_tools.installation.options import InstallError, Run
from resume_dl.offline_tools.installation.package_bytes import find_packages, refuse_same_names
from resume_dl.offline_tools.installation.plan import Plan
from resume_dl.offline_tools.installation.prefix import find_prefix, refuse_prefix
from resume_dl.offline_tools.installation.target_machine import compare_machine
from resume_dl.offline_tools.installation.unfinished_environment import is_complete, marked_stage, refuse_foreign_files
from resume_dl.offline_tools.machine.virtual_packages import current_platform


def make_plan(run: Run, folder: Path, manifest: dict[str, Any]) -> Plan:
    """Make the plan from a verified manifest. Raises InstallError if the bundle cannot be installed here."""
    client, info = choose_client(run)
    here = (info.platform if info is not None else "") or current_platform()
    name = run.options.platform or here
    platform = manifest["platforms"].get(name)
    if platform is None:
        has = ", ".join(sorted(manifest["platforms"])) or "nothing"
        whose = "as you asked" if run.options.platform else "which this machine is"
        hint = "make one for it on the connected machine: resume-dl bundle create --platform " + name
        raise InstallError(f"the bundle has nothing for {name}, {whose}; it has {has}", hint, 2)
    if platform["conda"] and (client is None or info is None):
        raise InstallError(*no_client(run, len(platform["conda"]), name))
    if name == here:
        compare_machine(run, platform, info, name)
    else:
        run.warn(f"this machine is {here}, and {name} was asked for: its programs may not run here")
    prefix = find_prefix(run, info)
    packages = {each["path"]: each for each in manifest["packages"]}
    listed = dict.fromkeys((*platform["conda"], *platform["pip"]))  # each once
    found = find_packages(run, folder, [packages[path] for path in listed], info)
    conda = [each for each in found if each.entry["kind"] == "conda"]
    refuse_same_names(conda)
    plan = Plan(
        prefix=prefix,
        existed=False,
        platform=name,
        foreign=name != here,
        python=str(platform["python"]),
        client=client,
        info=info,
        conda=conda,
        pip=[each for each in found if each.entry["kind"] != "conda"],
    )
    plan = with_state(run, plan)
    refuse_prefix(run, plan)
    return plan


def with_state(run: Run, plan: Plan) -> Plan:
    """The plan with the current state of its prefix."""
    rest = marked_stage(plan) is not None and not is_complete(plan, run.env)
    return plan._replace(existed=is_environment(plan.prefix) and not rest, rest=rest)


def show_plan(run: Run, plan: Plan) -> None:
    """Log what a run would do."""
    where = "into the existing environment" if plan.existed else "as a new environment"
    run.log(f"{plan.platform}, {where}: {plan.prefix}")
    if plan.rest:
        refuse_foreign_files(plan)
        how = "everything in it would be removed first" if plan.conda else "it would be completed in place"
        run.log(f"an earlier run stopped while it made this environment: {how}")
    for packages, who in ((plan.conda, plan.client.name if plan.client is not None else ""), (plan.pip, "pip")):
        if packages:
            size = sum(each.entry["size"] for each in packages)
            run.log(f"by {who}: {len(packages)} packages, {show_bytes(size)}")
    run.log("dry run: nothing was started, nothing was written")
