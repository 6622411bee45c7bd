"""A tool of this package as one zip archive of Python source, which runs wherever Python is (docs.python.org, zipapp).

Its bytes depend on nothing but the source: members are in a fixed order, have one time and one mode, and are stored
as they are, because deflate gives other bytes with another zlib. So only the modules that the tool imports are in it.
"""

from __future__ import annotations

import ast
import io
import pkgutil
import sys
import tempfile
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator

from resume_dl import fs

TOOLS = ("install", "join", "probe", "unpack", "verify")
NAMES = tuple(f"{tool}.py" for tool in TOOLS)
"""What their archives are called."""
INSIDE = "--inside"
"""The argument by which an archive of any name looks into the packages that stdin names, in the folder that follows."""
_TIME = (1980, 1, 1, 0, 0, 0)
_HEAD = b"""\
# one of resume-dl's offline tools: a zip archive of Python source. To read it: python -I -m zipfile -e THIS-FILE FOLDER

"""
"""What an editor shows first. No #! line: by one, the launcher of Windows looks for another Python."""
_PLAIN_FILE = 0o100644
_ROOT = "resume_dl"
_ALSO = {"install": ("verify",)}
"""The tools that a tool starts: install has the environment's own Python look into packages."""


def write_archive(tool: str) -> bytes:
    """The archive of one of ``TOOLS``, the same bytes on any machine. Raises OSError."""
    members = {"__main__.py": _read("offline_tools/__main__.py")}
    members.update(sorted(_modules_of(tool).items()))
    file = io.BytesIO()
    file.write(_HEAD)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for path, source in members.items():
            member = zipfile.ZipInfo(path, _TIME)
            member.create_system = 3  # Unix, whatever system this is
            member.external_attr = _PLAIN_FILE << 16
            archive.writestr(member, source)
    return file.getvalue()


def _modules_of(tool: str) -> dict[str, bytes]:
    """Path in the archive -> source of each module that the tool imports, wherever in a module it does."""
    commands = [f"{_ROOT}.offline_tools.commands.{each}" for each in (tool, *_ALSO.get(tool, ()))]
    waiting, found = [f"{_ROOT}.offline_tools.start", *commands], {}
    while waiting:
        for path in _paths_of(waiting.pop()):
            if f"{_ROOT}/{path}" not in found:
                with suppress(FileNotFoundError):  # a name in a module, or a module and no package
                    source = found[f"{_ROOT}/{path}"] = _read(path)
                    waiting.extend(_imports(source))
    return found


def _paths_of(module: str) -> Iterator[str]:
    """Where a module and the packages around it would be, below the root package."""
    parts = module.split(".")[1:]
    for end in range(len(parts) + 1):
        yield "/".join((*parts[:end], "__init__.py"))
    yield f"{'/'.join(parts)}.py"


def _imports(source: bytes) -> Iterator[str]:
    """What of ours a module imports; names that are imported from a module too, as they may be modules."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == _ROOT:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.partition(".")[0] == _ROOT)


def _read(path: str) -> bytes:
    """A module as it is kept: with LF, whatever machine it was installed on. Raises FileNotFoundError."""
    data = pkgutil.get_data(_ROOT, path)
    if data is None:
        raise FileNotFoundError(path)
    return data.replace(b"\r\n", b"\n")


@contextmanager
def archive_file() -> Iterator[Path]:
    """An archive that another Python can start: the one that runs, else one that is there for so long."""
    running = fs.absolute(sys.argv[0])
    if getattr(__spec__.loader, "archive", None) is not None:
        yield running
        return
    with tempfile.TemporaryDirectory(prefix="resume-dl-") as folder:
        written = Path(folder, "verify.py")
        written.write_bytes(write_archive("verify"))
        yield written
