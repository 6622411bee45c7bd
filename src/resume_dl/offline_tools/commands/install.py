"""``install.py``: install a bundle, after every file was verified."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from resume_dl.offline_tools.console import tell
from resume_dl.offline_tools.installation.environments import is_conda_environment
from resume_dl.offline_tools.installation.install_bundle import install
from resume_dl.offline_tools.installation.options import CONDAS, InstallError, Options, Outcome
from resume_dl.offline_tools.machine.pip_python import python_of
from resume_dl.offline_tools.verification.trust_options import add_trust_options
from resume_dl.shell_commands import Step, activation, command_line


def main(argv: list[str], script: Path) -> int:
    """Install what the command line names. Returns the exit code of docs/interface.md."""
    parser = argparse.ArgumentParser(
        prog=script.name,
        description="Verify every file of an offline bundle, then install it with this machine's conda and pip.",
        epilog="Exit codes: 0 done, 1 a file of a delta is missing, 2 wrong usage, 4 not to be used, 5 this machine.",
    )
    parser.add_argument("bundle", metavar="FOLDER|TAR", nargs="?", type=Path, help="default: where this script lies")
    parser.add_argument(
        "-n",
        "--name",
        default="",
        help="the environment, by its name: conda's, or without conda a venv in $WORKON_HOME or ~/.virtualenvs",
    )
    parser.add_argument("-p", "--prefix", type=_place, help="the environment, by its folder")
    parser.add_argument("--platform", metavar="SUBDIR", default="", help="default: this machine's")
    add_trust_options(parser)
    parser.add_argument(
        "--with", dest="client", choices=(*CONDAS, "pip"), default="", help="default: the first one found"
    )
    parser.add_argument("--pkgs-dir", metavar="DIR", action="append", default=[], type=Path, help="packages of a delta")
    parser.add_argument("--wheels", metavar="DIR", action="append", default=[], type=Path, help="wheels of a delta")
    parser.add_argument("--unpack-to", metavar="DIR", type=Path, help="keep the folder that a tar was unpacked into")
    parser.add_argument("--dry-run", action="store_true", help="verify, and show what would be done")
    parser.add_argument("-y", "--yes", action="store_true", help="accepted and ignored: there are no questions")
    given = vars(parser.parse_args(argv))
    bundle = given.pop("bundle") or script.parent
    given.pop("yes")
    try:
        places = {"wheels": tuple(given["wheels"]), "pkgs_dirs": tuple(given.pop("pkgs_dir"))}
        outcome = install(bundle, Options(**{**given, **places}))
    except InstallError as error:
        tell(f"error: {error}\n  {error.hint}")
        return error.code
    except KeyboardInterrupt:
        tell("stopped; run the same command again to start or continue")
        return 130
    if not outcome.planned:
        with suppress(OSError):
            print(ready(outcome), flush=True)
    return 0


def _place(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("an empty name is not a folder")  # Path would take it for the current one
    return Path(text)


def ready(outcome: Outcome) -> str:
    """The last line: how to use it."""
    if is_conda_environment(outcome.prefix):
        command = command_line([Step((outcome.client or "conda", "activate", str(outcome.prefix)))])
        return f"ready: {outcome.prefix}  (activate it: {command})"
    python = python_of(outcome.prefix)
    return (
        f"ready: {outcome.prefix}  (activate it: {activation(str(python.parent / 'activate'))}; its Python: {python})"
    )
