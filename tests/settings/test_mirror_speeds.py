"""What ``mirrors test`` has measured, and the order of sources that follows from it."""

from __future__ import annotations

import json

import pytest

from resume_dl.model.artifact import Source
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.mirror_speeds import FAILURE_KEPT, KEPT, Measured, MirrorSpeeds, read_speeds

NOW = 1_700_000_000.0


def sources(*names):
    return [Source(name, RedactedUrl(f"https://{name}.example/x")) for name in names]


def measured(mirror, speed, origin="conda:lab", when=NOW):
    return Measured(mirror, origin, f"{mirror}.example", speed, when)


def order(speeds, *names, origin="conda:lab"):
    return "".join(source.mirror for source in MirrorSpeeds(speeds).ordered(origin, sources(*names)))


def test_the_fastest_first_then_the_unknown_then_those_that_failed():
    known = [measured("a", None), measured("c", 10.0), measured("e", 20.0)]
    assert order(known, *"abcde") == "ecbda"
    assert order([], *"abcde") == "abcde"


def test_a_speed_for_another_origin_counts_if_there_is_no_other():
    known = [measured("a", 5.0, "conda:x"), measured("b", 9.0, "conda:x"), measured("b", 1.0)]
    assert order(known, "b", "a") == "ab"
    assert order(known, "a", "b", origin="conda:y") == "ba"


def test_another_address_of_the_same_name_is_not_measured():
    moved = Measured("b", "conda:lab", "elsewhere.example", 99.0, NOW)
    assert order([moved], "a", "b") == "ab"


def test_measurements_come_back_until_they_are_too_old(tmp_path):
    path = tmp_path / "speeds"
    path.write_bytes(MirrorSpeeds([measured("a", 5.0), measured("b", None)]).document())
    for later, names in ((0, "ab"), (FAILURE_KEPT, "a"), (KEPT, ""), (-KEPT, "")):
        assert "".join(one.mirror for one in read_speeds(path, now=NOW + later).measured) == names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        '{"schema": 2, "measured": []}',
        '{"schema": 1, "measured": 5}',
        json.dumps({"schema": 1, "measured": [5, {}, {"mirror": "a"}]}),
        *(
            json.dumps(
                {"schema": 1, "measured": [{"mirror": "a", "origin": "o", "host": "h", "speed": bad, "when": NOW}]}
            )
            for bad in (-1, 0, "nan", "inf", True, [], "x")
        ),
        '{"schema": 1, "measured": [{"mirror": "a", "origin": "o", "host": "h", "speed": 1, "when": 1e999}]}',
    ],
)
def test_a_damaged_file_counts_as_empty(tmp_path, text):
    path = tmp_path / "speeds"
    path.write_text(text)
    assert read_speeds(path, now=NOW).measured == ()
