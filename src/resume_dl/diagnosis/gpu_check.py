"""Judge the NVIDIA driver against the CUDA builds that can be chosen. Pure.

Drivers: NVIDIA, "CUDA Toolkit Release Notes", table "CUDA Toolkit and Corresponding Driver Versions" (the toolkit's
general release, x86_64). Builds: pytorch.org, "Previous PyTorch Versions", the conda lines of each release.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from resume_dl.diagnosis.finding import Finding, note, ok, problem

_Version = tuple[int, ...]
_DRIVERS: tuple[tuple[str, str, str], ...] = (
    ("12.4", "550.54", "551.61"),
    ("12.3", "545.23", "545.84"),
    ("12.2", "535.54", "536.25"),
    ("12.1", "530.30", "531.14"),
    ("12.0", "525.60", "527.41"),
    ("11.8", "520.61", "522.06"),
    ("11.7", "515.43", "516.01"),
    ("11.6", "510.39", "511.23"),
    ("11.5", "495.29", "496.04"),
    ("11.4", "470.42", "471.11"),
    ("11.3", "465.19", "465.89"),
    ("11.2", "460.27", "460.82"),
    ("11.1", "455.23", "456.38"),
    ("11.0", "450.36", "451.22"),
    ("10.2", "440.33", "441.22"),
    ("10.1", "418.39", "418.96"),
    ("10.0", "410.48", "411.31"),
    ("9.2", "396.26", "397.44"),
    ("9.1", "390.46", "391.29"),
    ("9.0", "384.81", "385.54"),
    ("8.0", "375.26", "376.51"),
)
"""CUDA, the oldest driver of it on Linux and on Windows; newest first."""
_PYTORCH: tuple[tuple[str, str], ...] = (
    ("12.4", "2.5.1"),
    ("12.1", "2.5.1"),
    ("11.8", "2.5.1"),
    ("11.7", "2.0.1"),
    ("11.6", "1.13.1"),
    ("11.3", "1.12.1"),
    ("11.0", "1.7.1"),
    ("10.2", "1.12.1"),
    ("10.1", "1.7.1"),
    ("9.2", "1.7.1"),
    ("9.0", "1.1.0"),
)
"""CUDA -> a release of the channel pytorch that is built for it; newest CUDA first."""


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """``cuda``: the newest that the driver states, ``11.0``; ``driver``: its version, ``450.80.02``. Empty: unknown."""

    cuda: str = ""
    driver: str = ""
    override: str | None = None
    """``CONDA_OVERRIDE_CUDA``; None if it is not set."""
    windows: bool = False


def check_gpu(facts: GpuFacts) -> list[Finding]:
    """One finding ``gpu``."""
    newest = newest_cuda(facts)
    if not newest:
        if facts.override:
            return [note("gpu", f"no NVIDIA driver found; CONDA_OVERRIDE_CUDA={facts.override} chooses CUDA builds")]
        if facts.driver:
            return [note("gpu", f"driver {facts.driver} is older than CUDA 8.0; builds for the CPU are chosen")]
        return [ok("gpu", "no NVIDIA driver found; builds for the CPU are chosen")]
    named = f"driver {facts.driver}" if facts.driver else "the NVIDIA driver"
    text = f"{named} supports CUDA <= {newest}{_fitting(newest)}"
    override = _version(facts.override or "")
    if override and override > _version(newest):
        command = "set CONDA_OVERRIDE_CUDA=" if facts.windows else "unset CONDA_OVERRIDE_CUDA"
        return [
            problem("gpu", f"{text}; CONDA_OVERRIDE_CUDA={facts.override} chooses builds that it cannot run", command)
        ]
    if facts.override is not None and not facts.override.strip():
        return [note("gpu", f"{text}; CONDA_OVERRIDE_CUDA is empty, so builds for the CPU are chosen")]
    return [ok("gpu", text)]


def newest_cuda(facts: GpuFacts) -> str:
    """The newest CUDA of the driver: as it states, else by its version; empty if unknown or none."""
    if _version(facts.cuda):
        return facts.cuda
    driver = _version(facts.driver)
    for cuda, linux, windows in _DRIVERS:
        if driver and driver >= _version(windows if facts.windows else linux):
            return cuda
    return ""


def _fitting(newest: str) -> str:
    for cuda, release in _PYTORCH:
        if _version(cuda) <= _version(newest):
            return f"; pytorch {release} cuda{cuda.replace('.', '')} fits"
    return "; no build of pytorch for it is known"


def _version(text: str) -> _Version:
    """The numbers of a version; empty if it is malformed."""
    found = re.fullmatch(r"([0-9]{1,5}(?:\.[0-9]{1,5}){0,3})", text.strip(), re.ASCII)
    return tuple(map(int, found[1].split("."))) if found else ()
