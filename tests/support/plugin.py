"""What tests of the plugin's downloads share: a mirrors.toml for a channel's places, and a look at what conda made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.conda_env import TestConda

ORIGINS = {"conda:test-pytorch": "pytorch", "conda:test-main": "pkgs/main"}


def use_mirrors(conda: TestConda, asked: str, mirrors: Sequence[str]) -> Path:
    """Channels at the base ``asked``, as the condarc has them, and mirrors of them at other bases."""
    lines = ["schema = 1", "[origins]", *(f'"{name}" = "{asked}/{place}"' for name, place in ORIGINS.items())]
    for number, base in enumerate(mirrors, 1):
        lines += ["[[mirror]]", f'name = "m{number}"', "[mirror.carries]"]
        lines += [f'"{name}" = "{base}/{place}"' for name, place in ORIGINS.items()]
    path = conda.folder / "mirrors.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    plugins = {**conda.settings.get("plugins", {}), "resume_dl_mirrors": str(path)}
    conda.configure(channels=[f"{asked}/{place}" for place in ORIGINS.values()], plugins=plugins)
    return path


def records(prefix: Path) -> Mapping[str, Any]:
    """What conda remembers of each linked package, less how it was linked."""
    found = {}
    for path in (prefix / "conda-meta").glob("*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        found[path.name] = {key: value for key, value in record.items() if key != "link"}
    return found


def our_lines(stderr: str) -> list[str]:
    """What we said, less the lines of progress."""
    return [line for line in stderr.splitlines() if line.startswith("resume-dl: ")]
