"""A tool of this package as one executable zip archive of Python source (docs.python.org, zipapp).

Its bytes depend only on the source: members have a fixed order, time and mode, and are stored uncompressed, because
deflate output differs between zlib versions. To stay small it holds only the modules that the tool imports.
"""

from __future__ import annotations

import ast
import io
import pkgutil
import sys
import tempfile
import zipfile
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Iterator, Sequence

from resume_dl import fs

_TIME = (1980, 1, 1, 0, 0, 0)
_HEAD = b"""\
# one of resume-dl's offline tools: a zip archive of Python source. To read it: python -I -m zipfile -e THIS-FILE FOLDER

"""
"""The first lines in an editor. No #! line: the Windows launcher would look for another Python."""
_PLAIN_FILE = 0o100644
_ROOT = "resume_dl"
_ALSO = {"install": ("verify",)}
"""The tools that a tool starts: install lets the environment's Python inspect packages."""


def write_archive(tool: str) -> bytes:
    """The archive of one of ``tool_names.TOOLS``, the same bytes on any machine. Raises OSError."""
    members = {"__main__.py": _read("offline_tools/__main__.py")}
    members.update(sorted(_modules_of(tool).items()))
    file = io.BytesIO()
    file.write(_HEAD)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for path, source in members.items():
            member = zipfile.ZipInfo(path, _TIME)
            member.create_system = 3  # Unix, on every system
            member.external_attr = _PLAIN_FILE << 16
            archive.writestr(member, source)
    return file.getvalue()


def _modules_of(tool: str) -> dict[str, bytes]:
    """Path in the archive -> source, of each module that the tool imports at any level."""
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
    """Candidate paths of a module and its parent packages, below the root package."""
    parts = module.split(".")[1:]
    for end in range(len(parts) + 1):
        yield "/".join((*parts[:end], "__init__.py"))
    yield f"{'/'.join(parts)}.py"


@lru_cache(maxsize=None)  # the tools have most of their modules in common
def _imports(source: bytes) -> Sequence[str]:
    """Modules of ours that a module imports, and names imported from them, which may be modules."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == _ROOT:
            found += [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.Import):
            found += [each.name for each in node.names if each.name.partition(".")[0] == _ROOT]
    return found


def _read(path: str) -> bytes:
    """Read a module, with LF line ends on every system. Raises FileNotFoundError."""
    data = pkgutil.get_data(_ROOT, path)
    if data is None:
        raise FileNotFoundError(path)
    return data.replace(b"\r\n", b"\n")


@contextmanager
def archive_file() -> Iterator[Path]:
    """Yield an archive that another Python can start: the running one, else a temporary one."""
    running = fs.absolute(sys.argv[0])
    if getattr(__spec__.loader, "archive", None) and not find_spec(f"{_ROOT}.cli"):  # resume-dl.pyz is another one
        yield running
        return
    with tempfile.TemporaryDirectory(prefix="resume-dl-") as folder:
        written = Path(folder, "verify.py")
        written.write_bytes(write_archive("verify"))
        yield written
