"""Ask conda's own Python for its version and plugins."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from resume_dl.diagnosis.conda_check import CondaFacts, PluginAnswer
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.offline_tools.machine.programs import run_quietly
from resume_dl.python_command import isolated_command, utf8_output
from resume_dl.settings.conda_find import asks_none, conda_python

TIMEOUT = 30.0
"""Seconds for one start of conda; the first one after a boot is slow."""
_MARK = "resume-dl-doctor:"
_MOST_TEXT = 100
_QUESTION = f"""
import json, importlib.metadata as metadata
answer = {{}}
try:
    answer["ours"] = metadata.version("resume-dl")
except metadata.PackageNotFoundError:
    answer["ours"] = ""
try:
    import conda
    from conda.base.context import context, reset_context
    reset_context()
    answer["conda"] = str(conda.__version__)
    answer["switched_off"] = bool(getattr(context, "no_plugins", False))
    from conda.plugins.manager import get_plugin_manager
    names = [name or "" for name, _ in get_plugin_manager().list_name_plugin()]
    loaded = [getattr(each, "__name__", type(each).__module__) for each in get_plugin_manager().get_plugins()]
    answer["loaded"] = any(str(name).startswith(("resume_dl", "resume-dl")) for name in names + loaded)
except Exception as error:
    answer["trouble"] = type(error).__name__
print("\\n{_MARK}" + json.dumps(answer))
"""


def look_at_conda(conda: CondaSettings, env: Mapping[str, str], *, timeout: float = TIMEOUT) -> CondaFacts:
    """The facts about the conda of these settings; waits at most ``timeout`` seconds."""
    if asks_none(env):
        return CondaFacts(unset=True)
    if conda.conda_executable is None:
        return CondaFacts()
    root = conda.root_prefix
    python = conda_python(conda)
    facts = CondaFacts(str(conda.conda_executable), str(root or ""), conda.problem)
    if python is None:
        return facts
    answer = _ask(python, env, timeout)
    return CondaFacts(facts.executable, facts.root, facts.trouble, python=str(python), answer=answer)


def _ask(python: Path, env: Mapping[str, str], timeout: float) -> PluginAnswer | None:
    code, text = run_quietly(isolated_command(str(python), "-c", _QUESTION), utf8_output(env), timeout)
    return parse_answer(text) if code == 0 else None


def parse_answer(text: str) -> PluginAnswer | None:
    """The answer in what the Python printed; None without a valid one. A plugin may have printed before it."""
    _, mark, line = text.rpartition(_MARK)
    try:
        said: Any = json.loads(line.partition("\n")[0]) if mark else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    conda, ours = said.get("conda", ""), said.get("ours", "")
    if not all(isinstance(version, str) and len(version) <= _MOST_TEXT for version in (conda, ours)):
        return None
    return PluginAnswer(conda, ours, loaded=said.get("loaded") is True, switched_off=said.get("switched_off") is True)
