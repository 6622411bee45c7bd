"""Errors for requests without a solution, with hints on what to do next."""

from __future__ import annotations

import difflib
import re
from typing import Any

from resume_dl.errors import PackageNotFoundError, UnsatisfiableError
from resume_dl.rattler_worker import adapter
from resume_dl.rattler_worker.match_specs import Spec
from resume_dl.rattler_worker.problem import Problem, channel_base

_PREFIX = "Cannot solve the request because of:"
_REPEATED = re.compile(r"[^\s|]+(?: \| [^\s|]+)+")
_MISSING = re.compile(r"([\w.-]+)[^\n]*?, for which no candidates were found|No candidates were found for ([\w.-]+)")
_SHOWN_VERSIONS = 12


def check_candidates(problem: Problem) -> None:
    """Raise PackageNotFoundError for the first spec without a candidate in the repodata (or installed)."""
    for spec in problem.specs:
        if spec.name.startswith("__"):
            continue
        installed = problem.installed.get(spec.name)
        if installed is not None and spec.channel is None and spec.match.matches(installed):
            continue
        candidates = problem.candidates(spec.name, channel=spec.channel)
        if not any(spec.match.matches(record) for record in candidates):
            _check_held_back(problem, spec)
        if not candidates:
            raise _unknown(problem, spec)
        if not any(spec.match.matches(record) for record in candidates):
            raise _no_such_version(problem, spec, candidates)


def _check_held_back(problem: Problem, spec: Spec) -> None:
    """Raise PackageNotFoundError if there are candidates, but all of them are newer than ``exclude_newer`` permits."""
    newer = problem.candidates(spec.name, channel=spec.channel, newer=True)
    found = [since for record in newer if spec.match.matches(record) and (since := adapter.appeared(record))]
    if problem.exclude_newer is not None and found:
        raise PackageNotFoundError(
            f"every {spec.name} that matches {spec.text!r} is newer than {problem.exclude_newer:%Y-%m-%d %H:%M} UTC",
            hint=f"exclude_newer leaves them out; the oldest is of {min(found):%Y-%m-%d}: --exclude-newer permits it",
        )


def unsatisfiable(problem: Problem, error: Exception) -> UnsatisfiableError:
    """Return the error with the solver's explanation in readable form and a hint on what to do next."""
    text = readable(str(error), problem.names)
    asked = ", ".join(spec.text for spec in problem.specs)
    return UnsatisfiableError(f"cannot solve {asked}:\n{text}", hint=_hint(problem, text))


def readable(text: str, names: list[str]) -> str:
    """Return the solver's text without its heading, repeated versions (of 0.23) and internal URLs."""
    text = text.strip().removeprefix(_PREFIX).strip()
    text = _REPEATED.sub(lambda found: " | ".join(dict.fromkeys(found[0].split(" | "))), text)
    for index, name in enumerate(names):
        base = channel_base(index)
        text = text.replace(base, name).replace(base.rstrip("/"), name)
    return "\n".join(line.rstrip() for line in text.splitlines())


def _hint(problem: Problem, text: str) -> str:
    missing = list(dict.fromkeys(first or second for first, second in _MISSING.findall(text)))
    virtual = [name for name in missing if name.startswith("__")]
    if virtual:
        have = {name: version for name, version, _ in problem.virtual_packages}
        known = ", ".join(f"{name}={have[name]}" if name in have else f"no {name}" for name in virtual)
        return f"the target is assumed to have {known}; correct it with --virtual-package {virtual[0]}=VERSION"
    unknown = [name for name in missing if not problem.candidates(name)]
    if unknown and "packages are incompatible" not in text:
        return f"none of the given channels has {', '.join(unknown)}: add a channel that does, with -c"
    if "strict channel priority" in text:
        return "try --channel-priority flexible"
    return "request fewer packages at once, or other versions"


def _where(problem: Problem, spec: Spec) -> str:
    names = [
        name for index, name in enumerate(problem.names) if spec.channel is None or spec.channel == channel_base(index)
    ]
    subdirs = dict.fromkeys(file.subdir for file in problem.files)
    return f"{', '.join(dict.fromkeys(names))} for {', '.join(subdirs)}"


def _unknown(problem: Problem, spec: Spec) -> PackageNotFoundError:
    names = sorted(problem.package_names() - {spec.name})
    nearest = difflib.get_close_matches(spec.name, names, n=3, cutoff=0.6)
    holding = [name for name in names if spec.name in name and name not in nearest] if len(spec.name) >= 4 else []
    nearest = [*nearest, *sorted(holding, key=len)][:5]
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else "another channel may have it: add it with -c"
    if problem.candidates(spec.name):
        hint = "another of the given channels has it: leave the channel out of the spec"
    return PackageNotFoundError(
        f"no package is named {spec.name} in {_where(problem, spec)}", nearest=tuple(nearest), hint=hint
    )


def _no_such_version(problem: Problem, spec: Spec, candidates: list[Any]) -> PackageNotFoundError:
    versions = list(dict.fromkeys(str(record.version) for record in sorted(candidates, key=lambda r: r.version)))
    shown = versions[-_SHOWN_VERSIONS:]
    newest = f"the newest of {len(versions)} versions are" if len(versions) > len(shown) else "the versions are"
    hint = f"{newest} {', '.join(shown)}"
    exact = str(spec.match.version or "").removeprefix("==")
    if any(version.startswith(f"{exact}.") for version in versions) and "==" not in spec.text:
        hint = f"write {spec.name}={exact} for any {exact}.*; {hint}"
    if spec.match.build is not None:
        alike = [record for record in candidates if str(record.version) == shown[-1]]
        named = str(spec.match.version or "").lstrip("=")
        alike = [record for record in candidates if str(record.version) == named] or alike
        builds = list(dict.fromkeys(str(record.build) for record in alike))[:_SHOWN_VERSIONS]
        hint += f"; builds of {alike[0].version}: {', '.join(builds)}"
    return PackageNotFoundError(
        f"no {spec.name} matches {spec.text!r} in {_where(problem, spec)}", nearest=tuple(shown), hint=hint
    )
