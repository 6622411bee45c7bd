"""Members of a package that would be written outside the folder it is unpacked into."""

from __future__ import annotations

import re
import stat
import sys
import tarfile
import zipfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Callable

from resume_dl.byte_units import show_bytes
from resume_dl.offline_tools.console import shown
from resume_dl.offline_tools.file_pieces import LastRead
from resume_dl.offline_tools.verification.bundle_source import Expected
from resume_dl.offline_tools.verification.findings import Report
from resume_dl.offline_tools.verification.layout import REMAKE

_LARGEST_MEMBER = 1 << 40
"""Largest member in bytes: a terabyte of zeros packs well, but is in no package."""


def look_inside(each: Expected, file: BinaryIO, report: Report, *, deep: bool) -> bool:
    """Whether all members of an archive stay in the folder it is unpacked to; a problem is reported.

    conda 24.7.1, for one, writes through a hard link that leads elsewhere. Raises OSError.
    """
    lower = each.path.lower()
    wrong = ""
    file.seek(0)
    try:
        if lower.endswith((".whl", ".conda", ".zip")):
            wrong = _wrong_in_zip(file)
        if not wrong and deep and lower.endswith(".conda"):
            unpacked = _zstd()
            if unpacked is None:
                report.unlooked.append(each.path)
            else:
                wrong = _wrong_in_conda(file, unpacked)
        elif deep and lower.endswith((".tar.bz2", ".tar.gz", ".tgz")):
            wrong = _wrong_in_tar(file)
    except Exception as error:  # noqa: BLE001 - zipfile's and tarfile's errors for hostile archives are unknown
        why = shown(str(error)) or type(error).__name__
        wrong = f"is not a readable archive ({why})"
    if wrong:
        report.add(each.path, "unsafe", wrong, REMAKE)
    return not wrong


def look_into(folder: Path, paths: list[str], report: Report) -> None:
    """Inspect these packages of a verified folder; for a Python that can unpack them."""
    for path in paths:
        try:
            with Path(folder, path).open("rb") as file:
                look_inside(Expected(path, None, "", ""), file, report, deep=True)
        except OSError as error:
            report.add_unreadable(path, error)


def _zstd() -> Callable[[BinaryIO], Any] | None:
    """A zstd reader: that of Python 3.14 or of conda's own Python; None without either."""
    with suppress(ImportError):
        opened: Callable[[BinaryIO], Any] = import_module("compression.zstd").ZstdFile
        return opened
    with suppress(ImportError):
        zstandard = import_module("zstandard")
        return lambda file: zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    return None


def _wrong_in_conda(file: BinaryIO, unpacked: Callable[[BinaryIO], Any]) -> str:
    """Inspect a .conda by unpacking its tars to nowhere (format 2: pkg-*.tar.zst, info-*.tar.zst)."""
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".tar.zst"):
                with archive.open(member) as packed, unpacked(packed) as plain:  # type: ignore[arg-type]  # it is read only
                    wrong = _wrong_in_plain_tar(plain)
                    if wrong:
                        return wrong
    return ""


def _wrong_in_zip(file: BinaryIO) -> str:
    """Inspect a ZIP by its directory alone, which is cheap at any size."""
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if stat.S_ISLNK(member.external_attr >> 16):
                return f"its member {shown(member.orig_filename)} is a symbolic link"
            if _leaves(member.orig_filename):
                return f"its member {shown(member.orig_filename)} leaves the folder"
    return ""


def _wrong_in_tar(file: BinaryIO) -> str:
    """Inspect a tar by unpacking it to nowhere. Sparse files are refused: a few bytes fill any disk."""
    import bz2
    import gzip

    packed = file.read(2) == b"BZ"
    file.seek(0)
    with bz2.open(file) if packed else gzip.open(file) as plain:
        return _wrong_in_plain_tar(plain)


def _wrong_in_plain_tar(plain: Any) -> str:
    # through a window: a header may claim any number of bytes
    window = LastRead(plain, 0, sys.maxsize, own=False)
    links: set[str] = set()
    with tarfile.open(fileobj=window, mode="r:") as archive:
        for member in archive:
            name = shown(member.name)
            if _leaves(member.name) or ".." in _parts(member.name):
                return f"its member {name} leaves the folder"
            if member.issparse() or not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                return f"its member {name} is a device, pipe or sparse file"
            if member.size < 0:  # an older tarfile seeks back and reads the same header forever (CVE-2025-8194)
                return f"its member {name} has a size below zero"
            if member.size > _LARGEST_MEMBER:
                return f"its member {name} has {show_bytes(member.size)}"
            base = member.name.rpartition("/")[0] if member.issym() else ""
            if (member.issym() or member.islnk()) and _leaves(member.linkname, base):
                return f"its link {name} leads out of the folder, to {shown(member.linkname)}"
            # chains of links are refused: no real package has them
            if _goes_through(member.name, links) or (member.islnk() and _goes_through(member.linkname, links)):
                return f"its member {name} goes through a link"
            if member.issym():
                links.add("/".join(_parts(member.name)).casefold())
            archive.members = []  # type: ignore[attr-defined]  # else it keeps every member
    # tarfile takes a damaged header for the end; other programs continue after it
    return "its tar is damaged between two members" if any(window.last) else ""


def _parts(name: str) -> list[str]:
    return [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]


def _goes_through(name: str, links: set[str]) -> bool:
    """Whether ``name`` is one of these links, or below one."""
    at = ""
    for part in _parts(name.casefold()):
        at = f"{at}/{part}" if at else part
        if at in links:
            return True
    return False


def _leaves(name: str, base: str = "") -> bool:
    """Whether ``name``, read from the folder ``base``, is absolute or leads above where it starts."""
    name = name.replace("\\", "/")
    if name.startswith("/") or "\0" in name or re.match(r"[A-Za-z]:", name):
        return True
    depth = len(_parts(base))
    for part in name.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            return True
    return False
