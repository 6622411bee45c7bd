"""The request and the result of ``bundle create``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resume_dl.bundle_creation.signature import Signature
from resume_dl.bundle_creation.target_description import Inventory, Target
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.transfer.report import RunResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """The arguments of ``resume-dl bundle create``; named as its options."""

    fetch: FetchRequest
    output: Path
    """A folder, or a ``.tar``."""
    targets: tuple[Target, ...] = ()
    since: tuple[Inventory, ...] = ()
    split: int | None = None
    """Largest part in bytes; None for one tar."""
    sign: Path | None = None
    name: str = ""
    """The environment's name in environment.yml; empty for the name in a requested file."""

    @property
    def as_tar(self) -> bool:
        """Whether the output is a tar or its parts."""
        return self.output.suffix.lower() == ".tar"


@dataclass(slots=True)
class CreateResult(RunResult):
    """The fetch's result, and the bundle."""

    output: Path | None = None
    """None if no bundle was made."""
    manifest_sha256: str = ""
    size: int = 0
    """Bytes of all its files."""
    left_out: int = 0
    """Packages that the target has."""
    parts: tuple[Path, ...] = ()
    signature: Signature | None = None
    passed_over: tuple[str, ...] = ()
    """Lines of requirements files that only pip can handle; what they name is not in the bundle."""
    platforms: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """The fetch's object with ``bundle``, which is null if none was made."""
        bundle = {
            "path": str(self.output),
            "manifest_sha256": self.manifest_sha256,
            "size": self.size,
            "platforms": list(self.platforms),
            "left_out": self.left_out,
            "passed_over": list(self.passed_over),
            "parts": [str(part) for part in self.parts],
            "signed_by": None if self.signature is None else self.signature.fingerprint,
        }
        return {**super(CreateResult, self).as_json(), "bundle": None if self.output is None else bundle}
