"""``--cuda`` for packages that do not depend on ``__cuda``: a constraint on the package with the CUDA libraries.

Packages of 2021 depend on ``cudatoolkit`` (those of the pytorch channel since 1.13 on ``pytorch-cuda``) and not on
``__cuda``, so the solver would choose the build for the newest CUDA with any driver. Each minor version is tried as a
constraint, starting with the newest that the driver supports. A solution is accepted only if a package in it depends
on the toolkit: otherwise the CPU build would satisfy every constraint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from resume_dl.rattler_worker.adapter import SolverError, match_spec
from resume_dl.rattler_worker.problem import Problem

TOOLKITS = ("cudatoolkit", "pytorch-cuda")
NONE = "none"


@dataclass(frozen=True, slots=True)
class Choice:
    """The solution, the constraints that were applied, as text for ``conda``, and notes for the user."""

    records: list[Any]
    constraints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def choose(problem: Problem, specs: Sequence[Any], free: list[Any] | SolverError, cuda: str) -> Choice | None:
    """Return the best solution for a driver of CUDA ``cuda`` (``11.0``) or ``none``; None if no toolkit is involved.

    ``free`` is the result of the unconstrained solve: records or the error. Only for new environments: an existing one
    already has its toolkit.
    """
    toolkits = [name for name in TOOLKITS if _matters(problem, name, free)]
    if not toolkits:
        return None
    if cuda == NONE:
        return _without(problem, specs, toolkits, free)
    present = {} if isinstance(free, SolverError) else {str(r.name.normalized): str(r.version) for r in free}
    # Prefer a toolkit of the unconstrained solution: these package versions depend on it.
    for toolkit in [name for name in toolkits if name in present] or toolkits:
        found = _newest(problem, specs, toolkit, cuda)
        if found is not None:
            return found
    if isinstance(free, SolverError):
        return None
    chosen = ", ".join(f"{name} {present[name]}" for name in toolkits if name in present) or "a build without CUDA"
    note = f"no matching build for CUDA {cuda} or older: chose {chosen}, as without --cuda {cuda}"
    return Choice(free, notes=(note,))


def _matters(problem: Problem, toolkit: str, free: list[Any] | SolverError) -> bool:
    """Whether the unconstrained solution has the toolkit, or a requested package may depend on it."""
    if not problem.candidates(toolkit):
        return False
    if not isinstance(free, SolverError) and any(record.name.normalized == toolkit for record in free):
        return True
    return any(
        _depends(record, toolkit)
        for spec in problem.specs
        for record in problem.candidates(spec.name, channel=spec.channel)
        if spec.match.matches(record)
    )


def _depends(record: Any, name: str) -> bool:
    return any(dependency.split()[0] == name for dependency in record.depends)


def _without(
    problem: Problem, specs: Sequence[Any], toolkits: Sequence[str], free: list[Any] | SolverError
) -> Choice | None:
    constraints = tuple(f"{toolkit} <0a0" for toolkit in toolkits)
    try:
        records = problem.solve(specs, constraints=[match_spec(text) for text in constraints])
    except SolverError:
        if isinstance(free, SolverError):
            return None
        names = " and ".join(toolkits)
        return Choice(free, notes=(f"there is no solution without {names}: --cuda none has no effect",))
    return Choice(records, constraints)


def _newest(problem: Problem, specs: Sequence[Any], toolkit: str, cuda: str) -> Choice | None:
    tried: list[str] = []
    for version in _minor_versions(problem, toolkit, cuda):
        constraint = f"{toolkit} {version}.*"
        try:
            records = problem.solve(specs, constraints=[match_spec(constraint)])
        except SolverError:
            tried.append(version)
            continue
        used = toolkit in {spec.name for spec in problem.specs}
        if not used and not any(_depends(record, toolkit) for record in records):
            tried.append(version)
            continue
        newer = f" (no build for {', '.join(tried)})" if tried else ""
        return Choice(
            records, (constraint,), (f"--cuda {cuda}: {toolkit} {version} is the newest compatible version{newer}",)
        )
    return None


def _minor_versions(problem: Problem, toolkit: str, cuda: str) -> list[str]:
    """Return ``major.minor`` of every candidate not newer than the driver's, newest first."""
    limit = _numbers(cuda)
    found = {_numbers(str(record.version)) for record in problem.candidates(toolkit)}
    return [f"{major}.{minor}" for major, minor in sorted(found, reverse=True) if (major, minor) <= limit]


def _numbers(version: str) -> tuple[int, int]:
    parts = (*version.split("."), "0")[:2]
    major, minor = ("".join(c for c in part if c.isdigit()) or "0" for part in parts)
    return int(major), int(minor)
