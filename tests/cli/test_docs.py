"""What README.md and docs/ name exists: commands with their options, scripts with theirs, and files that are linked."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from resume_dl.cli.group import cli
from support.offline_scripts import scripts

PROJECT = Path(__file__).resolve().parents[2]
PAGES = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")])
_FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_PROMPT = re.compile(r"^(?:(?:\$|[A-Z]:\\\S*>|PS [A-Z]:\\\S*>) |!)", re.MULTILINE)
_STEP = re.compile(r"^(?:- (?:run: )?|RUN (?:--\S+ +)*)")
"""What stands before a command in the files of a CI service and in a Dockerfile."""
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def said(page: Path) -> Iterator[list[str]]:
    """The words of each command line of a page: of its blocks, and of the spans in its text."""
    text = page.read_text(encoding="utf-8")
    for block in _FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            yield from _commands(_STEP.sub("", _PROMPT.sub("", line.strip())))
    for span in _SPAN.findall(_FENCE.sub("", text)):
        yield from _commands(" ".join(span.split()))


def _commands(line: str) -> Iterator[list[str]]:
    for part in re.split(r"&&|;| \| ", line):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:
            continue  # an apostrophe: no command
        while words and re.fullmatch(r"[A-Z_]+=\S*|until|do|{", words[0]):
            words = words[1:]
        if words:
            yield words


def unknown_to_us(words: list[str]) -> list[str]:
    """Of a line that begins with resume-dl: the subcommand or the options that there are not."""
    command: click.Command = cli
    rest = words[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        if not re.fullmatch(r"[a-z]+(-[a-z]+)*", rest[0]):
            return []  # "resume-dl …", or no command line at all
        found = command.get_command(click.Context(command), rest[0])
        if found is None:
            return [rest[0]]
        command, rest = found, rest[1:]
    if command.context_settings.get("ignore_unknown_options"):
        return []  # pip's own go to pip
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help", "-h"}
    named = (word.split("=")[0] for word in rest if re.match(r"--?[a-zA-Z]", word))
    return [name for name in named if name not in known]


@cache
def help_of(script: str) -> str:
    """What a script of a bundle prints of itself."""
    done = subprocess.run(
        [sys.executable, str(scripts() / script), "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def unknown_to_scripts(words: list[str]) -> list[str]:
    """Of a line such as ``python install.py -n torch``."""
    script = re.split(r"[/\\]", words[1])[-1]
    known = set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", help_of(script)))
    return [word for word in words[2:] if re.match(r"--?[a-z]", word) and word not in known]


def of_scripts(words: list[str]) -> bool:
    return len(words) > 1 and words[0].startswith("python") and (scripts() / re.split(r"[/\\]", words[1])[-1]).is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_commands_and_options_exist(page):
    """Each ``resume-dl …`` and each ``python install.py …`` names what there is."""
    lines = [*said(page)]
    wrong = [(" ".join(words), names) for words in lines if words[0] == "resume-dl" and (names := unknown_to_us(words))]
    wrong += [(" ".join(words), names) for words in lines if of_scripts(words) and (names := unknown_to_scripts(words))]
    assert wrong == []


def test_commands_are_found():
    """The test above looks at something, and finds what is wrong."""
    lines = [*said(PROJECT / "docs" / "offline.md")]
    assert {words[2] for words in lines if words[:2] == ["resume-dl", "bundle"] and len(words) > 2} >= {
        "create", "verify", "install", "split", "inventory",
    }  # fmt: skip
    assert {words[1] for words in lines if of_scripts(words)} >= {"verify.py", "install.py", "probe.py", "join.py"}
    others = {"ci-cache": 3, "docker": 2, "colab": 1, "powershell": 3, "lock-files": 4}
    for name, least in others.items():
        lines = [*said(PROJECT / "docs" / "how-to" / f"{name}.md")]
        assert sum(words[:2] == ["resume-dl", "fetch"] for words in lines) >= least, name
    assert unknown_to_us(["resume-dl", "bundle", "pack"]) == ["pack"]
    assert unknown_to_us(["resume-dl", "bundle", "create", "a", "--speed=1", "-o", "b"]) == ["--speed"]
    assert unknown_to_scripts(["python", "E:\\torch\\install.py", "-n", "a", "--network"]) == ["--network"]


def anchors(page: Path) -> set[str]:
    """As the hosts of such pages make them of headings."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_links_of_the_docs_have_targets(page):
    """Files and headings that a page links to are there."""
    lost = []
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("http:", "https:")):
            continue
        place, _, anchor = link.partition("#")
        target = page.parent / place if place else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []
