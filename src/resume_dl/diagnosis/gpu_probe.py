"""The NVIDIA driver of this machine."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from resume_dl import fs
from resume_dl.diagnosis.gpu_check import GpuFacts
from resume_dl.offline_tools.machine.cuda_driver import cuda_version
from resume_dl.offline_tools.machine.programs import SHORT, find_program, run_quietly

KERNEL_MODULE = Path("/proc/driver/nvidia/version")
_MOST_BYTES = 4096
_NUMBER = re.compile(r"(?<![0-9.])[0-9]{3}\.[0-9]{2,3}(?:\.[0-9]{2})?(?![0-9.])")


def look_at_gpu(env: Mapping[str, str], kernel_module: Path = KERNEL_MODULE) -> GpuFacts:
    """The facts about the driver; each program has 30 s at most."""
    return GpuFacts(
        cuda=cuda_version(env) or "",
        driver=_driver(env, kernel_module),
        override=env.get("CONDA_OVERRIDE_CUDA"),
        windows=sys.platform == "win32",
    )


def _driver(env: Mapping[str, str], kernel_module: Path) -> str:
    try:
        text = fs.read_regular(kernel_module, _MOST_BYTES).decode("ascii", "replace")
    except OSError:
        program = find_program("nvidia-smi", env)
        if program is None:
            return ""
        query = (str(program), "--query-gpu=driver_version", "--format=csv,noheader")
        code, text = run_quietly(query, env, SHORT)
        if code != 0:
            return ""
    found = _NUMBER.search(text)
    return found[0] if found else ""
