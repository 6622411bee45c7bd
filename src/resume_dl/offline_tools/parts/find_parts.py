"""Search for the list of parts by a folder, a list, a part or the whole file's name."""

import os
import re
from pathlib import Path

from resume_dl.offline_tools.parts.parts_list import LIST, MISSING, USAGE, JoinError, part_name

_PART = re.compile(r"(?P<name>.+)\.[0-9]{3,4}")


def find_list(what: Path) -> Path:
    """Find the list of parts by a folder, a list, a part or the whole file's name; raises JoinError."""
    if what.is_dir():
        return _list_in(what)
    name = what.name
    if name.endswith(LIST) and exists(what):
        return what
    found = _PART.fullmatch(name)
    stems = [name] + ([found["name"]] if found else []) + ([name[: -len(LIST)]] if name.endswith(LIST) else [])
    for stem in stems:
        if exists(what.with_name(stem + LIST)):
            return what.with_name(stem + LIST)
    if exists(what) or any(exists(what.with_name(part_name(stem, 1, 1))) for stem in stems):
        raise _without_list(stems[-1])
    raise JoinError(f"{what} does not exist", "name X.tar.parts.json, or the folder that it lies in", USAGE)


def _list_in(folder: Path) -> Path:
    names = sorted(each.name for each in folder.iterdir())
    lists = [name for name in names if name.endswith(LIST)]
    if len(lists) == 1:
        return folder / lists[0]
    if lists:
        which = "name one of " + ", ".join(lists)
        raise JoinError(f"{folder} holds the parts of {len(lists)} files", which, USAGE)
    stems = sorted({found["name"] for found in map(_PART.fullmatch, names) if found})
    if len(stems) == 1:
        raise _without_list(stems[0])
    raise JoinError(f"{folder} holds no parts", "name the folder of X.tar.parts.json", USAGE)


def _without_list(stem: str) -> JoinError:
    return JoinError(f"{stem}{LIST} is missing", "copy it here from where the parts were made", MISSING)


def exists(path: Path) -> bool:
    """Whether anything has this name, a broken link too."""
    return os.path.lexists(str(path))
