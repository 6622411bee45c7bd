"""The verification of a whole bundle."""

from __future__ import annotations

from pathlib import Path

from resume_dl.offline_tools.console import Log
from resume_dl.offline_tools.verification.bundle_source import FolderSource, Source
from resume_dl.offline_tools.verification.files_listed import list_files
from resume_dl.offline_tools.verification.findings import Report
from resume_dl.offline_tools.verification.judge import Judge
from resume_dl.offline_tools.verification.package_members import look_inside
from resume_dl.offline_tools.verification.wanted import Wanted


def check(
    folder: Path,
    *,
    manifest_sha256: str | None = None,
    allowed_signers: Path | None = None,
    signer: str | None = None,
    log: Log | None = None,
    deep: bool = False,
) -> Report:
    """Verify a bundle's folder; ``log`` gets a line every few seconds.

    Packages are inspected, for members that would be written elsewhere, if no digest or signature vouches for the
    bundle, or with ``deep``. Raises UsageError for conflicting options, and nothing for a hostile bundle.
    """
    folder = Path(folder)
    wanted = Wanted(manifest_sha256, allowed_signers, signer, folder)
    report = Report()
    check_source(FolderSource(folder, report), wanted, report, log, deep=deep)
    return report


def check_source(source: Source, wanted: Wanted, report: Report, log: Log | None, *, deep: bool) -> None:
    """Verify the content of ``source``; see ``check``."""
    expected = list_files(source, wanted, report)
    deep = deep or report.trust == "accidents"
    judge = Judge(expected, source, report, log)
    for each in expected:
        if each.path not in source.entries:
            continue
        try:
            with source.open(each.path) as file:
                if judge.is_right(each, file, source.entries[each.path]):
                    look_inside(each, file, report, deep=deep)
        except OSError as error:
            report.add_unreadable(each.path, error)
