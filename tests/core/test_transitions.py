"""The transition table of one download: drawn as it is, used alone, and without a transition that never happens."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from core.line import Line
from resume_dl.core import actions as act
from resume_dl.core import download as machine
from resume_dl.core import events as ev
from resume_dl.core import transitions
from resume_dl.core.download import Download
from resume_dl.core.policy import MIB, Policy
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.sources import SourceState
from resume_dl.core.transitions import FINAL, TRANSITIONS, State, Trigger, next_state
from resume_dl.errors import InternalError

SIZE = 4 * MIB
FULL = OSError(28, "full")
WRONG = ev.DigestChecked(matches=False, expected="a", actual="b")


def drawn() -> list[tuple[tuple[State, Trigger], State]]:
    """The arrows of the docstring, in order; one without a state on its left belongs to the state above."""
    found, state = [], ""
    for line in (transitions.__doc__ or "").splitlines():
        arrow = re.fullmatch(r"    ([A-Z]*) *--([A-Z_]+)-*> ([A-Z]+)", line)
        if arrow:
            state = arrow[1] or state
            found.append(((State[state], Trigger[arrow[2]]), State[arrow[3]]))
    return found


def test_the_drawing_is_the_table() -> None:
    """Arrow by arrow, in the same order."""
    assert drawn() == list(TRANSITIONS.items())


def test_final_states_are_left_by_nothing() -> None:
    """Every state but those two can be left, and every state but the first is reached."""
    assert {state for state, _ in TRANSITIONS} == set(State) - FINAL
    assert set(TRANSITIONS.values()) == set(State) - {State.QUEUED}


def test_a_transition_that_is_not_declared_is_an_internal_error() -> None:
    """In the table, and for a download that is told of a journal twice."""
    with pytest.raises(InternalError, match="STARTED in DONE"):
        next_state(State.DONE, Trigger.STARTED)
    line = Line(SIZE)
    with pytest.raises(InternalError, match="PREPARED in TRANSFERRING"):
        line.tell(ev.Prepared(size=SIZE))


def test_the_state_changes_at_one_place() -> None:
    """In ``_move``, which asks the table."""
    core = Path(machine.__file__).parent
    stores = [
        (path.name, ast.unparse(node))
        for path in core.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
        and re.match(r"\w+\._?state\b", ast.unparse(node))
    ]
    assert stores == [("download.py", "self._state = next_state(self._state, trigger)")]


# ---------------------------------------------------------------------- each transition happens


def complete(line: Line) -> None:
    """One request brings the whole file."""
    number = max(line.download.connections)
    line.respond(number, validator='"1"')
    line.close(number, SIZE)


def located(*, hosts: str = "ab", suspects: tuple[tuple[int, int], ...] | None = None) -> Line:
    """The digest is wrong, and the format has been asked where."""
    line = Line(SIZE, hosts)
    complete(line)
    line.tell(WRONG)
    line.tell(ev.DamageLocated(suspects))
    return line


def compare(line: Line, *, equal: bool) -> None:
    """Answer every comparison until there is a verdict."""
    before = line.download.done.total
    while line.download.state is State.COMPARING and line.download.done.total == before and line.download.connections:
        number, one = min(line.download.connections.items())
        start, end = one.lease.start, one.end(None)
        line.respond(number)
        line.tell(ev.RangeCompared(number, end, end - start, () if equal else ((start, end),)))
        if number in line.download.connections:
            line.close(number)


def queued() -> None:
    policy = Policy()
    download = Download(
        size=SIZE, sources=[SourceState("a", "a")], budget=Budget(policy), policy=policy, jitter=lambda: 0.5
    )
    assert [type(each) for each in download.handle(ev.Cancelled(), 0.0)] == [act.Fail]


def published() -> None:
    line = Line(SIZE)
    complete(line)
    line.tell(ev.DigestChecked(matches=True))
    line.tell(ev.Published())
    assert line.download.state is State.DONE


def not_published() -> None:
    line = Line(SIZE, digest=False)
    complete(line)
    line.tell(ev.LocalFailed(FULL, publish=True))
    assert line.download.state is State.FAILED


def locked() -> None:
    line = Line(SIZE, prepare=False)
    line.tell(ev.LockBusy("process 7"))
    line.wait()
    line.tell(ev.FoundPublished())
    assert line.download.state is State.DONE


def cancelled_while_locked() -> None:
    line = Line(SIZE, prepare=False)
    line.tell(ev.LockBusy("process 7"))
    line.tell(ev.Cancelled())
    assert line.download.state is State.FAILED


def store_fails() -> None:
    for line in (Line(SIZE, prepare=False), Line(SIZE)):
        line.tell(ev.LocalFailed(FULL))
        for number in list(line.download.connections):
            line.close(number)
        assert line.download.state is State.FAILED


def store_fails_after_the_transfer() -> None:
    verifying = Line(SIZE)
    complete(verifying)
    locating = Line(SIZE)
    complete(locating)
    locating.tell(WRONG)
    for line, before in ((verifying, State.VERIFYING), (locating, State.LOCATING), (located(), State.COMPARING)):
        assert line.download.state is before
        line.tell(ev.LocalFailed(FULL, digest=True))
        for number in list(line.download.connections):
            line.close(number)
        assert line.download.state is State.FAILED


def damaged_on_disk() -> None:
    line = Line(SIZE)
    complete(line)
    line.tell(ev.DigestAdvanced(0, ((0, MIB),)))
    assert line.download.state is State.TRANSFERRING


def cancelled_while_verifying() -> None:
    line = Line(SIZE)
    complete(line)
    line.tell(ev.Cancelled())
    line.tell(WRONG)
    assert line.download.state is State.FAILED


def cancelled_while_comparing() -> None:
    line = located()
    line.tell(ev.Cancelled())
    for number in list(line.download.connections):
        line.close(number)
    assert line.download.state is State.FAILED


def wrong_again() -> None:
    """What one of two sources brought is fetched from the other, and is wrong too."""
    line = located()
    compare(line, equal=False)
    assert line.download.state is State.TRANSFERRING
    complete(line)
    line.tell(WRONG)


def compared_further() -> None:
    """Where the format says that it is damaged the sources agree: then they are compared on all of it."""
    line = located(suspects=((0, MIB),))
    for _ in range(8):
        compare(line, equal=True)
    assert line.download.over


def whole_copies() -> None:
    """Neither source gives ranges."""
    line = Line(SIZE, "ab")
    for source in line.download.sources:
        source.one_stream = True
    complete(line)
    line.tell(WRONG)
    line.tell(ev.DamageLocated(None))
    complete(line)
    line.tell(WRONG)
    assert line.download.over


SCENARIOS: list[Callable[[], None]] = [
    queued,
    published,
    not_published,
    locked,
    cancelled_while_locked,
    store_fails,
    store_fails_after_the_transfer,
    damaged_on_disk,
    cancelled_while_verifying,
    cancelled_while_comparing,
    wrong_again,
    compared_further,
    whole_copies,
]


def test_every_transition_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scenarios above take all of them, so that none is declared in vain."""
    taken = set()

    def spy(state: State, trigger: Trigger) -> State:
        taken.add((state, trigger))
        return next_state(state, trigger)

    monkeypatch.setattr(machine, "next_state", spy)
    for scenario in SCENARIOS:
        scenario()
    assert taken == TRANSITIONS.keys()


def test_a_check_that_was_cut_short_ends_the_download() -> None:
    """The engine does not hash to the end once the run is stopped; what is there is kept."""
    line = Line(SIZE)
    complete(line)
    line.tell(ev.Cancelled())
    assert line.download.state is State.VERIFYING
    line.tell(ev.DigestAdvanced(MIB))
    assert line.download.state is State.FAILED
