"""What a conda says of itself. It is asked as a program and never imported."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any, Iterable, Mapping, NamedTuple

from resume_dl.offline_tools.console import Told, tell
from resume_dl.offline_tools.machine.conda_clients import Client
from resume_dl.offline_tools.machine.programs import SHORT, run_quietly

PATIENCE = 60.0
"""Seconds for all questions to condas: the first start after a boot is slow."""
_VIRTUAL = re.compile(r"__[a-z0-9][a-z0-9_.-]*")
_VERSION = re.compile(r"[0-9][0-9A-Za-z_.]*")
_BUILD = re.compile(r"[A-Za-z0-9_.+-]+")


class CondaInfo(NamedTuple):
    """What one of them says of itself. ``channels`` may hold logins: never print it (``shareable_channels``)."""

    version: str
    platform: str
    """conda's subdir; empty where it does not say."""
    virtual_packages: dict[str, str]
    """``__glibc`` -> ``2.31``, ``__archspec`` -> ``1=x86_64_v3``; empty where it knows none (conda before 4.7)."""
    channels: tuple[str, ...]
    pkgs_dirs: tuple[str, ...]
    root_prefix: str
    envs_dirs: tuple[str, ...]
    solver: str
    python: str = ""
    """The path of the Python that it runs in; empty where it does not say."""


def _json_in(text: str) -> Any:
    """The first JSON object in a text: a plugin or a wrapper may have printed a line before."""
    start = text.find("{")
    try:
        return json.JSONDecoder().raw_decode(text, start)[0] if start >= 0 else None
    except (ValueError, RecursionError):
        return None


def plain_environment(env: Mapping[str, str]) -> dict[str, str]:
    """``env`` without ``CONDA_OVERRIDE_*``: they say what the machine is not."""
    return {name: value for name, value in env.items() if not name.upper().startswith("CONDA_OVERRIDE_")}


def conda_info(
    command: Iterable[str],
    env: Mapping[str, str] | None = None,
    timeout: float = PATIENCE,
    told: Told | None = None,
) -> CondaInfo | None:
    """What ``<command> info --json`` says, or None: it is not there, fails, or does not answer in time."""
    env = plain_environment(os.environ if env is None else env)
    code, text = run_quietly((*command, "info", "--json"), env, timeout, told)
    answer = _json_in(text) if code == 0 else None
    if not isinstance(answer, dict):
        return None
    version = next(
        (answer[key] for key in ("conda_version", "micromamba version", "mamba version", "libmamba version")
         if isinstance(answer.get(key), str)),
        "",
    )  # fmt: skip
    solver = answer.get("solver")
    return CondaInfo(
        version=public_version(version),
        platform=_one(answer.get("platform")),
        virtual_packages=_virtual(answer.get("virtual_pkgs", answer.get("virtual packages"))),
        channels=_texts(answer.get("channels")),
        pkgs_dirs=_texts(answer.get("pkgs_dirs", answer.get("package cache"))),
        root_prefix=_one(answer.get("root_prefix", answer.get("base environment"))),
        envs_dirs=_texts(answer.get("envs_dirs", answer.get("envs directories"))),
        solver=_one(solver.get("name") if isinstance(solver, dict) else solver),
        python=_one(answer.get("sys.executable")),
    )


def public_version(version: str) -> str:
    """A version without its local part, which one of a source checkout has; empty for what is none."""
    version = version.partition("+")[0]
    return version if _VERSION.fullmatch(version) else ""


def _one(value: Any) -> str:
    """A text; the only one of a list, as micromamba gives some."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _virtual(rows: Any) -> dict[str, str]:
    """``[name, version, build]`` (conda) or ``name=version=build`` (mamba, micromamba) as a mapping."""
    found: dict[str, str] = {}
    for row in rows if isinstance(rows, list) else ():
        parts = row.split("=") if isinstance(row, str) else list(row) if isinstance(row, list) else []
        name, version, build = [*(str(part or "0") for part in parts), "0", "0", "0"][:3]
        version = public_version(version)
        if _VIRTUAL.fullmatch(name) and version and _BUILD.fullmatch(build):
            found[name] = version if build == "0" else version + "=" + build
    return dict(sorted(found.items()))


def first_answer(
    clients: Iterable[Client], env: Mapping[str, str], timeout: float = PATIENCE, told: Told = tell
) -> tuple[Client, CondaInfo] | None:
    """The first client that answers, within ``timeout`` seconds for all of them together; ``told`` who is awaited."""
    deadline = time.monotonic() + timeout
    for client in clients:
        left = deadline - time.monotonic()
        info = conda_info(client.command, env, left, told) if left > 0 else None
        if info is not None and (info.version or info.platform):
            return client, info
    return None


def channel_priority(client: Client, env: Mapping[str, str]) -> str | None:
    """``strict``, ``flexible`` or ``disabled``; None where the client does not say."""
    if client.name != "conda":
        return None
    command = (*client.command, "config", "--show", "channel_priority", "--json")
    _, text = run_quietly(command, plain_environment(env), SHORT)
    answer = _json_in(text)
    value = str(answer.get("channel_priority", "")).lower() if isinstance(answer, dict) else ""
    return value if value in ("strict", "flexible", "disabled") else None
