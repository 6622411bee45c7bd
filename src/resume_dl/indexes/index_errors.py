"""Errors for channel indexes that are unavailable, or that too few sources vouch for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from resume_dl.errors import (
    CaptivePortalError,
    ChannelNotFoundError,
    ChannelUnavailableError,
    NoNetworkError,
    ResumeDLError,
    no_network,
)
from resume_dl.indexes.agreement import Agreement
from resume_dl.indexes.trust import without_witness
from resume_dl.model.artifact import Artifact
from resume_dl.model.channel import Channel


def of_all(errors: Sequence[ResumeDLError], tried: tuple[str, ...]) -> ResumeDLError:
    """Return one error for an index that no source supplied."""
    if len(errors) == 1:
        return errors[0]
    for error in errors:
        if isinstance(error, CaptivePortalError):
            return error
    causes = [error.__cause__ for error in errors]
    silent = [cause for cause in causes if isinstance(cause, NoNetworkError)]
    if len(silent) == len(errors):
        hosts = tuple(dict.fromkeys(host for cause in silent for host in cause.hosts))
        told = silent[0].causes
        unavailable = ChannelUnavailableError(
            no_network(hosts, told[0] if told else ""), tried=tried, hint=silent[0].hint
        )
        unavailable.__cause__ = NoNetworkError(hosts, causes=told)
        return unavailable
    message = "; ".join(dict.fromkeys(error.message for error in errors))
    return ChannelUnavailableError(message, tried=tried, hint=errors[0].hint)


def too_few(agreement: Agreement, host: str, tried: tuple[str, ...]) -> ResumeDLError:
    """Return the error for an index that fewer than two operators supplied. ``host``: the authority's."""
    channel, subdir = agreement.wanted
    gave = agreement.answered
    errors = [error for error in (agreement.why, *(copy.error for copy in agreement.copies.values())) if error]
    if not gave and errors:
        return of_all(errors, tried)
    where = f"{host} cannot be reached" if agreement.why is not None else f"{host} is excluded (see --mirror)"
    one = f"only {gave[0]} has answered, which is not enough" if gave else "no mirror has answered"
    return ChannelUnavailableError(
        f"the index of {channel.name}/{subdir} cannot be trusted: {where}, and {one}",
        tried=tried,
        hint=without_witness(host),
    )


def unstated(artifacts: Iterable[Artifact], lead: str, host: str) -> ChannelUnavailableError:
    """Return the error for records that only the mirror ``lead`` states; ``host``: the authority's."""
    names = sorted({artifact.filename for artifact in artifacts})
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ChannelUnavailableError(
        f"{', '.join(names[:3])}{more}: of the mirrors that answered {lead} alone states this, and {host} cannot be "
        "asked",
        hint=without_witness(host),
    )


def not_found(channel: Channel, tried: Sequence[str], *, offline: bool) -> ChannelNotFoundError:
    """Return the error for a channel of which no subdir was found."""
    what = "has not been fetched before" if offline else "has no repodata anywhere"
    return ChannelNotFoundError(
        f"the channel {channel.name} {what} (tried {', '.join(tried) or 'no URL: no mirror has it'})",
        tried=tuple(tried),
        hint="check its name, or run without --offline" if offline else "check the channel's name",
    )


def too_little_kept(channel: Channel, subdir: str) -> ChannelNotFoundError:
    """Return the error for an offline run that needs shards of packages other than the kept ones."""
    return ChannelNotFoundError(
        f"the kept shards of the index of {channel.name}/{subdir} lack packages that this request needs",
        hint="run it without --offline",
    )
