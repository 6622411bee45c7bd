"""The digests of a file."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any, Callable

_BLOCK = 1 << 20


def hash_file(path: Path, progress: Callable[[int], None] | None = None) -> tuple[int, str, str | None]:
    """Size in bytes, sha256 and md5 of a file, read in blocks; no md5 where this Python forbids it (FIPS).

    ``progress`` gets the size of each block. Raises OSError.
    """
    sha256, md5 = hashlib.sha256(), _md5()
    size = 0
    with path.open("rb") as file:
        while True:
            block = file.read(_BLOCK)
            if not block:
                break
            sha256.update(block)
            if md5 is not None:
                md5.update(block)
            size += len(block)
            if progress is not None:
                progress(len(block))
    return size, sha256.hexdigest(), None if md5 is None else md5.hexdigest()


def _md5() -> Any:
    options: dict[str, Any] = {"usedforsecurity": False} if sys.version_info >= (3, 9) else {}
    try:
        return hashlib.md5(**options)  # noqa: S324 - old records have no other digest
    except ValueError:
        return None
