"""``probe.py``: the profile of this machine as one JSON object on stdout."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Mapping

from resume_dl.fs.system import reader_has_gone
from resume_dl.offline_tools.console import tell
from resume_dl.offline_tools.machine.inventory import inventory
from resume_dl.offline_tools.machine.package_places import ProbeError, named_folders, wheel_dirs
from resume_dl.offline_tools.machine.profile import look


def write_json(value: Mapping[str, Any]) -> None:
    """Write ASCII to stdout; a closed pipe is no error. Raises ProbeError if it cannot be written."""
    hint = "look at where the output goes, and run it again"
    if sys.stdout is None:
        raise ProbeError("standard output is closed", hint, 5)
    try:
        sys.stdout.write(json.dumps(value, indent=2) + "\n")
        sys.stdout.flush()
    except OSError as error:
        if reader_has_gone(error):
            return
        raise ProbeError(f"cannot write to standard output: {error.strerror or error}", hint, 5) from error


def main(argv: list[str], script: Path) -> int:
    """Print target.json; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog=script.name,
        description="Print this machine's profile, from which a bundle is made for it: python probe.py > target.json",
    )
    parser.add_argument("--no-inventory", action="store_true", help="do not hash the files in the caches")
    parser.add_argument("--pkgs-dir", action="append", default=[], metavar="DIR", help="a package cache; repeatable")
    parser.add_argument("--wheels", action="append", default=[], metavar="DIR", help="a folder of wheels; repeatable")
    options = parser.parse_args(argv)
    try:
        packages, wheels = named_folders(options.pkgs_dir), named_folders(options.wheels)
        profile = look()
        answer = dict(profile.answer)
        if not options.no_inventory:
            answer["inventory"] = inventory([*packages, *profile.pkgs_dirs], [*wheels, *wheel_dirs()])
        write_json(answer)
    except ProbeError as error:
        tell("error: " + str(error) + "\n  " + error.hint)
        return error.code
    except KeyboardInterrupt:
        tell("stopped; nothing was written")
        return 130
    return 0
