"""What the child process can be asked for, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from resume_dl.errors import IntegrityError
from resume_dl.rattler_worker import adapter
from resume_dl.rattler_worker.extracting import extract
from resume_dl.rattler_worker.solving import solve
from resume_dl.rattler_worker.specs import parse_spec


def _parse_specs(args: Mapping[str, Any]) -> list[dict[str, Any]]:
    """``specs``: texts; the parts of each. Raises InvalidSpecError for the first that is malformed."""
    return [parse_spec(text).parts() for text in args["specs"]]


def _virtual_packages(args: Mapping[str, Any]) -> dict[str, Any]:
    """This machine's subdir and virtual packages as ``[name, version, build]``; no override is looked at."""
    del args
    return {"subdir": adapter.host_subdir(), "packages": adapter.detect_virtual_packages()}


def _read_index(args: Mapping[str, Any]) -> dict[str, Any]:
    """``archive``: a conda package's path; its own record, without digests. Raises IntegrityError."""
    path = Path(args["archive"])
    try:
        return adapter.read_index_json(path)
    except Exception as error:  # rattler has no one error for archives that are none
        raise IntegrityError(f"{path.name} is no conda package: {error}", hint="leave it out of the list") from error


OPERATIONS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "extract": extract,
    "parse_specs": _parse_specs,
    "read_index": _read_index,
    "solve": solve,
    "virtual_packages": _virtual_packages,
}
