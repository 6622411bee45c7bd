"""What goes on from bytes of an answer that broke off, and when such bytes are forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.file_prefix import LEAST_PROGRESS, Beginning, FilePrefix

WRONG = Failure(FailureKind.CONTENT, "other bytes")
AGAIN = Failure(FailureKind.CHANGED, "other bytes")
SOME = b"x" * LEAST_PROGRESS


def test_the_first_answer_is_the_whole_file():
    assert FilePrefix().beginning("a") == Beginning("a")


def test_any_source_goes_on_from_the_longest_prefix():
    prefix = FilePrefix()
    begun = prefix.beginning("a")
    assert prefix.broke(begun, SOME)
    assert not prefix.broke(prefix.beginning("b").from_zero(), b"y")
    assert prefix.beginning("b") == Beginning("b", SOME)


def test_few_bytes_are_kept_and_are_no_progress():
    """Otherwise one byte an answer would keep a source in use for ever."""
    prefix = FilePrefix()
    assert not prefix.broke(prefix.beginning("a"), SOME[1:])
    assert prefix.beginning("a").data == SOME[1:]
    assert not prefix.broke(prefix.beginning("a"), SOME[1:])


def test_joined_bytes_that_are_wrong_accuse_no_source():
    """Then each goes on from its own; one whose own do not fit either is asked for the whole file."""
    prefix = FilePrefix()
    prefix.broke(prefix.beginning("a"), SOME)
    both = [prefix.beginning("b"), prefix.beginning("a")]
    assert [prefix.wrong(begun, WRONG) for begun in both] == [AGAIN, AGAIN]
    assert prefix.beginning("b") == Beginning("b", b"", apart=True)
    prefix.broke(prefix.beginning("b"), SOME)
    assert prefix.beginning("a").data == b""
    assert prefix.beginning("b").data == SOME
    assert prefix.wrong(prefix.beginning("b"), WRONG) == AGAIN
    assert prefix.beginning("b").data == b""
    assert prefix.wrong(prefix.beginning("b"), WRONG) == WRONG


def test_the_second_of_two_answers_forgets_nothing_that_came_since():
    prefix = FilePrefix()
    prefix.broke(prefix.beginning("a"), SOME)
    late = prefix.beginning("b")
    prefix.wrong(prefix.beginning("a"), WRONG)
    prefix.broke(prefix.beginning("a"), SOME)
    assert prefix.wrong(late, WRONG) == AGAIN
    assert prefix.beginning("a").data == SOME
    assert not prefix.broke(late, SOME * 2)
    assert prefix.beginning("b").data == b""


@pytest.mark.parametrize("kind", [FailureKind.RANGE_WRONG, FailureKind.RANGE_IGNORED])
def test_a_source_that_cannot_go_on_is_asked_for_the_whole_file(kind):
    prefix = FilePrefix()
    prefix.broke(prefix.beginning("a"), SOME)
    failure = Failure(kind, "other bytes")
    assert prefix.refused(prefix.beginning("a"), failure) == AGAIN
    assert prefix.beginning("a").data == b""
    assert prefix.beginning("b").data == SOME
    assert prefix.refused(prefix.beginning("a"), failure) == failure


def test_other_refusals_mean_what_they_mean():
    prefix = FilePrefix()
    prefix.broke(prefix.beginning("a"), SOME)
    lacks = Failure(FailureKind.LACKS, "404")
    assert prefix.refused(prefix.beginning("a"), lacks) == lacks
    assert prefix.beginning("a").data == SOME


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3 * LEAST_PROGRESS), st.booleans()), max_size=60))
def test_a_small_download_ends_whatever_sources_answer(answers):
    """Progress is made so often as the largest size allows, and no source can be told to begin again for ever."""
    largest, prefix = 6 * LEAST_PROGRESS, FilePrefix()
    again = progress = 0
    for source, more, lies in answers:
        begun = prefix.beginning(source)
        data = begun.data + b"x" * more
        if lies or len(data) > largest:
            again += prefix.wrong(begun, WRONG).kind is FailureKind.CHANGED
        else:
            progress += prefix.broke(begun, data)
    assert again <= 1 + 3
    assert progress <= (1 + 3 + 3) * largest // LEAST_PROGRESS
