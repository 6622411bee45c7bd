"""The result of a join and the next steps, as lines for people."""

from __future__ import annotations

import os
from pathlib import Path

from resume_dl.offline_tools.parts.join_parts import Report
from resume_dl.offline_tools.parts.parts_list import JOINING
from resume_dl.shell_commands import Step, command_line


def summary(report: Report) -> str:
    """The result in one line."""
    whole = report.whole
    if report.joined:
        return f"{report.path}  is complete: {whole.size:,} bytes, sha256 {whole.sha256}"
    kinds = [(len(report.missing), "missing"), (len(report.damaged), "damaged")]
    said = " and ".join(f"{count} {kind}" for count, kind in kinds if count)
    return f"{whole.name} cannot be joined yet: of {len(whole.parts)} parts {said}"


def advice(report: Report) -> list[str]:
    """The next steps, in lines."""
    if report.joined:
        return _how_to_unpack(report.path) if is_bundle(report.path) else []
    again = list(report.missing) + list(report.damaged)
    lines = ["missing: " + name for name in report.missing]
    lines += [f"damaged: {name} ({why})" for name, why in report.damaged.items()]
    if len(report.damaged) == len(report.whole.parts):
        lines.append("all parts differ: the list may belong to another bundle; copy it again too")
    which = "this part" if len(again) == 1 else "these parts"
    lines.append(f"copy {which} again, and run the same command")
    if len(again) < len(report.whole.parts):
        lines.append(f"the others are kept in {report.path}{JOINING}, and are no longer needed")
    return lines


def is_bundle(path: Path) -> bool:
    """Whether a file begins as the tar of a bundle does. Raises OSError."""
    with path.open("rb") as file:
        head = file.read(512)
    return head[:100].rstrip(b"\0") == b"manifest.json" and head[257:262] == b"ustar"


def _how_to_unpack(path: Path) -> list[str]:
    folder = path.with_suffix("") if path.suffix else path.with_name(path.name + "-unpacked")
    python = "python" if os.name == "nt" else "python3"
    commands = (
        ["mkdir", str(folder)],
        ["tar", "-xf", str(path), "-C", str(folder)],
        [python, str(folder / "verify.py")],
        [python, str(folder / "install.py"), "--help"],
    )
    return ["next, unpack it and verify it (tar is part of Linux, macOS and Windows 10 and newer):"] + [
        "  " + command_line([Step(command)]) for command in commands
    ]
