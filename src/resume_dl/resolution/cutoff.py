"""The date of a request after which packages count as new, from ``--exclude-newer`` or conda's settings."""

from __future__ import annotations

from datetime import datetime

from resume_dl.errors import ConfigurationError
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.exclude_newer import cutoff_of, is_off
from resume_dl.resolution.fetch_request import FetchRequest

_FORMS = "write a date (2026-04-01), a time (2026-04-01T12:00:00Z) or a duration (7d, P7D)"
_KEYS = ("exclude_newer", "exclude-newer")


def exclude_newer(request: FetchRequest, conda: CondaSettings, now: datetime) -> datetime | None:
    """The cutoff in UTC; None if nothing is held back.

    Raises ConfigurationError for a value in no known form, and for what only conda's own solvers can do: a value for
    one package or channel, or ours together with ``--solver conda``, whose settings are conda's.
    """
    if request.solver == "conda":
        if request.exclude_newer is not None:
            raise ConfigurationError(
                "--exclude-newer does not hold for --solver conda",
                hint="set exclude_newer in condarc (conda 26.5 or later), or omit --solver conda",
            )
        return None
    if request.exclude_newer is not None:
        off = is_off(request.exclude_newer)
        return None if off else _parsed(request.exclude_newer, "--exclude-newer", now)
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


def check_conda_only(request: FetchRequest) -> None:
    """Raise ConfigurationError if ``--exclude-newer`` is given for a request with pip's packages.

    condarc's setting says nothing about them, and most index pages have no dates.
    """
    if request.exclude_newer is not None and not is_off(request.exclude_newer):
        raise ConfigurationError(
            "--exclude-newer holds for conda packages only, and this request has pip's",
            hint="fetch those in a run of their own, with --exclude-newer none",
        )


def _parsed(text: str, where: str, now: datetime) -> datetime:
    try:
        return cutoff_of(text, now)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}", hint=_FORMS) from error
