"""The limits by which downloads are scheduled, each with its reason. Injectable, so that tests need no real minutes."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Sizes in bytes, times in seconds."""

    connections: int = 8
    """In all: more do not help on typical networks, and mirrors block clients that open more."""
    per_host: int = 2
    """TUNA blocks subnets after repeated large downloads with many connections; its help page asks for few."""
    per_host_is_explicit: bool = False
    """The user's own --per-host wins over a mirror's ``connections``; the default does not."""
    files_in_flight: int = 8
    """No more files than connections: a file without a connection only grows stale time-outs."""
    files_ahead: int = 4
    """So many more are locked and their journals read, that no connection waits for that between small files."""
    fast_connection: float = 48 * MIB
    """A host whose one connection is this fast (bytes a second) gets no second one: this process is the limit then, and
    a second connection only costs time (600 MB over loopback: 1.0 s with one, 1.5 s with two)."""
    unhealthy_from: float = 3.0
    """A host whose failures, fading with time, reach this is unhealthy: one connection at a time, after all others."""
    recovery: float = 0.5
    """New bytes multiply the failures by this: after two or three good answers an unhealthy host is healthy again."""
    health_half_life: float = 600.0
    """A failure counts for half after ten minutes: mirrors recover."""

    piece_size: int = MIB
    """Leases end on multiples of this, so that ranges stay few."""
    small_file: int = 8 * MIB
    """Smaller files are one request without a Range: a second connection's handshake costs more than it gains."""
    journal_from: int = MIB
    """Below this a lost file costs less than a journal's syncs."""
    first_segment: int = 4 * MIB
    """A first lease on a connection whose speed is unknown: long enough to measure it, short enough to be re-cut."""
    segment_seconds: float = 10.0
    """A lease lasts this long at its connection's speed: requests stay rare, and the tail of a file short."""
    window: int = 128 * MIB
    """Leases stay this close above the lowest unfinished byte: sha256 is sequential and follows behind."""
    rebalance: bool = True
    """Whether connections take over each others' work. Not under --limit-rate: there each is slow by our own will, and
    what the kernel has already received for it would be paid twice."""
    split_seconds: float = 3.0
    """A file without a digest, whose one connection needs this much longer (seconds), gets more connections to the same
    source, under the same strong validator, because many servers limit each connection. A shorter time would not pay
    for the request."""
    steal_gain: float = 0.1
    """An idle connection takes over the tail of a lease if that ends this much sooner (seconds), including the new
    request's latency: a smaller gain would be lost with the connection that the other side has to drop."""
    steal_least: int = 64 * KIB
    """No fewer bytes are worth a request."""
    steal_grain: int = 16 * KIB
    """Leases are cut on multiples of this: what TLS sends in one record."""
    silent_seconds: float = 2.0
    """A connection whose response is silent for this long loses its work if another is idle."""
    endgame_bytes: int = 4 * MIB
    """With at most this left of a file, the rest of a slow connection's lease is fetched a second time, in memory."""
    endgame_ratio: float = 2.0
    """... if it takes the slow one so many times longer."""
    endgame_share: float = 0.02
    """Duplicates are at most this part of a file: they are paid twice."""
    slow_share: float = 0.25
    """A connection below this part of what its host gave before, or gives its others, is replaced ..."""
    slow_seconds: float = 5.0
    """... when that has lasted so long: shorter dips are the line's, not the connection's."""
    line_share: float = 0.5
    """... but not if half of the other connections are below this share of their best: then the network is slow."""
    better_host: float = 4.0
    """With every connection in use, one is moved to another host that is this many times faster: from nine mirrors,
    eight at 50 KiB a second and one at 8 MiB, 200 MiB take 23 s instead of 100 s (simulated)."""
    farewell_seconds: float = 1.0
    """Seconds in which a connection with a finished lease may end its response, so that it can be reused."""

    sync_bytes: int = 16 * MIB
    sync_seconds: float = 2.0
    """A power cut costs at most this much, or two seconds of the line; more often slows slow disks for nothing."""
    sync_least_seconds: float = 0.25
    """... and not sooner after the last one: at hundreds of megabytes a second, syncs are the limit."""

    digest_step: int = 8 * MIB
    """The digest advances when this many finished bytes follow it: for fewer, the call costs more than the hash."""
    digest_most: int = 64 * MIB
    """At most so many at once, so that no caller waits long for a hash that is under way."""

    compare_block: int = 128 * KIB
    """After a wrong digest, sources are compared in blocks of this size: what a journal's record covers."""
    compare_step: int = MIB
    """... in requests of this size: a few round trips find a source of wrong bytes, with few bytes wasted."""
    compare_look: int = 9
    """Steps in which one pair is compared alone: a little more than the distance of wrong bytes to be found cheaply."""
    compare_ahead: int = 8
    """A source compares two pieces at once only while all under way are at most this part of what was compared."""
    dispute_bytes: int = 16 * MIB
    """Sources that agree against the record for this many bytes make the record suspect: a newer one is cheaper than
    the comparison of the rest."""

    stall_seconds: float = 10.0
    """A connection without a byte for this long is replaced, even if there is only one source."""
    first_answer_seconds: float = 5.0
    """A connection without an answer for this long is replaced by one to an idle source that has failed no more often.
    Distant mirrors and proxies take a second or two; all may be slow, so each is replaced once."""
    first_byte_seconds: float = 20.0
    """So long a connection waits for its answer at first: a server that is up nearly always answers sooner."""
    first_byte_most: float = 60.0
    """A source that was silent for so long, or slow to answer, has twice as long the next time, up to what conda waits
    (its ``remote_read_timeout_secs``): a proxy that fetches the whole file first answers late, at every attempt."""
    page_look_seconds: float = 5.0
    """Seconds between checks of a small request (a page, METADATA). If it received next to nothing since the last one,
    the next source is asked as well, and the first complete answer counts: most take a second or two."""
    page_rate: float = 16 * KIB
    """Next to nothing is less than this a second, or less than ``slow_share`` of the fastest answer so far: on a line
    that is slow for all, a second request would only take from the first."""
    page_requests: int = 2
    """Most sources asked for one page at once: of two, one nearly always answers."""
    page_least_rate: float = 100.0
    """Less than this a second is no slow line, which a modem exceeds a dozenfold: it only keeps time-outs away."""
    page_trickle_seconds: float = 20.0
    """A small request that received less for this long is ended, if others are left or the time is over."""
    backoff_first: float = 0.5
    backoff_most: float = 30.0
    """Full jitter between 0 and min(most, first * 2**failures): spreads clients that were cut off together."""
    retry_after_most: float = 120.0
    """A server's Retry-After is kept, but not beyond this: another hour's wait is the user's decision."""
    give_up_after: float = 600.0
    """Without progress; everything stays resumable."""
    unreached_give_up: float = 25.0
    """When no source ever answered in this run, the line is down or the address wrong: say so soon. A little after
    ``first_byte_seconds``, when it is known whether one of them keeps silent ..."""
    silent_give_up: float = 150.0
    """... which is no dead line: it has its 20, 40 and 60 s, and the rests between them."""
    authority_give_up: float = 8.0
    """Seconds without a byte after which a source is replaced, if others can answer in its place: below the ten
    seconds that users accept, above the five that a resolver's first silent name server costs."""
    unresolved_give_up: float = 1.0
    """Seconds, if no host name resolves, no literal address has a route, and nothing has answered in this run: after
    one more try, within the three seconds that users accept. Not with --give-up-after."""
    longest_step: float = 2.0
    """The engine reads the clock five times a second. A longer step means a stopped process or a suspended machine, and
    counts as this much, because nothing could have made progress in it."""
    awake_seconds: float = 3.0
    """After a sleep of ``stall_seconds`` or more, a connection without a byte for this long is considered dead and
    replaced, and its source is not blamed. A live connection has bytes waiting."""
    lock_retry: float = 0.5
    """How often to look whether another process has let go of a file."""
    wait_for_lock: bool = True
    """--no-wait clears it."""
    solo_failures: int = 3
    """In a refetch from one source after a wrong digest: so many failures without progress, then the next source."""
    one_stream_failures: int = 4
    """Number of streams from 0 without a new byte: a source without ranges that breaks at one offset never gets past
    it, and each try transfers everything before it."""
    speed_half_life: float = 3.0
    """Averages over about as long as a TCP flow needs to settle on a new rate."""
    blocked_seconds: float = 86400.0
    """A mirror that refused us with a page of its own is not contacted for a day: blocks for too many downloads last
    about as long, and further requests prolong some of them."""


DEFAULTS = Policy()
"""The default policy."""
