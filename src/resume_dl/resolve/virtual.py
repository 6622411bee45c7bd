"""Virtual packages for a solve: this machine's, or defaults for another platform. Pure.

Names and versions: conda's CEP 30; the overrides' names are conda's own (``CONDA_OVERRIDE_GLIBC``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from resume_dl.errors import ConfigurationError

VirtualPackage = tuple[str, str, str]
"""name, version, build"""

_GLIBC = "2.17"
_LINUX = "5.10"
_MACHINES = {
    "64": "x86_64",
    "32": "x86",
    "aarch64": "aarch64",
    "arm64": "m1",
    "ppc64le": "ppc64le",
    "s390x": "s390x",
    "riscv64": "riscv64",
    "armv7l": "armv7l",
    "armv6l": "armv6l",
    "ppc64": "ppc64",
}
_OVERRIDES = ("__archspec", "__cuda", "__glibc", "__linux", "__osx", "__win")
_SUBDIR = re.compile(r"[a-z]+-[a-z0-9_]+|noarch")
_NAME = re.compile(r"__[a-z0-9][a-z0-9_.-]*")
_VERSION = re.compile(r"[0-9][0-9A-Za-z_.]*")
_BUILD = re.compile(r"[\w.+-]+")


@dataclass(frozen=True, slots=True)
class Target:
    """The virtual packages of the machine that the packages are for."""

    packages: tuple[VirtualPackage, ...]
    assumed: bool
    """Whether these are a platform's defaults, not detected on this machine."""

    def shown(self) -> tuple[str, ...]:
        """Return each as ``name=version=build``."""
        return tuple("=".join(package) for package in self.packages)


def defaults(subdir: str) -> tuple[VirtualPackage, ...]:
    """Return the defaults for another platform: an old system that most packages still support.

    Raises ConfigurationError for an unknown platform.
    """
    if not _SUBDIR.fullmatch(subdir):
        raise ConfigurationError(f"{subdir!r} is not a conda platform", hint="as linux-64, win-64 or osx-arm64")
    system, _, machine = subdir.partition("-")
    arch = ("__archspec", "1", _MACHINES.get(machine, machine))
    if system == "linux":
        return (("__unix", "0", "0"), ("__linux", _LINUX, "0"), ("__glibc", _GLIBC, "0"), arch)
    if system == "osx":
        version = "11.0" if machine == "arm64" else "10.15"
        return (("__unix", "0", "0"), ("__osx", version, "0"), arch)
    if system == "win":
        return (("__win", "10.0", "0"), arch)
    return (("__unix", "0", "0"), arch) if system != "noarch" else ()


def target(
    subdir: str,
    *,
    host: str,
    detected: Sequence[VirtualPackage],
    overrides: Sequence[str] = (),
    cuda: str | None = None,
    env: Mapping[str, str],
) -> Target:
    """Return the virtual packages for ``subdir``.

    They are this machine's (``detected``) if the platform is its own, else defaults. ``CONDA_OVERRIDE_*`` of ``env``
    replaces these, then ``cuda`` (a version or ``none``), then ``overrides`` (``__glibc=2.17``; an empty version
    removes the package). Raises ConfigurationError.
    """
    foreign = subdir != host
    found = {package[0]: package for package in (defaults(subdir) if foreign else detected)}
    for name in _OVERRIDES:
        value = env.get(f"CONDA_OVERRIDE_{name[2:].upper()}")
        # As in conda, variables add no package that the platform lacks, except a driver's.
        if value is not None and (name in found or name == "__cuda" or (name == "__glibc" and "__linux" in found)):
            _set(found, name, value.strip(), where=f"CONDA_OVERRIDE_{name[2:].upper()}")
    if cuda is not None:
        _set(found, "__cuda", "" if cuda == "none" else cuda, where="--cuda")
    for text in overrides:
        name, _, value = text.strip().partition("=")
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{text!r} is not a virtual package", hint="as in --virtual-package __glibc=2.17; names begin with __"
            )
        _set(found, name, value.lstrip("="), where=f"--virtual-package {text}")
    return Target(tuple(found[name] for name in sorted(found)), foreign)


def _set(found: dict[str, VirtualPackage], name: str, value: str, *, where: str) -> None:
    if not value:
        found.pop(name, None)
        return
    version, _, build = value.partition("=")
    if name == "__archspec" and not build:
        version, build = "1", value.removeprefix("1=")
    build = build or "0"
    if not _VERSION.fullmatch(version) or not _BUILD.fullmatch(build):
        raise ConfigurationError(f"{where}: {value!r} is not a version", hint="as in 11.0 or 2.17")
    found[name] = (name, version, build)
