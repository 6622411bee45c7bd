"""Digests, which identify bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LENGTHS = {"sha256": 64, "md5": 32}
_HEX = re.compile(r"[0-9a-f]+")


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """A whole file's digest; ``algorithm`` is ``sha256`` or ``md5``, ``hex`` lower case. Raises ValueError else."""

    algorithm: str
    hex: str

    def __post_init__(self) -> None:
        length = _LENGTHS.get(self.algorithm)
        if length is None:
            raise ValueError(f"unknown digest algorithm: {self.algorithm!r}")
        if len(self.hex) != length or not _HEX.fullmatch(self.hex):
            raise ValueError(f"not a {self.algorithm} digest: {self.hex!r}")

    def __str__(self) -> str:
        return f"{self.algorithm}-{self.hex}"
