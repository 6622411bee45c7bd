"""Wheels that were made to harm: what is read of them is bounded, and the next mirror is asked."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.behaviours import Answer, Headers
from resume_dl.bounded_zip import open_member, open_zip, read_member
from resume_dl.caches.wheel_record import check_archive
from resume_dl.errors import IntegrityError
from support.pip_resolving import Resolving, names

NAME = "demo-1.0-py3-none-any.whl"
METADATA = "demo-1.0.dist-info/METADATA"
MIB = 1 << 20


def wheel(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


def claiming(data: bytes, size: int) -> bytes:
    """The same archive, its first member with another unpacked size in both its headers."""
    changed = bytearray(data)
    struct.pack_into("<I", changed, 22, size)
    struct.pack_into("<I", changed, data.index(b"PK\x01\x02") + 24, size)
    return bytes(changed)


def overlapping(count: int) -> bytes:
    """One member's bytes, and as many entries for it (David Fifield's bomb, in its simplest form)."""
    data = wheel({METADATA: bytes(MIB)})
    at = data.index(b"PK\x01\x02")
    entry = data[at : data.index(b"PK\x05\x06")]
    names = [entry.replace(b"demo", b"%04x" % n) for n in range(count)]
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, count & 0xFFFF, count & 0xFFFF, count * len(entry), at, 0)
    return data[:at] + b"".join(names) + end


def many(count: int) -> bytes:
    """A directory of so many members that are nowhere."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 0, 20, 0, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, count * len(entry), 0, 0)
    return entry * count + end


def long_directory() -> bytes:
    """A directory of 40 MB: one entry, and nothing."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 0, 20, 0, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    directory = entry.ljust(40 * MIB, b"\0")
    return directory + struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 1, 1, len(directory), 0, 0)


HOSTILE = {
    "a METADATA of 256 MB": lambda: wheel({METADATA: bytes(256 * MIB)}),
    "a METADATA of 256 MB that claims 100 bytes": lambda: claiming(wheel({METADATA: bytes(256 * MIB)}), 100),
    "a METADATA that claims a gigabyte": lambda: claiming(wheel({METADATA: b"Name: demo"}), 1 << 30),
    "packed by bzip2": lambda: claiming(wheel({METADATA: bytes(256 * MIB)}, zipfile.ZIP_BZIP2), 100),
    "packed by lzma": lambda: claiming(wheel({METADATA: bytes(256 * MIB)}, zipfile.ZIP_LZMA), 100),
    "entries over each other": lambda: overlapping(1000),
    "a million entries": lambda: many(1_000_000),
    "a directory of 40 MB": long_directory,
    "no METADATA": lambda: wheel({"a": b""}),
    "no ZIP": lambda: b"PK\x03\x04" + bytes(1000),
    "nothing": lambda: b"",
}


@pytest.fixture(scope="module", params=HOSTILE)
def hostile(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wheels") / NAME
    path.write_bytes(HOSTILE[request.param]())
    return path


CHILD = """
import resource, sys
from pathlib import Path
from resume_dl.indexes.pip.metadata import _metadata_of
from resume_dl.bundle.metadata import read_metadata
from resume_dl.caches.wheel_record import check_archive
path = Path(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
said = ""
def metadata():
    with path.open("rb") as file:
        _metadata_of(file, path.name)
for call in (metadata, lambda: read_metadata(path), lambda: check_archive(path, path.name)):
    try:
        call()
        said += "taken "
    except Exception as error:
        said += type(error).__name__ + " "
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, said, sep="|")
"""


def test_a_malicious_wheel_is_refused_with_little_memory(hostile: Path) -> None:
    """By each of the three that look into wheels, in a process of its own."""
    pytest.importorskip("resource", reason="this system does not say how much memory a process took")
    command = [sys.executable, "-c", CHILD, str(hostile)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    megabytes, _, said = done.stdout.strip().partition("|")
    first, second, third = said.split()
    assert first != "taken"
    assert second == "taken"  # what a bundle says of a wheel is empty where that cannot be read
    assert third == "IntegrityError"
    assert int(megabytes) < 150


def test_a_source_archive_that_unpacks_without_an_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "demo-1.0.tar.gz"
    path.write_bytes(gzip.compress(bytes(8 * MIB)))
    check_archive(path, path.name)
    monkeypatch.setattr("resume_dl.caches.wheel_record._WORK_MORE", MIB)
    with pytest.raises(IntegrityError, match="unpacks to more than"):
        check_archive(path, path.name)


def test_a_source_archive_that_leads_back_into_itself_says_nothing(tmp_path: Path) -> None:
    """CVE-2025-8194: a size below zero."""
    first, back = tarfile.TarInfo("first").tobuf(), bytearray(tarfile.TarInfo("back").tobuf())
    back[124:136], back[148:156] = b"\xff" * 10 + b"\xfe\0", b" " * 8
    back[148:156] = b"%06o\0 " % sum(back)
    path = tmp_path / "demo-1.0.tar.gz"
    path.write_bytes(gzip.compress(first + back + bytes(1024)))
    code = "import sys; from pathlib import Path; from resume_dl.bundle.metadata import read_metadata\n"
    code += "print(read_metadata(Path(sys.argv[1])))"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "{}\n"


# --- honest ones ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_honest_member_is_read_whole(method: int) -> None:
    content = b"Name: demo\n" * 1000
    with open_zip(io.BytesIO(wheel({"a": b"x", METADATA: content, "empty": b"", "b/": b""}, method))) as archive:
        assert read_member(archive, archive.getinfo(METADATA), len(content)) == content
        assert read_member(archive, archive.getinfo("empty"), 0) == b""
        with pytest.raises(zipfile.BadZipFile, match="more than"):
            read_member(archive, archive.getinfo(METADATA), len(content) - 1)


def test_a_damaged_member_is_not_taken() -> None:
    data = bytearray(wheel({METADATA: b"Name: demo\n" * 10}, zipfile.ZIP_STORED))
    data[data.index(b"demo\n")] ^= 1
    with open_zip(io.BytesIO(bytes(data))) as archive, pytest.raises(zipfile.BadZipFile):
        read_member(archive, archive.getinfo(METADATA), 1000)


FAILURES = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, RuntimeError, OverflowError, EOFError)
"""NotImplementedError is a RuntimeError. Callers take any other for the file's failure, too."""


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=4), st.integers(0, 60))
def test_any_change_of_a_wheel_is_an_answer_or_an_error_of_zips(changes: list[tuple[float, int]], cut: int) -> None:
    data = bytearray(wheel({METADATA: b"Name: demo\n", "demo/a": b"a" * 300}))
    for place, byte in changes:
        data[int(place * len(data))] = byte
    with suppress(*FAILURES), open_zip(io.BytesIO(bytes(data[: len(data) - cut]))) as archive:
        for member in archive.infolist():
            assert len(read_member(archive, member, 1000)) <= 1000


def test_a_stream_of_a_foreign_method_is_refused() -> None:
    with open_zip(io.BytesIO(wheel({"a": b"x"}, zipfile.ZIP_LZMA))) as archive, pytest.raises(zipfile.BadZipFile):
        open_member(archive, archive.getinfo("a"))


# --- a whole resolution -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Instead:
    """Other bytes than the file's, in ranges as they were asked for."""

    data: bytes

    def apply(self, answer: Answer) -> None:
        if answer.status == 206:
            answer.body = self.data[answer.start : answer.start + len(answer.body)]


@pytest.mark.parametrize("kind", ["a METADATA that claims a gigabyte", "packed by bzip2", "a damaged METADATA"])
def test_the_next_mirror_is_asked_for_the_metadata(tmp_path: Path, fault_server, kind: str) -> None:
    """The index's own wheel has the right length, and its METADATA cannot be read: two mirrors give it alike."""
    honest = wheel({METADATA: b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"})
    other = bytearray(claiming(honest, 1 << 30))
    if kind == "packed by bzip2":
        other = bytearray(honest)
        struct.pack_into("<H", other, honest.index(b"PK\x01\x02") + 10, zipfile.ZIP_BZIP2)
    elif kind == "a damaged METADATA":
        other = bytearray(honest)
        other[30 + len(METADATA) + 3] ^= 0xFF
    server = fault_server(ports=3)
    server.put(f"/packages/{NAME}", honest)
    digest = hashlib.sha256(honest).hexdigest()
    server.put("/simple/demo/", f'<a href="/packages/{NAME}#sha256={digest}">x</a>'.encode())
    server.always(None, Headers({"Content-Type": "text/html"}), path="/simple/demo/")
    server.always(0, Instead(bytes(other)), path=f"/packages/{NAME}")
    user = Resolving(tmp_path)
    for port, name in enumerate(("one", "two", "three")):
        user.mirror(name, pypi_simple=f"{server.base(port)}/simple", pypi_files=f"{server.base(port)}/packages")
    user.origins["pypi:simple"] = "http://127.0.0.1:9/simple"
    user.origins["pypi:files"] = "http://127.0.0.1:9/packages"
    assert names(user.resolve("demo", index=f"{server.base(0)}/simple")) == {NAME}
