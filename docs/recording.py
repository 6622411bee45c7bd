"""Record ``docs/recording.svg``: a fetch that is killed and run again, and conda, in a real terminal (tmux).

    .venv/bin/python docs/recording.py record docs/recording.json .conda-venv/bin/python    # Linux or macOS, with tmux
    .venv/bin/python docs/recording.py draw docs/recording.json docs/recording.svg

``record`` serves the packages of ``resume-dl demo`` from two of its mirrors, types the commands, kills the first run
(SIGKILL) when half of the bytes have been sent, and keeps each screen with its time. The conda of the given interpreter
(that of the tests, which ``make test`` makes) runs last, without our plugin, and must not ask for an archive. ``draw``
is pure: the same screens give the same bytes. Long waits are shortened in the picture, which says so.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from resume_dl.demo.channel import build_channel, pytorch_like
from resume_dl.demo.servers import FlakyMirror, Flaws

COLUMNS, ROWS = 100, 30
CELL, LINE, TEXT = 8.4, 18.0, 14
MARGIN, TOP = 20, 46
LONGEST, PROMPT, LAST, SHORTEST = 0.9, 2.5, 4.0, 0.12
"""Seconds that one screen is shown: at most, that of an ended command, the last one, and at least."""
MOST_SCREENS = 90
COMMAND = "resume-dl fetch pytorch=1.7"
CONDA_COMMAND = "conda create -n torch pytorch=1.7 --yes      # links; no download"
FOLDER = Path("/tmp/demo")  # noqa: S108  its name is in the picture, so that it is the same on every machine


# Recording


def record(target: Path, conda_python: Path) -> None:
    """Play the runs and write their screens to ``target``."""
    folder = FOLDER.resolve()
    folder.mkdir()
    try:
        root, total = folder / "channels", 0
        for channel, specs in pytorch_like(large=72_000_000, medium=6_000_000).items():
            built = build_channel(root / channel, specs).packages
            total += sum(package.size for package in built if package.spec.version != "1.7.0")
        mirrors = [
            FlakyMirror("tuna", root, Flaws(rate=1_500_000)),
            FlakyMirror("ustc", root, Flaws(rate=4_000_000, drop_after=5_000_000)),
        ]
        for mirror in mirrors:
            mirror.start()
        try:
            screens = _play(folder, mirrors, total, _settings(folder, mirrors, conda_python))
        finally:
            for mirror in mirrors:
                mirror.stop()
    finally:
        shutil.rmtree(folder)
    text = json.dumps({"columns": COLUMNS, "rows": ROWS, "screens": screens}, ensure_ascii=False, indent=0)
    target.write_text(text + "\n", encoding="utf-8")


def _settings(folder: Path, mirrors: Sequence[Any], conda_python: Path) -> dict[str, str]:
    """The shell's environment: settings of its own, and no way to other machines."""
    home = folder / "home"
    home.mkdir()
    table = "schema = 1\n"
    for mirror in mirrors:
        table += f'\n[[mirror]]\nname = "{mirror.name}"\n[mirror.carries]\n'
        table += "".join(f'"conda:{name}" = "{mirror.base}/{name}"\n' for name in ("pytorch", "pkgs/main"))
    (folder / "table.toml").write_text(table, encoding="utf-8")
    config = f'mirrors = "{folder}/table.toml"\nno_upstream = true\nplatform = "linux-64"\n'
    config += '[trust]\nindex_from = ["tuna", "ustc"]\n'
    (home / "config.toml").write_text(config, encoding="utf-8")
    nowhere = {f"{scheme}_PROXY": "http://127.0.0.1:9" for scheme in ("HTTP", "HTTPS", "ALL")}
    own = {f"RESUME_DL_{kind}_DIR": str(home) for kind in ("CONFIG", "CACHE", "STATE")}
    path = os.pathsep.join((str(folder / "bin"), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    return {
        "HOME": str(home),
        "PATH": path,
        "PS1": "$ ",
        "LANG": "C.UTF-8",
        "TERM": "screen-256color",
        "NO_PROXY": "127.0.0.1",
        **nowhere,
        **own,
        **_conda(folder, mirrors[0].base, conda_python),
    }


def _conda(folder: Path, base: str, python: Path) -> dict[str, str]:
    """Write the program ``conda``, with folders of its own and a channel server; returns what its environment needs."""
    condarc = {
        "channels": ["pytorch", "defaults"],
        "custom_channels": {"pytorch": base},
        "default_channels": [f"{base}/pkgs/main"],
        "pkgs_dirs": [str(folder / "pkgs")],
        "envs_dirs": [str(folder / "envs")],
        "solver": "classic",
        "subdir": "linux-64",
        "notify_outdated_conda": False,
        "number_channel_notices": 0,
    }
    (folder / "condarc").write_text(json.dumps(condarc), encoding="utf-8")
    for name in ("resume_dl/conda_plugin", "resume_dl"):  # an empty module in front of the plugin's
        (folder / "without-us" / name).mkdir(parents=True, exist_ok=True)
        (folder / "without-us" / name / "__init__.py").touch()
    (folder / "root" / "conda-meta").mkdir(parents=True)
    (folder / "root" / "conda-meta" / "history").touch()
    (folder / "bin").mkdir()
    program = folder / "bin" / "conda"
    start = f"PYTHONPATH={shlex.quote(str(folder / 'without-us'))} exec {shlex.quote(str(python.absolute()))} -m conda"
    program.write_text(f'#!/bin/sh\n{start} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return {"CONDARC": str(folder / "condarc"), "CONDA_ROOT_PREFIX": str(folder / "root"), "CONDA_OVERRIDE_CUDA": ""}


def _play(folder: Path, mirrors: Sequence[Any], total: int, environment: dict[str, str]) -> list[dict[str, Any]]:
    tmux = shutil.which("tmux")
    if tmux is None:
        raise SystemExit("tmux is not installed")
    configuration = folder / "tmux.conf"
    configuration.write_text("set -g status off\nset -g escape-time 0\n", encoding="utf-8")
    base = [tmux, "-u", "-f", str(configuration), "-S", str(folder / "socket")]

    def run(*words: str) -> str:
        return subprocess.run([*base, *words], env=environment, capture_output=True, text=True, check=True).stdout

    screens: list[dict[str, Any]] = []

    def look() -> list[str]:
        lines = [line.rstrip() for line in run("capture-pane", "-p", "-t", "0").rstrip().splitlines()]
        if not screens or screens[-1]["lines"] != lines:
            screens.append({"at": round(time.monotonic() - started, 2), "lines": lines})
        return lines

    def until(done: Callable[[list[str]], bool], what: str) -> None:
        deadline = time.monotonic() + 300
        while not done(look()):
            if time.monotonic() > deadline:
                raise SystemExit(f"{what} did not happen; the screen:\n" + "\n".join(look()))
            time.sleep(0.1)

    def prompts(lines: list[str], count: int) -> bool:
        return sum(line == "$" or line.startswith("$ ") for line in lines) >= count

    def type_out(text: str) -> None:
        for word in re.findall(r"\S+\s*", text):
            run("send-keys", "-t", "0", "-l", "--", word)
            look()
        run("send-keys", "-t", "0", "Enter")

    started = time.monotonic()
    shell = ["bash", "--norc", "--noprofile"]
    run("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "-c", str(folder), *shell)
    try:
        until(lambda lines: prompts(lines, 1), "the prompt")
        type_out(COMMAND)
        until(lambda _: sum(mirror.counts.body_bytes for mirror in mirrors) > total * 0.55, "half of the download")
        os.kill(_child(run("display-message", "-p", "-t", "0", "#{pane_pid}")), signal.SIGKILL)
        until(lambda lines: any("Killed" in line for line in lines) and prompts(lines, 2), "the kill")
        type_out(COMMAND)
        until(lambda lines: any(line.startswith("12 packages") for line in lines) and lines[-1:] == ["$"], "the end")
        asked = sum(mirror.counts.requests for mirror in mirrors)
        type_out(CONDA_COMMAND)
        until(
            lambda lines: lines[-1:] == ["$"] and lines[-2:-1] != ["$"] and "Executing" in "".join(lines), "conda's end"
        )
        if (asked := sum(mirror.counts.requests for mirror in mirrors) - asked) != 0:
            raise SystemExit(f"conda asked for archives: {asked}")
    finally:
        run("kill-server")
    return screens


def _child(shell: str) -> int:
    """The process that this shell runs in the foreground."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", shell.strip()], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[0])


# Drawing


def draw(recording: dict[str, Any]) -> str:
    """The animated picture: each different line once, each screen a list of lines, one list of key frames."""
    screens = _chosen(recording["screens"])
    durations = [_duration(screen, following["at"] - screen["at"]) for screen, following in pairwise(screens)]
    durations.append(LAST)
    width = round(2 * MARGIN + COLUMNS * CELL)
    height = round(TOP + ROWS * LINE + MARGIN)
    names: dict[str, str] = {}
    frames = []
    for number, screen in enumerate(screens):
        uses = ""
        for row, line in enumerate(screen["lines"][:ROWS]):
            if line:
                name = names.setdefault(line, f"l{len(names)}")
                uses += f'<use href="#{name}" y="{row * LINE:g}"/>'
        frames.append(f'<g transform="translate(0,{number * height})">{uses}</g>')
    lines = "".join(f'<g id="{name}">{"".join(_runs(line))}</g>\n' for line, name in names.items())
    total, at, keys = sum(durations), 0.0, ""
    for number, duration in enumerate(durations):
        keys += f"{100 * at / total:.3f}%{{transform:translateY({-number * height}px)}}"
        at += duration
    keys += f"100%{{transform:translateY({-(len(screens) - 1) * height}px)}}"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" \
width="{width}" height="{height}" viewBox="0 0 {width} {height}" \
font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="{TEXT}">
<title>resume-dl fetch, killed with kill -9 and continued by the same command; conda links without a download</title>
<style>
.b{{fill:#0f1720}}.c{{fill:#8b98a5}}text{{fill:#d7dee6;white-space:pre}}.p{{fill:#5fd38d;font-weight:bold}}\
.k{{fill:#ff6b6b;font-weight:bold}}.g{{fill:#5fd38d;font-weight:bold}}.d{{fill:#8b98a5}}.f{{fill:#3fa7ff}}.e{{fill:#243443}}\
.w{{fill:#ffffff;font-weight:bold}}
#film{{animation:film {total:.2f}s steps(1,end) infinite}}
@keyframes film{{{keys}}}
@media (prefers-reduced-motion:reduce){{#film{{animation:none;transform:translateY({-_still(screens) * height}px)}}}}
</style>
<defs>
{lines}<clipPath id="w"><rect width="{width}" height="{height - TOP + 12}" y="{TOP - 12}"/></clipPath>
</defs>
<rect class="b" width="{width}" height="{height}" rx="10"/>
<circle cx="22" cy="20" r="6" fill="#ff5f57"/><circle cx="42" cy="20" r="6" fill="#febc2e"/>\
<circle cx="62" cy="20" r="6" fill="#28c840"/>
<text class="c" x="{width - MARGIN}" y="24" text-anchor="end" font-size="12">\
two flaky mirrors on loopback, one real run; waits shortened</text>
<g clip-path="url(#w)"><g id="film">{"".join(frames)}</g></g>
</svg>
"""


def _still(screens: Sequence[dict[str, Any]]) -> int:
    """The screen for a reader who wants no motion: the last on which the summary is whole."""
    lines = [screen["lines"] for screen in screens]
    return max(n for n, each in enumerate(lines) if each[-1:] == ["$"] and any(x.startswith("saved:") for x in each))


def _duration(screen: dict[str, Any], real: float) -> float:
    if len(screen["lines"]) > 1 and screen["lines"][-1] == "$":
        return PROMPT  # there is something to read
    return min(LONGEST, max(SHORTEST, real))


def _chosen(screens: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most ``MOST_SCREENS``: all at which a line of text begins or ends, and bars in equal steps between."""

    def text(screen: dict[str, Any]) -> list[str]:
        return [line for line in screen["lines"] if "%|" not in line and "B/s" not in line]

    last = len(screens) - 1
    kept = {0, last} | {n for n in range(1, last) if text(screens[n]) != text(screens[n - 1])}
    others = [n for n in range(last) if n not in kept]
    room = max(1, MOST_SCREENS - len(kept))
    kept |= set(others[:: max(1, -(-len(others) // room))])
    return [screens[n] for n in sorted(kept)]


def _runs(line: str) -> Iterator[str]:
    """A line as texts at fixed columns, and its bars as rectangles."""
    tone = ""
    if line.startswith("$"):
        yield _text(0, "$", "p")
        column, tone = 2, "w"
    else:
        column = 0
        if "Killed" in line:
            tone = "k"
        elif (" resumed" in line and "downloaded" in line) or line.startswith("saved:"):
            tone = "g"
        elif line.startswith((" ", "resolving", "index")):
            tone = "d"
    start = column
    if (trough := re.search(r"%\s*\|([^|]*)\|", line)) is not None:
        begin, end = trough.span(1)
        yield _bar(begin, end - begin, "e")
    while start < len(line):
        end = start
        bar = line[start] in BLOCKS
        while end < len(line) and (line[end] in BLOCKS) == bar:
            end += 1
        run = line[start:end]
        if bar:
            filled = sum((BLOCKS.index(block) + 1) / 8 for block in run)
            yield _bar(start, filled, "f")
        elif run.strip():
            for word in re.finditer(r"\S+(?: \S+)*", run.replace("|", " ") if "%" in line else run):
                yield _text(start + word.start(), word[0], tone)
        start = end


BLOCKS = "▏▎▍▌▋▊▉█"


def _bar(column: int, cells: float, tone: str) -> str:
    place = f'x="{MARGIN + column * CELL:.1f}" y="{TOP}" width="{cells * CELL:.1f}" height="{LINE - 7:g}" rx="2"'
    return f'<rect class="{tone}" {place}/>'


def _text(column: int, text: str, tone: str) -> str:
    place = f'x="{MARGIN + column * CELL:.1f}" y="{TOP + 10}" textLength="{len(text) * CELL:.1f}"'
    return f'<text{f" class={tone!r}" if tone else ""} {place} lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'


def main(words: Sequence[str]) -> None:
    """Run the command line."""
    match list(words):
        case ["record", target, conda_python]:
            record(Path(target), Path(conda_python))
        case ["draw", source, target]:
            recording = json.loads(Path(source).read_text(encoding="utf-8"))
            Path(target).write_text(draw(recording), encoding="utf-8")
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
