"""What of several mirrors' indexes stands in the merged one: what two operators state alike, and nothing else."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from resume_dl.errors import IntegrityError, Interrupted
from resume_dl.indexes.merged_index import Merged, MirrorCopy, lacking, write_merged

SHA, OTHER, MD5 = "a" * 64, "b" * 64, "c" * 32
BASE: dict[str, Any] = {
    "name": "app",
    "version": "1.0",
    "build": "0",
    "build_number": 0,
    "depends": ["python"],
    "sha256": SHA,
    "md5": MD5,
    "size": 10,
    "subdir": "linux-64",
}
FILE = "app-1.0-0.conda"


def merge(folder: Path, *indexes: dict[str, Any] | bytes, operators: str = "abc") -> tuple[dict[str, Any], Merged]:
    """The records of ``packages.conda`` of the merged index; ``operators``: a letter for each of ``indexes``."""
    copies = []
    for number, index in enumerate(indexes):
        path = folder / f"{number}.json"
        text = index if isinstance(index, bytes) else json.dumps({"packages.conda": index}).encode()
        path.write_bytes(text)
        copies.append(MirrorCopy(f"m{number}", frozenset(operators[number]), path))
    merged = write_merged(copies, folder / "merged.json", "linux-64")
    written = json.loads((folder / "merged.json").read_bytes())
    assert written["info"] == {"subdir": "linux-64"}
    assert len(written["packages"]) + len(written["packages.conda"]) == merged.records
    return written["packages.conda"], merged


def without(*keys: str, **changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**BASE, **changes}.items() if key not in keys}


def test_records_of_two_operators_are_merged_unchanged(tmp_path: Path) -> None:
    records, merged = merge(tmp_path, {FILE: BASE}, {FILE: BASE})
    assert records == {FILE: BASE}
    assert (merged.records, merged.unstated, merged.contradicted) == (1, 0, ())


def test_key_order_and_whitespace_do_not_matter(tmp_path: Path) -> None:
    other = json.dumps({"packages.conda": {FILE: dict(reversed(BASE.items()))}}, indent=4).encode()
    assert merge(tmp_path, {FILE: BASE}, other)[0] == {FILE: BASE}


@pytest.mark.parametrize(
    "theirs",
    [
        without("sha256"),  # it may be the one that is verified
        without("sha256", "md5"),
        without("md5"),
        without(version="1.1"),
        without(name="appp"),
        without(build="1"),
        without(build_number=1),
        without(depends=["python", "trojan"]),
        without(depends=["python", "pip"]),
        without(constrains=["x"]),
        without(size=11),
        without(subdir="noarch"),
        without(noarch="python"),
        without(track_features="x"),
        without(python_site_packages_path="elsewhere"),
        without(sha256=5),
        without(size=[]),
        without(name=None),
        {},
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_differing_records_are_left_out(tmp_path: Path, theirs: dict[str, Any], first: bool) -> None:
    indexes = [{FILE: theirs}, {FILE: BASE}] if first else [{FILE: BASE}, {FILE: theirs}]
    records, merged = merge(tmp_path, *indexes)
    assert records == {}
    assert (merged.unstated, merged.contradicted) == (1, ())
    assert lacking([merged], ["app"]) == {"app"}


def test_members_that_one_mirror_states_are_left_out_of_a_record(tmp_path: Path) -> None:
    mine = without(license="MIT", timestamp=99_000_000_000_000, url="http://trojan.example/app-1.0-0.conda")
    records, _ = merge(tmp_path, {FILE: mine}, {FILE: without(timestamp=1)})
    assert records == {FILE: BASE}


def test_a_duplicate_key_is_written_once(tmp_path: Path) -> None:
    text = json.dumps({"packages.conda": {FILE: BASE}}).replace('"name"', f'"sha256": "{OTHER}", "name"', 1)
    records, _ = merge(tmp_path, text.encode(), {FILE: BASE})
    assert records == {FILE: BASE}
    assert OTHER not in (tmp_path / "merged.json").read_text()


def test_base_url_of_mirrors_is_ignored(tmp_path: Path) -> None:
    index = {"info": {"subdir": "linux-64", "base_url": "http://trojan.example/"}, "packages.conda": {FILE: BASE}}
    records, _ = merge(tmp_path, json.dumps(index).encode(), {FILE: BASE})
    assert FILE in records


@pytest.mark.parametrize("liar", [0, 1, 2])
def test_a_file_with_conflicting_digests_is_left_out(tmp_path: Path, liar: int) -> None:
    """Two that agree do not outvote a third: ``fetch`` ends with exit code 4 there."""
    indexes: list[dict[str, Any] | bytes] = [{FILE: BASE}] * 3
    indexes[liar] = {FILE: without(sha256=OTHER)}
    records, merged = merge(tmp_path, *indexes)
    assert records == {}
    assert merged.contradicted == (FILE,)


@pytest.mark.parametrize("silent", [0, 1, 2])
def test_two_of_three_are_enough(tmp_path: Path, silent: int) -> None:
    indexes: list[dict[str, Any] | bytes] = [{FILE: BASE}] * 3
    indexes[silent] = {"appp-9.9-0.conda": without(name="appp", version="9.9")}
    records, merged = merge(tmp_path, *indexes)
    assert records == {FILE: BASE}
    assert merged.unstated == 1
    assert lacking([merged], ["app", "appp", "other"]) == {"appp"}


def test_dependencies_are_followed_across_indexes(tmp_path: Path) -> None:
    """The dependencies of records that are agreed on, and theirs; not those of records that one mirror states alone."""

    def index(*records: tuple[str, str]) -> dict[str, Any]:
        return {f"{name}-1.0-0.conda": without(name=name, depends=depends.split(",")) for name, depends in records}

    both = index(("app", "channel::Lib >=1,<2,other"), ("lib", "deep[version='>=1']"))
    first = merge(tmp_path, {**both, **index(("deep", "far"), ("alone", "x"))}, both)[1]
    second = merge(tmp_path, index(("far", "x"), ("other", "x")), index(("other", "x")))[1]
    assert lacking([first, second], ["APP"]) == {"deep"}
    assert lacking([second, first], ["app", "far"]) == {"deep", "far"}
    assert lacking([first, second], []) == frozenset()


def test_two_mirrors_of_one_operator_count_as_one(tmp_path: Path) -> None:
    assert merge(tmp_path, {FILE: BASE}, {FILE: BASE}, operators="aa")[0] == {}
    assert merge(tmp_path, {FILE: BASE}, {FILE: BASE}, {FILE: BASE}, operators="aab")[0] == {FILE: BASE}


def test_the_same_file_in_another_section_is_another_statement(tmp_path: Path) -> None:
    other = json.dumps({"packages": {FILE: BASE}}).encode()
    assert merge(tmp_path, {FILE: BASE}, other)[0] == {}


@pytest.mark.parametrize("name", ["../app-1.0-0.conda", "a/b.conda", "CON.conda", ""])
def test_a_file_name_that_leads_elsewhere_is_left_out(tmp_path: Path, name: str) -> None:
    assert merge(tmp_path, {name: BASE}, {name: BASE})[0] == {}


def test_a_nested_record_makes_its_index_unreadable(tmp_path: Path) -> None:
    deep = b'{"packages.conda":{"%s":%s}}' % (FILE.encode(), b'{"a":' * 100_000 + b"1" + b"}" * 100_000)
    with pytest.raises(IntegrityError, match="m0"):
        merge(tmp_path, deep, {FILE: BASE})


@pytest.mark.parametrize("text", [b"", b"[]", b'{"packages": 5}', b"{", b"\xff"])
def test_an_index_that_cannot_be_read_is_named(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(IntegrityError, match="m1"):
        merge(tmp_path, {FILE: BASE}, text)


def test_many_duplicate_keys_take_linear_time(tmp_path: Path) -> None:
    many = b'{"packages.conda":{' + b",".join([b'"%s":{"a":"%s"}' % (FILE.encode(), b"x" * 80)] * 200_000) + b"}}"
    assert merge(tmp_path, many, {FILE: BASE})[0] == {}


def test_digests_in_another_case_stay_in_the_record(tmp_path: Path) -> None:
    upper = {FILE: without(sha256=SHA.upper(), md5=MD5.upper())}
    for indexes in ([upper, {FILE: BASE}], [{FILE: BASE}, upper], [upper, upper]):
        assert merge(tmp_path, *indexes)[0] == {FILE: BASE}


def test_a_record_without_a_digest_of_its_form_is_left_out(tmp_path: Path) -> None:
    bad = {FILE: without(sha256="a" * 63, md5="x" * 32)}
    assert merge(tmp_path, bad, bad)[0] == {}


@pytest.mark.parametrize("value", [False, 0.0])
def test_a_build_number_of_another_type_is_left_out(tmp_path: Path, value: object) -> None:
    wrong = {FILE: without(build_number=value)}
    for indexes in ([wrong, {FILE: BASE}], [{FILE: BASE}, wrong], [wrong, wrong]):
        assert merge(tmp_path, *indexes)[0] == {}


def test_types_count_within_values_and_for_integers(tmp_path: Path) -> None:
    mine, theirs = without(timestamp=1.0, more={"a": [True]}), without(timestamp=1.0, more={"a": [1]})
    assert merge(tmp_path, {FILE: mine}, {FILE: theirs})[0] == {FILE: BASE}


def test_an_index_of_other_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="m0"):
        merge(tmp_path, b'{"packages.conda":{"1a":0}}', {FILE: BASE})


def test_a_merge_can_be_cancelled(tmp_path: Path) -> None:
    """Mirrors can make it last as long as they like."""
    index = {f"app-{number}-0.conda": {**BASE, "version": f"{number}"} for number in range(5000)}
    copies = []
    for name in "ab":
        (tmp_path / name).write_text(json.dumps({"packages.conda": index}))
        copies.append(MirrorCopy(name, frozenset(name), tmp_path / name))
    asked: list[int] = []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) > 2

    target = tmp_path / "merged.json"
    with pytest.raises(Interrupted):
        write_merged(copies, target, "linux-64", cancelled=cancelled)
    assert 0 < target.read_text().count('"version"') < 5000


def peak(folder: Path, *indexes: bytes) -> tuple[int, str]:
    """Most memory in bytes that a merge took besides maps of files, and its error."""
    copies = []
    for number, text in enumerate(indexes):
        (folder / f"{number}.json").write_bytes(text)
        copies.append(MirrorCopy(f"m{number}", frozenset("abc"[number]), folder / f"{number}.json"))
    said = ""
    tracemalloc.start()
    try:
        write_merged(copies, folder / "merged.json", "linux-64")
    except IntegrityError as error:
        said = error.message
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return most, said


@pytest.mark.parametrize("value", [b"0", b"[]", b'""', b"null"])
def test_the_first_value_that_is_not_a_record_is_refused(tmp_path: Path, value: bytes) -> None:
    """And not once a million of them are in memory."""
    junk = b",".join(b'"%d.conda":%s' % (number, value) for number in range(500_000))
    most, said = peak(tmp_path, b'{"packages.conda":{' + junk + b"}}")
    assert "m0" in said
    assert most < 8 << 20


def test_too_many_records_are_refused_before_they_take_memory(tmp_path: Path) -> None:
    for inside in (b'"1.conda":{},' * 2_000_001, b'"1.conda":{"a":[' + b"{}," * 2_000_001 + b"{}]},"):
        most, said = peak(tmp_path, b'{"packages.conda":{' + inside[:-1] + b"}}")
        assert "2,000,000" in said
        assert most < 8 << 20


def test_more_records_than_the_bytes_can_hold_are_refused_before_they_take_memory(tmp_path: Path) -> None:
    """A megabyte of empty objects would take twelve times as much."""
    inside = b",".join(b'"a%d.conda":{}' % number for number in range(300_000))
    most, said = peak(tmp_path, b'{"packages.conda":{' + inside + b"}}")
    assert "cannot hold 300,001 records" in said
    assert most < 8 << 20


def test_a_record_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """It is left out, and the others are there."""
    record = {**BASE, "license": "x" * (32 << 20)}
    index = json.dumps({"packages.conda": {"app-2.0-0.conda": record, FILE: BASE}}).encode()
    most, said = peak(tmp_path, index, index)
    assert said == ""
    assert most < 8 << 20
    assert [*json.loads((tmp_path / "merged.json").read_bytes())["packages.conda"]] == [FILE]


def test_a_file_name_longer_than_any_file_systems_makes_its_index_unreadable(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="m0"):
        merge(tmp_path, {"a" * 250 + ".conda": BASE}, {FILE: BASE})
