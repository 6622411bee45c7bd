"""``resume-dl.pyz``, if this program runs from it: the program without libraries that have extension modules.

``release/zip_application.py`` builds it. Pure but for the reading of its own archive.
"""

from __future__ import annotations

from zipimport import zipimporter

LOCK = "resume_dl_lock/pylock.toml"
"""What ``self install`` installs (PEP 751), a member of the archive."""
FULL_ONLY = ("fetch", "pip", "demo", "create")
"""Commands, and those of ``bundle``, that need py-rattler or uv."""


def zip_application() -> zipimporter | None:
    """The importer of ``resume-dl.pyz``; None if the program is installed."""
    loader = None if __spec__ is None else __spec__.loader
    return loader if isinstance(loader, zipimporter) else None


def is_full_only(command: str) -> bool:
    """Whether ``command`` is missing in this program."""
    return command in FULL_ONLY and zip_application() is not None


def installs_all() -> str:
    """The hint that leads to the whole program; empty if this is it."""
    archive = zip_application()
    return "" if archive is None else f'install the whole program: python "{archive.archive}" self install'
