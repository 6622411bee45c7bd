"""After a wrong digest: a source that has not answered in this run holds up no verdict, and is the last to be asked.

Times are the injected clock's: answers cost nothing here, so each second is one that was waited.
"""

from __future__ import annotations

import pytest

from core.line import Line
from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import MIB, Policy
from resume_dl.core.scheduling.budget import Budget

HONEST, LIAR, SILENT, NO_RANGES = "honest", "liar", "silent", "no ranges"
FIRST_ANSWER = Policy().first_answer_seconds


class Trial:
    """A download from sources that are honest, lie each in its own way, or keep silent."""

    def __init__(self, *kinds: str, size: int = MIB, policy: Policy | None = None) -> None:
        self.kinds = kinds
        policy = policy or Policy()
        self.budget = Budget(policy)
        self.line = Line(
            size, [f"{number}-{kind}" for number, kind in enumerate(kinds)], policy=policy, budget=self.budget
        )
        self.answers_from: dict[int, float] = {}
        """Source -> when it begins to answer."""

    def truth(self, source: int) -> int:
        return source if self.kinds[source] == LIAR else -1

    def play(self) -> act.Action:
        """Up to the end, which is returned."""
        seen = 0
        while not self.line.download.over:
            before = len(self.line.log)
            for action in self.line.log[seen:before]:
                self._carry_out(action)
            seen = before
            if self.line.download.over:
                break
            if len(self.line.log) == before and not self._serve():
                self.line.keep(self.line.download.fill(self.line.now, help_out=True))  # as the session does
                if len(self.line.log) == before:
                    self._wait()
        return self.line.log[-1]

    def _wait(self) -> None:
        """Until the next timer, or until a source begins to answer."""
        later = [at for at in self.answers_from.values() if at > self.line.now]
        if later and min(later) < self.line.download.next_deadline():
            self.line.now = min(later)
        else:
            self.line.wait()

    def _carry_out(self, action: act.Action) -> None:
        line = self.line
        if isinstance(action, act.CheckDigest):
            owners = line.download._coverage.owners()
            good = all(self.truth(owner) < 0 for owner, ranges in owners.items() if ranges)
            line.tell(ev.DigestChecked(matches=good, expected="good", actual=f"bad of {sorted(owners)}"))
        elif isinstance(action, act.LocateDamage):
            line.tell(ev.DamageLocated(None))
        elif isinstance(action, act.Publish):
            line.tell(ev.Published())
        elif isinstance(action, act.SyncData):
            line.tell(ev.DataSynced(1))
        elif isinstance(action, act.AdvanceDigest):
            line.tell(ev.DigestAdvanced(action.upto))
        elif isinstance(action, act.CloseConnection) and action.connection in line.download.connections:
            line.close(action.connection)

    def _serve(self) -> bool:
        """Let one connection come to its end; False where all wait for silent sources."""
        line = self.line
        for number, one in list(line.download.connections.items()):
            kind = self.kinds[one.source]
            if kind == SILENT and line.now < self.answers_from.get(one.source, float("inf")):
                continue
            end = one.lease.end or line.download.size or 0
            if kind == NO_RANGES and not one.lease.whole:
                line.close(number, kind=FailureKind.RANGE_IGNORED)
                return True
            line.respond(number)
            if one.mode is act.Mode.COMPARE:
                owners = line.download._coverage.owners()
                differing = tuple(
                    piece
                    for owner, ranges in owners.items()
                    if self.truth(owner) != self.truth(one.source)
                    for piece in ranges.within(one.lease.start, end)
                )
                line.tell(ev.RangeCompared(number, end, end - one.lease.start, differing))
            if number in line.download.connections:
                line.close(number, end)
            return True
        return False


def test_a_healthy_mirror_goes_on_without_the_silent_one() -> None:
    trial = Trial(LIAR, SILENT, HONEST)
    assert isinstance(trial.play(), act.Finish)
    assert trial.line.now <= FIRST_ANSWER, "the silent one is asked once, and waited for no longer than a turn"
    assert [source.quarantined for source in trial.line.download.sources] == [True, False, False]


def test_one_that_was_waited_for_before_is_not_waited_for_again() -> None:
    trial = Trial(LIAR, SILENT, HONEST)
    trial.budget.failed("1-silent", 0.0, rests_until=0.0)
    assert isinstance(trial.play(), act.Finish)
    assert trial.line.now == 0.0


def test_it_is_asked_where_all_others_are_spent() -> None:
    """With the patience that a source always has; the line says what became of each."""
    trial = Trial(LIAR, SILENT)
    fail = trial.play()
    assert isinstance(fail, act.Fail)
    assert Policy().first_byte_seconds < trial.line.now <= FIRST_ANSWER + Policy().silent_give_up + 1.0
    told = dict(fail.causes)
    assert told[0] == Failure(FailureKind.LIED, "gave wrong bytes")
    assert told[1].kind is FailureKind.STALLED
    assert "s" in told[1].message


def test_it_may_answer_in_the_end() -> None:
    trial = Trial(LIAR, SILENT, LIAR)
    trial.answers_from[1] = 60.0
    assert isinstance(trial.play(), act.Finish)
    assert [source.quarantined for source in trial.line.download.sources] == [True, False, True]
    assert trial.line.download.kept_of(1) == MIB


def test_a_guess_that_was_wrong_blames_no_source_that_said_nothing() -> None:
    """Two contradict each other and both are wrong; the third has only been silent so far."""
    trial = Trial(LIAR, LIAR, SILENT, size=20 * MIB, policy=Policy(per_host=1))
    trial.answers_from[2] = 90.0
    assert isinstance(trial.play(), act.Finish)
    assert not trial.line.download.sources[2].quarantined


def test_whole_copies_in_turn_begin_with_those_that_answer() -> None:
    """Sources without ranges cannot be compared: each has the file alone, the silent one last."""
    trial = Trial(LIAR, SILENT, NO_RANGES)
    assert isinstance(trial.play(), act.Finish)
    assert trial.line.now <= FIRST_ANSWER + 1.0


@pytest.mark.parametrize(
    "kinds", [(LIAR, SILENT, HONEST, HONEST), (SILENT, LIAR, HONEST), (LIAR, HONEST, SILENT, SILENT)]
)
@pytest.mark.parametrize("size", [MIB, 30 * MIB])
def test_a_silent_source_at_any_place_delays_the_repair_briefly(kinds: tuple[str, ...], size: int) -> None:
    trial = Trial(*kinds, size=size)
    assert isinstance(trial.play(), act.Finish)
    assert trial.line.now <= 3 * FIRST_ANSWER
