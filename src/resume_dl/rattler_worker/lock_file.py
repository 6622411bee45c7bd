"""The operation ``read_lock``: what a pixi.lock locks, as ``rattler.lock`` reads it.

py-rattler reads only files, so the text that the parent has checked is written to one. 0.23 reads format versions up to
6 and knows a platform by its subdir; 0.24 reads 7, in which a platform may have a name of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rattler.lock import CondaLockedBinaryPackage, LockFile, PypiLockedPackage

from resume_dl.memory_limit import MOST_FOR_LOCKS, OURS, limit_memory

_LONGEST = 1000
"""Most characters of a message of rattler, which quotes the file's lines whole."""


def read_lock(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the packages in the lock file ``text``, unchecked, or the ``problem`` that rattler has with it.

    Each package: ``environment``, ``platform`` (its name in the file), ``subdir``, ``kind`` (``conda``, ``pypi``,
    ``source``), ``name``, ``version`` (pypi only), ``location`` (URL or path), ``hashes`` (hex), ``size`` (bytes).
    """
    before = limit_memory(OURS, MOST_FOR_LOCKS)
    try:
        with TemporaryDirectory(prefix="resume-dl-lock-") as folder:
            path = Path(folder, "pixi.lock")
            path.write_text(args["text"], encoding="utf-8")
            return {"packages": _packages(LockFile.from_path(path)), "problem": ""}
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # a panic of rattler is not an Exception
        return {"packages": [], "problem": str(error)[:_LONGEST] or type(error).__name__}
    finally:
        if before is not None:
            limit_memory(OURS, before)


def _packages(lock: Any) -> list[dict[str, Any]]:
    return [
        {"environment": name, "platform": str(platform), "subdir": str(getattr(platform, "subdir", platform))}
        | _package(package)
        for name, environment in sorted(lock.environments(), key=lambda pair: str(pair[0]))
        for platform, packages in environment.packages_by_platform().items()
        for package in packages
    ]


def _package(package: Any) -> dict[str, Any]:
    is_binary, is_pypi = isinstance(package, CondaLockedBinaryPackage), isinstance(package, PypiLockedPackage)
    return {
        "kind": "conda" if is_binary else "pypi" if is_pypi else "source",
        "name": package.name,
        "version": package.version if is_pypi else None,
        "location": package.location,
        "hashes": {kind: value for kind in ("sha256", "md5") if (value := _digest(package, kind)) is not None},
        "size": package.package_record.size if is_binary else None,
    }


def _digest(package: Any, kind: str) -> str | None:
    try:
        value = getattr(package.hashes, kind)
    except AttributeError:  # of a package without digests, rattler wraps None
        return None
    return None if value is None else value.hex()
