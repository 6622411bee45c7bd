"""Answers of ``conda info``. conda runs as a program and is never imported."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any, Iterable, Mapping, NamedTuple

from resume_dl.offline_tools.console import Log, tell
from resume_dl.offline_tools.machine.conda_clients import Client
from resume_dl.offline_tools.machine.programs import SHORT, run_quietly

PATIENCE = 60.0
"""Seconds for all queries of conda installations: the first start after a boot is slow."""
_VIRTUAL = re.compile(r"__[a-z0-9][a-z0-9_.-]*")
_VERSION = re.compile(r"[0-9][0-9A-Za-z_.]*")
_BUILD = re.compile(r"[A-Za-z0-9_.+-]+")


class CondaInfo(NamedTuple):
    """A client's answer. ``channels`` may hold logins: never print it (``shareable_channels``)."""

    version: str
    platform: str
    """conda's subdir; empty if missing."""
    virtual_packages: dict[str, str]
    """``__glibc`` -> ``2.31``, ``__archspec`` -> ``1=x86_64_v3``; empty for conda before 4.7."""
    channels: tuple[str, ...]
    pkgs_dirs: tuple[str, ...]
    root_prefix: str
    envs_dirs: tuple[str, ...]
    solver: str
    python: str = ""
    """The path of the Python that runs it; empty if missing."""


def _json_in(text: str) -> Any:
    """The first JSON object in a text: a plugin or a wrapper may have printed a line before."""
    start = text.find("{")
    try:
        return json.JSONDecoder().raw_decode(text, start)[0] if start >= 0 else None
    except (ValueError, RecursionError):
        return None


def plain_environment(env: Mapping[str, str]) -> dict[str, str]:
    """``env`` without ``CONDA_OVERRIDE_*``, which describe another machine."""
    return {name: value for name, value in env.items() if not name.upper().startswith("CONDA_OVERRIDE_")}


def conda_info(
    command: Iterable[str],
    env: Mapping[str, str] | None = None,
    timeout: float = PATIENCE,
    log: Log | None = None,
) -> CondaInfo | None:
    """The answer of ``<command> info --json``; None if it is missing, fails, or does not answer in time."""
    env = plain_environment(os.environ if env is None else env)
    code, text = run_quietly((*command, "info", "--json"), env, timeout, log)
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
    """A version without its local part (source checkouts have one); empty if invalid."""
    version = version.partition("+")[0]
    return version if _VERSION.fullmatch(version) else ""


def _one(value: Any) -> str:
    """A text, or the single text of a list (micromamba)."""
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
    clients: Iterable[Client], env: Mapping[str, str], timeout: float = PATIENCE, log: Log = tell
) -> tuple[Client, CondaInfo] | None:
    """The first client that answers, within ``timeout`` seconds for all; ``log`` gets the name of a slow one."""
    deadline = time.monotonic() + timeout
    for client in clients:
        left = deadline - time.monotonic()
        info = conda_info(client.command, env, left, log) if left > 0 else None
        if info is not None and (info.version or info.platform):
            return client, info
    return None


def channel_priority(client: Client, env: Mapping[str, str]) -> str | None:
    """``strict``, ``flexible`` or ``disabled``; None if unknown."""
    if client.name != "conda":
        return None
    command = (*client.command, "config", "--show", "channel_priority", "--json")
    _, text = run_quietly(command, plain_environment(env), SHORT)
    answer = _json_in(text)
    value = str(answer.get("channel_priority", "")).lower() if isinstance(answer, dict) else ""
    return value if value in ("strict", "flexible", "disabled") else None
