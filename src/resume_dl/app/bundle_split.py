"""``bundle split``: cut a tar, or a bundle's folder after its verification, into parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from resume_dl.bundle.parts import split_file, split_members
from resume_dl.bundle.tar import bundle_members, mtime_of
from resume_dl.errors import ConfigurationError, IntegrityError, StoreError
from resume_dl.offline_tools.parts.parts_list import Parts
from resume_dl.offline_tools.verification.check import check


def cut(
    what: Path,
    out: Path | None,
    *,
    size: int,
    env: Mapping[str, str],
    progress: Callable[[int], object],
    log: Callable[[str], None],
) -> Parts:
    """Cut a file or a bundle's folder into parts of at most ``size`` bytes in ``out``, which is created if missing.

    Without ``out`` the parts are written beside ``what``. ``progress`` is called with the bytes written since its last
    call, ``log`` with lines for the user.
    Raises ConfigurationError, IntegrityError, StoreError.
    """
    what = what.resolve()  # "." has a name too
    if not what.exists():
        raise ConfigurationError(f"{what} does not exist", hint="name the tar or the folder of a bundle")
    folder = what.parent if out is None else out.resolve()
    if not what.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        return split_file(what, folder, size=size, progress=progress)
    if folder == what or what in folder.parents:
        raise ConfigurationError(f"{folder} is inside the bundle", hint="choose another folder with -o")
    report = check(what, log=log)
    if report.problems:
        first = report.problems[0]
        more = f", and {len(report.problems) - 1} more" if len(report.problems) > 1 else ""
        kind = StoreError if report.exit_code == StoreError.exit_code else IntegrityError
        raise kind(f"{first.text}{more}", hint=f"{first.hint}; resume-dl bundle verify lists all")
    folder.mkdir(parents=True, exist_ok=True)
    members = bundle_members(what)
    return split_members(members, folder, f"{what.name}.tar", size=size, mtime=mtime_of(env), progress=progress)
