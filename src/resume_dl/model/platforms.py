"""The platforms of wheels: conda's names for them, and PEP 508's."""

from __future__ import annotations

TARGETS = {
    "linux-64": ("Linux", "x86_64"),
    "linux-aarch64": ("Linux", "aarch64"),
    "linux-riscv64": ("Linux", "riscv64"),
    "osx-64": ("Darwin", "x86_64"),
    "osx-arm64": ("Darwin", "arm64"),
    "win-32": ("Windows", "x86"),
    "win-64": ("Windows", "AMD64"),
    "win-arm64": ("Windows", "ARM64"),
}
"""conda's subdir -> ``platform_system`` and ``platform_machine`` of PEP 508."""
SYS_PLATFORM = {"Linux": "linux", "Darwin": "darwin", "Windows": "win32"}
"""``platform_system`` -> ``sys_platform``"""


def marker(platform: str) -> str:
    """The PEP 508 marker that holds on this platform (conda's subdir) and on no other. Raises KeyError."""
    system, machine = TARGETS[platform]
    return f"sys_platform == '{SYS_PLATFORM[system]}' and platform_machine == '{machine}'"
