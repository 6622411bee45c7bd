"""Choice of the conda, mamba or micromamba that installs."""

from __future__ import annotations

from resume_dl.offline_tools.installation.options import Run
from resume_dl.offline_tools.machine.conda_clients import Client, find_clients
from resume_dl.offline_tools.machine.conda_info import CondaInfo, first_answer


def choose_client(run: Run) -> tuple[Client | None, CondaInfo | None]:
    """The client to use and its information; (None, None) if none is found or none answers."""
    wanted = run.options.client
    clients = [each for each in find_clients(run.env) if wanted in ("", each.name)]
    return first_answer(clients, run.env) or (None, None)


def no_client(run: Run, count: int, platform: str) -> tuple[str, str, int]:
    """Message, hint and exit code for conda packages that no client can install."""
    wanted = run.options.client
    what = f"the bundle has {count} conda packages for {platform}, "
    if wanted == "pip":
        return what + "which pip cannot install", "leave --with out, or name conda, mamba or micromamba", 2
    lost = named_and_lost(run)
    if lost:
        return what + lost, "set RESUME_DL_CONDA to the path of an existing conda, or unset it", 5
    hint = "install conda, mamba or micromamba first, or name an existing one: RESUME_DL_CONDA=/path/to/conda"
    return what + f"and no {wanted or 'conda, mamba or micromamba'} was found here that answers", hint, 5


def named_and_lost(run: Run) -> str:
    """The clause about a RESUME_DL_CONDA that names a missing program; empty otherwise."""
    named = run.env.get("RESUME_DL_CONDA", "").strip()
    if not named or named.lower() == "none" or find_clients(run.env):
        return ""
    return f"and RESUME_DL_CONDA names {named}, which does not exist"
