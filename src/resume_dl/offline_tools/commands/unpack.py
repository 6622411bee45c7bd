"""``unpack.py``: verify a bundle in a tar, and unpack it."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from resume_dl.offline_tools.console import shown, tell
from resume_dl.offline_tools.tarred.unpack_tar import unpack
from resume_dl.offline_tools.verification.trust_options import EXIT_CODES, add_trust_options, run_check


def main(argv: list[str], script: Path) -> int:
    """Verify and unpack what the command line names. Returns the exit code of ``run_check``, or 2 for wrong usage."""
    parser = argparse.ArgumentParser(
        prog=script.name, description="Verify an offline bundle in a tar, and unpack it.", epilog=EXIT_CODES
    )
    parser.add_argument("tar", metavar="BUNDLE.tar", type=Path)
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", type=Path, help="new, or empty; default: BUNDLE, beside the tar"
    )
    add_trust_options(parser)
    given = vars(parser.parse_args(argv))
    tar, folder = given.pop("tar"), given.pop("folder")
    if folder is None:
        folder = tar.with_suffix("") if tar.suffix else tar.with_name(tar.name + "-unpacked")
    code = run_check(
        lambda: unpack(tar, folder, log=tell, **given), if_stopped="the same command begins or continues it"
    )
    if code == 0:
        with suppress(OSError):
            print(f"unpacked: {shown(str(folder))}", flush=True)
    return code
