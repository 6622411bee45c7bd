"""Translation of OSError into the store's own errors."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from resume_dl.errors import OutOfSpaceError, StoreError
from resume_dl.store.work_folder import not_writable

_NO_SPACE = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}  # Windows lacks quotas' errno


@contextmanager
def as_store_errors(path: Path) -> Iterator[None]:
    """Raise StoreError, or a subclass, in place of an OSError of the block; ``path`` is named in the message."""
    try:
        yield
    except OSError as error:
        raise store_error(error, path.parent, path) from error


def store_error(error: OSError, folder: Path, path: Path | None = None, *, hint: str = "") -> StoreError:
    """Return the StoreError, or subclass, for a failed write to ``folder``; ``path`` is the file, if there is one.

    ``hint`` is for errors without a better one.
    """
    if error.errno in _NO_SPACE:
        return OutOfSpaceError(
            f"no space left in {folder}" + ("" if path is None else f" for {path.name}"),
            needed=0,
            free=0,
            hint="free some space there and run the same command again: what is on disk is kept",
        )
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return not_writable(error, folder)
    hint = "remove it, then run the same command again" if error.errno == errno.ELOOP else hint
    return StoreError(f"{(path and error.filename) or path or folder}: {error.strerror or error}", hint=hint)
