"""The sections of a repodata.json that its first form lacks: those of revisions (CEP 48), and ``packages.whl``. Pure.

A revision N has a section ``vN``: extension -> file name without it -> record. ``v3`` has conditional dependencies,
extras and flags (CEPs 43 to 45). Clients ignore revisions that they do not know, and say so at best.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

NEWEST_VERSION = 2
"""The last ``repodata_version``: CEP 48 keeps 1 and 2 and adds revisions."""
_REVISION = re.compile(r"v[0-9]{1,9}")
_FORM = re.compile(r"packages\.(?!conda$).*", re.DOTALL)
READ = "v3"
"""The revision that is read."""
_ALSO = frozenset({"info", "repodata_version"})


@dataclass(frozen=True, slots=True)
class NewerForms:
    """``records``: section (``v3/conda``, ``packages.whl``) -> file name with extension -> record as JSON text."""

    records: Mapping[str, Mapping[str, Any]]
    unread: Mapping[str, int | None]
    """Revisions after v3 -> the number of packages that the index states, or None."""

    def filenames(self) -> Iterator[str]:
        """Every file name, with its extension."""
        for names in self.records.values():
            yield from names

    def find(self, filename: str) -> Iterator[dict[str, Any]]:
        """The records of one file name. Raises ValueError."""
        for names in self.records.values():
            if filename in names:
                record = json.loads(bytes(memoryview(names[filename])))
                if isinstance(record, dict):
                    yield record


def read_newer_forms(data: Any) -> NewerForms:
    """Parse the newer sections of a repodata.json (bytes, or a memory map, which may be closed afterwards).

    A section of a revision after v3 is read as far as it has the form of v3. Raises ValueError.
    """
    sections = _decoded(data, "it")
    wanted = {name: bytes(memoryview(raw)) for name, raw in sections.items() if name in _ALSO or _is_newer(name)}
    del sections  # it references ``data``, as would the traceback of an error
    _check_version(wanted.get("repodata_version"))
    records: dict[str, Mapping[str, Any]] = {}
    for name in filter(_is_newer, wanted):
        try:
            if _FORM.fullmatch(name):
                records[name] = _decoded(wanted[name], name)
                continue
            for kind, rows in _decoded(wanted[name], name).items():
                section = f"{name}/{kind}"
                records[section] = {f"{key}.{kind}": raw for key, raw in _decoded(rows, section).items()}
        except ValueError:
            if name == READ:
                raise
    return NewerForms(records, _unread(wanted.get("info"), filter(_REVISION.fullmatch, wanted)))


def _is_newer(name: str) -> bool:
    return bool(_FORM.fullmatch(name) or _REVISION.fullmatch(name))


def _decoded(raw: Any, what: str) -> dict[str, Any]:
    """The members of an object, as views of the text. Raises ValueError."""
    try:
        import msgspec
    except ImportError:  # resume-dl.pyz has none
        raise ValueError(f"{what} has packages of a revision, which only an installed resume-dl can read") from None
    try:
        return msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{what} is invalid: {error}") from None


def _check_version(raw: bytes | None) -> None:
    version = None if raw is None else json.loads(raw)
    if isinstance(version, int) and version > NEWEST_VERSION:
        raise ValueError(f"its repodata_version is {version}, and only versions up to {NEWEST_VERSION} are known")


def _unread(raw: bytes | None, sections: Iterable[str]) -> dict[str, int | None]:
    """The revisions that are not read, of ``info`` and of the sections, with the packages that ``info`` states."""
    info = None if raw is None else json.loads(raw)
    stated = info.get("repodata_revisions") if isinstance(info, dict) else None
    stated = stated if isinstance(stated, dict) else {}
    names = [name for name in (*stated, *sections) if _REVISION.fullmatch(name) and name != READ]
    counts = {name: value.get("n_packages") for name, value in stated.items() if isinstance(value, dict)}
    return {name: count if type(count := counts.get(name)) is int else None for name in dict.fromkeys(names)}
