"""``verify.py``: verify a bundle, before anything of it is used."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from resume_dl.offline_tools.console import tell
from resume_dl.offline_tools.tarred.tar_check import check_any
from resume_dl.offline_tools.verification.findings import Report, UsageError
from resume_dl.offline_tools.verification.package_members import look_into
from resume_dl.offline_tools.verification.trust_options import CHECK_FIRST, EXIT_CODES, add_trust_options, run_check


def main(argv: list[str], script: Path) -> int:
    """Verify what the command line names. Returns the exit code of ``run_check``, or 2 for wrong usage."""
    parser = argparse.ArgumentParser(
        prog=script.name,
        description="Verify every file of an offline bundle, before anything of it is used.",
        epilog=CHECK_FIRST + EXIT_CODES,
    )
    parser.add_argument("bundle", metavar="FOLDER|TAR", nargs="?", type=Path, help="default: where this script lies")
    add_trust_options(parser)
    parser.add_argument("--deep", action="store_true", help="inspect packages even if a digest covers them")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)  # for install.py: paths from stdin
    given = vars(parser.parse_args(argv))
    bundle = given.pop("bundle") or script.parent
    if given.pop("inside"):
        return run_check(lambda: _look_into(bundle), if_stopped="nothing was changed")
    return run_check(lambda: check_any(bundle, log=tell, **given), if_stopped="nothing was changed")


def _look_into(folder: Path) -> Report:
    report = Report()
    look_into(folder, sys.stdin.buffer.read().decode("utf-8").splitlines(), report)
    if report.unlooked:
        raise UsageError("this Python has no zstandard")
    return report
