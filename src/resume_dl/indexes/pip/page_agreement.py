"""Agreement of carriers on the pages of a package index whose authority is unreachable. Pure.

A file is accepted if two carriers of different operators state it with the same name and at least one common digest.
Its other attributes are accepted as far as they agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from resume_dl.errors import IntegrityError
from resume_dl.indexes.operators import Operators, independent
from resume_dl.indexes.trust import among
from resume_dl.resolve.index_page import ListedFile, verifiable


@dataclass(frozen=True, slots=True)
class Statement:
    """One carrier's page; ``files`` is None if it answered that there is no such page."""

    mirror: str
    operators: Operators
    files: tuple[ListedFile, ...] | None


@dataclass(frozen=True, slots=True)
class Dispute:
    """Carriers that state different digests of one file."""

    filename: str
    sides: Mapping[str, str]
    """Mirror -> ``sha256:<hex>``."""

    def error(self) -> IntegrityError:
        """Return the error for a chosen file."""
        sides = " and ".join(f"{mirror} says {digest}" for mirror, digest in self.sides.items())
        return IntegrityError(
            f"{self.filename}: the index's authority cannot be reached, and mirrors contradict each other: {sides}",
            hint=f"nothing was fetched; {among(mirror.partition(' ')[0] for mirror in self.sides)}",
        )


@dataclass(frozen=True, slots=True)
class Agreement:
    """The result of comparing the carriers' pages."""

    files: tuple[ListedFile, ...] = ()
    """Files that two operators state, including disputed ones."""
    disputes: Mapping[str, Dispute] = field(default_factory=dict)
    """By file name."""
    alone: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Mirror -> names of files that no second operator states, in the order of the page."""
    exists: bool | None = None
    """Whether the page exists: True or False if two operators agree, else None."""


def agree(statements: Sequence[Statement]) -> Agreement:
    """Compare statements of different operators."""
    having = {statement.operators for statement in statements if statement.files is not None}
    lacking = {statement.operators for statement in statements if statement.files is None}
    exists = True if independent(having) > 1 else False if independent(lacking) > 1 else None
    named: dict[str, list[tuple[Statement, ListedFile]]] = {}
    for statement in statements:
        for file in statement.files or ():
            named.setdefault(file.filename, []).append((statement, file))
    files: list[ListedFile] = []
    disputes: dict[str, Dispute] = {}
    alone: dict[str, list[str]] = {}
    for filename, told in named.items():
        dispute = _dispute(filename, told) if independent({one.operators for one, _ in told}) > 1 else None
        if dispute is not None:
            disputes[filename] = dispute
            files.append(replace(told[0][1], stated=""))
        elif (common := _common(told)) is not None:
            files.append(common)
        else:
            alone.setdefault(told[0][0].mirror, []).append(filename)
    return Agreement(tuple(files), disputes, {mirror: tuple(names) for mirror, names in alone.items()}, exists)


def _dispute(filename: str, told: Sequence[tuple[Statement, ListedFile]]) -> Dispute | None:
    """Return the dispute if two statements have different digests of one kind; a page may contradict itself."""
    seen: dict[str, tuple[str, str]] = {}
    for statement, file in told:
        for kind, value in verifiable(file.hashes).items():
            mirror, other = seen.setdefault(kind, (statement.mirror, value))
            if other != value:
                here = statement.mirror if statement.mirror != mirror else f"{mirror} (elsewhere on its page)"
                return Dispute(filename, {mirror: f"{kind}:{other}", here: f"{kind}:{value}"})
    return None


def _common(told: Sequence[tuple[Statement, ListedFile]]) -> ListedFile | None:
    """Return the common part of the first two statements of different operators that share a digest."""
    of_each: dict[Operators, ListedFile] = {}  # a page may list a name 100,000 times, but operators are few
    for statement, file in told:
        of_each.setdefault(statement.operators, file)
    each = [*of_each.items()]
    for number, (operators, one) in enumerate(each):
        for others, other in each[number + 1 :]:
            hashes = {} if operators & others else _alike(verifiable(one.hashes), other.hashes)
            if hashes:
                both = one.metadata is not None and other.metadata is not None
                return replace(
                    one,
                    hashes=hashes,
                    size=one.size if one.size == other.size else None,
                    # without it the METADATA is used
                    requires_python=one.requires_python if one.requires_python == other.requires_python else "",
                    yanked=one.yanked if one.yanked and other.yanked else False,
                    metadata=_alike(one.metadata or {}, other.metadata or {}) if both else None,
                    uploaded=max(one.uploaded, other.uploaded) if one.uploaded and other.uploaded else None,
                    stated="",
                )
    return None


def _alike(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    return {kind: value for kind, value in one.items() if other.get(kind) == value}
