"""Unpack a bundle from a tar, so that nothing is written outside, or unverified."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.byte_units import show_bytes
from resume_dl.offline_tools.console import Told, shown
from resume_dl.offline_tools.file_pieces import blocks, native
from resume_dl.offline_tools.tarred.tar_check import open_tar
from resume_dl.offline_tools.tarred.tar_source import TarSource
from resume_dl.offline_tools.verification.bundle_source import Expected, odd_kind
from resume_dl.offline_tools.verification.files_listed import list_files
from resume_dl.offline_tools.verification.findings import Report
from resume_dl.offline_tools.verification.judge import Judge
from resume_dl.offline_tools.verification.layout import MANIFEST, SUMS, UNFINISHED
from resume_dl.offline_tools.verification.package_members import look_inside
from resume_dl.offline_tools.verification.wanted import Wanted


def unpack(
    tar: Path,
    folder: Path,
    *,
    manifest_sha256: str | None = None,
    allowed_signers: Path | None = None,
    signer: str | None = None,
    told: Told | None = None,
) -> Report:
    """Verify a tar and lay its files into ``folder``, new, empty, or left by an ``unpack`` that failed.

    No file gets its name before its bytes are verified, and nothing is written outside. Where anything is wrong with
    the tar's list or names, nothing is written at all. Where files are damaged, the others are laid out and the
    manifest is not; the same call continues once the tar was copied again. Raises UsageError.
    """
    tar, folder = Path(tar), Path(folder)
    wanted = Wanted(manifest_sha256, allowed_signers, signer, folder)
    report = Report()
    try:
        with open_tar(tar) as file:
            source = TarSource(tar, file, report)
            expected = list_files(source, wanted, report)
            if not report.problems:
                _Unpacking(source, native(folder), report, told).run(expected)
    except OSError as error:
        why = f"cannot be unpacked into {shown(str(folder))}: {shown(error.strerror or str(error))}"
        report.add(str(tar), "machine", why, "look at both disks, then unpack it again: what is laid out is kept")
    return report


class _Unpacking:
    """Lays verified files of a tar into a folder: each in a folder aside until its bytes are right."""

    def __init__(self, source: TarSource, root: Path, report: Report, told: Told | None) -> None:
        self._source = source
        self._root = root
        # by it the same bundle is known again, and nothing of another is mixed with it
        self._aside = root / UNFINISHED / f"unpack-{report.manifest_sha256[:16]}"
        self._rooms: set[Path] = set()
        self._report = report
        self._told = told

    def run(self, expected: list[Expected]) -> None:
        """All of them, the manifest last: until then the folder is an unfinished bundle. Raises OSError."""
        if not self._prepare(sum(self._source.entries[each.path] for each in expected)):
            return
        judge = Judge(expected, self._source, self._report, self._told)
        for each in expected:
            self._lay(each, judge)
        if self._report.problems:
            return
        with self._source.open(SUMS) as file:
            sums = judge.hash(file)
        for path, sha256 in ((SUMS, sums), (MANIFEST, self._report.manifest_sha256)):
            self._lay(Expected(path, self._source.entries[path], sha256, ""), judge)
        if not self._report.problems:
            fs.remove(self._root / UNFINISHED)

    def _prepare(self, needed: int) -> bool:
        """Whether there is a folder for it, and room."""
        aside = _is_plain_folder(self._root / UNFINISHED) and _is_plain_folder(self._aside)
        if not aside and self._root.exists() and any(self._root.iterdir()):
            hint = "name a folder that does not exist yet"
            self._report.add(str(self._root), "machine", "is not empty, and this bundle was not begun there", hint)
            return False
        self._aside.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(str(self._root)).free
        done = sum(Path(at, name).lstat().st_size for at, _, names in os.walk(str(self._root)) for name in names)
        if needed - done > free:
            text = f"has {show_bytes(free)} free, {show_bytes(needed - done)} are needed"
            self._report.add(str(self._root), "machine", text, "make room, or name a folder on another disk")
            return False
        return True

    def _lay(self, each: Expected, judge: Judge) -> None:
        target = self._room(each.path)
        if target is None:
            return
        if _is_there(each, target, judge):
            judge.passed(each, self._source.entries[each.path])
            return
        part = self._aside / "part"
        with suppress(FileNotFoundError):
            part.unlink()
        with self._source.open(each.path) as file, part.open("xb") as out:
            out.writelines(blocks(file))
        with part.open("rb", buffering=0) as written:  # what was written is hashed, and not what was read
            right = judge.is_right(each, written, os.fstat(written.fileno()).st_size)
            right = right and look_inside(each, written, self._report, deep=self._report.trust == "accidents")
        if right:
            part.replace(target)

    def _room(self, path: str) -> Path | None:
        """The file's place, its folders made; None, and a problem, where one of them leads elsewhere."""
        at = self._root
        for part in path.split("/")[:-1]:
            at /= part
            if at in self._rooms:
                continue
            if not (at.exists() or at.is_symlink()):
                at.mkdir()
            if not _is_plain_folder(at):
                self._report.add(path, "unsafe", f"{shown(str(at))} is no folder", "unpack into a new folder")
                return None
            self._rooms.add(at)
        return self._root / path


def _is_there(each: Expected, target: Path, judge: Judge) -> bool:
    """Whether an earlier run laid it."""
    if target.is_symlink() or not target.is_file():
        return False
    with target.open("rb", buffering=0) as file:
        return judge.hash(file) == each.sha256


def _is_plain_folder(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and not odd_kind(found)
