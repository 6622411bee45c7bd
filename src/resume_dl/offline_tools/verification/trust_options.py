"""Options for the trust in a bundle, and the report and exit code of a command."""

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from typing import Callable

from resume_dl.offline_tools.console import tell
from resume_dl.offline_tools.verification.findings import EMPTY, Report, UsageError, lines

EXIT_CODES = "Exit codes: 0 valid, 2 wrong usage, 4 must not be used, 5 this machine (disk, no ssh-keygen)."
CHECK_FIRST = (
    "This script is a file of the bundle too. To check it and the others first, in the bundle's folder: "
    "grep '\\.py$' SHA256SUMS | sha256sum -c (macOS: shasum -a 256 -c). "
)


def add_trust_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for trust in the manifest: the keywords of ``check``, None by default."""
    parser.add_argument("--manifest-sha256", metavar="HEX", type=_some, help="as `bundle create` printed it")
    parser.add_argument(
        "--allowed-signers", metavar="FILE", type=_some_path, help="signers whose signature is accepted; ssh-keygen(1)"
    )
    parser.add_argument("--signer", metavar="IDENTITY", type=_some, help="accept only this one of them")


def _some(text: str) -> str:
    """The text; refuses an empty one, which would silently check less."""
    if not text.strip():
        raise argparse.ArgumentTypeError(EMPTY)
    return text


def _some_path(text: str) -> Path:
    return Path(_some(text))


def run_check(work: Callable[[], Report], *, if_stopped: str) -> int:
    """Run ``work`` and print its report. Returns the exit code: 0, 2 wrong usage, 4 invalid, 5, 130."""
    try:
        report = work()
    except UsageError as error:
        tell(f"error: {error}")
        return 2
    except OSError as error:
        tell(f"error: {error}")
        return 5
    except KeyboardInterrupt:
        tell(f"stopped; {if_stopped}")
        return 130
    with suppress(OSError):  # a closed pipe does not change the result
        print("\n".join(lines(report)), file=sys.stderr if report.problems else sys.stdout, flush=True)
    return report.exit_code
