"""Pins: the hash that a file without a published digest had when it was first downloaded here.

One small JSON file for each address, ``<user state>/resume-dl/pins/url-<hex>.json``: ``{"url", "sha256",
"first_seen"}``. Later runs verify the file by it, and so detect a change at the same address.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from resume_dl.errors import NotWritableError
from resume_dl.model.artifact import Artifact
from resume_dl.model.digest import Digest
from resume_dl.store.platform import make_folder, write_durably


@dataclass(frozen=True, slots=True)
class Pin:
    """The sha256 (lower-case hex) of a file, the day it was first seen, and the path of the pin itself."""

    sha256: str
    first_seen: str
    path: Path


class Pins:
    """The pins in ``folder``, which is made on first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, artifact: Artifact) -> Pin | None:
        """Return the pin of an artifact without a digest; None if it is missing or unreadable."""
        path = self._path(artifact)
        try:
            row = json.loads(path.read_text(encoding="utf-8"))
            return Pin(Digest("sha256", row["sha256"]).hex, str(row["first_seen"]), path)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def add(self, artifact: Artifact, sha256: str) -> None:
        """Pin the hash of the file at this address, with today's date. Raises NotWritableError."""
        path = self._path(artifact)
        today = datetime.now(timezone.utc).date().isoformat()
        text = json.dumps({"url": str(artifact.url), "sha256": sha256, "first_seen": today}, indent=1)
        try:
            make_folder(self._folder)
            write_durably(path, f"{text}\n".encode())
        except OSError as error:
            raise NotWritableError(
                f"{self._folder} cannot be written: {error.strerror}", hint="check its permissions"
            ) from error

    def _path(self, artifact: Artifact) -> Path:
        if artifact.digest is not None:
            raise AssertionError("a file with a digest needs no pin")
        return self._folder / f"{artifact.key}.json"
