"""Verification of a bundle in a tar, without unpacking it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO

from resume_dl.offline_tools.console import Log, shown
from resume_dl.offline_tools.file_pieces import native
from resume_dl.offline_tools.tarred.tar_source import TarSource
from resume_dl.offline_tools.verification.check import check, check_source
from resume_dl.offline_tools.verification.findings import Report, UsageError
from resume_dl.offline_tools.verification.wanted import Wanted

_PART = re.compile(r"\.tar\.(\d{3,}|parts\.json)$")


def check_tar(
    path: Path,
    *,
    manifest_sha256: str | None = None,
    allowed_signers: Path | None = None,
    signer: str | None = None,
    log: Log | None = None,
    deep: bool = False,
) -> Report:
    """Verify a bundle in a tar as ``check`` does a folder. Raises UsageError also if it is not a file."""
    path = Path(path)
    wanted = Wanted(manifest_sha256, allowed_signers, signer, None)
    report = Report()
    try:
        with open_tar(path) as file:
            check_source(TarSource(path, file, report), wanted, report, log, deep=deep)
    except OSError as error:
        report.add_unreadable(str(path), error)
    return report


def check_any(
    path: Path,
    *,
    manifest_sha256: str | None = None,
    allowed_signers: Path | None = None,
    signer: str | None = None,
    log: Log | None = None,
    deep: bool = False,
) -> Report:
    """Verify a folder or a tar. Raises UsageError also if ``path`` is neither."""
    verify = check if Path(path).is_dir() else check_tar
    return verify(
        path,
        manifest_sha256=manifest_sha256,
        allowed_signers=allowed_signers,
        signer=signer,
        log=log,
        deep=deep,
    )


def open_tar(tar: Path) -> BinaryIO:
    """Open a tar for reading. Raises UsageError, OSError."""
    if not tar.is_file():
        what = "is a folder, not a tar" if tar.is_dir() else "no such folder or tar"
        raise UsageError(f"{shown(str(tar))}: {what}")
    if _PART.search(tar.name):
        raise UsageError(f"{shown(str(tar))} is a part of a bundle: put the parts together with join.py")
    return native(tar).open("rb", buffering=0)
