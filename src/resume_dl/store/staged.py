"""Whole archives that wait for their name, below ``<folder>/.resume-dl/``: under a name that no client takes.

Packages are verified and wait to be unpacked: they get their own name after their folder, so that no client ever finds
one beside another package's folder. Wheels without a digest wait until their RECORD was read. Those of a killed run
wait for the next one.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.model.artifact import Artifact
from resume_dl.store.part import FOLDER
from resume_dl.store.work_folder import is_trusted

_STAGED = re.compile(r"[0-9a-f]{16}-.+(?:\.conda|\.tar\.bz2|\.whl|\.tar\.gz)")
PREFIX = 16
"""Digits of the key that a waiting file's name begins with."""


def staged_prefix(key: str) -> str:
    """What the name of an artifact's waiting file begins with, by its key."""
    return key.partition("-")[2][:PREFIX]


def staged_name(artifact: Artifact) -> str:
    """The file's name: the first 16 digits of its key (its digest, else its address), and its own name."""
    return f"{staged_prefix(artifact.key)}-{artifact.filename}"


def staged_path(folder: Path, artifact: Artifact) -> Path:
    """Where it waits."""
    return folder / FOLDER / staged_name(artifact)


def staged_archives(folder: Path) -> list[Path]:
    """All that wait in a ``.resume-dl`` folder."""
    with suppress(OSError):
        if is_trusted(folder):
            return sorted(path for path in folder.iterdir() if _STAGED.fullmatch(path.name) and fs.is_regular(path))
    return []
