"""The text of files that people write: for resume-dl and for the offline tools (Python 3.8)."""

from __future__ import annotations

import codecs
import locale
import sys
from pathlib import Path

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16's, which is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def decode_text(data: bytes, *, declared: str = "", system: str = "") -> str:
    """Decode by the byte order mark, else by ``declared``, else as UTF-8, else by the system's encoding.

    ``>`` of PowerShell 5 writes UTF-16 with its mark; editors and programs of Windows write the code page of the
    system, in which valid UTF-8 beyond ASCII is improbable. Raises UnicodeDecodeError, whose ``encoding`` names
    all that were tried, and LookupError for an unknown ``declared``. ``system`` stands in for ``system_encoding()``.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding)
    if declared:
        return data.decode(declared)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        system = system or system_encoding()
    try:
        return data.decode(system)
    except UnicodeDecodeError as error:
        tried = "UTF-8" if codecs.lookup(system).name == "utf-8" else f"UTF-8 or {system}"
        raise UnicodeDecodeError(tried, error.object, error.start, error.end, error.reason) from None


def read_text(path: Path) -> str:
    """The text of a file that the user has named. Raises OSError, and UnicodeDecodeError as ``decode_text``."""
    return decode_text(path.read_bytes())


def system_encoding() -> str:
    """The encoding of texts that state none: on Windows the ANSI code page, whatever mode Python runs in."""
    if sys.platform == "win32":
        import ctypes

        name = f"cp{ctypes.windll.kernel32.GetACP()}"
        try:
            return codecs.lookup(name).name
        except LookupError:
            return "mbcs"
    return locale.getpreferredencoding(False)
