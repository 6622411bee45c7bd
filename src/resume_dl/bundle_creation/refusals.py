"""Checks of ``bundle create`` before the download, for requests that would fail after it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from resume_dl.bundle_creation.create_request import CreateRequest
from resume_dl.bundle_creation.folder import is_bundle, is_bundle_tar
from resume_dl.bundle_creation.request_files import ListedFile
from resume_dl.bundle_creation.signature import check_key
from resume_dl.errors import ConfigurationError, NotWritableError, missing_library
from resume_dl.model.channel import SUBDIR
from resume_dl.transfer.destination import can_make

_PACKED = (".gz", ".bz2", ".xz", ".zst", ".tgz", ".zip", ".7z")


def check_request(request: CreateRequest, env: Mapping[str, str]) -> None:
    """Raise ConfigurationError or NotWritableError for an unusable output, key or target, or a missing library."""
    if find_spec("cyclonedx") is None:
        raise missing_library("cyclonedx-python-lib", "which writes a bundle's list of components", extra="bundle")
    output = request.output.absolute()
    _check_output(request, output)
    if request.split is not None:
        from resume_dl.bundle.parts import check_parts

        check_parts(output.parent, output.name)
    for parent in output.resolve().parents:
        if is_bundle(parent):
            raise ConfigurationError(
                f"{output} would be inside the bundle {parent}, which may contain only its own files",
                hint="choose another folder with -o",
            )
    if request.sign is not None:
        check_key(request.sign, env)
    seen: set[str] = set()
    for each in request.targets:
        platform = each.machine.platform
        if platform in seen:
            raise ConfigurationError(
                f"two --target files are for {platform}, but a bundle has one solution a platform",
                hint="make a bundle for each of them",
            )
        seen.add(platform)


def _check_output(request: CreateRequest, output: Path) -> None:
    if request.split is not None and not request.as_tar:
        raise ConfigurationError("--split needs a tar, but -o names a folder", hint="write -o NAME.tar")
    if request.output.suffix.lower() in _PACKED and not request.output.is_dir():
        raise ConfigurationError(
            f"{request.output} would become a folder: a bundle is a folder or a tar",
            hint="write -o NAME.tar: the packages in it are compressed already",
        )
    if request.as_tar and (output.is_dir() or not can_make(output.parent)):
        why = "it is a folder" if output.is_dir() else "its folder cannot be written"
        raise NotWritableError(f"{output} cannot be written: {why}", hint="choose another file with -o")
    if request.as_tar and output.exists() and not is_bundle_tar(output):
        raise ConfigurationError(
            f"{output} exists and is not a bundle", hint="choose another file with -o, or remove it"
        )


def platforms_of(request: CreateRequest, lists: Sequence[ListedFile], native: str) -> tuple[str, ...]:
    """The platforms of the options, targets and ``lists``; else ``native``. Raises ConfigurationError."""
    named = request.fetch.platforms
    targets = tuple(each.machine.platform for each in request.targets)
    listed = tuple(each.platform for each in lists)
    found = tuple(dict.fromkeys((*named, *targets, *listed))) or (native,)
    for platform in found:
        if platform == "noarch" or not re.fullmatch(SUBDIR, platform):
            raise ConfigurationError(
                f"{platform} is not the platform of a machine", hint="name one, such as linux-64 or win-64"
            )
    for each in lists:
        if named and each.platform not in (*named, *targets):
            raise ConfigurationError(
                f"{each.name} is a list for {each.platform}, but no --platform names that",
                hint=f"add --platform {each.platform}, or omit the list",
            )
    return found
