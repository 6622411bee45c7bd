"""File names that are safe on every platform."""

import unicodedata

from resume_dl.file_names import unsafe_name

_LONGEST_PATH = 1000


def unsafe_path(path: str) -> str:
    """Why ``path`` is not safe below a bundle on every platform; empty if it is.

    Windows' rules are Microsoft's "Naming Files, Paths, and Namespaces".
    """
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return "is not UTF-8"
    if not path or path.startswith("/"):
        return "is empty or absolute"
    if len(path) > _LONGEST_PATH:
        return "is longer than any bundle's"
    return next(filter(None, map(unsafe_name, path.split("/"))), "")


def folded(path: str) -> str:
    """A key that is equal for paths that differ only in case or Unicode form."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
