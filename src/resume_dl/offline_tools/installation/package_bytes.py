"""Location of each package's bytes on this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from resume_dl.byte_units import show_bytes
from resume_dl.offline_tools.digests import hash_file
from resume_dl.offline_tools.installation.options import InstallError, Run
from resume_dl.offline_tools.installation.plan import Package
from resume_dl.offline_tools.machine.conda_info import CondaInfo
from resume_dl.offline_tools.machine.package_places import pkgs_dirs, wheel_dirs

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.!+-]*")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.!+~-]*")


def find_packages(run: Run, folder: Path, entries: list[dict[str, Any]], info: CondaInfo | None) -> list[Package]:
    """Locate each package, also those that a delta expects on this machine. Nothing is written."""
    found = []
    missing = []
    caches = [*run.options.pkgs_dirs, *pkgs_dirs(info, run.env)]
    wheels = [*run.options.wheels, *wheel_dirs(run.env)]
    relied_on = [entry for entry in entries if not entry["included"]]
    if relied_on:
        size = sum(entry["size"] for entry in relied_on)
        run.log(f"looking for {len(relied_on)} files that this machine should have, {show_bytes(size)}")
    for entry in entries:
        name = entry["path"].rpartition("/")[2]
        fits = _NAME.fullmatch(entry["name"]) and _VERSION.fullmatch(entry["version"]) and _FILE.fullmatch(name)
        if not fits:
            text = "{}: its name or version cannot be written into a list".format(entry["path"])
            raise InstallError(text, "do not use this bundle; ask its maker for another", 4)
        if entry["included"]:
            found.append(Package(entry, folder / entry["path"]))
            continue
        places = [each / name for each in (caches if _is_conda(entry) else wheels)]
        place = next((each for each in places if holds_bytes(each, entry)), None)
        if place is None:
            missing.append(_describe_missing(entry, places))
        else:
            found.append(Package(entry, place))
    if missing:
        raise InstallError(
            f"the bundle leaves out what this machine was said to have, and {len(missing)} of these files are not "
            "here; nothing was installed:\n" + "\n".join(missing),
            "put them there, or name their folder with --pkgs-dir DIR (wheels: --wheels DIR), or make the bundle "
            "again with an inventory of this machine: resume-dl bundle inventory",
            1,
        )
    return found


def _is_conda(entry: dict[str, Any]) -> bool:
    return bool(entry["kind"] == "conda")


def holds_bytes(place: Path, entry: dict[str, Any]) -> bool:
    """Whether a file has this package's size and digest."""
    try:
        if not place.is_file() or place.stat().st_size != entry["size"]:
            return False
        return bool(hash_file(place)[1] == entry["sha256"])
    except OSError:
        return False


def _describe_missing(entry: dict[str, Any], places: list[Path]) -> str:
    name = entry["path"].rpartition("/")[2]
    lines = [f"  {name}", f"    sha256 {entry['sha256']}, {entry['size']:,} bytes"]
    for place in places:
        what = "present, with other bytes" if place.is_file() else "missing"
        lines.append(f"    {what}: {place}")
    if not places:
        lines.append("    there is no folder to look in")
    return "\n".join(lines)


def refuse_same_names(packages: list[Package]) -> None:
    """Raise InstallError if two archives would be unpacked to one folder."""
    seen: dict[str, str] = {}
    for each in packages:
        other = seen.setdefault(each.stem, each.entry["path"])
        if other != each.entry["path"]:
            text = f"{other} and {each.entry['path']} are one package to conda"
            raise InstallError(text, "do not use this bundle; ask its maker for another", 2)
