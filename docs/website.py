"""Build the documentation's site: README as its first page, docs/, and a reference made of the code.

    .venv/bin/python docs/website.py [FOLDER]     # or: make docs; .cache/site/html if no folder is given

Sphinx runs on a copy, in which links between README.md and docs/ are those of the site. Warnings are errors, and
nothing is fetched. Needs the dependency group ``docs``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

PROJECT = Path(__file__).resolve().parents[1]
DOCS = PROJECT / "docs"

BESIDE = {
    "README.md": "index.md",
    "README.zh-CN.md": "index.zh-CN.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "LICENSE": "LICENSE",
    "mirrors.toml": "mirrors.toml",
    "docs/adr": "adr/index.md",
}
"""Files beside docs/ -> their names in the site, whose top is docs/; docs/adr is a page there."""
_DECISIONS = "# Decisions\n\n```{toctree}\n:glob:\n\n*\n```\n"

HOW_TO = (
    "how-to/campus", "how-to/proxy", "how-to/browser-download", "how-to/lab-mirror", "how-to/air-gap", "how-to/hpc",
    "how-to/ci-cache", "how-to/docker", "how-to/colab", "how-to/powershell",
    "how-to/lock-files",
)  # fmt: skip
NAVIGATION: Mapping[str, Sequence[str]] = {
    "Learn": ("install", "tutorial", "commands", "glossary"),
    "How to": HOW_TO,
    "When something fails": ("troubleshooting", "faq"),
    "Reference": (
        "reference/command-line", "reference/exit-codes", "reference/config", "reference/mirrors", "reference/limits",
        "interface", "api", "conda", "pip", "offline", "windows", "windows-conda", "trace",
    ),
    "Explanation": (
        "how-resume-works", "comparison", "engine", "indexes", "journal", "benchmarks", "performance", "tested",
    ),
    "Project": ("ARCHITECTURE", "adr/index", "CONTRIBUTING", "CHANGELOG"),
    "中文": ("index.zh-CN",),
}  # fmt: skip
"""The headings of the sidebar -> pages of the site, without .md."""
NAVIGATION_ZH: Mapping[str, Sequence[str]] = {
    "学习": ("tutorial.zh-CN",),
    "操作指南": tuple(f"{page}.zh-CN" for page in HOW_TO),
    "遇到问题": ("troubleshooting.zh-CN", "faq.zh-CN"),
}
"""The same below the Chinese first page."""
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def stage(folder: Path) -> None:
    """Write what Sphinx reads into ``folder``: the pages, the files beside them, the generated reference."""
    import reference  # noqa: PLC0415  it imports the whole program, which a listing of pages does without

    for source in sorted(DOCS.rglob("*")):
        if source.suffix in {".md", ".svg", ".css", ".ipynb"} or source.name == "conf.py":
            _copy(source, folder / source.relative_to(DOCS))
    for name, target in BESIDE.items():
        if (PROJECT / name).is_file():
            _copy(PROJECT / name, folder / target)
    (folder / "adr" / "index.md").write_text(_DECISIONS, encoding="utf-8")
    for name, page in reference.PAGES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(page() + "\n", encoding="utf-8")
    for name, navigation in (("index.md", NAVIGATION), ("index.zh-CN.md", NAVIGATION_ZH)):
        with (folder / name).open("a", encoding="utf-8") as file:
            file.writelines(_toctrees(navigation))


def build(folder: Path) -> int:
    """Build the site into ``folder``; returns Sphinx's exit code, which is not 0 after a warning."""
    with tempfile.TemporaryDirectory(prefix="site-") as name:
        source = Path(name) / "source"
        stage(source)
        command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q"]
        command += ["-d", str(Path(name) / "doctrees"), str(source), str(folder)]
        return subprocess.run(command, check=False).returncode


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".md":
        text = source.read_text(encoding="utf-8")
        target.write_text("".join(_relinked(text, source)), encoding="utf-8")
    else:
        shutil.copyfile(source, target)


def _relinked(text: str, source: Path) -> Iterator[str]:
    """The page ``source`` with links as the site has them."""
    for line in text.splitlines(keepends=True):
        yield _LINK.sub(lambda link: _link(link[1], link[2], link[3] or "", source), line)


def _link(text: str, target: str, anchor: str, source: Path) -> str:
    if "://" in target:
        return f"[{text}]({target}{anchor})"
    place = Path(os.path.normpath(source.parent / target))
    if place.is_dir() and _in_site(place) == place.relative_to(PROJECT).as_posix():
        return text  # the site has no listings of folders
    there = os.path.relpath(_in_site(place), PurePosixPath(_in_site(source)).parent)
    return f"[{text}]({Path(there).as_posix()}{anchor})"


def _in_site(place: Path) -> str:
    """The path in the site of a file of the project."""
    name = place.relative_to(PROJECT).as_posix()
    return BESIDE.get(name, name.removeprefix("docs/"))


def _toctrees(navigation: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for caption, pages in navigation.items():
        yield f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n"
        yield from (f"{page}\n" for page in pages)
        yield "```\n"


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT / ".cache" / "site" / "html"))
