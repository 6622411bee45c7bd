"""This machine's profile, from which a bundle is prepared for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Mapping, NamedTuple

from resume_dl.offline_tools.console import Log, tell
from resume_dl.offline_tools.machine.conda_clients import find_clients
from resume_dl.offline_tools.machine.conda_info import channel_priority, first_answer, plain_environment
from resume_dl.offline_tools.machine.package_places import pkgs_dirs
from resume_dl.offline_tools.machine.pip_python import pip_python
from resume_dl.offline_tools.machine.shareable import shareable_channels
from resume_dl.offline_tools.machine.virtual_packages import current_platform, virtual_packages

SCHEMA = 1
KIND = "resume-dl target"
CREATED_BY = "resume-dl probe.py"


class Profile(NamedTuple):
    """A profile, and the client's answer that locates the caches."""

    answer: dict[str, Any]
    """target.json without its inventory."""
    pkgs_dirs: tuple[Path, ...]


def look(env: Mapping[str, str] | None = None, log: Log = tell, created_by: str = CREATED_BY) -> Profile:
    """This machine's profile, without its inventory."""
    env = os.environ if env is None else env
    clients = find_clients(env)
    answered = first_answer(clients, env, log=log)
    if clients and answered is None:
        log("note: " + clients[0].name + " does not answer; this machine is described without it")
    client, info = answered or (None, None)
    subdir = (info.platform if info is not None else "") or current_platform()
    packages = (info.virtual_packages if info is not None else {}) or virtual_packages(subdir, plain_environment(env))
    if "__musl" in packages:
        log("note: this system uses musl; conda packages for Linux, and most wheels, need glibc")
    conda = None
    if client is not None and info is not None:
        channels, left = shareable_channels(info.channels, subdir)
        if left:
            log(f"note: channels left out: {left}: only this machine can reach them, or they may hold a login")
        conda = {
            "client": client.name,
            "version": info.version,
            "channels": channels,
            "channels_left_out": left,
            "solver": info.solver or None,
            "channel_priority": channel_priority(client, env),
        }
    python = pip_python(env)
    answer = {
        "schema": SCHEMA,
        "kind": KIND,
        "created_by": created_by,
        "platform": subdir,
        "virtual_packages": packages,
        "python": None if python is None else python[0],
        "pip": None if python is None else python[1],
        "conda": conda,
        "clients": list(dict.fromkeys(each.name for each in clients)),
    }
    return Profile(answer, tuple(pkgs_dirs(info, env)))
