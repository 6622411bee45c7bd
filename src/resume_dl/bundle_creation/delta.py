"""The packages that a machine has already. Pure: identity is a digest, never a name or a URL."""

from __future__ import annotations

from collections.abc import Iterable

from resume_dl.bundle_creation.target_description import Held, Inventory
from resume_dl.model.artifact import Artifact


class Delta:
    """The archives and wheels in these inventories.

    A match needs the same sha256, and the same size if both sides state it. An old record with only an md5 needs its
    size as well, because md5 collisions can be forged. The file name must match too: the target's ``install`` searches
    by it.
    """

    def __init__(self, inventories: Iterable[Inventory]) -> None:
        self._by_sha256: dict[tuple[str, str, str], Held] = {}
        self._by_md5: dict[tuple[str, str, str], Held] = {}
        for inventory in inventories:
            for kind, files in (("conda", inventory.packages), ("wheel", inventory.wheels)):
                for held in files:
                    self._by_sha256[kind, held.filename, held.sha256] = held
                    if held.md5 is not None:
                        self._by_md5[kind, held.filename, held.md5] = held

    def find(self, artifact: Artifact) -> Held | None:
        """The target's copy of an artifact, with its digest and size; None if it is missing."""
        if artifact.sha256 is not None:
            held = self._by_sha256.get((artifact.kind, artifact.filename, artifact.sha256))
            return held if held is not None and artifact.size in {None, held.size} else None
        if artifact.md5 is None or artifact.size is None:
            return None
        held = self._by_md5.get((artifact.kind, artifact.filename, artifact.md5))
        return held if held is not None and held.size == artifact.size else None
