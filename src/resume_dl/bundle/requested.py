"""The specs, requirements and files of a request that led to each package, and the packages it needs. Pure.

For one platform at a time: a conda solution has one package of a name, a pip solution one of a project. Requests are
followed through conda's ``depends`` and through Requires-Dist (PEP 508, with requested extras and the target's
markers), within the chosen packages. Nothing is resolved here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from packaging.markers import InvalidMarker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from resume_dl.model.bundle import BundlePackage

if TYPE_CHECKING:
    from packaging.metadata import RawMetadata

_NAME = re.compile(r"\s*(?:[^\s\[]+::)?([\w.-]+)")
"""The name in a MatchSpec of ``depends``: first, or after a channel."""
_Node = TypeVar("_Node", bound=Hashable)
_Part = tuple[str, str]
"""A path and one of its extras; ``""`` for no extra."""


@dataclass(frozen=True, slots=True)
class Reasons:
    """Why packages are in a bundle; paths of packages, all sorted."""

    requested_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Path -> the texts of the request that led to it."""
    depends: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Path -> its direct dependencies."""


def conda_reasons(
    packages: Iterable[BundlePackage],
    records: Mapping[str, Mapping[str, Any]],
    *,
    asked: Mapping[str, Iterable[str]],
    listed: Mapping[str, Iterable[str]] | None = None,
    add_pip: bool = True,
) -> Reasons:
    """Why one platform has these conda packages; ``records``: path -> the channel's own record.

    ``asked``: a spec, or a file's name -> the names of requested packages, whose ``depends`` are followed. ``listed``:
    a list's name -> the paths that it lists, which lead to nothing else. ``add_pip`` as conda's
    ``add_pip_as_python_dependency``. A package without a reason (needed by an installed one) gets all of ``asked``.
    """
    chosen = [*packages]
    of_name = _by_name(chosen, str.lower)
    depends: dict[str, tuple[str, ...]] = {}
    for package in chosen:
        said = records.get(package.path, {}).get("depends")
        texts = said if isinstance(said, (list, tuple)) else ()
        names = {found[1].lower() for text in texts if isinstance(text, str) and (found := _NAME.match(text))}
        if add_pip and package.name == "python":
            names.add("pip")
        depends[package.path] = _sorted(path for name in names for path in of_name.get(name, ()))
    starts = {text: [path for name in names for path in of_name.get(name.lower(), ())] for text, names in asked.items()}
    brought = _collect({text: _reached(paths, lambda path: depends[path]) for text, paths in starts.items()})
    return Reasons(_complete(chosen, brought, asked, listed or {}), depends)


def pip_reasons(
    packages: Iterable[BundlePackage],
    metadata: Mapping[str, RawMetadata],
    *,
    asked: Mapping[str, Iterable[str]],
    listed: Mapping[str, Iterable[str]] | None = None,
    environment: Mapping[str, object],
) -> Reasons:
    """Why one platform has these wheels and source archives; ``metadata``: path -> its metadata.

    ``asked``: a requirement's text, or a file's name -> the requirements (PEP 508) that it comes to. ``environment``:
    the target's markers, as in ``resolve/pylock.py``. ``listed``, and packages without a reason (a source archive may
    not state its dependencies), as for conda. An unreadable requirement is skipped; an undecidable marker counts as
    true.
    """
    chosen = [*packages]
    markers = {name: str(value) for name, value in environment.items()}
    of_name = _by_name(chosen, canonicalize_name)
    needs = {
        package.path: [*_requirements(metadata.get(package.path, {}).get("requires_dist", []))] for package in chosen
    }

    def parts(wanted: Iterable[Requirement], extra: str) -> Iterator[_Part]:
        for requirement in wanted:
            if _holds(requirement, markers, extra):
                for path in of_name.get(canonicalize_name(requirement.name), ()):
                    yield from ((path, each) for each in ("", *sorted(map(canonicalize_name, requirement.extras))))

    followed: dict[_Part, tuple[_Part, ...]] = {}

    def next_parts(part: _Part) -> tuple[_Part, ...]:
        if part not in followed:
            followed[part] = tuple(parts(needs[part[0]], part[1]))
        return followed[part]

    brought = _collect(
        {
            text: {path for path, _ in _reached(parts(_requirements(wanted), ""), next_parts)}
            for text, wanted in asked.items()
        }
    )
    depends: dict[str, set[str]] = {
        package.path: {path for path, _ in next_parts((package.path, ""))} for package in chosen
    }
    for (path, _), leads_to in followed.items():
        depends[path].update(other for other, _ in leads_to if other != path)
    return Reasons(
        _complete(chosen, brought, asked, listed or {}), {path: _sorted(paths) for path, paths in depends.items()}
    )


def all_reasons(parts: Iterable[Reasons]) -> Reasons:
    """The union over platforms, conda and pip: a noarch package has the reasons of each."""
    requested: dict[str, set[str]] = {}
    depends: dict[str, set[str]] = {}
    for part in parts:
        for sums, ones in ((requested, part.requested_by), (depends, part.depends)):
            for path, values in ones.items():
                sums.setdefault(path, set()).update(values)
    return Reasons(
        {path: _sorted(texts) for path, texts in requested.items()},
        {path: _sorted(paths) for path, paths in depends.items()},
    )


def _by_name(packages: Iterable[BundlePackage], plain: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for package in packages:
        found.setdefault(plain(package.name), []).append(package.path)
    return found


def _requirements(texts: Iterable[str]) -> Iterator[Requirement]:
    for text in texts:
        try:
            yield Requirement(text)
        except InvalidRequirement:
            continue


def _holds(requirement: Requirement, environment: Mapping[str, str], extra: str) -> bool:
    if requirement.marker is None:
        return True
    try:
        return requirement.marker.evaluate({**environment, "extra": extra})
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName):
        return True


def _reached(starts: Iterable[_Node], leads_to: Callable[[_Node], Iterable[_Node]]) -> set[_Node]:
    seen = {*starts}
    left = [*seen]
    while left:
        new = {*leads_to(left.pop())} - seen
        seen |= new
        left += new
    return seen


def _collect(reached: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """Invert text -> paths into path -> texts."""
    found: dict[str, set[str]] = {}
    for text, paths in reached.items():
        for path in paths:
            found.setdefault(path, set()).add(text)
    return found


def _complete(
    packages: Iterable[BundlePackage],
    brought: dict[str, set[str]],
    asked: Mapping[str, Any],
    listed: Mapping[str, Iterable[str]],
) -> dict[str, tuple[str, ...]]:
    for path, texts in _collect(listed).items():
        brought.setdefault(path, set()).update(texts)
    return {package.path: _sorted(brought.get(package.path, asked)) for package in packages}


def _sorted(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(texts)))
