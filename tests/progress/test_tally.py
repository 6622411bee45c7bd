"""The sums over a run's files are true in whichever way a file comes, is there already, or does not come."""

from __future__ import annotations

import pytest

from progress.telling import MB, artifact, planned, told
from resume_dl.progress.tally import Speed, Tally, percent_of

BIG, SMALL, UNSIZED = artifact("big-1-0.conda", 80 * MB), artifact("small-2-0.conda", 20 * MB), artifact("f.bin", None)


def tally(*files):
    one = Tally()
    one.plan(files)
    return one


def sums(one):
    return (one.done // MB, one.known_total and one.known_total // MB, one.fetched // MB, one.files)


def test_a_fresh_file_counts_as_it_comes():
    """From nothing to all of it; it is a finished file when it is verified, not before."""
    run = tally(*planned(BIG, SMALL))
    assert sums(run) == (0, 100, 0, (0, 2))
    run.add(told(BIG, 40 * MB))
    assert sums(run) == (40, 100, 40, (0, 2))
    run.add(told(BIG, 80 * MB, state="verifying"))
    assert sums(run) == (80, 100, 80, (0, 2))
    run.add(told(BIG, 80 * MB, state="downloaded"))
    assert sums(run) == (80, 100, 80, (1, 2))


def test_bytes_of_a_part_file_count_once():
    """Before its download says a word, when it is checked, and while the rest comes."""
    run = tally(*planned(BIG, here=60 * MB), *planned(SMALL))
    assert sums(run) == (60, 100, 0, (0, 2))
    run.add(told(BIG, 0, state="checking"))
    run.add(told(BIG, 60 * MB, resumed=60 * MB))
    assert sums(run) == (60, 100, 0, (0, 2))
    run.add(told(BIG, 70 * MB, resumed=60 * MB))
    assert sums(run) == (70, 100, 10, (0, 2))
    run.add(told(BIG, 80 * MB, resumed=60 * MB, state="resumed"))
    assert sums(run) == (80, 100, 20, (1, 2))


def test_a_journal_that_is_not_believed_counts_no_more():
    """The plan said what it holds; the download says what of it is true."""
    run = tally(*planned(BIG, here=60 * MB))
    run.add(told(BIG, 10 * MB, resumed=10 * MB))
    assert sums(run) == (10, 80, 0, (0, 1))


def test_a_cached_file_is_finished_from_the_start():
    """Nothing will be told of it."""
    run = tally(*planned(SMALL, here=20 * MB, whole=True), *planned(BIG))
    assert sums(run) == (20, 100, 0, (1, 2))


def test_what_another_process_brought_is_whole_and_no_speed():
    """We had waited for its lock, and had some bytes of our own before."""
    run = tally(*planned(BIG))
    run.add(told(BIG, 0, state="locked"))
    run.add(told(BIG, 0, state="cached"))
    assert sums(run) == (80, 80, 0, (1, 1))


def test_an_adopted_partial_is_there_but_not_fetched():
    """conda's own .partial becomes ours after the plan was told."""
    run = tally(*planned(BIG))
    run.add(told(BIG, 30 * MB, resumed=30 * MB))
    assert sums(run) == (30, 80, 0, (0, 1))


def test_bytes_that_are_forgotten_and_fetched_again_go_down_and_up():
    """What is on disk falls; what came over the line does not, and the second time counts as speed again."""
    run = tally(*planned(BIG))
    run.add(told(BIG, 80 * MB, state="verifying"))
    run.add(told(BIG, 60 * MB))
    assert sums(run) == (60, 80, 80, (0, 1))
    run.add(told(BIG, 80 * MB, state="downloaded"))
    assert sums(run) == (80, 80, 100, (1, 1))


def test_damage_of_an_earlier_run_is_no_speed_until_it_is_mended():
    """Resumed bytes that turn out wrong are no longer resumed ones."""
    run = tally(*planned(BIG, here=60 * MB))
    run.add(told(BIG, 80 * MB, resumed=60 * MB, state="verifying"))
    run.add(told(BIG, 70 * MB, resumed=50 * MB))
    assert sums(run) == (70, 80, 20, (0, 1))
    run.add(told(BIG, 80 * MB, resumed=50 * MB, state="resumed"))
    assert sums(run) == (80, 80, 30, (1, 1))


@pytest.mark.parametrize("state", ["failed", "stopped"])
def test_a_file_that_did_not_come_is_not_finished(state):
    """What is safe of it counts, and no more: not twelve of twelve files at 34 %."""
    run = tally(*planned(BIG, SMALL))
    run.add(told(BIG, 50 * MB))
    run.add(told(BIG, 34 * MB, state=state))
    assert sums(run) == (34, 100, 50, (0, 2))


def test_no_total_is_named_before_all_sizes_are_known():
    """A size that the first answer tells enters the total then."""
    run = tally(*planned(SMALL, UNSIZED))
    run.add(told(UNSIZED, 3 * MB))
    assert (sums(run), run.total, run.unsized) == ((3, None, 3, (0, 2)), 20 * MB, 1)
    run.add(told(UNSIZED, 3 * MB, size=5 * MB))
    assert sums(run) == (3, 25, 3, (0, 2))
    run.add(told(UNSIZED, 5 * MB, size=5 * MB, state="downloaded"))
    assert sums(run) == (5, 25, 5, (1, 2))


def test_a_second_plan_adds_and_replaces():
    """Pip's files come after conda's; a newer index takes files out of the plan, and plans others anew."""
    run = tally(*planned(BIG))
    run.add(told(BIG, 80 * MB, state="failed"))
    newer = artifact("big-1-1.conda", 90 * MB)
    run.plan([*planned(newer, here=80 * MB), *planned(SMALL)], replaces={BIG.key, "never planned"})
    assert sums(run) == (80, 110, 80, (0, 2))
    run.add(told(BIG, 1 * MB))
    run.add(told(newer, 90 * MB, resumed=80 * MB, state="resumed"))
    run.plan(planned(newer, here=90 * MB, whole=True))
    assert sums(run) == (90, 110, 90, (1, 2))


def test_files_outside_of_the_plan_are_not_summed():
    """An index that is read before there is a plan."""
    run = Tally()
    run.add(told(BIG, 5 * MB))
    assert (run.planned, sums(run)) == (False, (0, 0, 0, (0, 0)))


def test_a_hundred_percent_is_said_when_it_is_true():
    """Rounded down; nothing of nothing is all of it, of an unknown total nothing is said."""
    assert [percent_of(done, 1000) for done in (0, 9, 999, 1000, 2000)] == [0, 0, 99, 100, 100]
    assert (percent_of(0, 0), percent_of(5, None)) == (100, None)


def test_speed_is_that_of_the_last_seconds():
    """A line that stalls shows so, and so does one that comes back; a count never makes a speed negative."""
    speed = Speed(7 * MB, 0.0, window=10)
    speed.add(8 * MB, 0.01)
    assert speed.seconds_for(MB) is None
    for second in range(1, 11):
        assert speed.value == (None if second == 1 else MB)
        speed.add(7 * MB + second * MB, second)
    assert speed.value == MB
    assert speed.seconds_for(5 * MB) == 5
    for second in range(11, 31):
        speed.add(0, second)
    assert (speed.value, speed.seconds_for(MB)) == (0, None)
    for tenth in range(301, 401):
        speed.add(17 * MB + (tenth - 300) * MB, tenth / 10)
    assert speed.value == pytest.approx(10 * MB)
