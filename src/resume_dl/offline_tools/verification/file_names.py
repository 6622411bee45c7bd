"""File names that are safe on every platform."""

import re
import unicodedata

_LONGEST_PATH = 1000
_RESERVED = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|com[0-9\u00b9\u00b2\u00b3]|lpt[0-9\u00b9\u00b2\u00b3])", re.IGNORECASE
)


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
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in path):
        return "holds unprintable characters"
    if any(letter in '\\:<>"|?*' for letter in path):
        return 'holds one of \\ : < > " | ? *, which Windows does not allow'
    for part in path.split("/"):
        if part in ("", ".", ".."):
            return "leaves its folder, or has an empty part"
        if part[-1] in ". ":
            return "ends with a dot or a blank, which Windows removes"
        if _RESERVED.fullmatch(part.partition(".")[0].rstrip(" ")):
            return "is a device on Windows"
        if len(part.encode("utf-8")) > 255:
            return "is longer than a file name may be"
    return ""


def folded(path: str) -> str:
    """A key that is equal for paths that differ only in case or Unicode form."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
