"""The original records of chosen archives in a repodata.json: which are found, and how often it looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from resume_dl.rattler_worker.raw_repodata import RawRepodata

WANTED = {"name": "a", "version": "1", "build": "0", "sha256": "11", "md5": None}


def record(**more: Any) -> dict[str, Any]:
    return {"name": "a", "version": "1", "build": "0", "sha256": "11", **more}


def found(path: Path, text: str, *filenames: str) -> dict[str, dict[str, Any]]:
    path.write_text(text, encoding="utf-8")
    with RawRepodata(path, ("here", "noarch")) as raw:
        return raw.records(dict.fromkeys(filenames, WANTED))


def test_all_records_are_found_in_one_pass_and_mismatches_are_left_out(tmp_path: Path) -> None:
    archives = {f"a-{number}.conda": record(number=number) for number in range(50)}
    archives["a-7.conda"]["sha256"] = "22"
    text = json.dumps({"packages": {"a-1.tar.bz2": record(number=-1)}, "packages.conda": archives}, indent=1)
    records = found(tmp_path / "repodata.json", text, *archives, "missing-1.conda", "a-1.tar.bz2")
    assert records == {name: each for name, each in archives.items() if name != "a-7.conda"} | {
        "a-1.tar.bz2": record(number=-1)
    }


def test_a_signature_under_the_same_key_is_ignored(tmp_path: Path) -> None:
    text = json.dumps({"signatures": {"a.conda": {"key": "x"}}, "packages.conda": {"a.conda": record()}})
    assert found(tmp_path / "repodata.json", text, "a.conda") == {"a.conda": record()}


def test_a_name_with_other_letters_is_found(tmp_path: Path) -> None:
    text = json.dumps({"packages.conda": {"ä-1.conda": record()}}, ensure_ascii=False)
    assert found(tmp_path / "repodata.json", text, "ä-1.conda") == {"ä-1.conda": record()}


@pytest.mark.parametrize(("wrong", "expected"), [(99, 1), (100, 0)])
def test_duplicate_keys_of_a_name_are_read_up_to_a_limit(tmp_path: Path, wrong: int, expected: int) -> None:
    """Each look may parse 16 MiB."""
    keys = ['"a.conda":{"name":"b"}'] * wrong + ['"a.conda":' + json.dumps(record())]
    text = '{"packages.conda":{' + ",".join(keys) + "}}"
    assert len(found(tmp_path / "repodata.json", text, "a.conda")) == expected


def test_a_truncated_value_is_not_a_record(tmp_path: Path) -> None:
    assert found(tmp_path / "repodata.json", '{"packages":{"a.conda":{"name":"a"', "a.conda") == {}
