"""``fetch``: turn specs, requirements and lists into verified files in the places that conda and pip read.

``app.pipeline`` has the steps; this module decides whether a request has a conda part, a pip part or both, and where
its packages go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace as changed
from functools import partial
from pathlib import Path
from typing import Any

from resume_dl import fs
from resume_dl.app.conda_fetch import FetchConda, environment_options, pythons_of_machines
from resume_dl.app.pipeline import Batch, run
from resume_dl.errors import ConfigurationError
from resume_dl.model.artifact import Artifact
from resume_dl.ports import Reporter
from resume_dl.resolution.conda_and_pip import has_pip_part, is_pip_file
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.settings.pkgs_dirs import check_pkgs_dir, first_writable_pkgs_dir
from resume_dl.settings.rattler_cache import rattler_packages_dir
from resume_dl.transfer.destination import channel_path, check_folder, refuse_others_link
from resume_dl.transfer.package_destination import CondaPackages, PackageDestination, PlainPackages, RattlerPackages
from resume_dl.transfer.report import RunResult
from resume_dl.transfer.setup import Setup
from resume_dl.transfer.shared_folders import shared_folders

__all__ = ["FetchRequest", "fetch", "package_destination"]


def fetch(
    request: FetchRequest,
    setup: Setup,
    reporter: Reporter,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    worker: RattlerWorker | None = None,
    leave_out: Callable[[Artifact], bool] = lambda _: False,
    begin: Callable[[], None] = lambda: None,
) -> RunResult:
    """Resolve, download, verify, publish. Errors of single artifacts are in the result, others are raised.

    ``worker``: a started worker, which is closed here. ``leave_out`` and ``begin`` as for ``Batch``.
    """
    started = time.monotonic()
    of_pip = tuple(path for path in request.files if is_pip_file(path))
    of_both = tuple(path for path in request.files if has_pip_part(path))
    of_conda = changed(request, files=tuple(path for path in request.files if path not in of_pip))
    has_pip = bool(of_pip or of_both or request.pip.requirements)
    has_conda = not has_pip or bool(of_conda.specs or of_conda.files)
    _check_kind_of_lock(request, has_conda=has_conda, has_pip=has_pip)
    with worker or RattlerWorker() as solver:
        batches: list[Batch] = []
        pythons: Callable[[], Mapping[str, str]] = partial(pythons_of_machines, request)
        environment: tuple[str, ...] = ()
        if has_conda:
            destination = package_destination(of_conda, setup, reporter, cancelled, solver)
            conda = FetchConda(
                of_conda,
                setup,
                reporter,
                cancelled,
                destination=destination,
                worker=solver,
                leave_out=leave_out,
                begin=begin,
            )
            batches.append(conda)
            pythons, environment = conda.pythons, environment_options(request)
        if has_pip:
            from resume_dl.app.pip_fetch import FetchPip

            of_pips = changed(request, files=of_pip + of_both)
            pip = FetchPip(
                of_pips,
                setup,
                reporter,
                cancelled,
                pythons=pythons,
                environment=environment,
                leave_out=leave_out,
                begin=begin,
            )
            batches.append(pip)
        result = run(batches, RunResult("fetch"))
    result.elapsed = time.monotonic() - started
    return result


def package_destination(
    request: FetchRequest, setup: Setup, reporter: Reporter, cancelled: Callable[[], bool], worker: RattlerWorker
) -> PackageDestination:
    """Where packages go. Raises NotWritableError before anything is downloaded."""
    if setup.conda.problem:
        # an error, although the run continues as conda would: --quiet must not hide that other channels may be used
        reporter.message(f"some conda settings could not be read: {setup.conda.problem}", level="error")
    offline = setup.options.offline or setup.conda.offline
    common: dict[str, Any] = {"reporter": reporter, "cancelled": cancelled, "offline": offline, "worker": worker}
    if request.bundle is not None:
        folder, near = check_folder(request.bundle, "-o"), setup.conda.pkgs_dirs
        place = partial(channel_path, folder)
        return PlainPackages(folder=folder, place=place, near=near, pack=request.packs, options="-o", **common)
    if request.dest is not None:
        return PlainPackages(folder=check_folder(request.dest, "--dest"), **common)
    common["unpack"] = request.extract
    if request.rattler_cache is not None:
        root = Path(request.rattler_cache) if request.rattler_cache else None
        folder = check_folder(rattler_packages_dir(setup.env, root), "--rattler-cache")
        packages = (rattler_packages_dir(setup.env, each) for each in request.shared_rattler_caches)
        return RattlerPackages(folder=folder, shared=shared_folders(packages, reporter), **common)
    create = not request.dry_run
    if request.pkgs_dir is not None:
        pkgs_dir = fs.roomy(request.pkgs_dir.absolute())
        refuse_others_link(pkgs_dir, "choose another folder with --pkgs-dir")
        return CondaPackages(folder=check_pkgs_dir(pkgs_dir, create=create), **common)
    folder = first_writable_pkgs_dir(setup.conda, create=create)
    others = [each for each in setup.conda.pkgs_dirs if each != folder]
    return CondaPackages(folder=folder, others=others, **common)


def _check_kind_of_lock(request: FetchRequest, *, has_conda: bool, has_pip: bool) -> None:
    """Refuse a list that would stay empty. Raises ConfigurationError."""
    if request.lock is not None and not has_conda:
        raise ConfigurationError(
            f"{request.lock} names a list for conda, but only pip packages are requested",
            hint="name it pylock.toml or pylock.NAME.toml, as pip's lock files are named (PEP 751)",
        )
    if request.pip.lock is not None and not has_pip:
        raise ConfigurationError(
            f"{request.pip.lock} names a lock file for pip, but no pip package is requested",
            hint="give conda's list another name, such as explicit.txt",
        )
