"""Sources in a journal: named before they are used, whatever failed between, and by their whole name."""

from __future__ import annotations

import errno
import sys

import pytest

from resume_dl.store import journal as jn
from resume_dl.store.journal_file import JournalFile, read_journal

if sys.platform != "win32":
    import resource

LONG = "https://mirror.example/" + "a" * 1010


@pytest.fixture
def journal(tmp_path):
    journal = JournalFile(tmp_path / "x.journal")
    journal.rewrite(None)
    yield journal
    journal.close()


@pytest.mark.skipif(sys.platform == "win32", reason="a limit for the size of files")
@pytest.mark.parametrize("room", [0, 5])
def test_a_source_that_could_not_be_recorded_is_recorded_later(journal, room):
    """The disk is full as a source is named, with no byte left or a few; once there is room its records name it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (journal.length + room, before[1]))
    try:
        with pytest.raises(OSError, match=r".") as caught:
            journal.record_written(0, 10, 1, "tuna")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.errno in {errno.EFBIG, errno.ENOSPC}
    journal.record_written(10, 20, 2, "ustc")
    journal.record_written(0, 10, 1, "tuna")
    contents = read_journal(journal.path)
    assert [(each.start, contents.sources[each.source]) for each in contents.written] == [(10, "ustc"), (0, "tuna")]


@pytest.mark.parametrize("ends", [("1", "2"), ("1", "1")])
def test_long_source_names_that_differ_in_the_last_byte_are_distinct(journal, ends):
    """Two addresses that differ only beyond their first kilobyte are two sources, in this run and the next."""
    names = [LONG + end for end in ends]
    for number, name in enumerate(names):
        journal.record_written(number, number + 1, 1, name)
    contents = read_journal(journal.path)
    assert [contents.sources[each.source] for each in contents.written] == names
    journal.close()
    journal.rewrite(contents)
    assert list(read_journal(journal.path).sources.values()) == list(dict.fromkeys(names))


def test_a_validator_is_kept_complete_or_not_at_all(journal):
    """A long address and its validator come back as they were; what no record can hold binds nothing."""
    journal.record_size(100, '"' + "v" * 3000 + '"', LONG * 3)
    contents = read_journal(journal.path)
    assert (contents.validator, contents.bound_source) == ('"' + "v" * 3000 + '"', LONG * 3)
    for validator, source in (('"v"', LONG * 100), ('"' + "v" * jn.MOST_TEXT, LONG)):
        journal.close()
        journal.rewrite(None)
        journal.record_size(100, validator, source)
        contents = read_journal(journal.path)
        assert (contents.size, contents.validator, contents.bound_source) == (100, None, None)
        journal.record_written(0, 1, 1, source)
        assert len(read_journal(journal.path).written) == 1
