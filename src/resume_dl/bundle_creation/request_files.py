"""The request of a bundle: the names that each spec, requirement and file asks for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from resume_dl.bundle_creation.public_text import public
from resume_dl.errors import ConfigurationError
from resume_dl.model.artifact import Artifact
from resume_dl.model.pip import LeftToPip
from resume_dl.resolution.conda_and_pip import has_pip_part, is_pip_file
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.resolution.lock_files import is_conda_lock, read_conda_locks
from resume_dl.resolve.environment_file import read_environment_file
from resume_dl.resolve.explicit import is_explicit, parse_explicit
from resume_dl.resolve.specs import split_spec
from resume_dl.text_encoding import read_text

if TYPE_CHECKING:
    from resume_dl.resolution.pip_request import ExpandedRequest

_PLATFORM = re.compile(r"^#\s*platform:\s*(\S+)\s*$", re.MULTILINE)
"""The platform line of ``conda list --explicit``."""
_EDITABLE = re.compile(r"^(?:-e\s*|--e[a-z]*(?:\s+|=))")
"""All spellings of the option."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """An @EXPLICIT list, or a lock file's part for one platform: its file name, its platform, and its entries."""

    name: str
    platform: str
    artifacts: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicRequest:
    """The request, without logins, and with bare file names: a bundle holds no path of this machine."""

    conda: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """A spec, or an environment.yml's name -> the names of conda packages."""
    pip: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """A requirement, or a file's name -> requirements (PEP 508)."""
    lists: tuple[ListedFile, ...] = ()
    specs: tuple[str, ...] = ()
    """Every conda spec, including those of files."""
    name: str = ""
    """The environment's name in the first environment.yml."""
    passed_over: tuple[str, ...] = ()
    """Lines of requirements files that only pip itself can handle; what they name is not in the bundle."""


def public_request_of(
    request: FetchRequest,
    *,
    native: str,
    platforms: tuple[str, ...],
    canonical: Callable[[str], str],
    read_pip: Callable[[Path], ExpandedRequest],
) -> PublicRequest:
    """Read the request's files.

    ``native``: the platform of a list that states none. ``platforms``: those of lock files; empty for ``native``.
    ``canonical`` as for ``parse_explicit``. ``read_pip``: the
    requirements of one of pip's files. Raises ConfigurationError and InvalidSpecError.
    """
    conda: dict[str, tuple[str, ...]] = {public(spec): (split_spec(spec).name,) for spec in request.specs}
    pip: dict[str, tuple[str, ...]] = {public(text): (text,) for text in request.pip.requirements}
    lists, specs, names = [], list(request.specs), list[str]()
    passed_over: list[str] = []

    def add_pip(path: Path) -> None:
        asked = read_pip(path)
        pip[path.name] = asked.lines
        passed_over.extend(_without_options(each) for each in asked.left if not each.constraint)

    for path in request.files:
        if is_pip_file(path):
            add_pip(path)
            continue
        if is_conda_lock(path):
            taken = read_conda_locks(
                path, platforms=platforms or (native,), environments=request.environments, canonical=canonical
            )
            lists += [ListedFile(path.name, each.platform, each.conda) for each in taken]
            if has_pip_part(path):
                add_pip(path)
            continue
        text = _read(path)
        if is_explicit(text):
            artifacts = parse_explicit(text, canonical=canonical, where=str(path))
            lists.append(ListedFile(path.name, _platform_of(text, artifacts, native), artifacts))
            continue
        environment = read_environment_file(path)
        specs += environment.specs
        names.append(environment.name)
        if environment.specs:
            conda[path.name] = tuple(split_spec(spec).name for spec in environment.specs)
        if has_pip_part(path):
            add_pip(path)
    return PublicRequest(
        conda=conda,
        pip=pip,
        lists=tuple(lists),
        specs=tuple(public(spec) for spec in specs),
        name=next(filter(None, names), ""),
        passed_over=tuple(dict.fromkeys(passed_over)),
    )


def _without_options(left: LeftToPip) -> str:
    """A line without its options, which may hold secrets."""
    line, _, _ = left.shown.partition(" --")
    return public(_EDITABLE.sub("-e ", line))


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {path}: {error}", hint="name an existing text file") from error


def _platform_of(text: str, artifacts: tuple[Artifact, ...], native: str) -> str:
    named = _PLATFORM.search(text)
    if named is not None:
        return named[1]
    return next((each.subdir for each in artifacts if each.subdir != "noarch"), native)
