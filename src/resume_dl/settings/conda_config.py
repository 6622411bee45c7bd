"""The user's conda settings: from a conda installation if one is found, else from condarc files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from resume_dl.model.conda_settings import CondaSettings
from resume_dl.settings.conda_answer import CondaAnswerError
from resume_dl.settings.conda_cache import CondaCache
from resume_dl.settings.conda_find import CondaCommand, find_conda_commands
from resume_dl.settings.condarc import read_settings, search_path
from resume_dl.settings.paths import Paths

__all__ = ["CondaSettings", "load_conda_settings"]

TIMEOUT = 60.0
"""Seconds for all queries together: conda's first start after a boot is slow."""
MOST_ASKED = 3
"""Most conda installations to query before the files are read here."""
FAILURE_LASTS = 600.0
"""Seconds before a conda that failed or hung is tried again."""


def load_conda_settings(
    paths: Paths, env: Mapping[str, str], *, prefix: Path | None = None, timeout: float = TIMEOUT
) -> CondaSettings:
    """The conda settings on this machine, for the environment ``prefix`` (``-p``/``-n``) or the active one.

    ``env`` is the process's environment. The first conda that answers is used (``conda_find`` gives the order,
    ``RESUME_DL_CONDA`` names one or none); its answer is kept until something that it read changes. If a conda fails,
    or does not answer within ``timeout`` seconds in all, the files are read instead (``condarc``), and ``problem`` says
    why. Raises ConfigurationError only for a missing ``RESUME_DL_CONDA``.
    """
    env = environment(env, prefix)
    deadline = time.monotonic() + timeout
    problems: list[str] = []
    root: Path | None = None
    command: CondaCommand | None = None
    for number, candidate in enumerate(find_conda_commands(env)):
        if number >= MOST_ASKED:
            break
        command, root = command or candidate, root or candidate.root
        answer = _ask_or_recall(candidate, paths, env, prefix, max(0.0, deadline - time.monotonic()))
        if isinstance(answer, CondaSettings):
            return answer
        problems.append(f"{candidate.executable} {answer}")
    settings = read_settings(env, root=root, prefix=prefix)
    return replace(
        settings,
        problem="; ".join(filter(None, (*problems, settings.problem))),
        conda_executable=None if command is None else command.executable,
    )


def environment(env: Mapping[str, str], prefix: Path | None) -> Mapping[str, str]:
    """``env`` for a conda that works on the environment ``prefix``, whose condarc it reads."""
    return env if prefix is None else {**env, "CONDA_PREFIX": str(prefix)}


def _ask_or_recall(
    command: CondaCommand, paths: Paths, env: Mapping[str, str], prefix: Path | None, timeout: float
) -> CondaSettings | str:
    cache = CondaCache(paths.cache, command, prefix)
    kept = cache.get(env, time.time())
    if kept is not None:
        return kept
    from resume_dl.settings.conda_ask import ask_conda

    try:
        settings, read_from = ask_conda(command, env, timeout=timeout)
    except CondaAnswerError as error:
        places = search_path(env, root=command.root, prefix=prefix)
        cache.put_failure(str(error), places, env, now=time.time(), lasts=FAILURE_LASTS)
        return str(error)
    places = search_path(env, root=settings.root_prefix, prefix=prefix)
    cache.put(settings, dict.fromkeys((*places, *read_from)), env)
    return settings
