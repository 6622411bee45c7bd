"""Cache entries: archives copied into the stage's package cache, unpacked packages moved to the user's."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.fs.folder_move import move_folder
from resume_dl.offline_tools.digests import hash_file
from resume_dl.offline_tools.installation.environments import read_info, read_text
from resume_dl.offline_tools.installation.options import InstallError
from resume_dl.offline_tools.installation.plan import Package, Plan
from resume_dl.offline_tools.machine.conda_info import CondaInfo
from resume_dl.offline_tools.verification.layout import UNFINISHED

_RECORD = "repodata_record.json"
_LAST = ("info/index.json", f"info/{_RECORD}")
"""A folder without them is no package to conda."""


def copy_verified(package: Package, place: Path) -> str | None:
    """Copy an archive, hash the copy, return its MD5 (None if Python forbids it). Raises InstallError, OSError."""
    shutil.copyfile(str(package.source), str(place))
    _, sha256, md5 = hash_file(place)
    if sha256 != package.entry["sha256"]:
        hint = "another program writes to it, or a disk fails; copy it again"
        raise InstallError(f"{package.source} has changed since it was verified; nothing was installed", hint, 4)
    return md5


def publish_unpacked(cache: Path, plan: Plan, info: CondaInfo) -> None:
    """Move unpacked packages into conda's own cache, where the name is free: folder, archive, URL.

    The environment's records then name that place, where conda-pack looks. Errors are ignored: the environment works
    without it, only the next installation is slower.
    """
    own = cache.parent.parent.parent
    if cache.parent.parent.name != UNFINISHED or str(own) not in info.pkgs_dirs:
        return
    for each in plan.conda:
        name = _RECORD
        places = own / each.stem, own / each.filename
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            is_new = not any(place.exists() or place.is_symlink() for place in places)
            if is_new and read_info(cache / each.stem, name):
                move_folder(cache / each.stem, places[0], last=_LAST)
                fs.replace(cache / each.filename, places[1])
                urls = fs.open_regular(own / "urls.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                with os.fdopen(urls, "ab") as addresses:
                    addresses.write((each.url + os.linesep).encode("ascii"))
            if json.loads(read_info(places[0], name))["url"] == each.url:
                _name_place(plan.prefix / "conda-meta" / f"{each.stem}.json", *places)


def _name_place(record: Path, folder: Path, archive: Path) -> None:
    """Write the cache entry's path into an environment's record. Raises OSError, ValueError, KeyError."""
    said = json.loads(read_text(record))
    said["link"]["source"] = said["extracted_package_dir"] = str(folder)
    said["package_tarball_full_path"] = str(archive)
    beside = record.with_name(record.name + ".new")
    fs.write_file(beside, json.dumps(said, indent=2, sort_keys=True).encode("utf-8"))
    fs.replace(beside, record)
