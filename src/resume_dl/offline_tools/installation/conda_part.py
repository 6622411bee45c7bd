"""Installation of the conda packages from a separate package cache."""

import os
import re
from pathlib import Path

from resume_dl.byte_units import show_bytes
from resume_dl.offline_tools.installation.cache_entry import copy_verified, publish_unpacked
from resume_dl.offline_tools.installation.child import run_to_end
from resume_dl.offline_tools.installation.environments import is_of_another, lacks_files
from resume_dl.offline_tools.installation.options import InstallError, Run, first_few
from resume_dl.offline_tools.installation.package_bytes import holds_bytes
from resume_dl.offline_tools.installation.plan import Plan
from resume_dl.offline_tools.installation.stage import Stage
from resume_dl.offline_tools.machine.programs import WINDOWS

_FOR_CONDA = re.compile(
    r"CONDARC|CONDA_(EXE|PYTHON_EXE|BAT|ROOT|ROOT_PREFIX|PREFIX|PREFIX_[0-9]+|ENVS_DIRS|ENVS_PATH|SHLVL|DEFAULT_ENV"
    r"|PROMPT_MODIFIER|SUBDIR|OVERRIDE_.*|ALWAYS_COPY|REGISTER_ENVS|NO_LOCK|DEBUG|VERBOSITY|NO_PLUGINS)"
    r"|MAMBA_(EXE|ROOT_PREFIX|ENVS_DIRS)"
)
"""Variables passed to conda: paths, the machine, the disk. The others would change what conda does."""


def install_conda_packages(run: Run, plan: Plan, stage: "Stage", *, existed: bool) -> None:
    """Install the conda packages with the planned client. Raises InstallError, OSError."""
    client, info = plan.client, plan.info
    if client is None or info is None:
        raise AssertionError("no conda part is planned without a client")
    if existed and os.path.realpath(str(plan.prefix)) == os.path.realpath(info.root_prefix):
        run.warn("this is the environment that conda itself lives in")
    cache = stage.folder / "pkgs"
    cache.mkdir()
    size = sum(each.entry["size"] for each in plan.conda)
    run.log(f"copying {len(plan.conda)} archives, {show_bytes(size)}, to {cache}")
    lines = ["@EXPLICIT"]
    digests = {}
    for each in plan.conda:
        md5 = copy_verified(each, cache / each.filename) or each.entry["md5"]
        digests[each.stem] = {"md5": md5, "sha256": each.entry["sha256"]}
        lines.append(each.url + (f"#{md5}" if md5 else ""))
    (cache / "urls.txt").write_bytes("".join(each.url + "\n" for each in plan.conda).encode("ascii"))
    listed = stage.folder / "explicit.txt"
    listed.write_bytes("\n".join([*lines, ""]).encode("ascii"))
    verb = "install" if existed else "create"
    command = [*client.command, verb, "-p", str(plan.prefix), "--offline", "--yes", "--file", str(listed)]
    env = {name: value for name, value in run.env.items() if _reaches_conda(name)}
    env.update({"CONDA_PKGS_DIRS": str(cache), "CONDA_OFFLINE": "true", "CONDA_ALWAYS_YES": "true"})
    # Symlinks into a temporary cache would break the environment.
    env.update({"CONDA_ALLOW_SOFTLINKS": "false", "CONDA_ALWAYS_SOFTLINK": "false"})
    env["CONDA_PLUGINS_RESUME_DL_PREFETCH"] = "never"
    if plan.foreign:
        env["CONDA_SUBDIR"] = plan.platform
    run.log(f"{client.name} {verb} --offline: {len(plan.conda)} packages")
    code = run_to_end(run, command, env, stage)
    if code:
        raise _conda_failed(plan, cache, f"{client.name} ended with exit code {code}")
    records = {each.stem: plan.prefix / "conda-meta" / f"{each.stem}.json" for each in plan.conda}
    lacking = [stem for stem, record in records.items() if not record.is_file()]
    if lacking:
        raise _conda_failed(plan, cache, f"{client.name} reports success, but did not install {first_few(lacking)}")
    lost = [stem for stem, record in records.items() if lacks_files(record, plan.prefix)]
    if lost:
        run.warn(f"files of {first_few(lost)} are missing: {client.name} considered them as installed")
    kept = [stem for stem, record in records.items() if is_of_another(record, digests[stem])]
    if kept:
        text = "was there with other bytes than the bundle's, and {} keeps what is there"
        run.warn(f"{first_few(kept)}: {text.format(client.name)}")
    publish_unpacked(cache, plan, info)


def _conda_failed(plan: Plan, cache: Path, text: str) -> InstallError:
    changed = [each.filename for each in plan.conda if not holds_bytes(cache / each.filename, each.entry)]
    if changed:
        hint = "another program writes there, or the disk fails; no changed archive was installed"
        return InstallError(f"{text}; archives have changed in {cache}: {first_few(changed)}", hint, 4)
    return InstallError(text, "look at what it says above, repair that, then run the same command again", 5)


def _reaches_conda(name: str) -> bool:
    """Whether conda gets this environment variable: CONDA_DRY_RUN, for one, would prevent the installation."""
    upper = name.upper() if WINDOWS else name
    return not upper.startswith(("CONDA_", "MAMBA_")) or _FOR_CONDA.fullmatch(upper) is not None
