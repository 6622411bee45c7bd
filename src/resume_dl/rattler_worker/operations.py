"""The operations of the child process, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from resume_dl.errors import IntegrityError
from resume_dl.model.spec_name import name_of
from resume_dl.rattler_worker import adapter
from resume_dl.rattler_worker.extraction import extract
from resume_dl.rattler_worker.lock_file import read_lock
from resume_dl.rattler_worker.match_specs import parse_spec
from resume_dl.rattler_worker.solver import solve


def _parse_specs(args: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Parse ``specs`` into parts. Raises InvalidSpecError for the first malformed one."""
    return [parse_spec(text).parts() for text in args["specs"]]


def _virtual_packages(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return this machine's subdir and virtual packages as ``[name, version, build]``, without overrides."""
    del args
    return {"subdir": adapter.host_subdir(), "packages": adapter.detect_virtual_packages()}


def _read_index(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record in the conda package at path ``archive``, without digests. Raises IntegrityError."""
    path = Path(args["archive"])
    try:
        return adapter.read_index_json(path)
    except Exception as error:  # rattler raises various errors for invalid archives
        raise IntegrityError(f"{path.name} is not a conda package: {error}", hint="remove it from the list") from error


def _mentioned(args: Mapping[str, Any]) -> list[str]:
    """Return the transitive dependencies of ``names``, as far as ``files`` have records of them.

    ``args``: ``files`` (paths of repodata.json), ``subdirs``, ``names``, ``only_tar_bz2``. Raises IntegrityError.
    """
    selection = adapter.selection(only_tar_bz2=args["only_tar_bz2"])
    found: set[str] = set()
    new = set(args["names"])
    with ExitStack() as opened:
        try:
            files = [
                adapter.load_repodata("https://channel.invalid/", subdir, Path(path))
                for path, subdir in zip(args["files"], args["subdirs"], strict=True)
            ]
            for file in files:
                opened.callback(file.close)
            while new:
                records = (record for name in new for file in files for record in file.load_records(name, selection))
                specs = {spec for record in records for spec in _dependencies(record)}
                found |= new
                new = {name_of(spec) for spec in specs} - found - {""}
        except (OSError, ValueError) as error:
            raise IntegrityError(f"a repodata cannot be read: {error}", hint="run it again") from error
    return sorted(found)


def _dependencies(record: Any) -> Iterator[str]:
    """The specs of a record that may add packages, with those of its extras (CEP 44)."""
    yield from record.depends
    for extra in (getattr(record, "extra_depends", None) or {}).values():
        yield from extra


OPERATIONS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "extract": extract,
    "mentioned": _mentioned,
    "parse_specs": _parse_specs,
    "read_index": _read_index,
    "read_lock": read_lock,
    "solve": solve,
    "virtual_packages": _virtual_packages,
}
