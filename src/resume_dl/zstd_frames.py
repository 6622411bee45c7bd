"""zstd (RFC 8878), by the first library that this Python has.

These are ``compression.zstd`` of Python 3.14 (PEP 784), its backport, and ``zstandard``, which conda's Python has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import IO, Any, Protocol

from resume_dl.errors import missing_library

STANDARD = ("compression.zstd", "backports.zstd")
"""Modules with the interface of PEP 784."""
OTHER = "zstandard"


class Frame(Protocol):
    """The decompressor of one frame; ``eof`` is set at its end, ``unused_data`` are the bytes behind it."""

    @property
    def eof(self) -> bool:
        """Whether the end of the frame has been reached."""
        ...

    @property
    def unused_data(self) -> bytes:
        """The bytes that were passed in and follow the frame."""
        ...

    def decompress(self, data: bytes, /) -> bytes:
        """Return everything that ``data`` expands to."""
        ...


def is_available() -> bool:
    """Whether this Python has one of the libraries."""
    return _library() is not None


def frames(window_log: int) -> tuple[Callable[[], Frame], type[Exception]]:
    """Return the maker of frames whose window is at most ``2 ** window_log`` bytes, and the library's own exception.

    Raises ConfigurationError if no library is installed.
    """
    found = _required()
    if found.__name__ == OTHER:
        decompressor = found.ZstdDecompressor(max_window_size=1 << window_log)
        return decompressor.decompressobj, found.ZstdError
    options = {found.DecompressionParameter.window_log_max: window_log}
    return lambda: found.ZstdDecompressor(options=options), found.ZstdError


def writer(file: IO[bytes], level: int) -> AbstractContextManager[IO[bytes]]:
    """Return a stream that writes one frame to ``file``, which stays open. Raises ConfigurationError as ``frames``."""
    found = _required()
    made: AbstractContextManager[IO[bytes]]
    if found.__name__ == OTHER:
        made = found.ZstdCompressor(level=level).stream_writer(file, closefd=False)
    else:
        made = found.ZstdFile(file, "w", level=level)
    return made


def compress(data: bytes, level: int) -> bytes:
    """Return ``data`` as one frame. Raises ConfigurationError as ``frames``."""
    packed: bytes = _required().compress(data, level)
    return packed


def _required() -> Any:
    found = _library()
    if found is None:
        raise missing_library("backports.zstd", "which unpacks zstd files")
    return found


@functools.lru_cache(maxsize=1)
def _library() -> Any:
    for name in (*STANDARD, OTHER):
        try:
            return import_module(name)
        except ImportError:
            continue
    return None
