"""Every number the core decides by, in one place, each with why. All injectable, so that tests need no real minutes."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Sizes in bytes, times in seconds."""

    connections: int = 8
    """In all: more brings nothing on lines people have, and loads mirrors that block for it."""
    per_host: int = 2
    """TUNA blocks subnets after repeated large downloads with many connections; its help page asks for few."""
    per_host_is_explicit: bool = False
    """The user's own --per-host wins over a mirror's ``connections``; the default does not."""
    files_in_flight: int = 8
    """No more files than connections: a file without a connection only grows stale time-outs."""

    piece_size: int = MIB
    """Leases end on multiples of this, so that ranges stay few."""
    small_file: int = 8 * MIB
    """Below this one request without a Range: the second connection's handshake costs more than it brings."""
    journal_from: int = MIB
    """Below this a lost file costs less than a journal's syncs."""
    first_segment: int = 4 * MIB
    """A first lease on a connection whose speed is unknown: long enough to measure it, short enough to be re-cut."""
    segment_seconds: float = 10.0
    """A lease lasts this long at its connection's speed: requests stay rare, and the tail of a file short."""
    window: int = 128 * MIB
    """Leases stay this close above the lowest unfinished byte: sha256 is sequential and follows behind."""

    sync_bytes: int = 16 * MIB
    sync_seconds: float = 2.0
    """A power cut costs at most this much; syncing more often slows slow disks for nothing."""

    stall_seconds: float = 10.0
    """A connection that brings no byte for so long is replaced, also where there is one source only."""
    first_byte_seconds: float = 20.0
    """Connect (5) and first byte (15) together; the transport's own time-outs are shorter, this is the net below."""
    backoff_first: float = 0.5
    backoff_most: float = 30.0
    """Full jitter between 0 and min(most, first * 2**failures): spreads clients that were cut off together."""
    retry_after_most: float = 120.0
    """A server's Retry-After is kept, but not beyond this: another hour's wait is the user's decision."""
    give_up_after: float = 600.0
    """Without progress; everything stays resumable."""
    unreached_give_up: float = 20.0
    """When no source ever answered in this run, the line is down or the address wrong: say so soon."""
    lock_retry: float = 0.5
    """How often to look whether another process has let go of a file."""
    wait_for_lock: bool = True
    """--no-wait clears it."""
    solo_failures: int = 3
    """In a refetch from one source after a wrong digest: so many failures without progress, then the next source."""
    one_stream_failures: int = 8
    """So many streams from 0 without one new byte: a source without ranges that breaks at one place never gets past
    it, and each try costs the line all that lies before."""
    speed_half_life: float = 3.0
    """Averages over about as long as a TCP flow needs to settle on a new rate."""
