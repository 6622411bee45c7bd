"""Programs that would read a file in a bundle because of its name."""

from __future__ import annotations

import re

FOLDERS_OF_CLIENTS = {
    "channel": "conda",
    "wheels": "pip",
    "simple": "pip",
    "explicit": "conda",
    "requirements": "pip",
}
_PYTHON = (".py", ".pyw", ".pyc", ".pyd", ".so", ".pth", ".egg", ".egg-link")
_METADATA = (".dist-info", ".egg-info")
_PROGRAMS = (".dll", ".dylib", ".exe", ".com", ".bat", ".cmd")
_SETTINGS = re.compile(
    r"pylock(\..*)?\.toml|pip\.(conf|ini)|\.?(conda|mamba)rc|environment\.ya?ml|.*requirements.*\.(txt|in)"
    r"|constraints.*\.txt|pyproject\.toml|setup\.cfg|tox\.ini|(uv|pixi|conda)\.(toml|lock)|conda-lock\.ya?ml"
    r"|[._]netrc|\.pypirc|\.env|mirrors\.toml|pyvenv\.cfg|\.python-version"
)
_LEFTOVERS = re.compile(
    r"\.ds_store|\._.*|thumbs\.db|ehthumbs(_vista)?\.db|desktop\.ini|\.directory|\.apdisk|\.nfs[0-9a-f]+|\.fuse_hidden.*"
    r"|fsck[0-9]{4}\.rec|\.volumeicon\.icns|\.com\.apple\..*|indexervolumeguid|wpsettings\.dat"
)
LEFTOVER_FOLDERS = re.compile(
    r"system volume information|\$recycle\.bin|recycler|found\.[0-9]{3}|lost\+found|lost\.dir|\.spotlight-v100"
    r"|\.trashes|\.trash(-[0-9]+)?|\.fseventsd|\.temporaryitems|\.documentrevisions-v100|__macosx|@eadir"
)


def read_by(path: str) -> str:
    """The program that would read a file of this name in a bundle; empty if none.

    Python imports from the current folder (``python -m pip``), Windows starts programs from it.
    """
    parts = path.casefold().split("/")
    if is_leftover(parts):
        return ""
    if parts[0] in FOLDERS_OF_CLIENTS:
        return FOLDERS_OF_CLIENTS[parts[0]]
    if parts[-1].endswith(_PYTHON) and all(part.isidentifier() for part in parts[:-1]):
        return "Python"
    if parts[0].endswith(_METADATA):
        return "Python"
    if parts[0] in ("conda-meta", ".venv", ".pixi", ".conda"):
        return "conda, pip or uv"
    if len(parts) == 1 and parts[0].endswith(_PROGRAMS):
        return "Windows, as a program"
    if len(parts) == 1 and _SETTINGS.fullmatch(parts[0]):
        return "conda, pip or uv, as settings"
    return ""


def is_leftover(parts: list[str]) -> bool:
    """Whether a file manager or file system leaves such files on every disk."""
    return bool(_LEFTOVERS.fullmatch(parts[-1]) or any(LEFTOVER_FOLDERS.fullmatch(part) for part in parts[:-1]))
