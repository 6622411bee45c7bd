"""This package as one zip archive of Python source, which runs wherever Python is (docs.python.org, zipapp).

Its bytes depend on nothing but the source: members are in a fixed order, have one time and one mode, and are stored
as they are, because deflate gives other bytes with another zlib.
"""

from __future__ import annotations

import io
import os
import pkgutil
import sys
import tempfile
import zipfile
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Iterator

TOOLS = ("install", "join", "probe", "unpack", "verify")
NAMES = tuple(f"{tool}.py" for tool in TOOLS)
"""What the archive may be called, each time with the same bytes."""
INSIDE = "--inside"
"""The argument by which an archive of any name looks into the packages that stdin names, in the folder that follows."""
_TIME = (1980, 1, 1, 0, 0, 0)
_HEAD = b"""\
# resume-dl's offline tools: a zip archive of Python source. To read it: python -m zipfile -e THIS-FILE FOLDER

"""
"""What an editor shows first. No #! line: by one, the launcher of Windows looks for another Python."""
_PLAIN_FILE = 0o100644
_NEEDED = "resume_dl/fs"
"""The package that the tools need beside their own."""


def write_archive() -> bytes:
    """The archive, the same bytes on any machine. Raises OSError."""
    own = "resume_dl/offline_tools"
    members = {"__main__.py": _source(f"{own}/__main__.py")}
    members.update(
        (path, _source(path)) for path in sorted(["resume_dl/__init__.py", *_paths_in(_NEEDED), *_paths_in(own)])
    )
    file = io.BytesIO()
    file.write(_HEAD)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for path, source in members.items():
            member = zipfile.ZipInfo(path, _TIME)
            member.create_system = 3  # Unix, whatever system this is
            member.external_attr = _PLAIN_FILE << 16
            archive.writestr(member, source)
    return file.getvalue()


def _paths_in(folder: str) -> Iterator[str]:
    """The source files of a package and of those in it."""
    package = import_module(folder.replace("/", "."))
    yield f"{folder}/__init__.py"
    for module in pkgutil.iter_modules(package.__path__):
        path = f"{folder}/{module.name}"
        if module.ispkg:
            yield from _paths_in(path)
        else:
            yield f"{path}.py"


def _source(path: str) -> bytes:
    """A module as it is kept: with LF, whatever machine it was installed on."""
    folder, _, name = path.rpartition("/")
    data = pkgutil.get_data(folder.replace("/", "."), name)
    if data is None:
        raise FileNotFoundError(path)
    return data.replace(b"\r\n", b"\n")


@contextmanager
def archive_file() -> Iterator[Path]:
    """An archive that another Python can start: the one that runs, else one that is there for so long."""
    running = Path(os.path.abspath(sys.argv[0]))  # noqa: PTH100 - resolve() follows links
    if getattr(__spec__.loader, "archive", None) is not None:
        yield running
        return
    with tempfile.TemporaryDirectory(prefix="resume-dl-") as folder:
        written = Path(folder, "verify.py")
        written.write_bytes(write_archive())
        yield written
