"""What packages say of their licence, and METADATA out of archives that are as strange as they like."""

from __future__ import annotations

import io
import random
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import RawMetadata, parse_email

from resume_dl.bundle.licenses import license_of_metadata, license_of_record
from resume_dl.bundle.metadata import read_metadata
from support.pip_index import build_sdist, build_wheel


def said_by(*lines: str) -> str:
    metadata, _ = parse_email("\n".join(["Metadata-Version: 2.1", "Name: a", "Version: 1", *lines, "", "Text."]))
    return license_of_metadata(metadata)


def zipped(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


# --- what is said -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "license_text"),
    [
        ({"license": "BSD-3-Clause", "license_family": "BSD"}, "BSD-3-Clause"),
        ({"license_family": "BSD"}, "BSD"),
        ({"license": "", "license_family": "None"}, ""),
        ({"license": None}, ""),
        ({"license": ["MIT"], "license_family": {"a": 1}}, ""),
        ({"license": " GPL\n 3 "}, "GPL 3"),
        ({"license": "see https://alice:hunter2@h.example/x"}, "see https://***@h.example/x"),
        ({}, ""),
    ],
)
def test_of_a_conda_record(record, license_text):
    """Its own words on one line; its family where it has no more; never an error."""
    assert license_of_record(record) == license_text


def test_a_long_licence_expression_is_never_cut():
    """What is linked into one program can have many; what is cut cannot pass for an expression."""
    long = " AND ".join(["(MIT OR Apache-2.0)"] * 40)
    assert license_of_record({"license": long}) == long
    cut = license_of_record({"license": " AND ".join(["MIT"] * 1000)})
    assert len(cut) == 1001
    assert cut.endswith("…")


@pytest.mark.parametrize(
    ("lines", "license_text"),
    [
        (["License-Expression: MIT OR Apache-2.0", "License: MIT"], "MIT OR Apache-2.0"),
        (["License: BSD-3", "Classifier: License :: OSI Approved :: BSD License"], "BSD-3"),
        (["License: UNKNOWN", "Classifier: License :: OSI Approved :: MIT License"], "MIT License"),
        (
            ["Classifier: License :: OSI Approved", "Classifier: License :: OSI Approved :: MIT License",
             "Classifier: Topic :: Software", "Classifier: License :: Public Domain"],
            "MIT License, Public Domain",
        ),
        (["License: MIT License", "        ", "        Copyright 2020", "Classifier: License :: Freeware"], "Freeware"),
        (["License: MIT License", "        ", "        Copyright (c) 2020"], "MIT License"),
        ([f"License: {'Permission is granted ' * 10}", "Classifier: License :: Freeware"], "Freeware"),
        (["Classifier: License :: OSI Approved"], ""),
        (["License: MIT", "License: BSD"], ""),
        ([], ""),
    ],
    ids=range(10),
)  # fmt: skip
def test_of_metadata(lines, license_text):
    """PEP 639's field before the old one, which is a name only where it is short; classifiers else."""
    assert said_by(*lines) == license_text


# --- METADATA ---------------------------------------------------------------------------------------------------------


def test_metadata_of_wheels_and_source_archives(tmp_path):
    """The whole of it, and nothing else is read."""
    wheel = build_wheel(tmp_path, "demo-app", "1.0", requires=["torch"], filler=1 << 20)
    sdist = build_sdist(tmp_path, "demo-app", "1.0", requires=["torch"])
    old = zipped(tmp_path / "demo_app-1.0.zip", {"demo_app-1.0/PKG-INFO": wheel.metadata})
    for path in (wheel.path, sdist.path, old):
        found = read_metadata(path)
        assert (found["name"], found["requires_dist"]) == ("demo-app", ["torch"])


def test_only_metadata_is_read_of_a_wheel(tmp_path):
    """A wheel whose other members are destroyed still says what it is."""
    wheel = build_wheel(tmp_path, "demo-app", "1.0", filler=1 << 20)
    data = bytearray(wheel.path.read_bytes())
    data[1000 : 1 << 19] = bytes((1 << 19) - 1000)
    wheel.path.write_bytes(data)
    assert read_metadata(wheel.path)["name"] == "demo-app"


def test_a_wheel_that_vendors_another_has_its_own_licence(tmp_path):
    """The folder of its own name counts, wherever it stands in the archive."""
    other = {"AAA-1.0.dist-info/METADATA": b"Name: AAA\n", "Demo_App-1.0.dist-info/METADATA": b"Name: demo-app\n"}
    nested = {"demo_app/_vendor/zzz-1.0.dist-info/METADATA": b"Name: zzz\n"}
    assert read_metadata(zipped(tmp_path / "demo_app-1.0-py3-none-any.whl", {**nested, **other}))["name"] == "demo-app"


def test_strange_files_say_nothing(tmp_path):
    """None of them raises; what cannot be unpacked or found is as if it were not said."""
    link = io.BytesIO()
    with tarfile.open(fileobj=link, mode="w:gz") as archive:
        row = tarfile.TarInfo("a-1/PKG-INFO")
        row.type, row.linkname = tarfile.SYMTYPE, "../../../etc/passwd"
        archive.addfile(row)
    strange = {
        "empty-1-py3-none-any.whl": b"",
        "page-1-py3-none-any.whl": b"<html>sign in</html>",
        "cut-1-py3-none-any.whl": build_wheel(tmp_path, "whole", "1").path.read_bytes()[:-30],
        "text-1.tar.gz": b"no archive",
        "link-1.tar.gz": link.getvalue(),
        "none-1.zip": b"PK\x05\x06" + bytes(18),
    }
    for name, data in strange.items():
        (tmp_path / name).write_bytes(data)
        assert read_metadata(tmp_path / name) == RawMetadata(), name
    no_info = zipped(tmp_path / "a-1-py3-none-any.whl", {"a/__init__.py": b""})
    assert read_metadata(no_info) == RawMetadata()


def test_whatever_bytes_are_flipped_it_never_raises(tmp_path):
    """Wheels of every compression, and a source archive, with damage at 400 places each."""
    metadata = b"Metadata-Version: 2.1\nName: a\nVersion: 1\nLicense: MIT\nRequires-Dist: b\n" * 3
    files = [
        zipped(
            tmp_path / f"a-{kind}-py3-none-any.whl", {"a.py": b"x" * 99, f"a-{kind}.dist-info/METADATA": metadata}, kind
        )
        for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    ]
    chance = random.Random(6)
    outcomes = set()
    for path in [*files, build_sdist(tmp_path, "a", "1").path]:
        whole = path.read_bytes()
        for _ in range(400):
            data = bytearray(whole)
            for _ in range(chance.choice((1, 1, 4))):
                data[chance.randrange(len(data))] = chance.randrange(256)
            path.write_bytes(data)
            found = read_metadata(path)
            assert isinstance(license_of_metadata(found), str)
            outcomes.add(bool(found))
    assert outcomes == {True, False}


def test_a_metadata_without_end_is_cut(tmp_path):
    """64 MiB of nothing, packed small, is read as far as a METADATA may go."""
    bomb = zipped(tmp_path / "a-1-py3-none-any.whl", {"a-1.dist-info/METADATA": b"Name: a\n\n" + bytes(64 << 20)})
    assert len(read_metadata(bomb)["description"]) < 5 << 20


def test_a_source_archive_is_not_read_without_end(tmp_path):
    """PKG-INFO behind 300 MiB of zeros is left where it is."""
    path = tmp_path / "a-1.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, size in (("a-1/zeros", 300 << 20), ("a-1/PKG-INFO", 8)):
            row = tarfile.TarInfo(name)
            row.size = size
            archive.addfile(row, io.BytesIO(b"Name: a\n") if size == 8 else _Zeros(size))
    assert read_metadata(path) == RawMetadata()


class _Zeros(io.RawIOBase):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.left = size

    def read(self, size: int = -1) -> bytes:
        taken = min(self.left, size if size >= 0 else self.left)
        self.left -= taken
        return bytes(taken)


def test_a_missing_file_is_an_error(tmp_path):
    """That is no strange wheel, but a mistake of the caller's."""
    with pytest.raises(FileNotFoundError):
        read_metadata(tmp_path / "a-1-py3-none-any.whl")
