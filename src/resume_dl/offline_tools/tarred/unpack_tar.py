"""Unpacking of a verified bundle from a tar into a folder."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.byte_units import show_bytes
from resume_dl.fs.removal import remove
from resume_dl.offline_tools.console import Log, shown
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
    log: Log | None = None,
) -> Report:
    """Verify a tar and unpack it into ``folder``, which is new, empty, or left by an ``unpack`` that failed.

    No file gets its name before it is verified, and nothing is written outside. If the tar's list or names are wrong,
    nothing is written. If files are damaged, the others are unpacked without the manifest; the same call continues
    once the tar was copied again. Raises UsageError.
    """
    tar, folder = Path(tar), fs.absolute(folder)
    wanted = Wanted(manifest_sha256, allowed_signers, signer, folder)
    report = Report()
    try:
        with open_tar(tar) as file:
            source = TarSource(tar, file, report)
            expected = list_files(source, wanted, report)
            if not report.problems:
                _Unpacking(source, native(folder), report, log).run(expected)
    except OSError as error:
        why = f"cannot be unpacked into {shown(str(folder))}: {shown(error.strerror or str(error))}"
        report.add(str(tar), "machine", why, "check both disks, then unpack it again: unpacked files are kept")
    return report


class _Unpacking:
    """One run of ``unpack``; each file stays in a staging folder until it is verified."""

    def __init__(self, source: TarSource, root: Path, report: Report, log: Log | None) -> None:
        self._source = source
        self._root = root
        # the name identifies the bundle, so files of another are not mixed in
        self._staging = root / UNFINISHED / f"unpack-{report.manifest_sha256[:16]}"
        self._rooms: set[Path] = set()
        self._report = report
        self._log = log

    def run(self, expected: list[Expected]) -> None:
        """Unpack the files, the manifest last: until then the bundle is unfinished. Raises OSError."""
        if not self._prepare(sum(self._source.entries[each.path] for each in expected)):
            return
        judge = Judge(expected, self._source, self._report, self._log)
        for each in expected:
            self._lay(each, judge)
        if self._report.problems:
            return
        with self._source.open(SUMS) as file:
            sums = judge.hash(file, SUMS)
        for path, sha256 in ((SUMS, sums), (MANIFEST, self._report.manifest_sha256)):
            self._lay(Expected(path, self._source.entries[path], sha256, ""), judge)
        if not self._report.problems:
            remove(self._root / UNFINISHED)

    def _prepare(self, needed: int) -> bool:
        """Whether the folder can be used and there is room."""
        is_begun = _is_plain_folder(self._root / UNFINISHED) and _is_plain_folder(self._staging)
        if not is_begun and self._root.exists() and any(self._root.iterdir()):
            hint = "name a folder that does not exist yet"
            self._report.add(
                str(self._root), "machine", "is not empty, and not an unfinished copy of this bundle", hint
            )
            return False
        self._staging.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(str(self._root)).free
        done = sum(Path(at, name).lstat().st_size for at, _, names in os.walk(self._root) for name in names)
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
        part = self._staging / "part"
        with suppress(FileNotFoundError):
            part.unlink()
        with self._source.open(each.path) as file, part.open("xb") as out:
            out.writelines(blocks(file))
        with part.open("rb", buffering=0) as written:  # hash the written file, not the bytes read
            right = judge.is_right(each, written, os.fstat(written.fileno()).st_size)
            right = right and look_inside(each, written, self._report, deep=self._report.trust == "accidents")
        if right:
            fs.replace(part, target)

    def _room(self, path: str) -> Path | None:
        """The file's path, with its folders made; None, and a problem reported, if a folder is a link."""
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
    """Whether an earlier run has unpacked the file."""
    if target.is_symlink() or not target.is_file():
        return False
    with target.open("rb", buffering=0) as file:
        return judge.hash(file, each.path) == each.sha256


def _is_plain_folder(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and not odd_kind(found)
