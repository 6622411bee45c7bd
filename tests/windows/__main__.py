"""A Windows Python under Wine, and the tests in it.

usage, in the folder of the tests:
  python -m windows setup                make it
  python -m windows test [PYTEST ...]    make it, and run the tests at each code page
  python -m windows run [PYTEST ...]     run the tests at each code page in what is made
  python -m windows python [ARG ...]     run it
  python -m windows list                 the tests that do not run in it, for docs/windows.md

Where it cannot be made, the reason is printed and the exit code is 3, or 0 with RESUME_DL_WINE_OPTIONAL=1.
RESUME_DL_WINE names the folder in which it is kept (.wine in the checkout), RESUME_DL_CODE_PAGE one code page.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from windows import exceptions, installation, machine, suite, wine

CHECKOUT = Path(os.environ.get("RESUME_DL_CHECKOUT", Path(__file__).resolve().parents[2]))
ROOT = Path(os.environ.get("RESUME_DL_WINE", CHECKOUT / ".wine")).resolve()
CANNOT = 3


def set_up() -> None:
    """Make what is missing or made from another recipe. Raises CannotSetUpError."""
    machine.check_this_python()
    machine.install_missing()
    wine.make_locales(ROOT)
    for code_page in wine.LOCALES:
        wine.make_prefix(ROOT, code_page)
    installation.update(ROOT / "python", ROOT / "downloads")
    installation.add_package(ROOT / "python", CHECKOUT)
    for code_page in wine.LOCALES:
        wine.add_libraries(ROOT, code_page)


def main(name: str = "", *more: str) -> int:
    """Run a command; its exit code."""
    named = os.environ.get("RESUME_DL_CODE_PAGE")
    code_pages = [int(named)] if named else list(wine.LOCALES)
    if name == "python":
        installation.add_package(ROOT / "python", CHECKOUT)
        return suite.run_with_nginx(ROOT, code_pages[0], wine.command(ROOT, more))
    if name == "list":
        print(exceptions.as_markdown(), end="")
        return 0
    if name == "run":
        return suite.run_all(ROOT, code_pages, more)
    if name not in {"setup", "test"}:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        set_up()
    except machine.CannotSetUpError as error:
        print(f"the tests in a Windows Python were not run: {error}", file=sys.stderr)
        return 0 if os.environ.get("RESUME_DL_WINE_OPTIONAL") else CANNOT
    if name == "test":
        return suite.run_all(ROOT, code_pages, more)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
