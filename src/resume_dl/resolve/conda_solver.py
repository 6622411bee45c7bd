"""``--solver conda``: a solve by the user's conda. It is slower and downloads its own indexes; the result is conda's.

``conda create --dry-run --json`` lists every package under ``LINK``, and those that are not in its cache under
``FETCH`` (url, digests, size). For the others the record is read from the package cache.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from resume_dl import fs
from resume_dl.errors import (
    ChannelNotFoundError,
    ChannelUnavailableError,
    ConfigurationError,
    InvalidSpecError,
    PackageNotFoundError,
    ResolutionError,
    UnsatisfiableError,
)
from resume_dl.model.artifact import Artifact
from resume_dl.model.channel import Channel
from resume_dl.model.url import RedactedUrl, redact
from resume_dl.resolve.artifacts import conda_artifact
from resume_dl.resolve.request import Solution, SolveRequest
from resume_dl.resolve.specs import split_spec

_MOST_RECORD = 16 << 20
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]+", re.IGNORECASE)
_KINDS: Mapping[str, type[ResolutionError]] = {
    "PackagesNotFoundError": PackageNotFoundError,
    "PackagesNotFoundInChannelsError": PackageNotFoundError,
    "ResolvePackageNotFound": PackageNotFoundError,
    "UnsatisfiableError": UnsatisfiableError,
    "LibMambaUnsatisfiableError": UnsatisfiableError,
    "RattlerUnsatisfiableError": UnsatisfiableError,
    "SpecsConfigurationConflictError": UnsatisfiableError,
    "InvalidMatchSpec": InvalidSpecError,
    "InvalidSpec": InvalidSpecError,
    "InvalidVersionSpec": InvalidSpecError,
    "UnavailableInvalidChannel": ChannelNotFoundError,
    "ChannelNotAllowed": ChannelNotFoundError,
    "CondaHTTPError": ChannelUnavailableError,
    "CondaSSLError": ChannelUnavailableError,
    "ProxyError": ChannelUnavailableError,
    "OfflineError": ChannelUnavailableError,
}
_TICK = 0.2
"""Seconds between two calls of ``waits``; as that of ``worker``."""
_OVERRIDABLE = {"__archspec", "__cuda", "__glibc", "__linux", "__osx", "__win"}


def solve_with_conda(
    command: Sequence[str],
    request: SolveRequest,
    *,
    prefix: Path | None = None,
    pkgs_dirs: Sequence[Path] = (),
    canonical: Callable[[str], str] = lambda url: url,
    offline: bool = False,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    waits: Callable[[str, float], None] = lambda _op, _seconds: None,
) -> Solution:
    """Resolve ``request`` with the conda that ``command`` runs, for the environment ``prefix`` if given.

    ``command`` is ``(conda,)`` or ``(python, -m, conda)``. The request's ``pinned``, ``installed``,
    ``default_packages`` and ``aggressive_updates`` are conda's own settings and are not passed on. ``pkgs_dirs`` are
    package caches to look in. ``canonical`` maps a mirror's URL to the origin's. ``env`` is the whole environment
    (default: this process's). ``waits`` is called like that of ``RattlerWorker``.

    Raises the ResolutionError that matches conda's error, ConfigurationError if conda cannot run, IntegrityError for a
    malicious record.
    """
    for text in request.specs:
        if text.lstrip().startswith("-"):
            raise InvalidSpecError(
                f"the spec {text!r} is malformed at '-'", part=text, hint="a spec begins with a name"
            )
    with tempfile.TemporaryDirectory(prefix="resume-dl-conda-") as folder:
        arguments = _arguments(request, prefix, Path(folder, "env"))
        environment = _environment(request, os.environ if env is None else env, offline=offline)
        answer = _run([*command, *arguments], environment, timeout, waits)
    actions = answer.get("actions") or {}
    if isinstance(actions, list):  # older versions: one entry per prefix
        actions = actions[0] if actions else {}
    fetched = {_stem(record["fn"]): record for record in actions.get("FETCH") or ()}
    requested = tuple(dict.fromkeys(split_spec(text).name for text in request.specs))
    artifacts, cached = [], []
    for link in actions.get("LINK") or ():
        name = str(link["dist_name"])
        record = fetched.get(name) or _cached_record(name, pkgs_dirs)
        if record is None:
            cached.append(name)
        else:
            artifacts.append(_artifact(record, request.channels, canonical))
    artifacts.sort(key=lambda artifact: (artifact.name, artifact.filename))
    return Solution(
        artifacts=tuple(artifacts), notes=_notes(request, cached), requested=requested, already_installed=()
    )


def _arguments(request: SolveRequest, prefix: Path | None, scratch: Path) -> list[str]:
    if prefix is not None and (prefix / "conda-meta").is_dir():
        arguments = ["install", "-p", str(prefix)]
    else:
        arguments = ["create", "-p", str(scratch)]
    arguments += ["--dry-run", "--json", "--yes", "--override-channels"]
    for channel in request.channels:
        # Other users can see the arguments, so a channel with a login is passed by name; conda's own settings have the
        # login.
        with_login = channel.client_base.has_secret
        arguments += ["-c", channel.name if with_login else channel.client_base.reveal()]
    arguments += ["--no-deps"] * request.no_deps + ["--only-deps"] * request.only_deps
    return [*arguments, *request.specs]


def _environment(request: SolveRequest, env: Mapping[str, str], *, offline: bool) -> dict[str, str]:
    changed = {
        "CONDA_CHANNEL_PRIORITY": request.channel_priority,
        "CONDA_USE_ONLY_TAR_BZ2": str(request.use_only_tar_bz2).lower(),
        "CONDA_SUBDIR": request.platform,
        "CONDA_ADD_PIP_AS_PYTHON_DEPENDENCY": str(request.add_pip).lower(),
    }
    if offline:
        changed["CONDA_OFFLINE"] = "true"
    if request.cuda is not None:
        changed["CONDA_OVERRIDE_CUDA"] = "" if request.cuda == "none" else request.cuda
    for text in request.virtual_packages:
        name, _, version = text.partition("=")
        if name in _OVERRIDABLE:
            changed[f"CONDA_OVERRIDE_{name[2:].upper()}"] = version.lstrip("=")
    return {**env, **changed}


def _run(
    command: Sequence[str], env: Mapping[str, str], timeout: float | None, waits: Callable[[str, float], None]
) -> dict[str, Any]:
    try:
        process = subprocess.Popen(
            command, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise ConfigurationError(
            f"cannot run {command[0]}: {error.strerror or error}", hint="set RESUME_DL_CONDA to a conda that runs"
        ) from error
    with process:
        try:
            out, err = _output(process, timeout, waits)
        finally:
            process.kill()  # no effect if it has ended
    try:
        answer = json.loads(out)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        last_line = _scrubbed(err.decode("utf-8", "replace").strip().rpartition("\n")[2])
        raise ConfigurationError(
            f"conda exited with status {process.returncode} without a result: {last_line}",
            hint="check that conda works on its own",
        )
    if process.returncode != 0 and "exception_name" in answer:
        kind = _KINDS.get(str(answer["exception_name"]), ResolutionError)
        message = _scrubbed(str(answer.get("message") or answer.get("error") or "no reason given").strip())
        raise kind(f"conda says: {message}", hint="--solver rattler may give more detail")
    return answer


def _output(
    process: subprocess.Popen[bytes], timeout: float | None, waits: Callable[[str, float], None]
) -> tuple[bytes, bytes]:
    """Return conda's stdout and stderr; ``waits`` is called every ``_TICK`` seconds until conda exits."""
    started = time.monotonic()
    while True:
        left = math.inf if timeout is None else timeout - (time.monotonic() - started)
        try:
            return process.communicate(timeout=max(0.0, min(_TICK, left)))
        except subprocess.TimeoutExpired:
            waited = time.monotonic() - started
            if timeout is not None and waited >= timeout:
                raise ChannelUnavailableError(
                    f"conda did not finish the solve within {timeout:g} s", hint="use --solver rattler"
                ) from None
            waits("solve", waited)


def _cached_record(dist_name: str, pkgs_dirs: Sequence[Path]) -> dict[str, Any] | None:
    for folder in pkgs_dirs:
        try:
            record = json.loads(fs.read_below(folder / dist_name, "info", "repodata_record.json", limit=_MOST_RECORD))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(record, dict) and {"fn", "url", "name", "version", "build", "subdir"} <= record.keys():
            return record
    return None


def _artifact(record: Mapping[str, Any], channels: Sequence[Channel], canonical: Callable[[str], str]) -> Artifact:
    url = str(record["url"])
    folder = url.rpartition("/")[0]
    base, _, subdir = folder.rpartition("/")
    for channel in channels:
        if base in {b.reveal() for b in (channel.client_base, channel.record_base, channel.canonical_base)}:
            break
    else:
        own = RedactedUrl(canonical(url).rpartition("/")[0].rpartition("/")[0])
        channel = Channel(redact(own.reveal()), None, own, RedactedUrl(base))
    return conda_artifact(
        channel,
        {
            "filename": record["fn"],
            "subdir": subdir,
            "name": record["name"],
            "version": record["version"],
            "build": record["build"],
            "sha256": record.get("sha256"),
            "md5": record.get("md5"),
            "size": record.get("size"),
            "record": {name: value for name, value in record.items() if name not in {"channel", "url"}},
        },
    )


def _notes(request: SolveRequest, cached: Sequence[str]) -> tuple[str, ...]:
    notes = []
    if request.cuda is not None:
        notes.append("--solver conda passes --cuda only as __cuda, which packages of 2021 and earlier ignore")
    foreign = [text for text in request.virtual_packages if text.partition("=")[0] not in _OVERRIDABLE]
    if foreign:
        notes.append(f"--solver conda ignores {', '.join(foreign)}")
    if cached:
        notes.append(f"already in conda's package cache, not checked: {', '.join(sorted(cached))}")
    return tuple(notes)


def _stem(filename: str) -> str:
    return filename.removesuffix(".conda").removesuffix(".tar.bz2")


def _scrubbed(text: str) -> str:
    return _URL.sub(lambda found: redact(found[0]), text)
