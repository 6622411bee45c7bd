"""The package cache that conda writes to: the first of pkgs_dirs that is writable or can be made."""

from __future__ import annotations

import os
from pathlib import Path

from resume_dl import fs
from resume_dl.errors import NotWritableError
from resume_dl.model.conda_settings import CondaSettings

MAGIC = "urls.txt"
"""The file by which conda recognises a package cache and tests whether it is writable."""


def first_writable_pkgs_dir(conda: CondaSettings, *, create: bool = False) -> Path:
    """The package cache that conda would download into (``PackageCacheData.first_writable``).

    Without ``create`` nothing is changed. With it the folder is made, with conda's ``urls.txt`` and ``urls``. Raises
    NotWritableError naming every folder and why not.
    """
    refusals: list[str] = []
    for folder in conda.pkgs_dirs:
        refusal = _make(folder) if create else _refusal(folder)
        if refusal is None:
            return folder
        refusals.append(f"{folder} ({refusal})")
    raise NotWritableError(
        "no package cache can be written: " + (", ".join(refusals) or "conda's pkgs_dirs is empty"),
        hint="name a folder that can be written with --pkgs-dir, or with pkgs_dirs in ~/.condarc",
    )


def check_pkgs_dir(folder: Path, *, create: bool = False) -> Path:
    """Check ``folder`` as a package cache (``--pkgs-dir``), and make it if ``create``. Raises NotWritableError."""
    return first_writable_pkgs_dir(CondaSettings(pkgs_dirs=(folder,)), create=create)


def _refusal(folder: Path) -> str | None:
    """Why a package cache cannot be written or made, or None; checked without writing."""
    magic = folder / MAGIC
    if magic.is_file():
        return _append(magic)
    place = folder
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return f"{place} is not a folder" if os.path.lexists(place) else "there is no such drive"
    # Search permission is needed too, to make a file in it.
    return None if os.access(place, os.W_OK | os.X_OK) else "no permission to write"


def _make(folder: Path) -> str | None:
    magic = folder / MAGIC
    if magic.is_file():
        return _append(magic)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in (magic, folder / "urls"):
            os.close(fs.open_regular(file, os.O_WRONLY | os.O_CREAT))
    except OSError as error:
        return error.strerror or type(error).__name__
    return None


def _append(file: Path) -> str | None:
    """Test as conda does: open for appending, write nothing, keep the time stamp."""
    try:
        os.close(fs.open_regular(file, os.O_WRONLY | os.O_APPEND))
        return None
    except OSError as error:
        return error.strerror or type(error).__name__
