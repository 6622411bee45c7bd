"""Translation of OSError into the store's own errors."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from resume_dl.errors import OutOfSpaceError, StoreError
from resume_dl.store.work_folder import not_writable

_NO_SPACE = {28, 122}  # ENOSPC, EDQUOT


@contextmanager
def as_store_errors(path: Path) -> Iterator[None]:
    """Raise StoreError, or a subclass, in place of an OSError of the block; ``path`` is named in the message."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise OutOfSpaceError(
                f"no space left in {path.parent} for {path.name}",
                needed=0,
                free=0,
                hint="free some space there and run the same command again: what is on disk is kept",
            ) from error
        if isinstance(error, PermissionError) or error.errno == 30:  # EROFS
            raise not_writable(error, path.parent) from error
        hint = "remove it, then run the same command again" if error.errno == errno.ELOOP else ""
        raise StoreError(f"{error.filename or path}: {error.strerror or error}", hint=hint) from error
