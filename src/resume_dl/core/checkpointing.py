"""Work on a file during its transfer: syncing its data, and hashing finished bytes."""

from __future__ import annotations

import math

from resume_dl.core.actions import AdvanceDigest, CheckDigest, LocateDamage, RecordProgress, SyncData
from resume_dl.core.policy import Policy
from resume_dl.core.ranges import RangeSet


class Checkpointing:
    """One sync and one call on the digest at a time.

    ``journaled``: the file has a journal, so that syncs are of use; ``by_digest``: there is a digest to compute.
    """

    def __init__(self, policy: Policy, *, journaled: bool, by_digest: bool) -> None:
        self._policy = policy
        self._journaled = journaled
        self._by_digest = by_digest
        self.syncing = False
        self.digesting = False
        self._synced_at = 0.0
        self._unsynced = 0
        self._digested = 0

    def begin(self, now: float) -> None:
        """The file is open."""
        self._synced_at = now

    def gained(self, count: int) -> None:
        """So many new bytes were written."""
        self._unsynced += count

    # ------------------------------------------------------------------ syncs

    def sync_deadline(self) -> float:
        """When the next sync is due; infinity if there is nothing to sync, or a sync is in progress."""
        if not self._unsynced or self.syncing or not self._journaled:
            return math.inf
        many = self._unsynced >= self._policy.sync_bytes
        return self._synced_at + (self._policy.sync_least_seconds if many else self._policy.sync_seconds)

    def sync_if_due(self, now: float) -> list[SyncData]:
        """Request a sync once enough bytes or enough time have accumulated."""
        if now < self.sync_deadline():
            return []
        self.syncing = True
        self._unsynced = 0
        return [SyncData()]

    def synced(self, mark: int, now: float) -> RecordProgress:
        """The data of every record before ``mark`` is on the disk."""
        self.syncing = False
        self._synced_at = now
        return RecordProgress(mark)

    # ------------------------------------------------------------------ the digest

    def digest_if_due(self, done: RangeSet) -> list[AdvanceDigest]:
        """Hash on when enough of the file is finished from the start."""
        if self.digesting or not self._by_digest:
            return []
        frontier = done.first_gap() if done.covers(0, 1) else 0
        if frontier - self._digested < self._policy.digest_step:
            return []
        self.digesting = True
        return [AdvanceDigest(min(frontier, self._digested + self._policy.digest_most))]

    def check_digest(self) -> CheckDigest:
        """Hash the rest of a complete file; no call on the digest is under way."""
        self.digesting = True
        return CheckDigest()

    def locate_damage(self) -> LocateDamage:
        """Locate the damage in a complete file; no call on the digest is in progress."""
        self.digesting = True
        return LocateDamage()

    def digest_stands_at(self, position: int) -> None:
        """The digest covers ``[0, position)``."""
        self._digested = position

    def forgot(self, lowest: int) -> None:
        """Move the digest back before ``lowest``, from which on bytes were forgotten."""
        self._digested = min(self._digested, lowest)

    def discarded(self) -> None:
        """Nothing is on disk."""
        self._unsynced = self._digested = 0
