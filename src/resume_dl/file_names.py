"""Names of files that are safe on every platform: for resume-dl and for the offline tools (Python 3.8). Pure."""

from __future__ import annotations

import re

_RESERVED = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|com[0-9\u00b9\u00b2\u00b3]|lpt[0-9\u00b9\u00b2\u00b3])", re.IGNORECASE
)


def unsafe_name(name: str) -> str:
    """Why ``name`` is not the plain name of a file on every platform; empty where it is.

    Windows' rules are Microsoft's "Naming Files, Paths, and Namespaces".
    """
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "is no UTF-8"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
        return "holds unprintable letters"
    if any(letter in '/\\:<>"|?*' for letter in name):
        return "holds one of / \\ : < > \" | ? *, which is no file's name on Windows"
    if name in ("", ".", ".."):
        return "leaves its folder, or goes through none"
    if name[-1] in ". ":
        return "ends with a dot or a blank, which Windows takes away"
    if _RESERVED.fullmatch(name.partition(".")[0].rstrip(" ")):
        return "is a device on Windows"
    if size > 255:
        return "is longer than a file's name may be"
    return ""
