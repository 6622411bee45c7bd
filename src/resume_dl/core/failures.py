"""Why one connection ended without its bytes: a value, not an exception."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from resume_dl.model.http import CacheHeaders


class FailureKind(Enum):
    """Kinds of failures of a source; the comments give the core's reaction."""

    UNREACHABLE = "unreachable"  # nothing answered: back off
    BROKEN = "broken"  # reset or early end: back off, the bytes so far are kept
    STALLED = "stalled"  # no byte for too long: back off
    SLOW = "slow"  # far below what its host gave before: another connection instead
    SERVER_ERROR = "server error"  # 5xx: back off
    THROTTLED = "throttled"  # 429, 503: the whole host rests for Retry-After
    LACKS = "lacks the file"  # 404, 410, or another size: not this source for this file
    REFUSED = "refused"  # 401, 403 and other 4xx: not this source for this file
    BLOCKED = (
        "blocked"  # 403 with a web page of its own: the source is excluded; the app remembers a mirror's for a day
    )
    RANGE_IGNORED = "ignores ranges"  # 200 to a range: only as one stream from 0
    RANGE_WRONG = "wrong range"  # another range than requested, 416: only as one stream from 0
    CONTENT = "not the file"  # an encoded body, wrong magic: not this source for this file
    PORTAL = "login page"  # a web page instead of the file, or 511: a captive portal, no source on this network
    LIED = "wrong bytes"  # its bytes have the wrong digest: quarantined, its pieces fetched again from others
    CHANGED = "changed"  # without a digest: another version than the bytes we hold
    UNCHANGED = "unchanged"  # 304: the copy that the caller has is still the right one
    FATAL = "not trusted"  # a certificate that does not verify, an invalid URL: a retry cannot help
    UNASKED = "not asked"  # a source that was not tried by the end of a download; not an event
    LOCAL = "this machine"  # disk full, no permission: the download ends


@dataclass(frozen=True, slots=True)
class Failure:
    """``message`` is one line without secrets; ``retry_after``: seconds, if the server stated it."""

    kind: FailureKind
    message: str
    retry_after: float | None = None
    size: int | None = None
    """The file's whole size as this source states it, if that is the reason."""
    said: CacheHeaders | None = None
    """Of a 304: how long the caller's copy stays fresh."""
    unresolved: str = ""
    """The host name that cannot be resolved, if that is the reason: the source's, or its proxy's."""
    answered_by: str = field(default="", compare=False)
    """The host (``host[:port]``) that answered: not the source's own after a redirect."""
    no_route: bool = False
    """A literal IP address, the source's or its proxy's, refuses the connection, or no route leads there."""
