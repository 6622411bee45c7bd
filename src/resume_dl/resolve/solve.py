"""Solve of a request by the worker, with conda's semantics and artifacts as the result."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from resume_dl.errors import ConfigurationError
from resume_dl.model.artifact import Artifact
from resume_dl.model.channel import Channel
from resume_dl.resolve.artifacts import conda_artifact
from resume_dl.resolve.request import RepodataFile, Solution, SolveRequest
from resume_dl.resolve.specs import SplitSpec, split_spec
from resume_dl.resolve.virtual import Target, target
from resume_dl.resolve.worker import RattlerWorker

__all__ = ["check_specs", "package_names", "solve"]

_NAME = re.compile(r"\s*(?P<name>[\w.-]+)(?=$|[\s=<>!~\[])")
"""A package name; does not match patterns."""
PRIORITIES = ("strict", "flexible", "disabled")


def solve(
    request: SolveRequest,
    repodata: Sequence[RepodataFile],
    worker: RattlerWorker,
    *,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> Solution:
    """Solve ``request`` with the given repodata.

    ``repodata`` may be in any order; the request orders the channels. ``env`` supplies ``CONDA_OVERRIDE_*`` (default:
    this process's environment). Raises InvalidSpecError, PackageNotFoundError, UnsatisfiableError, ConfigurationError,
    IntegrityError (damaged or malicious repodata), WorkerCrashedError (also after ``timeout`` seconds).
    """
    if request.channel_priority not in PRIORITIES:
        raise ConfigurationError(
            f"{request.channel_priority!r} is not a channel priority", hint=f"one of {', '.join(PRIORITIES)}"
        )
    specs = _specs(request)
    virtual = _target(request, worker, os.environ if env is None else env, timeout)
    answer = worker.request("solve", _arguments(request, specs, repodata, virtual), timeout)
    requested = tuple(dict.fromkeys(spec.name for spec in specs))
    kept: list[str] = []
    artifacts: list[Artifact] = []
    for fields in answer["records"]:
        if fields["installed"]:
            kept.append(f"{fields['name']}-{fields['version']}-{fields['build']}")
        elif not (request.no_deps and fields["name"] not in requested) and not (
            request.only_deps and fields["name"] in requested
        ):
            artifact = conda_artifact(request.channels[fields["channel"]], fields)
            artifacts.append(_with_pip(artifact) if request.add_pip and not request.elsewhere else artifact)
    artifacts.sort(key=lambda artifact: (artifact.name, artifact.filename))
    return Solution(
        artifacts=tuple(artifacts),
        notes=(*_notes(request, virtual), *answer["notes"], *_undigested(artifacts)),
        requested=requested,
        constraints=tuple(answer["constraints"]),
        virtual_packages=virtual.shown(),
        exclude_newer="" if request.exclude_newer is None else f"{request.exclude_newer:%Y-%m-%dT%H:%M:%SZ}",
        already_installed=tuple(sorted(kept)),
    )


def check_specs(specs: Sequence[str], worker: RattlerWorker) -> None:
    """Raise InvalidSpecError for the first malformed spec; called before any network request."""
    worker.request("parse_specs", {"specs": [split_spec(text).text for text in specs]})


def package_names(request: SolveRequest) -> frozenset[str] | None:
    """Return the names that a solve starts from: requested and installed packages. It needs only their dependencies.

    None if a spec does not name a single package (``py*``). Pins are not included: they only exclude packages.
    """
    texts = [spec.text for spec in _specs(request)]
    texts += [split_spec(text).text for text in request.installed.history]
    found = [_NAME.match(text) for text in texts]
    names = {match["name"].lower() for match in found if match is not None}
    return None if None in found else frozenset(names | request.installed.names)


def _with_pip(artifact: Artifact) -> Artifact:
    """Return python's artifact with the record as conda caches it.

    When it reads an index, conda adds pip to the depends of python (2.x and 3.x).
    """
    depends = artifact.record.get("depends")
    if artifact.name != "python" or not artifact.version.startswith(("2.", "3.")) or not isinstance(depends, list):
        return artifact
    return artifact if "pip" in depends else replace(artifact, record={**artifact.record, "depends": [*depends, "pip"]})


def _specs(request: SolveRequest) -> list[SplitSpec]:
    specs = [split_spec(text) for text in request.specs]
    if not request.installed.records:
        named = {spec.name for spec in specs}
        specs += [spec for spec in map(split_spec, request.default_packages) if spec.name not in named]
    return specs


def _target(request: SolveRequest, worker: RattlerWorker, env: Mapping[str, str], timeout: float | None) -> Target:
    host = worker.request("virtual_packages", {}, timeout)
    return target(
        request.platform,
        host="" if request.elsewhere else host["subdir"],
        detected=[(name, version, build) for name, version, build in host["packages"]],
        overrides=request.virtual_packages,
        cuda=request.cuda,
        env=env,
    )


def _arguments(
    request: SolveRequest, specs: Sequence[SplitSpec], repodata: Sequence[RepodataFile], virtual: Target
) -> dict[str, Any]:
    order = {channel: index for index, channel in enumerate(request.channels)}
    unknown = [file.channel.name for file in repodata if file.channel not in order]
    if unknown:
        raise ConfigurationError(f"repodata of a channel that was not requested: {unknown[0]}")
    # A stable sort: the caller's order within a channel, which has the platform's subdir before noarch.
    files = sorted(repodata, key=lambda file: order[file.channel])
    return {
        "specs": [
            {
                "text": spec.text,
                "shown": spec.shown,
                "channels": None if spec.channel is None else _indexes(spec, request.channels),
                "subdir": spec.subdir,
            }
            for spec in specs
        ],
        "channels": [{"name": channel.name, "group": channel.group} for channel in request.channels],
        "files": [
            {
                "channel": order[file.channel],
                "subdir": file.subdir,
                "path": str(file.path.absolute()),
                "names": None if file.names is None else str(file.names.absolute()),
            }
            for file in files
        ],
        "priority": request.channel_priority,
        "virtual_packages": [list(package) for package in virtual.packages],
        "cuda": request.cuda,
        "pins": [*request.pinned, *request.installed.pinned],
        "installed": [str(path.absolute()) for path in request.installed.records],
        "history": list(request.installed.history),
        "free": list(request.aggressive_updates),
        "add_pip": request.add_pip,
        "only_tar_bz2": request.use_only_tar_bz2,
        "exclude_newer": None if request.exclude_newer is None else request.exclude_newer.isoformat(),
    }


def _indexes(spec: SplitSpec, channels: Sequence[Channel]) -> list[int]:
    """Return the indexes of the channels that a spec's ``channel::`` means: by name, multichannel name or URL."""
    wanted = (spec.channel or "").rstrip("/")
    found = [
        index
        for index, channel in enumerate(channels)
        if wanted
        in {
            channel.name,
            channel.group,
            *(base.reveal().rstrip("/") for base in (channel.canonical_base, channel.client_base, channel.record_base)),
        }
    ]
    if not found:
        raise ConfigurationError(
            f"the spec {spec.shown!r} names a channel that is not given",
            hint=f"the channels are {', '.join(channel.name for channel in channels)}; add one with -c",
        )
    return found


def _notes(request: SolveRequest, virtual: Target) -> tuple[str, ...]:
    return (*_cutoff_note(request), *_machine_note(request, virtual))


def _cutoff_note(request: SolveRequest) -> tuple[str, ...]:
    if request.exclude_newer is None:
        return ()
    return (f"packages newer than {request.exclude_newer:%Y-%m-%d %H:%M} UTC are left out, as exclude_newer says",)


def _machine_note(request: SolveRequest, virtual: Target) -> tuple[str, ...]:
    if not virtual.assumed or request.platform == "noarch":
        return ()
    gpu = "" if any(name == "__cuda" for name, _, _ in virtual.packages) else " and no GPU (--cuda)"
    packages = ", ".join(
        f"{name}={build if name == '__archspec' else version}" for name, version, build in virtual.packages
    )
    if request.elsewhere and request.virtual_packages:  # the user has described the machine
        return (f"{request.platform} is another machine: solved for {packages}{gpu}",)
    which = "another" if request.elsewhere else "not this"
    return (f"{request.platform} is {which} machine: assumed {packages}{gpu}; change it with --virtual-package",)


def _undigested(artifacts: Sequence[Artifact]) -> tuple[str, ...]:
    names = [artifact.filename for artifact in artifacts if artifact.digest is None]
    return (f"the channel has no digest for {', '.join(names)}: it cannot be verified",) if names else ()
