"""Names of files that are safe on every platform."""

import unicodedata

from resume_dl.file_names import unsafe_name

_LONGEST_PATH = 1000


def unsafe_path(path: str) -> str:
    """Why ``path`` may not be used below a bundle on every platform; empty where it may.

    Windows' rules are Microsoft's "Naming Files, Paths, and Namespaces".
    """
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return "is no UTF-8"
    if not path or path.startswith("/"):
        return "is empty or absolute"
    if len(path) > _LONGEST_PATH:
        return "is longer than any bundle's"
    return next(filter(None, map(unsafe_name, path.split("/"))), "")


def folded(path: str) -> str:
    """Equal for paths that are one file on a disk that tells neither case nor Unicode forms apart."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
