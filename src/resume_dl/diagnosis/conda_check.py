"""Judge conda and our plugin in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from resume_dl.diagnosis.finding import Finding, note, ok, problem
from resume_dl.shell_commands import Step, command_line


@dataclass(frozen=True, slots=True)
class CondaFacts:
    """What is known of conda and its plugins."""

    executable: str = ""
    """Empty: no conda was found."""
    root: str = ""
    trouble: str = ""
    """Why a conda did not answer, or a file could not be read."""
    unset: bool = False
    """``RESUME_DL_CONDA=none``: no conda is to be run."""
    python: str = ""
    """The Python of conda's root prefix; empty if it is missing."""
    answer: PluginAnswer | None = None
    """None: that Python gave no valid answer in time."""


@dataclass(frozen=True, slots=True)
class PluginAnswer:
    """What conda's Python says of itself."""

    conda: str = ""
    """conda's version; empty if it cannot be imported."""
    ours: str = ""
    """The version of resume-dl installed there; empty without it."""
    loaded: bool = False
    switched_off: bool = False
    """``CONDA_NO_PLUGINS`` or condarc's ``no_plugins``."""


def check_conda(facts: CondaFacts, version: str) -> list[Finding]:
    """``version``: our own."""
    if facts.unset:
        return [note("conda", "RESUME_DL_CONDA=none: conda is not run, its settings are read from files")]
    if not facts.executable:
        if facts.trouble:
            return [problem("conda", facts.trouble)]
        return [note("conda", "not found; its settings are read from files, packages go to conda's usual folders")]
    found = facts.answer.conda if facts.answer is not None else ""
    findings = [ok("conda", f"{found or 'version unknown'}, {facts.executable}")]
    if facts.trouble:
        shown = command_line([Step((facts.executable, "config", "--show"))])
        findings = [problem("conda", f"{facts.trouble}; its settings were read from files instead", shown)]
    return [*findings, _plugin(facts, version)]


def _plugin(facts: CondaFacts, version: str) -> Finding:
    answer = facts.answer
    if not facts.python:
        return note("plugin", f"not checked: {facts.root or 'the root prefix of conda'} has no Python")
    install = command_line([Step((facts.python, "-m", "pip", "install", "--upgrade", "resume-dl"))])
    if answer is None:
        return problem("plugin", f"not checked: {facts.python} gave no valid answer in time")
    if not answer.ours:
        return note("plugin", "not installed in conda: `conda install` downloads without resuming", install)
    if answer.switched_off:
        return note("plugin", f"{answer.ours} is installed, and conda's plugins are switched off by no_plugins")
    if not answer.loaded:
        return problem("plugin", f"{answer.ours} is installed in conda, and conda does not load it", install)
    if answer.ours != version:
        return note("plugin", f"{answer.ours} is loaded by conda, this command is {version}", install)
    return ok("plugin", f"{answer.ours}, loaded by conda")
