"""A small package as it lies in conda's package cache: its artifact, its archive's bytes, its unpacked folder."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl

ARCHIVE = random.Random(5).randbytes(500)
FOLDER = ".resume-dl"
URL = "https://example.org/c/noarch/a-1-0.conda"
INDEX = {"name": "a", "version": "1", "build": "0", "build_number": 0, "subdir": "noarch", "depends": []}
FILES = {"lib/a.py": b"a = 1\n", "lib/b.py": b""}


def package(**other: Any) -> Artifact:
    """The artifact, with what is ``other`` than in the ordinary one."""
    ordinary = Artifact(
        kind="conda",
        filename="a-1-0.conda",
        url=RedactedUrl(URL),
        size=len(ARCHIVE),
        sha256=hashlib.sha256(ARCHIVE).hexdigest(),
        md5=hashlib.md5(ARCHIVE).hexdigest(),
        name="a",
        version="1",
        build="0",
        subdir="noarch",
    )
    return replace(ordinary, **other)


def unpack(folder: Path, index: dict[str, Any] | None = None, *, listed: bool = True) -> Path:
    """Fill ``folder`` as extraction does: files, index.json and, where ``listed``, paths.json; else info/files."""
    for name, data in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    info = folder / "info"
    info.mkdir()
    (info / "index.json").write_text(json.dumps(INDEX if index is None else index))
    if listed:
        rows = [{"_path": name, "size_in_bytes": len(data)} for name, data in FILES.items()]
        (info / "paths.json").write_text(json.dumps({"paths": rows}))
    else:
        (info / "files").write_text("".join(f"{name}\n" for name in FILES) + "\n")
    return folder
