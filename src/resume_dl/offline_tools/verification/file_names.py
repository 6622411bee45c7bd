"""Names of files that are safe on every platform."""

import re
import unicodedata

_LONGEST_PATH = 1000
_RESERVED = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|com[0-9\u00b9\u00b2\u00b3]|lpt[0-9\u00b9\u00b2\u00b3])", re.IGNORECASE
)


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
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in path):
        return "holds unprintable letters"
    if any(letter in '\\:<>"|?*' for letter in path):
        return "holds one of \\ : < > \" | ? *, which is no file's name on Windows"
    for part in path.split("/"):
        if part in ("", ".", ".."):
            return "leaves its folder, or goes through none"
        if part[-1] in ". ":
            return "ends with a dot or a blank, which Windows takes away"
        if _RESERVED.fullmatch(part.partition(".")[0].rstrip(" ")):
            return "is a device on Windows"
        if len(part.encode("utf-8")) > 255:
            return "is longer than a file's name may be"
    return ""


def folded(path: str) -> str:
    """Equal for paths that are one file on a disk that tells neither case nor Unicode forms apart."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
