"""Staged archives: complete ones below ``<folder>/.resume-dl/``, under a name that no client uses.

Verified packages are staged until they are unpacked, and renamed after their folder, so that no client ever finds one
next to another package's folder. Wheels without a digest are staged until their RECORD was checked. After a kill, the
next run takes them from there.
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
"""The number of digits of the key with which a staged file's name begins."""


def staged_prefix(key: str) -> str:
    """Return the first part of the name of an artifact's staged file, by its key."""
    return key.partition("-")[2][:PREFIX]


def staged_name(artifact: Artifact) -> str:
    """Return the staged file's name: the first 16 digits of its key (digest or address), and its own name."""
    return f"{staged_prefix(artifact.key)}-{artifact.filename}"


def staged_path(folder: Path, artifact: Artifact) -> Path:
    """Return the path of the staged file."""
    return folder / FOLDER / staged_name(artifact)


def staged_archives(folder: Path) -> list[Path]:
    """Return all staged files in a ``.resume-dl`` folder."""
    with suppress(OSError):
        if is_trusted(folder):
            return sorted(path for path in folder.iterdir() if _STAGED.fullmatch(path.name) and fs.is_regular(path))
    return []
