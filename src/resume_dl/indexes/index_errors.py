"""The errors for channel indexes that cannot be had, or that too few sources vouch for."""

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
    """One error for an index that no source gave."""
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
    """Why an index that fewer than two operators gave is not believed, or could not be had at all.

    ``host``: of the authority.
    """
    channel, subdir = agreement.wanted
    gave = agreement.answered
    errors = [error for error in (agreement.why, *(copy.error for copy in agreement.copies.values())) if error]
    if not gave and errors:
        return of_all(errors, tried)
    where = f"{host} cannot be reached" if agreement.why is not None else f"{host} may not be asked (see --mirror)"
    one = f"{gave[0]} alone has answered, which is not enough" if gave else "no mirror has answered"
    return ChannelUnavailableError(
        f"the index of {channel.name}/{subdir} cannot be believed: {where}, and {one}",
        tried=tried,
        hint=without_witness(host),
    )


def unstated(artifacts: Iterable[Artifact], lead: str, host: str) -> ChannelUnavailableError:
    """For records that the mirror ``lead`` alone states; ``host``: of the authority."""
    names = sorted({artifact.filename for artifact in artifacts})
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ChannelUnavailableError(
        f"{', '.join(names[:3])}{more}: of the mirrors that answered {lead} alone states this, and {host} cannot be "
        "asked",
        hint=without_witness(host),
    )


def not_found(channel: Channel, tried: Sequence[str], *, offline: bool) -> ChannelNotFoundError:
    """For a channel of which no subdir is anywhere."""
    what = "has not been fetched before" if offline else "has no repodata anywhere"
    return ChannelNotFoundError(
        f"the channel {channel.name} {what} (tried {', '.join(tried) or 'no address: no mirror has it'})",
        tried=tuple(tried),
        hint="check its name, or run without --offline" if offline else "check the channel's name",
    )


def too_little_kept(channel: Channel, subdir: str) -> ChannelNotFoundError:
    """For shards of other packages than an offline run needs."""
    return ChannelNotFoundError(
        f"of the index of {channel.name}/{subdir} other packages were fetched before than this needs",
        hint="run it without --offline",
    )
