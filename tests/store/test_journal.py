"""The journal's bytes: what was said comes back, and nothing that was damaged is believed."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resume_dl.errors import JournalError
from resume_dl.store import journal as jn

DOC = Path(__file__).parents[2] / "docs" / "journal.md"
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
RANGES = st.tuples(st.integers(0, 50), st.integers(1, 50)).map(lambda pair: (pair[0], pair[0] + pair[1]))
WRITTEN = st.one_of(
    st.builds(jn.Written, st.integers(0, 2**63), st.integers(2**63 + 1, 2**64 - 1), st.integers(0, 2**16 - 1), U32),
    RANGES.flatmap(lambda each: st.builds(jn.Written, st.just(each[0]), st.just(each[1]), st.integers(0, 3), U32)),
)


def example() -> bytes:
    """The example of docs/journal.md."""
    block = DOC.read_text(encoding="utf-8").split("### Example")[1].split("```")[1]
    rows = (re.match(r"(?:[0-9a-f]{2}(?: |$))+", line) for line in block.splitlines())
    return b"".join(bytes.fromhex(row[0]) for row in rows if row)


def test_the_example_of_the_documentation():
    """docs/journal.md shows a journal byte by byte: it says what the page says, and it is what we would write."""
    data = example()
    contents = jn.read(data)
    first, second = jn.Written(0, 131072, 0, 0xDEADBEEF), jn.Written(131072, 262144, 0, 0x0BADF00D)
    assert contents == jn.Contents(
        nonce=0x12345678,
        size=300_000,
        sources={0: "tuna"},
        durable=[first],
        written=[second],
        good_length=len(data),
    )
    nonce = contents.nonce
    records = [jn.encode_header(nonce), jn.encode_source(nonce, 0, "tuna"), jn.encode_size(nonce, 300_000)]
    records += [jn.encode_written(nonce, first), jn.encode_durable(nonce, 73), jn.encode_written(nonce, second)]
    assert b"".join(records) == data


def test_each_record_as_the_documentation_says():
    """Kind, length, payload, and a CRC that begins with the nonce."""
    record = jn.encode_validator(7, 3, '"e"')
    body = b'\x03\x05\x00\x03\x00"e"'
    assert record == body + zlib.crc32(body, 7).to_bytes(4, "little")
    assert jn.encode_discard(7)[:3] == b"\x06\x00\x00"


class Model:
    """What a journal must say, kept by the plainest means."""

    def __init__(self, nonce: int) -> None:
        self.nonce = nonce
        self.data = jn.encode_header(nonce)
        self.said: list[tuple[int, str, object]] = []

    def append(self, kind: str, value: object) -> None:
        at = len(self.data)
        if kind == "written":
            self.data += jn.encode_written(self.nonce, value)
        elif kind == "size":
            self.data += jn.encode_size(self.nonce, value)
        elif kind == "source":
            self.data += jn.encode_source(self.nonce, *value)
        elif kind == "validator":
            self.data += jn.encode_validator(self.nonce, *value)
        elif kind == "forget":
            self.data += jn.encode_forget(self.nonce, *value)
        elif kind == "durable":
            # a mark is taken at some moment before its record: any offset up to here
            value = value % (at + 1)
            self.data += jn.encode_durable(self.nonce, value)
        else:
            self.data += jn.encode_discard(self.nonce)
        self.said.append((at, kind, value))

    def expected(self, length: int) -> jn.Contents:
        """What may be believed of the first ``length`` bytes."""
        contents = jn.Contents(self.nonce)
        ends = [*[at for at, _, _ in self.said[1:]], len(self.data)][: len(self.said)]
        written, mark = [], 0
        for (at, kind, value), end in zip(self.said, ends, strict=True):
            if end > length:
                break
            contents.good_length = end
            if kind == "written":
                written.append((at, value))
            elif kind == "durable":
                mark = max(mark, value)
            elif kind == "size":
                contents.size = value
            elif kind == "source":
                contents.sources[value[0]] = value[1]
            elif kind == "validator":
                contents.bound_source, contents.validator = contents.sources.get(value[0]), value[1]
            elif kind == "forget":
                low, high = value
                written = [(at, w) for at, w in written if w.end <= low or w.start >= high]
            else:
                written, mark = [], 0
                contents.size = contents.validator = contents.bound_source = None
        contents.durable = [each for at, each in written if at < mark]
        contents.written = [each for at, each in written if at >= mark]
        return contents


NAMES = st.text(max_size=20)
STEPS = st.one_of(
    st.tuples(st.just("written"), WRITTEN),
    st.tuples(st.just("size"), U64),
    st.tuples(st.just("source"), st.tuples(st.integers(0, 3), NAMES)),
    st.tuples(st.just("validator"), st.tuples(st.integers(0, 3), NAMES)),
    st.tuples(st.just("durable"), st.integers(0, 10_000)),
    st.tuples(st.just("forget"), RANGES),
    st.tuples(st.just("discard"), st.none()),
)


@given(U32, st.lists(STEPS, max_size=12))
def test_round_trip_and_every_truncation(nonce, steps):
    """Cut off anywhere, a journal says what its whole records say, and nothing more."""
    model = Model(nonce)
    for step in steps:
        model.append(*step)
    for length in range(jn.HEADER_SIZE, len(model.data) + 1):
        assert jn.read(model.data[:length]) == model.expected(length)


@pytest.mark.parametrize("length", range(jn.HEADER_SIZE))
def test_a_short_header(length):
    """A journal without a whole header is none."""
    with pytest.raises(ValueError):
        jn.read(jn.encode_header(1)[:length])


@given(U32, st.lists(STEPS, min_size=1, max_size=8), st.integers(1, 255))
def test_any_flipped_byte_is_detected(nonce, steps, mask):
    """Any one damaged byte cuts the journal off before its record; in the header it ends the journal."""
    model = Model(nonce)
    for step in steps:
        model.append(*step)
    starts = [at for at, _, _ in model.said]
    for at in range(len(model.data)):
        damaged = bytearray(model.data)
        damaged[at] ^= mask
        if at < jn.HEADER_SIZE:
            with pytest.raises(ValueError):
                jn.read(bytes(damaged))
            continue
        whole = max(start for start in starts if start <= at)
        assert jn.read(bytes(damaged)) == model.expected(whole)


def test_records_of_another_journal_are_ignored():
    """A block of an older journal behind the end, as a power cut may leave it, is not believed: its nonce differs."""
    mine = jn.encode_header(1) + jn.encode_size(1, 10)
    theirs = jn.encode_written(2, jn.Written(0, 10, 0, 5)) + jn.encode_durable(2, 10_000)
    assert jn.read(mine + theirs) == jn.read(mine)
    assert jn.read(mine + bytes(100)).good_length == len(mine)


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x00\x00",
        b"\x08\x00\x00",
        b"\x07\x00\x00",
        b"\x01\x01\x00\x00",
        b"\x02\x04\x00\x01\x02\x03\x04",
        b"\x03\x00\x00",
        b"\x04\x00\x00",
        b"\x06\x01\x00\x00",
    ],
)
def test_invalid_records_end_the_journal(body):
    """An unknown kind, or a length that its kind does not have, ends the journal though its CRC is right."""
    good = jn.encode_header(9) + jn.encode_size(9, 4)
    strange = body + zlib.crc32(body, 9).to_bytes(4, "little")
    contents = jn.read(good + strange + jn.encode_size(9, 5))
    assert (contents.size, contents.good_length) == (4, len(good))


def test_another_version_is_an_error_of_its_own():
    """A whole header of another version: the user is told, instead of what it describes being thrown away."""
    head = bytearray(jn.encode_header(5)[:12])
    head[4] = 3
    newer = bytes(head) + zlib.crc32(head).to_bytes(4, "little")
    with pytest.raises(JournalError, match="version 3"):
        jn.read(newer + b"whatever it has")


def test_a_mark_holds_for_what_was_recorded_before_it():
    """The record exactly at the mark came after the sync and is not durable; marks never go back."""
    header = jn.encode_header(0)
    one, two = jn.Written(0, 5, 0, 1), jn.Written(5, 9, 0, 2)
    data = header + jn.encode_written(0, one)
    mark = len(data)
    data += jn.encode_written(0, two) + jn.encode_durable(0, mark) + jn.encode_durable(0, 3)
    contents = jn.read(data)
    assert (contents.durable, contents.written) == ([one], [two])


def test_a_mark_from_before_a_discard_covers_nothing_after_it():
    """A sync that was under way while all was discarded makes none of the later records durable."""
    data = jn.encode_header(0) + jn.encode_written(0, jn.Written(0, 5, 0, 1))
    mark = len(data)
    data += jn.encode_discard(0) + jn.encode_durable(0, mark) + jn.encode_written(0, jn.Written(0, 3, 0, 9))
    contents = jn.read(data)
    assert (contents.durable, contents.written) == ([], [jn.Written(0, 3, 0, 9)])
