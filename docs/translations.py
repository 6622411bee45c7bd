"""Keep the Chinese pages equal to the English ones.

Each ``X.zh-CN.md`` ends with ``<!-- equal to X.md, sha256 HEX -->``, the digest of the English page that it was last
compared with. ``python docs/translations.py`` writes the present digests: run it after the Chinese page has been
changed as the English one was. With ``--check`` it only lists the pages that differ, and exits with 1 if there are any.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SUFFIX = ".zh-CN.md"
_NOTE = re.compile(r"\n*<!-- equal to (\S+), sha256 ([0-9a-f]{64}|-) -->\n*\Z")


def translated() -> list[Path]:
    """All Chinese pages."""
    return sorted([*PROJECT.glob(f"*{SUFFIX}"), *(PROJECT / "docs").rglob(f"*{SUFFIX}")])


def english(page: Path) -> Path:
    """The page of which ``page`` is the equal."""
    return page.with_name(page.name.removesuffix(SUFFIX) + ".md")


def digest(page: Path) -> str:
    """The SHA-256 of a page's text; line ends do not count."""
    return hashlib.sha256("\n".join(page.read_text(encoding="utf-8").splitlines()).encode()).hexdigest()


def problem(page: Path) -> str:
    """Why the Chinese page ``page`` is not known to be equal to its English one; '' if it is."""
    source = english(page)
    if not source.is_file():
        return f"{page.name}: there is no {source.name}"
    note = _NOTE.search(page.read_text(encoding="utf-8"))
    if note is None or note[1] != source.name:
        return f"{page.name}: its last line does not name {source.name} and a digest"
    if note[2] != digest(source):
        return f"{source.name} has changed since {page.name} was compared with it"
    return ""


def renew(page: Path) -> None:
    """Write the present digest of the English page into ``page``."""
    text = _NOTE.sub("", page.read_text(encoding="utf-8")).rstrip("\n")
    source = english(page)
    page.write_text(f"{text}\n\n<!-- equal to {source.name}, sha256 {digest(source)} -->\n", encoding="utf-8")


def main(words: list[str]) -> int:
    """Run the command line; returns the exit code."""
    if words == ["--check"]:
        problems = [found for page in translated() if (found := problem(page))]
        sys.stdout.writelines(f"{found}\n" for found in problems)
        return 1 if problems else 0
    for page in translated():
        renew(page)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
