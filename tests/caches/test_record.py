"""``repodata_record.json``: conda's rules, field by field; and what others wrote, read without trust."""

from __future__ import annotations

import os

import pytest

from resume_dl.caches.conda import record
from resume_dl.caches.conda.record import (
    INDEX,
    RECORD,
    channel_of,
    check_fields,
    client_url,
    read_info,
    read_json,
    read_lines,
    record_bytes,
    repodata_record,
    without_credentials,
    write_record,
)
from resume_dl.errors import IntegrityError
from resume_dl.model.url import RedactedUrl
from store.packages import ARCHIVE, URL, package, unpack
from store.packages import INDEX as ARCHIVES_INDEX

CHANNELS = {**ARCHIVES_INDEX, "md5": "1" * 32}


def record_of(channels=None, index=None):
    return repodata_record(package(record={**CHANNELS, **(channels or {})}), {**ARCHIVES_INDEX, **(index or {})})


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("https://h/c/noarch/a.conda", "https://h/c/noarch/a.conda"),
        ("https://me:secret@h:8080/c/a.conda", "https://h:8080/c/a.conda"),
        ("https://h/t/tk-1/c/a.conda", "https://h/c/a.conda"),
        ("https://h/t/one/t/two/a.conda", "https://h/t/two/a.conda"),
        ("https://h/c/a.conda?x=1#part", "https://h/c/a.conda?x=1"),
    ],
)
def test_addresses_without_credentials(url, plain):
    assert without_credentials(url) == plain
    assert channel_of(url) == plain.rpartition("/")[0]


def test_the_clients_url_is_preferred_to_the_canonical_one():
    other = RedactedUrl("https://me:secret@mirror.example/c/noarch/a-1-0.conda")
    assert client_url(package()) == URL
    assert client_url(package(client_url=other)) == "https://mirror.example/c/noarch/a-1-0.conda"


@pytest.mark.parametrize(
    ("channels", "index", "expected"),
    [
        ({}, {}, {"md5": "1" * 32, "depends": [], "constrains": [], "fn": "a-1-0.conda", "url": URL}),
        ({}, {}, {"channel": "https://example.org/c/noarch", "build_number": 0}),
        ({"build_number": 7}, {"build_number": 8}, {"build_number": 7}),
        ({"depends": ["b"]}, {"depends": ["c"]}, {"depends": ["b"]}),
        ({"constrains": ["b"], "depends": None}, {}, {"constrains": ["b"], "depends": []}),
        ({"license": None}, {"license": "MIT"}, {"license": "MIT"}),
        ({"license": "BSD"}, {"license": "MIT"}, {"license": "BSD"}),
        ({"license": ""}, {"license": "MIT"}, {"license": ""}),  # an empty text says something
        ({"track_features": "a b,c"}, {}, {"track_features": "a b c"}),
        ({"features": ["x", " y "]}, {}, {"features": "x y"}),
        ({"features": ", "}, {"features": "z"}, {"features": None}),
        ({"timestamp": 1609459200}, {}, {"timestamp": 1609459200000}),
        ({"timestamp": 1609459200123}, {}, {"timestamp": 1609459200123}),
        ({"timestamp": 253402300799}, {}, {"timestamp": 253402300799000}),
        ({"timestamp": 253402300800}, {}, {"timestamp": 253402300800}),
        ({"timestamp": 1.5}, {}, {"timestamp": 1500}),
        ({"timestamp": 0}, {"timestamp": 5}, {"timestamp": None}),
        ({"flags": ["f"]}, {}, {"flags": ["f"]}),
        ({"flags": []}, {}, {"flags": None}),
        ({"noarch": "python"}, {}, {"noarch": "python", "package_type": "noarch_python"}),
        ({"noarch": "Generic"}, {}, {"noarch": "generic", "package_type": "noarch_generic"}),
        ({"noarch": True}, {}, {"noarch": "generic"}),
        ({"noarch": False}, {"noarch": "python"}, {"noarch": "python"}),
        ({"noarch": "other"}, {}, {"noarch": None, "package_type": None}),
    ],
)
def test_fields(channels, index, expected):
    """The channel's word goes before the archive's, a null says nothing, defaults are left out."""
    record = record_of(channels, index)
    assert {name: record.get(name) for name in expected} == expected
    assert record.keys() >= {"name", "version", "build", "build_number", "subdir", "depends", "constrains"}


def test_without_a_channel_record_the_archives_index_and_digests_are_used():
    """Its own index, with the digests that were verified and not with what it says of itself."""
    index = {**ARCHIVES_INDEX, "depends": ["b"], "sha256": "0" * 64, "license": "MIT"}
    record = repodata_record(package(md5=None), index)
    assert (record["sha256"], record["size"]) == (package().sha256, len(ARCHIVE))
    assert (record["depends"], record["license"]) == (["b"], "MIT")
    assert "md5" not in record


def test_a_required_field_that_is_in_neither():
    short = {name: value for name, value in ARCHIVES_INDEX.items() if name != "version"}
    with pytest.raises(KeyError, match="version"):
        repodata_record(package(record=dict(short, md5="1" * 32)), short)
    assert repodata_record(package(record=dict(short, md5="1" * 32)), ARCHIVES_INDEX)["version"] == "1"


@pytest.mark.parametrize(
    ("field", "right", "wrong"),
    [
        ("name", ["a", ""], [5, ["a"], True]),
        ("sha256", ["0"], [0]),
        ("build_number", [0, 5], [-1, 1.5, "1", True, 1 << 60, [1]]),
        ("size", [0, (1 << 60) - 1], [-1, 1 << 60, float("nan"), None.__class__]),
        ("timestamp", [0, -5, 1.5], ["2020-01-01", float("nan"), float("inf"), -(1 << 60), 1 << 60, True]),
        ("indexed_timestamp", [1], ["1"]),
        ("depends", [[], ["a"], ("a",)], [5, "a", ["a", 5], {"a": 1}]),
        ("flags", [["a"]], ["a"]),
        ("features", ["a", ["a"]], [5, [5]]),
        ("noarch", ["python", True, False], [5, ["python"]]),
        ("anything", [object()], []),
    ],
)
def test_each_field_has_its_type(field, right, wrong):
    """A null and what is right passes; what is wrong is refused with the field and where it stands."""
    for value in [None, *right]:
        check_fields({field: value}, "x")
    for value in wrong:
        with pytest.raises(IntegrityError, match=f"the index is malformed: '{field}' is not a") as caught:
            check_fields({field: value}, "the index")
        assert "another build" in caught.value.hint


def test_both_sides_of_a_record_are_checked():
    for channels, index, said in (({"depends": 5}, {}, "channel's index"), ({}, {"depends": 5}, "its own info")):
        with pytest.raises(IntegrityError, match=said):
            record_of(channels, index)


def test_bytes_of_a_record():
    """Sorted, two spaces, ASCII: as conda 24 writes it."""
    assert record_bytes({"b": "ü", "a": [1]}) == b'{\n  "a": [\n    1\n  ],\n  "b": "\\u00fc"\n}'


@pytest.mark.parametrize("text", ["", "[]", "5", "{", "\udcff", "[" * 100_000])
def test_json_that_is_not_an_object_is_ignored(tmp_path, text):
    """Empty, damaged, too deep, a list: None, as where there is no file."""
    folder = unpack(tmp_path / "a")
    (folder / INDEX).write_bytes(text.encode("utf-8", "surrogateescape"))
    assert read_info(folder, INDEX) is None
    assert read_json(folder / INDEX) is None
    assert read_info(folder, RECORD) is None
    assert read_json(folder / RECORD) is None


def test_what_is_an_object_is_read(tmp_path):
    folder = unpack(tmp_path / "a", listed=False)
    assert read_info(folder, INDEX) == read_json(folder / INDEX) == ARCHIVES_INDEX
    assert read_lines(folder, record.FILES) == ["lib/a.py", "lib/b.py", ""]
    (folder / "info/files").write_bytes(b"\xff")
    assert read_lines(folder, record.FILES) is None
    (folder / "info/files").unlink()
    assert read_lines(folder, record.FILES) is None


def test_no_link_of_a_package_is_read_or_written_through(tmp_path):
    """A link in place of a file is replaced, one in place of ``info`` refused."""
    folder, theirs = unpack(tmp_path / "a"), tmp_path / "theirs"
    theirs.write_text('{"x": 1}')
    (folder / RECORD).symlink_to(theirs)
    assert read_info(folder, RECORD) is None
    assert read_json(folder / RECORD) is None
    for sync in (True, False):
        write_record(folder, {"a": 1}, sync=sync)
        assert read_info(folder, RECORD) == {"a": 1}
    assert theirs.read_text() == '{"x": 1}'
    (folder / "info").rename(tmp_path / "info")
    (folder / "info").symlink_to(tmp_path / "info")
    assert read_info(folder, INDEX) is None
    with pytest.raises(OSError, match="info"):
        write_record(folder, {"a": 2}, sync=False)


@pytest.mark.parametrize("sync", [True, False])
def test_a_record_is_synced_where_that_is_asked(tmp_path, monkeypatch, sync):
    """Many records go to the disk by one call afterwards, a single one by its own."""
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    write_record(unpack(tmp_path / "a"), {"a": 1}, sync=sync)
    assert bool(synced) is sync
