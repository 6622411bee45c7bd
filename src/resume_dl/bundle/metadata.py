"""Metadata of wheels and source archives: METADATA and PKG-INFO ("Core metadata specifications", PyPA).

Wheels are ZIP (PEP 427) with ``<name>-<version>.dist-info/METADATA``; source archives hold ``<folder>/PKG-INFO``
(PEP 625). Nothing else is unpacked. The archives are untrusted: an unreadable one has no metadata.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.metadata import RawMetadata

from resume_dl.bounded_zip import open_member, open_zip

_MOST = 4 << 20
"""Bytes of one METADATA; the longest descriptions have some hundred KB."""
_FAR = 256 << 20
"""Bytes of an unpacked source archive that may precede its PKG-INFO."""


def read_metadata(path: Path) -> RawMetadata:
    """Read the fields, as ``packaging`` names them; empty if they are unreadable.

    Raises OSError if the file cannot be opened.
    """
    from packaging.metadata import parse_email

    with path.open("rb") as file:
        try:
            return parse_email(_packed(file, path.name))[0]
        except Exception:  # noqa: BLE001 - there is no end of ways to be a strange archive, and none matters here
            return {}


def _packed(file: IO[bytes], filename: str) -> bytes:
    if filename.endswith((".whl", ".zip")):
        with open_zip(file) as archive:
            wanted = ".dist-info/METADATA" if filename.endswith(".whl") else "/PKG-INFO"
            names = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith(wanted)]
            with open_member(archive, archive.getinfo(_own(names, filename))) as member:
                return member.read(_MOST)
    with tarfile.open(fileobj=file) as sources:
        for entry in sources:
            if entry.name.count("/") == 1 and entry.name.endswith("/PKG-INFO"):
                packed = sources.extractfile(entry)
                return b"" if packed is None else packed.read(_MOST)
            if entry.size < 0:  # an older tarfile seeks back and reads the same header forever (CVE-2025-8194)
                break
            if entry.offset_data + entry.size > _FAR:
                break
    return b""


def _own(names: list[str], filename: str) -> str:
    """The wheel's own METADATA, in the folder of its name: a wheel that vendors another may hold several."""
    start = "-".join(filename.split("-")[:2]).lower()
    return min(names, key=lambda name: (not name.lower().startswith(start), name))
