"""A journal on the disk: appended whole, synced where it must be, and rewritten it says what it said before."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from resume_dl.store import journal as jn
from resume_dl.store import journal_file
from resume_dl.store.journal_file import JournalFile, read_journal, remove_journal

ONE, TWO = jn.Written(0, 10, 0, 5), jn.Written(10, 20, 1, 6)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.journal"


@pytest.fixture
def journal(path):
    journal = JournalFile(path)
    journal.rewrite(None)
    yield journal
    journal.close()


def contents(**said):
    return jn.Contents(7, sources={0: "one", 1: "two"}, **said)


def test_reading_a_missing_damaged_or_valid_journal(tmp_path, path):
    """Nothing, or nothing whole: None; a link is refused, not read."""
    assert read_journal(path) is None
    path.write_bytes(b"RDLJ")
    assert read_journal(path) is None
    path.unlink()
    (tmp_path / "theirs").write_bytes(jn.encode_header(1))
    path.symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="link"):
        read_journal(path)


@pytest.mark.parametrize("there", [(), (".journal",), (".new",), (".journal", ".new")])
def test_removal_deletes_the_journal_and_its_replacement(tmp_path, path, there):
    for suffix in there:
        path.with_suffix(suffix).write_bytes(b"x")
    remove_journal(path)
    assert list(tmp_path.iterdir()) == []
    path.mkdir()
    remove_journal(path)  # what may not be removed is no error
    assert path.is_dir()


def test_a_new_journal(journal, path):
    """Its header alone, of its own nonce, open for appending; nothing is left of the temporary file."""
    assert journal.length == jn.HEADER_SIZE == path.stat().st_size
    assert read_journal(path) == jn.Contents(read_journal(path).nonce)
    first = read_journal(path).nonce
    journal.close()
    journal.rewrite(None)
    assert read_journal(path).nonce != first
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "said",
    [
        contents(),
        contents(size=30),
        contents(size=0),
        contents(size=30, validator='"v"', bound_source="two"),
        contents(durable=[ONE, TWO]),
        contents(written=[ONE, TWO]),
        contents(durable=[TWO], written=[ONE]),
    ],
)
def test_a_rewritten_journal_has_the_same_content(journal, path, said):
    """All but the nonce; what comes next uses the old sources' numbers and a new one for a new source."""
    journal.close()
    journal.rewrite(said)
    found = read_journal(path)
    assert journal.length == found.good_length == path.stat().st_size
    said.nonce, said.good_length = found.nonce, found.good_length
    assert found == said
    for start, source in ((40, "two"), (50, "three"), (60, "three")):
        journal.record_written(start, start + 1, 9, source)
    after = read_journal(path)
    assert after.sources == {0: "one", 1: "two", 2: "three"}
    assert [(each.start, each.source) for each in after.written[len(said.written) :]] == [(40, 1), (50, 2), (60, 2)]
    assert after.durable == said.durable


@pytest.mark.parametrize(("validator", "source"), [('"v"', None), (None, "one")])
def test_a_validator_without_its_source_is_not_kept(journal, path, validator, source):
    journal.close()
    journal.rewrite(contents(size=30, validator=validator, bound_source=source))
    journal.record_size(31, validator, source)
    assert (read_journal(path).size, read_journal(path).validator) == (31, None)
    journal.record_size(32, '"v"', "one")
    assert (read_journal(path).validator, read_journal(path).bound_source) == ('"v"', "one")


def test_a_reopened_journal_is_appended_to(journal, path):
    """Appended to what is there, under its nonce and its sources' numbers."""
    journal.record_size(30)
    journal.record_written(0, 10, 5, "one")
    journal.record_written(10, 20, 6, "two")
    journal.close()
    before, said = path.read_bytes(), read_journal(path)
    other = JournalFile(path)
    assert other.length == 0
    other.close()  # nothing is open yet
    other.reopen(said)
    assert other.length == len(before)
    other.record_written(20, 30, 7, "two")
    other.record_written(30, 40, 8, "three")
    other.close()
    found = read_journal(path)
    assert path.read_bytes().startswith(before)
    assert found.sources == {0: "one", 1: "two", 2: "three"}
    assert [(each.start, each.source) for each in found.written] == [(0, 0), (10, 1), (20, 1), (30, 2)]


def test_a_new_journal_names_its_sources_anew(journal, path):
    """What the old one had named is not known to the new one."""
    journal.record_written(0, 10, 5, "one")
    journal.close()
    journal.rewrite(None)
    journal.record_written(0, 10, 5, "one")
    assert read_journal(path).sources == {0: "one"}


def test_which_records_are_synced(journal, path, monkeypatch):
    """Durable, discard and forget are on the disk when they are said, after their bytes; the others need not be."""
    synced = []
    monkeypatch.setattr(journal_file, "sync_fd", lambda fd: synced.append(os.fstat(fd).st_size))
    journal.record_size(30)
    journal.record_written(0, 10, 5, "one")
    mark = journal.length
    journal.record_written(10, 20, 6, "one")
    assert synced == []
    journal.record_durable(mark)
    assert synced == [journal.length]
    assert read_journal(path).durable == [ONE]
    journal.record_forget([(12, 15)], [jn.Written(10, 12, 0, 1), jn.Written(15, 20, 0, 2)])
    assert synced[1:] == [journal.length]
    assert [(each.start, each.end) for each in read_journal(path).written] == [(10, 12), (15, 20)]
    journal.record_discard()
    assert synced[2:] == [journal.length] == [path.stat().st_size]
    assert (read_journal(path).size, read_journal(path).durable, read_journal(path).written) == (None, [], [])


def test_a_record_is_appended_whole_or_not_at_all(journal, path, monkeypatch):
    """A disk that takes a part of it: an error, and the journal is as it was, and goes on."""
    journal.record_size(30)
    before = path.read_bytes()
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:5]))
    with pytest.raises(OSError, match="no space left for the journal") as caught:
        journal.record_size(31)
    assert caught.value.errno == 28
    monkeypatch.undo()
    assert (path.read_bytes(), journal.length) == (before, len(before))
    journal.record_size(32)
    assert read_journal(path).size == 32


def test_no_journal_is_written_through_a_link(tmp_path, path):
    (tmp_path / "theirs").write_bytes(jn.encode_header(1))
    path.symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="link"):
        JournalFile(path).reopen(jn.Contents(1))


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which handles are open")
def test_closing(journal, path):
    """Once and more often; another file that got the same number meanwhile stays open."""
    journal.close()
    handles = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert str(path) not in handles
    with path.open("rb") as other:
        journal.close()
        assert other.read(4) == jn.MAGIC
