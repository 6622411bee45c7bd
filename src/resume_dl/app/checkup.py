"""``doctor``: gather facts about this machine, the slow ones at once, and judge them."""

from __future__ import annotations

import queue
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from resume_dl import __version__
from resume_dl.app.health import examine
from resume_dl.diagnosis.address_check import check_settings
from resume_dl.diagnosis.conda_check import CondaFacts, check_conda
from resume_dl.diagnosis.conda_probe import look_at_conda
from resume_dl.diagnosis.console_check import check_console
from resume_dl.diagnosis.console_probe import look_at_console
from resume_dl.diagnosis.finding import Finding, note, problem
from resume_dl.diagnosis.folder_check import FolderFacts, check_folders
from resume_dl.diagnosis.folder_probe import look_at_folders
from resume_dl.diagnosis.gpu_check import check_gpu
from resume_dl.diagnosis.gpu_probe import look_at_gpu
from resume_dl.diagnosis.network_check import NetworkFacts, check_network
from resume_dl.diagnosis.network_probe import SECONDS, NetworkProbe, questions
from resume_dl.diagnosis.settings_probe import look_at_settings
from resume_dl.errors import ConfigurationError
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.mirror import MirrorTable
from resume_dl.settings.conda_config import load_conda_settings
from resume_dl.settings.mirrors import load_mirrors
from resume_dl.settings.network import find_proxies, load_network
from resume_dl.settings.paths import Paths, find_paths
from resume_dl.threads import start_thread

FOLDER_SECONDS = 60.0
"""For all folders: a network drive may not answer, and a cache may hold thousands of packages."""
_T = TypeVar("_T")


def examine_machine(
    env: Mapping[str, str],
    *,
    offline: bool = False,
    encoding: str = "utf-8",
    log: Callable[[str], None] = lambda _: None,
) -> list[Finding]:
    """All findings, in the order of the page. Never raises ConfigurationError; every wait has a limit.

    ``encoding``: that of stdout. ``log`` gets a line before a wait that may be long.
    """
    paths = find_paths(env)
    findings: list[Finding] = []
    table = MirrorTable({})
    try:
        table = load_mirrors(user=paths.mirrors_file)
    except ConfigurationError as error:
        findings.append(problem("mirrors.toml", error.message))
        table = load_mirrors()
    log("asking conda for its settings")
    conda, refusal = _conda(paths, env)
    probe, network = _network(table, conda, env, offline=offline)
    folders = _Background(lambda: _folders(conda, paths), "doctor-folders")
    log("asking conda, the driver and the servers")
    facts = CondaFacts(trouble=refusal) if refusal else look_at_conda(conda, env)
    gpu = look_at_gpu(env)
    if probe is not None:
        network = replace(network, answers=probe.answers(), seconds=SECONDS)
    return [
        *check_conda(facts, __version__),
        *(folders.result(FOLDER_SECONDS) or [note("cache", f"the folders did not answer within {FOLDER_SECONDS:g} s")]),
        *findings,
        *check_settings(look_at_settings(conda, env), table),
        *check_network(network, sys.executable),
        *check_gpu(gpu),
        *check_console(look_at_console(encoding)),
    ]


def _conda(paths: Paths, env: Mapping[str, str]) -> tuple[CondaSettings, str]:
    """Conda's settings, and why ``RESUME_DL_CONDA`` cannot be used (then those of the files)."""
    try:
        return load_conda_settings(paths, env), ""
    except ConfigurationError as error:
        return load_conda_settings(paths, {**env, "RESUME_DL_CONDA": "none"}), error.message


def _network(
    table: MirrorTable, conda: CondaSettings, env: Mapping[str, str], *, offline: bool
) -> tuple[NetworkProbe | None, NetworkFacts]:
    """The requests, started, and what is known without them."""
    proxies: dict[str, tuple[str, str]] = {}
    try:
        proxies = find_proxies(env, conda)
        settings = load_network(env, conda)
    except ConfigurationError as error:
        return None, NetworkFacts(proxies, trouble=error.message, verified=conda.ssl_verify is not False)
    facts = NetworkFacts(proxies, verified=settings.verify is not False, auth=settings.proxy_auth)
    return (None if offline else NetworkProbe(questions(table), settings)), facts


def _folders(conda: CondaSettings, paths: Paths) -> list[Finding]:
    facts: FolderFacts = look_at_folders(conda, paths)
    packages = _Background(lambda: examine([Path(place) for place in conda.pkgs_dirs]), "doctor-packages")
    health = packages.result(FOLDER_SECONDS * 0.8)
    if health is not None:
        damaged = tuple(each.path.name for each in health.damage)
        facts = replace(facts, packages=health.packages, damaged=damaged)
    return check_folders(facts)


class _Background(Generic[_T]):
    """A call in a thread, whose result is waited for with a limit."""

    def __init__(self, call: Callable[[], _T], name: str) -> None:
        self._ended: queue.SimpleQueue[tuple[_T] | BaseException] = queue.SimpleQueue()
        self._began = time.monotonic()
        try:
            start_thread(lambda: self._ended.put((call(),)), self._ended.put, name=name)
        except RuntimeError as error:  # no thread left
            self._ended.put(error)

    def result(self, seconds: float) -> _T | None:
        """The result; None if it is missing ``seconds`` after the start. Raises the call's exception."""
        try:
            found = self._ended.get(timeout=max(0.0, self._began + seconds - time.monotonic()))
        except queue.Empty:
            return None
        if isinstance(found, BaseException):
            raise found
        return found[0]
