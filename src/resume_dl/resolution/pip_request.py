"""A pip request with its files read: requirements, constraints, indexes, hashes, direct files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename

from resume_dl.errors import InvalidSpecError, required
from resume_dl.indexes.pip.catalogue import Wanted
from resume_dl.model.pip import LeftToPip, PipFile, PipIndexes, PipRequest, PipRequirement
from resume_dl.resolve.index_page import ListedFile, normalized
from resume_dl.resolve.requirement_line import parse_requirement

_FRAGMENT_HASH = re.compile(r"(md5|sha256|sha384|sha512)=([0-9a-fA-F]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandedRequest:
    """An expanded pip request. ``lines`` and ``constraints`` are PEP 508 requirements without URLs."""

    lines: tuple[str, ...]
    constraints: tuple[str, ...]
    names: frozenset[str]
    """The normalized names of the requested projects."""
    indexes: PipIndexes
    wanted: Wanted
    locks: tuple[Path, ...] = ()
    """Paths of pylock.toml files, which are complete solutions."""
    require_hashes: bool = False
    notes: tuple[str, ...] = ()
    left: tuple[LeftToPip, ...] = ()
    """Lines of the files that only pip can handle."""

    @property
    def solvable(self) -> bool:
        """Whether anything has to be resolved here."""
        return bool(self.lines or self.locks)


def expand(request: PipRequest, files: Sequence[PipFile], constraints: Sequence[PipFile]) -> ExpandedRequest:
    """Combine the request with its requirements and constraints files, which the caller has read.

    Raises InvalidSpecError for an invalid requirement.
    """
    requirements = [parse_requirement(text, "the command line") for text in request.requirements]
    requirements += [requirement for file in files for requirement in file.requirements]
    limits = [each for file in files for each in file.constraints]
    limits += [each for file in constraints for each in (*file.requirements, *file.constraints)]
    locks = tuple(file.lock for file in files if file.lock is not None)
    left = tuple(each for file in files for each in file.left)
    left += tuple(changed(each, constraint=True) for file in constraints for each in file.left)
    indexes = request.indexes
    for file in files:
        indexes = file.indexes_over(indexes)
    direct = {normalized(each.name): _direct(each) for each in requirements if each.url is not None}
    return ExpandedRequest(
        lines=tuple(_line(each, direct) for each in requirements),
        constraints=tuple(_line(each, direct) for each in limits if each.url is None),
        names=frozenset(normalized(each.name) for each in requirements),
        indexes=indexes,
        wanted=Wanted(direct, _hashes([*requirements, *limits])),
        locks=locks,
        require_hashes=any(file.require_hashes for file in files),
        notes=tuple(f"skipped: {line}" for file in files for line in file.passed_over),
        left=left,
    )


def _line(requirement: PipRequirement, direct: dict[str, ListedFile]) -> str:
    """Return the requirement for the resolver; a URL becomes an exact requirement of the file's version."""
    file = direct.get(normalized(requirement.name))
    if requirement.url is None or file is None:
        return requirement.line()
    extras = f"[{','.join(requirement.extras)}]" if requirement.extras else ""
    marker = f"; {requirement.marker}" if requirement.marker else ""
    return f"{requirement.name}{extras}==={_version(file.filename)}{marker}"


def _direct(requirement: PipRequirement) -> ListedFile:
    """Return the file at a requirement's URL, with the digest of the URL's fragment if it has one."""
    given = required(requirement.url, "a direct requirement's address")
    url, _, fragment = given.reveal().partition("#")
    filename = unquote(urlsplit(url).path.rpartition("/")[2])
    name = _name(filename)
    if name != normalized(requirement.name):
        raise InvalidSpecError(
            f"{requirement.where}: {given} is neither a wheel nor a source archive of {requirement.name}",
            part=str(given),
            hint="only files can be fetched; pip itself builds from version control",
        )
    hashes = {kind: value.lower() for kind, value in _FRAGMENT_HASH.findall(fragment)}
    return ListedFile(filename=filename, url=url, hashes=hashes)


def _name(filename: str) -> str:
    try:
        return str((parse_wheel_filename if filename.endswith(".whl") else parse_sdist_filename)(filename)[0])
    except (InvalidWheelFilename, InvalidSdistFilename):
        return ""


def _version(filename: str) -> str:
    return str((parse_wheel_filename if filename.endswith(".whl") else parse_sdist_filename)(filename)[1])


def _hashes(requirements: Iterable[PipRequirement]) -> dict[str, frozenset[str]]:
    """Return the allowed hashes of each project; those of a project that is named twice must match both."""
    found: dict[str, frozenset[str]] = {}
    for each in requirements:
        if each.hashes:
            name, mine = normalized(each.name), frozenset(value.lower() for value in each.hashes)
            found[name] = found.get(name, mine) & mine or mine
    return found
