"""Repodata for tests: real records of the pytorch channel of 2021, and made ones for what it takes from pkgs/main."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[1] / "data"
PYTORCH = DATA / "pytorch-linux-64-repodata.json"
Record = tuple[str, dict[str, Any]]
PYTHONS = ("3.6.13", "3.7.9", "3.8.8", "3.9.2", "3.10.4", "3.11.4", "3.12.1")
CUDATOOLKITS = ("9.2", "10.0.130", "10.1.243", "10.2.89", "11.0.221", "11.1.1", "11.3.1")


def record(
    name: str,
    version: str,
    build: str = "0",
    depends: Iterable[str] = (),
    *,
    subdir: str = "linux-64",
    extension: str = ".tar.bz2",
    md5_only: bool = False,
    **more: Any,
) -> Record:
    """A file name and its record; the digests are those of the name, no archive exists."""
    filename = f"{name}-{version}-{build}{extension}"
    fields: dict[str, Any] = {
        "build": build,
        "build_number": 0,
        "depends": list(depends),
        "md5": hashlib.md5(filename.encode()).hexdigest(),
        "name": name,
        "sha256": hashlib.sha256(filename.encode()).hexdigest(),
        "size": 1000 + len(filename),
        "subdir": subdir,
        "timestamp": 1612137600000,
        "version": version,
    }
    if md5_only:
        del fields["sha256"]
    return filename, {**fields, **more}


def write(path: Path, records: Iterable[Record], *, subdir: str = "linux-64", **info: Any) -> Path:
    """A repodata.json of these records."""
    packages: dict[str, Any] = {}
    conda: dict[str, Any] = {}
    for filename, fields in records:
        (conda if filename.endswith(".conda") else packages)[filename] = fields
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "info": {"subdir": subdir, **info},
        "packages": packages,
        "packages.conda": conda,
        "removed": [],
        "repodata_version": 2 if info else 1,
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def main_records(subdir: str = "linux-64") -> list[Record]:
    """What pytorch of 2021 takes from pkgs/main: seven pythons, numpy, mkl, blas, cudatoolkit from 9.2 to 11.3, pip…"""
    made: list[Record] = []
    for version in PYTHONS:
        minor = version.split(".")[1]
        python = f"python >=3.{minor},<3.{int(minor) + 1}.0a0"
        tag = f"py3{minor}h06a4308_0"
        made += [
            record("python", version, "h7579374_1", subdir=subdir),
            record("numpy", "1.19.2", tag, ["blas 1.0 mkl", "mkl >=2018", python], subdir=subdir),
            record("numpy", "1.18.5", tag, ["blas 1.0 mkl", "mkl >=2018", python], subdir=subdir),
            record("pip", "21.0.1", tag, [python, "setuptools", "wheel"], subdir=subdir),
            record("setuptools", "52.0.0", tag, [python], subdir=subdir),
            record("ninja", "1.10.2", tag, [python], subdir=subdir),
        ]
    made += [record("cudatoolkit", version, "h1_0", subdir=subdir) for version in CUDATOOLKITS]
    made += [
        record("blas", "1.0", "mkl", subdir=subdir, md5_only=True),
        record("blas", "1.0", "openblas", subdir=subdir),
        record("mkl", "2020.2", "256", subdir=subdir),
        record(
            "mkl", "2021.4.0", "h06a4308_640", ["__glibc >=2.17"] if subdir.startswith("linux") else (), subdir=subdir
        ),
        record("libuv", "1.40.0", "h7b6447c_0", subdir=subdir),
    ]
    return made


def noarch_records() -> list[Record]:
    """What is the same on every platform."""
    return [
        record("wheel", "0.36.2", "pyhd3eb1b0_0", ["python"], subdir="noarch", noarch="python"),
        record("typing_extensions", "3.7.4.3", "pyha847dfd_0", ["python >=3.5"], subdir="noarch", noarch="python"),
        record("dataclasses", "0.8", "pyh6d0b6a4_7", ["python"], subdir="noarch", noarch="python"),
    ]


def mutex_records() -> list[Record]:
    """``pytorch-mutex`` of the pytorch channel: which of its builds is installed decides for CPU or CUDA since 1.8."""
    return [
        record("pytorch-mutex", "1.0", "cpu", subdir="noarch", noarch="generic", track_features="pytorch-mutex"),
        record("pytorch-mutex", "1.0", "cuda", subdir="noarch", noarch="generic", build_number=100),
    ]
