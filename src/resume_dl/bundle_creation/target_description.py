"""Descriptions of an offline machine: target.json of ``probe``, inventory.json of ``bundle inventory``.

The files are untrusted. Every value is checked for type and form before use; a wrong one is a ConfigurationError
that names the field. No value becomes a path, a command or a login here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from resume_dl.errors import ConfigurationError
from resume_dl.model.artifact import safe_filename
from resume_dl.model.digest import Digest
from resume_dl.model.target import TargetMachine
from resume_dl.model.url import RedactedUrl

SCHEMA = 1
TARGET = "resume-dl target"
INVENTORY = "resume-dl inventory"
MOST_BYTES = 256 * 2**20
"""Largest file in bytes; 50,000 packages are 15 MB."""
_MOST_SIZE = 2**53
_MOST_LETTERS = 1000
_PLATFORM = re.compile(r"[a-z]{1,20}-[a-z0-9_]{1,20}", re.ASCII)
_VIRTUAL = re.compile(r"__[a-z0-9][a-z0-9_.-]{0,60}", re.ASCII)
_VALUE = re.compile(r"[0-9][0-9A-Za-z_.]{0,60}(?:=[\w.+-]{1,60})?", re.ASCII)
_CUDA = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}(?:\.[0-9]{1,3})?", re.ASCII)
_PYTHON = re.compile(r"[0-9]{1,2}\.[0-9]{1,3}\.[0-9]{1,3}", re.ASCII)
_CHANNEL = re.compile(r"[A-Za-z0-9_][\w.-]*(?:/[A-Za-z0-9_][\w.-]*)*", re.ASCII)
_ADDRESS = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[\w.~%+-]+)*", re.ASCII)
_ASSUMED = {"linux": ("__unix", "__linux", "__glibc"), "osx": ("__unix", "__osx"), "win": ("__win",)}
"""Virtual packages that a solve assumes for a platform (resolve/virtual), besides ``__archspec``."""
_HINT = "make it again on that machine with `resume-dl probe`, or with the script from `resume-dl probe --script`"


@dataclass(frozen=True, slots=True)
class Held:
    """An archive or wheel on the target, with its digest; size in bytes."""

    filename: str
    size: int
    sha256: str
    md5: str | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """The packages on a machine."""

    packages: tuple[Held, ...] = ()
    """conda archives."""
    wheels: tuple[Held, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """A machine, its packages, and notes for the user."""

    machine: TargetMachine
    inventory: Inventory | None = None
    """None with ``--no-inventory``."""
    notes: tuple[str, ...] = ()
    """Notes, one line each."""


def read_target(path: Path) -> Target:
    """Read a target.json. Raises ConfigurationError."""
    said = _read(path)
    if said.get("kind") == INVENTORY:
        raise ConfigurationError(f"{path} is an inventory, not the profile of a machine", hint=_HINT)
    file = _File(path, said)
    platform = file.text("platform", _PLATFORM)
    packages = file.mapping("virtual_packages")
    for name, value in packages.items():
        if not _VIRTUAL.fullmatch(name) or not isinstance(value, str) or not _VALUE.fullmatch(value):
            file.refuse("virtual_packages")
    cuda = packages.get("__cuda")
    if cuda is not None and not _CUDA.fullmatch(cuda):
        file.refuse("virtual_packages")
    # the probe has looked: an empty version removes the assumption
    absent = (*_ASSUMED.get(platform.partition("-")[0], ()), "__archspec")
    named = {**dict.fromkeys(absent, ""), **packages}
    conda = said.get("conda")
    channels, skipped = ((), 0) if conda is None else _channels(_File(path, file.mapping("conda"), "conda."))
    machine = TargetMachine(
        platform=platform,
        virtual_packages=tuple(f"{name}={named[name]}" for name in sorted(named) if name != "__cuda"),
        cuda=cuda or "none",
        python=None if said.get("python") is None else file.text("python", _PYTHON),
        channels=channels,
    )
    inventory = None if said.get("inventory") is None else _inventory(file)
    return Target(machine, inventory, tuple(_notes(said, machine, skipped)))


def read_inventory(path: Path) -> Inventory:
    """Read the packages in an inventory.json or a target.json. Raises ConfigurationError."""
    said = _read(path)
    if said.get("inventory") is None:
        raise ConfigurationError(
            f"{path} holds no inventory", hint="make it again there, without --no-inventory, or by `bundle inventory`"
        )
    return _inventory(_File(path, said))


class _File:
    """A JSON object of a file, read field by field."""

    def __init__(self, path: Path, said: Mapping[str, Any], above: str = "") -> None:
        self.path, self.said, self._above = path, said, above

    def refuse(self, field: str) -> NoReturn:
        """Raise the ConfigurationError for this field. Its untrusted value is not shown."""
        raise ConfigurationError(f"{self.path}: {self._above}{field} has an invalid value", hint=_HINT)

    def text(self, field: str, form: re.Pattern[str]) -> str:
        """A text of this form."""
        value = self.said.get(field)
        if not isinstance(value, str) or not form.fullmatch(value):
            self.refuse(field)
        return value

    def mapping(self, field: str) -> Mapping[str, Any]:
        """An object."""
        value = self.said.get(field)
        if not isinstance(value, dict):
            self.refuse(field)
        return value

    def rows(self, field: str) -> list[Any]:
        """A list; empty if missing."""
        value = self.said.get(field, [])
        if not isinstance(value, list):
            self.refuse(field)
        return value

    def count(self, field: str) -> int:
        """A whole number, not below 0; 0 if missing."""
        value = self.said.get(field, 0)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_SIZE:
            self.refuse(field)
        return value


def _read(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(f"cannot read {path}: {reason}", hint="name the file that probe wrote") from error
    if len(data) > MOST_BYTES:
        raise ConfigurationError(f"{path} is larger than any machine profile", hint=_HINT)
    try:
        said = json.loads(data)  # with a byte-order mark too: PowerShell's > writes UTF-16
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not a complete JSON file", hint=_HINT) from error
    if not isinstance(said, dict) or said.get("kind") not in (TARGET, INVENTORY):  # not a set: it may be a list
        raise ConfigurationError(f"{path} was not written by probe", hint=_HINT)
    if type(said.get("schema")) is not int or said["schema"] != SCHEMA:
        raise ConfigurationError(
            f"{path} has a schema that this resume-dl does not read", hint="use the same resume-dl on both machines"
        )
    return said


def _channels(conda: _File) -> tuple[tuple[str, ...], int]:
    """Its channels, and the number of those that cannot be reached from here."""
    found = conda.rows("channels")
    kept = []
    for channel in found:
        if not isinstance(channel, str) or len(channel) > _MOST_LETTERS:
            conda.refuse("channels")
        if (_ADDRESS.fullmatch(channel) or _CHANNEL.fullmatch(channel)) and not RedactedUrl(channel).has_secret:
            kept.append(channel)
    return tuple(dict.fromkeys(kept)), conda.count("channels_left_out") + len(found) - len(kept)


def _inventory(file: _File) -> Inventory:
    inside = _File(file.path, file.mapping("inventory"), "inventory.")
    return Inventory(packages=tuple(_each(inside, "packages", _held)), wheels=tuple(_each(inside, "wheels", _held)))


def _each(inside: _File, field: str, read: Callable[[Mapping[str, Any]], Held]) -> list[Held]:
    found = []
    for row in inside.rows(field):
        try:
            found.append(read(row))
        except (KeyError, TypeError, ValueError, AttributeError):
            inside.refuse(field)
    return found


def _held(row: Mapping[str, Any]) -> Held:
    size, md5 = row["size"], row.get("md5")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < _MOST_SIZE:
        raise ValueError("no size")
    sha256 = Digest("sha256", row["sha256"]).hex
    return Held(safe_filename(row["filename"]), size, sha256, None if md5 is None else Digest("md5", md5).hex)


def _notes(said: Mapping[str, Any], machine: TargetMachine, skipped: int) -> list[str]:
    notes = []
    if said.get("conda") is None:
        clients = said.get("clients")
        notes.append(
            "its conda did not answer: the platform was found without it, and its channels are unknown"
            if clients
            else "it has no conda, mamba or micromamba: only pip's packages can be used there"
        )
    if skipped:
        notes.append(f"channels of its conda that are left out: {skipped}: only that machine can reach them")
    if any(text.startswith("__musl=") for text in machine.virtual_packages):
        notes.append("it uses musl: most conda packages and wheels need glibc and will not run")
    if machine.cuda == "none":
        notes.append("probe found no CUDA driver on it; --cuda overrides this")
    if machine.python is None:
        notes.append("it has no pip: name the Python that wheels are for with --python")
    return notes
