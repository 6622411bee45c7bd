"""The states of one download and every transition between them.

``Download`` changes its state by ``next_state`` alone; what is not declared here is an internal error. No state waits
for nothing (invariant 4): QUEUED waits for the session, PREPARING for the store, LOCKED for a timer, TRANSFERRING and
COMPARING for connections, back-off timers or the give-up timer, VERIFYING, LOCATING and PUBLISHING for the store.

::

    QUEUED       --STARTED-------------> PREPARING
                 --ENDED---------------> FAILED
    PREPARING    --PREPARED------------> TRANSFERRING
                 --LOCK_BUSY-----------> LOCKED
                 --FOUND_PUBLISHED-----> DONE
                 --STORE_FAILED--------> TRANSFERRING
    LOCKED       --LOCK_RETRIED--------> PREPARING
                 --ENDED---------------> FAILED
    TRANSFERRING --COMPLETED-----------> VERIFYING
                 --COMPLETED_UNCHECKED-> PUBLISHING
                 --STORE_FAILED--------> TRANSFERRING
                 --ENDED---------------> FAILED
    VERIFYING    --DIGEST_MATCHED------> PUBLISHING
                 --DAMAGED_ON_DISK-----> TRANSFERRING
                 --DIGEST_WRONG--------> LOCATING
                 --COMPARE-------------> COMPARING
                 --RULED---------------> TRANSFERRING
                 --STOPPED-------------> TRANSFERRING
                 --STORE_FAILED--------> TRANSFERRING
    LOCATING     --COMPARE-------------> COMPARING
                 --STORE_FAILED--------> TRANSFERRING
    COMPARING    --COMPARE-------------> COMPARING
                 --RULED---------------> TRANSFERRING
                 --STOPPED-------------> TRANSFERRING
                 --STORE_FAILED--------> TRANSFERRING
    PUBLISHING   --PUBLISHED-----------> DONE
                 --STORE_FAILED--------> TRANSFERRING

A download that is to fail ends in TRANSFERRING, once every connection is closed and no call of the store is under way
(invariant 7): STORE_FAILED, STOPPED and RULED lead there first. DONE and FAILED are final.
"""

from __future__ import annotations

from enum import Enum, auto

from resume_dl.errors import InternalError


class State(Enum):
    """Where a download stands."""

    QUEUED = auto()
    PREPARING = auto()
    LOCKED = auto()
    TRANSFERRING = auto()
    VERIFYING = auto()
    LOCATING = auto()
    COMPARING = auto()
    PUBLISHING = auto()
    DONE = auto()
    FAILED = auto()


class Trigger(Enum):
    """What moves a download from one state to another."""

    STARTED = auto()
    """The session lets it begin."""
    LOCK_BUSY = auto()
    """Another process has the file."""
    LOCK_RETRIED = auto()
    """The lock is asked for again."""
    FOUND_PUBLISHED = auto()
    """Another process has published the file."""
    PREPARED = auto()
    """The lock is held and the journal is read."""
    COMPLETED = auto()
    """Every byte is on disk and every writer has ended."""
    COMPLETED_UNCHECKED = auto()
    """The same, of a file without a digest."""
    DIGEST_MATCHED = auto()
    DAMAGED_ON_DISK = auto()
    """Bytes of an earlier run are not what was recorded: they are fetched again."""
    DIGEST_WRONG = auto()
    """For the first time: the format's own checksums are asked where."""
    COMPARE = auto()
    """Sources are compared, for the first time or further."""
    RULED = auto()
    """Bytes are fetched again, or the download fails."""
    STOPPED = auto()
    """The download fails for another reason, such as a cancellation."""
    STORE_FAILED = auto()
    """A call of the store failed on this machine."""
    PUBLISHED = auto()
    ENDED = auto()
    """The download fails."""


FINAL = frozenset({State.DONE, State.FAILED})

TRANSITIONS: dict[tuple[State, Trigger], State] = {
    (State.QUEUED, Trigger.STARTED): State.PREPARING,
    (State.QUEUED, Trigger.ENDED): State.FAILED,
    (State.PREPARING, Trigger.PREPARED): State.TRANSFERRING,
    (State.PREPARING, Trigger.LOCK_BUSY): State.LOCKED,
    (State.PREPARING, Trigger.FOUND_PUBLISHED): State.DONE,
    (State.PREPARING, Trigger.STORE_FAILED): State.TRANSFERRING,
    (State.LOCKED, Trigger.LOCK_RETRIED): State.PREPARING,
    (State.LOCKED, Trigger.ENDED): State.FAILED,
    (State.TRANSFERRING, Trigger.COMPLETED): State.VERIFYING,
    (State.TRANSFERRING, Trigger.COMPLETED_UNCHECKED): State.PUBLISHING,
    (State.TRANSFERRING, Trigger.STORE_FAILED): State.TRANSFERRING,
    (State.TRANSFERRING, Trigger.ENDED): State.FAILED,
    (State.VERIFYING, Trigger.DIGEST_MATCHED): State.PUBLISHING,
    (State.VERIFYING, Trigger.DAMAGED_ON_DISK): State.TRANSFERRING,
    (State.VERIFYING, Trigger.DIGEST_WRONG): State.LOCATING,
    (State.VERIFYING, Trigger.COMPARE): State.COMPARING,
    (State.VERIFYING, Trigger.RULED): State.TRANSFERRING,
    (State.VERIFYING, Trigger.STOPPED): State.TRANSFERRING,
    (State.VERIFYING, Trigger.STORE_FAILED): State.TRANSFERRING,
    (State.LOCATING, Trigger.COMPARE): State.COMPARING,
    (State.LOCATING, Trigger.STORE_FAILED): State.TRANSFERRING,
    (State.COMPARING, Trigger.COMPARE): State.COMPARING,
    (State.COMPARING, Trigger.RULED): State.TRANSFERRING,
    (State.COMPARING, Trigger.STOPPED): State.TRANSFERRING,
    (State.COMPARING, Trigger.STORE_FAILED): State.TRANSFERRING,
    (State.PUBLISHING, Trigger.PUBLISHED): State.DONE,
    (State.PUBLISHING, Trigger.STORE_FAILED): State.TRANSFERRING,
}


def next_state(state: State, trigger: Trigger) -> State:
    """The state that ``trigger`` leads to from ``state``. Raises InternalError for an undeclared one."""
    try:
        return TRANSITIONS[state, trigger]
    except KeyError:
        raise InternalError(f"internal error: {trigger.name} in {state.name}") from None
