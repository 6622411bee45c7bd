"""The newest CUDA that this machine's driver can run."""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path
from typing import Mapping

from resume_dl.offline_tools.machine.programs import SHORT, WINDOWS, find_program, is_file, run_quietly
from resume_dl.python_command import isolated_command

_ASK_DRIVER = """
import ctypes, sys
load = ctypes.WinDLL if sys.platform == "win32" else ctypes.CDLL
for place in sys.argv[1:]:
    try:
        library = load(place)
    except OSError:
        continue
    number = ctypes.c_int(0)
    if library.cuDriverGetVersion(ctypes.byref(number)) == 0 and number.value > 0:
        print(number.value)
    break
"""


def cuda_version(env: Mapping[str, str]) -> str | None:
    """The newest CUDA that the driver can run (``12.2``); None without a driver or if unknown."""
    number = ""
    if sys.executable:
        # In a separate process: an incompatible driver library may crash it.
        command = isolated_command(sys.executable, "-c", _ASK_DRIVER, *_driver_libraries(env))
        code, text = run_quietly(command, env, SHORT)
        number = text.strip() if code == 0 else ""
    if re.fullmatch(r"[0-9]{4,6}", number):
        return str(int(number) // 1000) + "." + str(int(number) % 1000 // 10)
    return _nvidia_smi_version(env)


def _driver_libraries(env: Mapping[str, str]) -> tuple[str, ...]:
    if WINDOWS:
        return (str(Path(env.get("SYSTEMROOT", "C:/Windows"), "System32", "nvcuda.dll")), "nvcuda.dll")
    if sys.platform == "darwin":
        names = ("libcuda.1.dylib", "libcuda.dylib")
        return (*names, *("/usr/local/cuda/lib/" + name for name in names))
    machine = platform.machine()
    folders = ("", "/usr/lib64/nvidia/", "/usr/lib/" + machine + "-linux-gnu/", "/usr/lib/wsl/lib/")
    return tuple(folder + name for folder in folders for name in ("libcuda.so.1", "libcuda.so"))


def _nvidia_smi_version(env: Mapping[str, str]) -> str | None:
    places = [find_program("nvidia-smi", env)]
    if WINDOWS:
        places.append(Path(env.get("SYSTEMROOT", "C:/Windows"), "System32", "nvidia-smi.exe"))
    else:
        places.append(Path("/usr/lib/wsl/lib/nvidia-smi"))
    for place in places:
        if place is not None and is_file(place):
            code, text = run_quietly((str(place),), env, SHORT)
            said = re.search(r"CUDA (?:\w+ )?Version:\s*(\d+\.\d+)", text)
            if code == 0 and said:
                return said.group(1)
    return None
