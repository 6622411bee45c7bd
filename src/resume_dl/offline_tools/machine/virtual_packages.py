"""conda's virtual packages for this machine (CEP 30), found without conda."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import Mapping

from resume_dl.offline_tools.machine.cuda_driver import cuda_version
from resume_dl.offline_tools.machine.programs import SHORT, WINDOWS, run_quietly

_MACHINES = ("armv6l", "armv7l", "aarch64", "arm64", "ppc64", "ppc64le", "riscv64", "s390x")
_LEVELS = (
    ("x86_64_v2", ("cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3")),
    ("x86_64_v3", ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave")),
    ("x86_64_v4", ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")),
)
"""Levels of the x86-64 psABI by feature names of /proc/cpuinfo; each includes the previous ones."""


def current_platform() -> str:
    """Conda's subdir for the running Python; its word size counts, not the kernel's."""
    if WINDOWS:
        return {"win32": "win-32", "win-arm64": "win-arm64"}.get(sysconfig.get_platform(), "win-64")
    system = {"darwin": "osx", "zos": "zos"}.get(sys.platform, sys.platform.rstrip("0123456789"))
    machine = platform.machine().lower()
    bits = 64 if sys.maxsize > 2**32 else 32
    if bits == 32 and machine in ("aarch64", "armv8l"):
        machine = "armv7l"
    if system == "zos":
        return "zos-z"
    return system + "-" + (machine if machine in _MACHINES else str(bits))


def virtual_packages(subdir: str, env: Mapping[str, str]) -> dict[str, str]:
    """Virtual packages of this machine: name -> version, or ``version=build``."""
    found: dict[str, str | None] = {}
    if subdir.startswith("linux-"):
        kernel = re.match(r"\d+\.\d+(\.\d+)?(\.\d+)?", platform.release())
        family, version = libc(env)
        found = {"__unix": "0", "__linux": kernel.group() if kernel else "0", "__" + family: version}
    elif subdir.startswith("osx-"):
        found = {"__unix": "0", "__osx": _macos(env)}
    elif subdir.startswith("win-"):
        found = {"__win": platform.version()}
    elif subdir.startswith("freebsd-"):
        found = {"__unix": "0"}
    found["__archspec"] = _archspec(subdir)
    found["__cuda"] = cuda_version(env)
    return {name: value for name, value in sorted(found.items()) if value}


def libc(env: Mapping[str, str], loaders: Path = Path("/lib")) -> tuple[str, str | None]:
    """The C library of a Linux and its version: ``glibc`` or ``musl``; None if its version is unknown."""
    with suppress(ValueError, OSError, AttributeError):
        family, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        if family == "glibc" and version:
            return "glibc", version
    family, version = platform.libc_ver()
    if family in ("glibc", "musl") and version:
        return family, version
    # musl has neither; its loader prints its version when run without a program (PEP 656)
    for loader in sorted(loaders.glob("ld-musl-*.so.1")):
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(
                [str(loader)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=dict(env), timeout=SHORT, check=False,
            )  # fmt: skip
            said = re.search(rb"Version (\d+(?:\.\d+)+)", done.stdout)
            return "musl", said.group(1).decode() if said else "0"
    return "glibc", None


def _macos(env: Mapping[str, str]) -> str | None:
    version = platform.mac_ver()[0]
    if version == "10.16":  # newer systems report this version to a Python built for an older one
        place = "/usr/bin/sw_vers"
        code, text = run_quietly((place, "-productVersion"), {**env, "SYSTEM_VERSION_COMPAT": "0"}, SHORT)
        version = text.strip() if code == 0 and text.strip() else version
    return version or None


def _archspec(subdir: str) -> str | None:
    """The certain minimum: the family, and on Linux the level that the kernel's flags prove."""
    machine = subdir.partition("-")[2]
    name = {"64": "x86_64", "arm64": "m1" if subdir.startswith("osx-") else "aarch64"}.get(machine, machine)
    if name not in ("x86_64", "m1", "aarch64", "ppc64le"):
        return None
    if subdir == "linux-64":
        with suppress(OSError):
            name = level(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"))
    return "1=" + name


def level(cpuinfo: str) -> str:
    """The x86-64 level that every processor of /proc/cpuinfo has: ``x86_64`` to ``x86_64_v4``."""
    found = re.findall(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    flags = set.intersection(*(set(line.split()) for line in found)) if found else set()
    name = "x86_64"
    for higher, needed in _LEVELS:
        if not flags.issuperset(needed):
            break
        name = higher
    return name
