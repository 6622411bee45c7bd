"""What the child process can be asked for, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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


OPERATIONS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "extract": extract,
    "parse_specs": _parse_specs,
    "solve": solve,
    "virtual_packages": _virtual_packages,
}
