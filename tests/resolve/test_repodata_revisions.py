"""Repodata v3 (CEPs 43 to 45, 48): what is read of it, that no key of any form escapes the check, what is unknown."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from resolve.conftest import channel
from resume_dl.errors import IntegrityError, InvalidSpecError
from resume_dl.model.repodata_forms import read_newer_forms
from resume_dl.resolve.repodata import find_record
from resume_dl.resolve.request import RepodataFile
from support.records import record

ONE = channel("one")
OLDEST = "RESUME_DL_TEST_RATTLER" in os.environ


def rows(*wanted: tuple[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Records by file name without extension."""
    return {name.removesuffix(".tar.bz2").removesuffix(".conda"): fields for name, fields in wanted}


def new(name: str, version: str = "1", depends: tuple[str, ...] = (), **more: Any) -> tuple[str, dict[str, Any]]:
    return record(name, version, depends=depends, extension=".conda", **more)


@pytest.fixture
def solved(fetch, tmp_path):
    """``solved({"v3": …}, "a")``: a solve on one index with these sections; its path is ``solved.path``."""

    def run(sections: dict[str, Any], *specs: str, text: str | None = None, **options: Any):
        document = {"info": {"subdir": "linux-64"}, "packages": {}, "packages.conda": {}, "repodata_version": 1}
        run.path.write_text(json.dumps({**document, **sections}) if text is None else text, encoding="utf-8")
        return fetch(*specs, repodata=[RepodataFile(ONE, "linux-64", run.path)], **options)

    run.path = tmp_path / "one.json"
    return run


V3 = {
    "v3": {
        "conda": rows(
            new(
                "a",
                depends=('on[when="__linux"]', 'off[when="__win"]', "old[version='>=1']"),
                extra_depends={"more": ["extra"]},
                unknown_to_rattler=1,
            ),
            new("on"),
            new("off"),
            new("extra"),
            new("b", "1", flags=["cpu"], build="cpu_0"),
            new("b", "1", flags=["cuda"], build="cuda_0"),
        ),
        "tar.bz2": rows(record("tarred", "1")),
        "whl": {"wheeled-1-py3_none_any_0": {**record("wheeled", "1")[1], "url": "https://x.example/w-1.whl"}},
    },
    "packages.conda": dict([new("old")]),
}


def names(solution) -> set[str]:
    return {artifact.name for artifact in solution.artifacts}


def notes(solution) -> tuple[str, ...]:
    """What is said of the index; on another system than Linux, the assumed virtual packages are named too."""
    return tuple(note for note in solution.notes if "is not this machine" not in note)


def test_a_condition_decides_what_is_needed(solved):
    """The names of v3 have no extension, the files have; the original record is kept with all its members."""
    solution = solved(V3, "a", "tarred")
    assert names(solution) == {"a", "on", "old", "tarred"}
    by_name = {artifact.name: artifact for artifact in solution.artifacts}
    assert by_name["a"].filename == "a-1-0.conda"
    assert str(by_name["a"].url).endswith("/one/linux-64/a-1-0.conda")
    assert by_name["a"].record == V3["v3"]["conda"]["a-1-0"]
    assert by_name["tarred"].filename == "tarred-1-0.tar.bz2"
    assert by_name["tarred"].record == V3["v3"]["tar.bz2"]["tarred-1-0"]
    note = "one/linux-64 has 8 packages of repodata revision v3, whose extras and flags need a newer py-rattler"
    assert notes(solution) == ((note,) if OLDEST else ())
    assert names(solved(V3, "a", platform="win-64", env={"CONDA_OVERRIDE_CUDA": ""})) == {"a", "off", "old"}


def test_extras_and_flags(solved):
    """As the user asks for them; an old py-rattler says that it does not know them."""
    if OLDEST:
        for word in ("extras", "flags"):
            with pytest.raises(InvalidSpecError, match=f"invalid bracket key: {word}"):
                solved(V3, f"a[{word}=[more]]")
        return
    assert names(solved(V3, "a[extras=[more]]")) == {"a", "on", "old", "extra"}
    for flag in ("cuda", "cpu"):
        (artifact,) = solved(V3, f"b[flags=[{flag}]]").artifacts
        assert artifact.build == f"{flag}_0"


def test_records_are_found_by_file_name(solved):
    """Each form of an archive has its own record."""
    fields = new("c")[1]
    other = {**fields, "sha256": "ab" * 32}
    sections = {"v3": {"conda": {"c-1-0": fields}, "tar.bz2": {"c-1-0": other}}, "packages.whl": {}}
    solved(sections, "c")
    assert find_record(solved.path, "c-1-0.conda") == fields
    assert find_record(solved.path, "c-1-0.tar.bz2") == other
    assert find_record(solved.path, "c-1-0.whl") is None


HOSTILE = ["../../evil-1-0", "/etc/evil-1-0", "x\\evil-1-0", "evil-1-0/..", "evil-1-\0", "C:evil-1-0", "con"]


@pytest.mark.parametrize(
    "section", ["v3/conda", "v3/tar.bz2", "v3/whl", "v3/zip", "v4/conda", "packages.whl", "packages.zip"]
)
@pytest.mark.parametrize("key", HOSTILE)
def test_a_hostile_key_of_every_form_is_refused(solved, section, key):
    """However harmless the package that is wanted, and whoever would read that section."""
    outer, _, kind = section.partition("/")
    content = {key: record("evil", "1")[1]}
    sections = {outer: {kind: content} if kind else content, "packages.conda": dict([new("a")])}
    with pytest.raises(IntegrityError, match="one/linux-64") as caught:
        solved(sections, "a")
    assert caught.value.exit_code == 4


def test_a_hostile_extension_is_refused(solved):
    with pytest.raises(IntegrityError, match="it names the file"):
        solved({"v3": {"/../../x": {"evil-1-0": record("evil", "1")[1]}}}, "a")


@pytest.mark.parametrize("name", ["\\u00763", "v\\u0033", "\\u0076\\u0033"])
def test_an_escaped_name_of_the_section_hides_nothing(solved, name):
    evil = json.dumps({"conda": {"../evil-1-0": record("evil", "1")[1]}})
    with pytest.raises(IntegrityError, match="refused"):
        solved({}, "a", text=f'{{"packages": {{}}, "{name}": {evil}}}')


@pytest.mark.parametrize("wrong", [[], None, 5, {"conda": []}, {"conda": None}, [{}, {"../evil-1-0": {}}]])
def test_a_section_of_the_wrong_type(solved, wrong):
    """rattler reads a list as a struct, in the order of its fields: no key of it would be seen."""
    with pytest.raises(IntegrityError, match=r"v3.* is invalid") as caught:
        solved({"v3": wrong, "packages.conda": dict([new("a")])}, "a")
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("text", ["[]", "[{}, {}]", '"v3"', '{"v3": {"conda": {"a-1-0": {}}'])
def test_no_object(solved, text):
    with pytest.raises(IntegrityError, match="one/linux-64"):
        solved({}, "a", text=text)


# --- what is not known ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [{"conda": rows(new("a", "9"))}, [1, 2], {"x": 5}, None])
def test_a_later_revision_is_left_out_and_named(solved, later):
    """CEP 48: clients ignore it, and say how many packages they do not see."""
    stated = {"v3": {"n_packages": 0}, "v4": {"n_packages": 3, "message": "\x1b[2Jupdate"}, "v5": {}}
    info = {"subdir": "linux-64", "repodata_revisions": stated}
    solution = solved({"info": info, "v4": later, "packages.conda": dict([new("a")])}, "a")
    (artifact,) = solution.artifacts
    assert artifact.version == "1"
    assert notes(solution) == (
        "one/linux-64 has 3 packages of repodata revision v4, which is not known: left out",
        "one/linux-64 has packages of repodata revision v5, which is not known: left out",
    )


def test_a_later_version_of_the_whole_index_is_an_error(solved):
    """CEP 48 freezes it; what a 3 would mean nobody knows."""
    with pytest.raises(IntegrityError, match="repodata_version is 3") as caught:
        solved({"repodata_version": 3, "packages.conda": dict([new("a")])}, "a")
    assert caught.value.exit_code == 4


def test_a_memory_map_can_be_closed(tmp_path: Path):
    """After a success, and while an error is handled."""
    import mmap

    for text, good in (('{"v3": {"conda": {"a-1-0": {"sha256": "x"}}}}', True), ('{"v3": {"conda": []}}', False)):
        (path := tmp_path / "x.json").write_text(text)
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            forms = read_newer_forms(data)
        except ValueError:
            assert not good
            data.close()
        else:
            data.close()
            assert [*forms.find("a-1-0.conda")] == [{"sha256": "x"}]
