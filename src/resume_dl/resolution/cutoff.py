"""The date of a request after which packages count as new: ``--exclude-newer``, or settings of conda, uv or pip."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from resume_dl.errors import ConfigurationError
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.exclude_newer import UploadCutoff, cutoff_of, is_off
from resume_dl.model.pip import PipSettings
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.settings.uv_dates import cutoff_of_pip, load_uv_cutoff

_FORMS = "write a date (2026-04-01), a time (2026-04-01T12:00:00Z) or a duration (7d, P7D)"
_KEYS = ("exclude_newer", "exclude-newer")
_OPTION = "--exclude-newer"


def exclude_newer(request: FetchRequest, conda: CondaSettings, now: datetime) -> datetime | None:
    """The cutoff in UTC; None if nothing is held back.

    Raises ConfigurationError for a value in no known form, and for what only conda's own solvers can do: a value for
    one package or channel, or ours together with ``--solver conda``, whose settings are conda's.
    """
    if request.solver == "conda":
        if request.exclude_newer is not None:
            raise ConfigurationError(
                "--exclude-newer does not hold for --solver conda",
                hint="set exclude_newer in condarc (conda 26.9 or later), or omit --solver conda",
            )
        return None
    if request.exclude_newer is not None:
        return _of_option(request.exclude_newer, now)
    own = [(f"the package {name}", value) for name, value in conda.exclude_newer_package.items()]
    own += [
        (f"the channel {entry.get('channel', '?')}", entry[key])
        for entry in conda.channel_settings
        for key in _KEYS
        if key in entry
    ]
    for what, value in own:
        if conda.exclude_newer or not is_off(value):
            raise ConfigurationError(
                f"the conda settings have an exclude_newer for {what} alone, which only conda's solvers follow",
                hint="use --solver conda, or --exclude-newer DATE for all packages",
            )
    return _parsed(conda.exclude_newer, "exclude_newer of the conda settings", now) if conda.exclude_newer else None


def upload_cutoff(
    request: FetchRequest, settings: PipSettings, env: Mapping[str, str], folder: Path, now: datetime
) -> UploadCutoff:
    """The cutoff for files of package indexes: that of ``--exclude-newer``, else uv's and pip's settings.

    If both uv and pip have a date, the earlier one holds. ``folder``: where uv looks for a project. condarc's setting
    says nothing about pip's packages. Raises ConfigurationError.
    """
    if request.exclude_newer is not None:
        return UploadCutoff(time=_of_option(request.exclude_newer, now), origin=_OPTION)
    cutoff = load_uv_cutoff(env, folder, now)
    text, where = settings.uploaded_prior_to, settings.origins.get("uploaded-prior-to", "--uploaded-prior-to")
    if not text:
        return cutoff
    pips = cutoff_of_pip(text, where, now)
    if cutoff.time is not None and cutoff.time <= pips:
        return cutoff
    # pip knows no packages with a date of their own
    packages = {name: pips if time is None else min(pips, time) for name, time in cutoff.packages.items()}
    return UploadCutoff(time=pips, packages=packages, origin=where)


def _of_option(text: str, now: datetime) -> datetime | None:
    """The cutoff of ``--exclude-newer``; None for ``none``. ``0`` is ``now``, as conda's own option has it."""
    return None if is_off(text) and text.strip() != "0" else _parsed(text, _OPTION, now)


def _parsed(text: str, where: str, now: datetime) -> datetime:
    try:
        return cutoff_of(text, now)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}", hint=_FORMS) from error
