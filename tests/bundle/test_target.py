"""target.json and inventory.json as they are read: nothing in them is believed before it was looked at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from resume_dl.bundle_creation import target_description as reading
from resume_dl.bundle_creation.target_description import Held, Inventory, read_inventory, read_target
from resume_dl.errors import ConfigurationError
from resume_dl.model.target import TargetMachine
from resume_dl.resolve.virtual import target as solved_for

SHA, MD5 = "ab" * 32, "cd" * 16
CONDA = {
    "client": "conda",
    "version": "24.7.1",
    "channels": ["https://conda.anaconda.org/conda-forge", "conda-forge/label/dev"],
    "channels_left_out": 0,
    "solver": "libmamba",
    "channel_priority": "flexible",
}
SAID: dict[str, Any] = {
    "schema": 1,
    "kind": "resume-dl target",
    "created_by": "resume-dl 0.1.0",
    "platform": "linux-64",
    "virtual_packages": {
        "__archspec": "1=x86_64_v3",
        "__cuda": "11.0",
        "__glibc": "2.31",
        "__linux": "5.10.0",
        "__unix": "0",
    },
    "python": "3.10.4",
    "pip": "24.0",
    "conda": CONDA,
    "clients": ["conda"],
    "inventory": {
        "packages": [{"filename": "a-1-0.conda", "size": 7, "sha256": SHA, "md5": MD5}],
        "wheels": [{"filename": "b-1-py3-none-any.whl", "size": 8, "sha256": SHA}],
        "unpacked": [{"name": "c-1-0", "md5": MD5}],
    },
}


def written(folder: Path, said: Any = SAID, *, encoding: str = "utf-8", **changes: Any) -> Path:
    """A target.json; ``changes`` are of its fields."""
    place = folder / "target.json"
    place.write_text(json.dumps({**said, **changes} if changes else said), encoding=encoding)
    return place


def test_a_whole_profile(tmp_path):
    """Every field where it belongs; nothing to tell."""
    found = read_target(written(tmp_path))
    assert found.machine == TargetMachine(
        platform="linux-64",
        virtual_packages=("__archspec=1=x86_64_v3", "__glibc=2.31", "__linux=5.10.0", "__unix=0"),
        cuda="11.0",
        python="3.10.4",
        channels=("https://conda.anaconda.org/conda-forge", "conda-forge/label/dev"),
    )
    assert found.machine.glibc == (2, 31)
    package, wheel = Held("a-1-0.conda", 7, SHA, MD5), Held("b-1-py3-none-any.whl", 8, SHA)
    assert found.inventory == Inventory((package,), (wheel,))
    assert found.notes == ()
    assert read_inventory(tmp_path / "target.json") == found.inventory


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_a_profile_in_any_encoding_of_a_shell(tmp_path, encoding):
    """``>`` writes UTF-16 in PowerShell 5, and a byte order mark in others."""
    assert read_target(written(tmp_path, encoding=encoding)).machine.python == "3.10.4"


def test_what_is_not_there_is_not_assumed(tmp_path):
    """The solve for it has no __glibc and no __archspec, though a linux-64 is taken to have both."""
    machine = read_target(written(tmp_path, virtual_packages={"__musl": "1.2.4", "__unix": "0"})).machine
    found = solved_for("linux-64", host="", detected=(), overrides=machine.virtual_packages, cuda=machine.cuda, env={})
    assert found.shown() == ("__musl=1.2.4=0", "__unix=0=0")


def test_the_virtual_packages_are_those_that_are_solved_for(tmp_path):
    """All of them, the driver too."""
    machine = read_target(written(tmp_path)).machine
    found = solved_for("linux-64", host="", detected=(), overrides=machine.virtual_packages, cuda=machine.cuda, env={})
    assert found.shown() == (
        "__archspec=1=x86_64_v3",
        "__cuda=11.0=0",
        "__glibc=2.31=0",
        "__linux=5.10.0=0",
        "__unix=0=0",
    )


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"conda": None, "clients": ["conda"]}, "its conda did not answer"),
        ({"conda": None, "clients": []}, "it has no conda, mamba or micromamba"),
        ({"conda": {**CONDA, "channels_left_out": 2}}, "left out: 2"),
        ({"conda": {**CONDA, "channels": ["s3://bucket/channel"]}}, "left out: 1"),
        ({"conda": {**CONDA, "channels": ["file:///srv/channel", "../x", "C:/x", "~/x"]}}, "left out: 4"),
        ({"conda": {**CONDA, "channels": ["https://user:secret@host/c", "https://host/t/secret/c"]}}, "left out: 2"),
        ({"conda": {**CONDA, "channels": ["https://user:se/cret@host/c", "https://host/c d"]}}, "left out: 2"),
        ({"virtual_packages": {"__musl": "1.2.4", "__cuda": "11.0"}}, "musl"),
        ({"virtual_packages": {"__glibc": "2.31"}}, "no CUDA driver"),
        ({"python": None}, "--python"),
    ],
)
def test_the_messages_to_the_user(tmp_path, changes, note):
    """One line for what the bundle will lack."""
    found = read_target(written(tmp_path, **changes))
    assert [text for text in found.notes if note in text] == list(found.notes)
    assert len(found.notes) == 1
    channels = changes["conda"] and changes["conda"].get("channels") if "conda" in changes else None
    if channels is not None and channels != CONDA["channels"]:
        assert found.machine.channels == ()


def test_without_an_inventory(tmp_path):
    """A profile is whole without; an inventory is not."""
    place = written(tmp_path, {name: value for name, value in SAID.items() if name != "inventory"})
    assert read_target(place).inventory is None
    with pytest.raises(ConfigurationError, match="holds no inventory"):
        read_inventory(place)


def entry(**changes: Any) -> dict[str, Any]:
    """An inventory with one package that is wrong."""
    package = {**SAID["inventory"]["packages"][0], **changes}
    return {"inventory": {"packages": [{name: value for name, value in package.items() if value != "gone"}]}}


HOSTILE: list[tuple[str, dict[str, Any]]] = [
    ("platform", {"platform": "noarch"}),
    ("platform", {"platform": "linux-64\n"}),
    ("platform", {"platform": "../linux-64"}),
    ("platform", {"platform": 7}),
    ("platform", {"platform": None}),
    ("virtual_packages", {"virtual_packages": ["__glibc"]}),
    ("virtual_packages", {"virtual_packages": None}),
    ("virtual_packages", {"virtual_packages": {"glibc": "2.31"}}),
    ("virtual_packages", {"virtual_packages": {"__glibc": "2.31; rm"}}),
    ("virtual_packages", {"virtual_packages": {"__glibc": ""}}),
    ("virtual_packages", {"virtual_packages": {"__glibc": 2.31}}),
    ("virtual_packages", {"virtual_packages": {"__glibc": "2.31=0=1"}}),
    ("virtual_packages", {"virtual_packages": {"__glibc": "2" * 1000}}),
    ("virtual_packages", {"virtual_packages": {"__cuda": "11"}}),
    ("virtual_packages", {"virtual_packages": {"__cuda": "none"}}),
    ("virtual_packages", {"virtual_packages": {"__cuda\n": "11.0"}}),
    ("python", {"python": "3.10"}),
    ("python", {"python": "3.10.4 --index-url=http://x"}),
    ("python", {"python": 3.10}),
    ("python", {"python": "٣.1.1"}),
    ("conda", {"conda": "24.7.1"}),
    ("conda.channels", {"conda": {**CONDA, "channels": "conda-forge"}}),
    ("conda.channels", {"conda": {**CONDA, "channels": [["conda-forge"]]}}),
    ("conda.channels", {"conda": {**CONDA, "channels": ["a" * 1001]}}),
    ("conda.channels_left_out", {"conda": {**CONDA, "channels_left_out": -1}}),
    ("inventory", {"inventory": []}),
    ("inventory.packages", {"inventory": {"packages": {}}}),
    ("inventory.packages", {"inventory": {"packages": ["a-1-0.conda"]}}),
    ("inventory.packages", {"inventory": {"packages": [None]}}),
    ("inventory.packages", entry(filename="../a-1-0.conda")),
    ("inventory.packages", entry(filename="C:a-1-0.conda")),
    ("inventory.packages", entry(filename="nul.conda")),
    ("inventory.packages", entry(filename="")),
    ("inventory.packages", entry(filename=7)),
    ("inventory.packages", entry(filename=None)),
    ("inventory.packages", entry(size=-1)),
    ("inventory.packages", entry(size="7")),
    ("inventory.packages", entry(size=7.0)),
    ("inventory.packages", entry(size=True)),
    ("inventory.packages", entry(size=2**53)),
    ("inventory.packages", entry(size="gone")),
    ("inventory.packages", entry(sha256=SHA.upper())),
    ("inventory.packages", entry(sha256=SHA[:-1])),
    ("inventory.packages", entry(sha256=None)),
    ("inventory.packages", entry(sha256=[SHA])),
    ("inventory.packages", entry(md5="no digest")),
    ("inventory.packages", entry(md5=7)),
]


@pytest.mark.parametrize(("field", "changes"), HOSTILE, ids=lambda value: str(value)[:60])
def test_a_value_that_no_probe_writes_is_refused(tmp_path, field, changes):
    """By the name of its field; the value itself, which may be a login, is not shown."""
    with pytest.raises(ConfigurationError) as caught:
        read_target(written(tmp_path, **changes))
    assert caught.value.message == f"{tmp_path / 'target.json'}: {field} has an invalid value"
    assert "resume-dl probe" in caught.value.hint


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"schema": 1}',
        b'{"schema": 1, "kind": ["resume-dl target"]}',
        b"\xff\xfe\x00",
        b"[" * 200_000,
        b'{"schema": 1, "kind": "resume-dl bundle"}',
        b'{"schema": ' + b"9" * 5000 + b"}",
        json.dumps(SAID).encode()[:-10],
    ],
    ids=range(11),
)
def test_a_file_that_is_not_a_profile(tmp_path, data):
    """Damaged, cut, or something else."""
    place = tmp_path / "target.json"
    place.write_bytes(data)
    for read in (read_target, read_inventory):
        with pytest.raises(ConfigurationError, match=r"not a complete JSON file|was not written by probe"):
            read(place)


@pytest.mark.parametrize("schema", [2, 0, True, "1", None, 1.5])
def test_another_schema_is_not_guessed_at(tmp_path, schema):
    """A newer resume-dl may mean something else by the same names."""
    with pytest.raises(ConfigurationError, match="has a schema"):
        read_target(written(tmp_path, schema=schema))


def test_an_inventory_says_nothing_of_the_machine(tmp_path):
    """``--target`` of one is a mix-up, ``--since`` takes either."""
    place = written(tmp_path, {"schema": 1, "kind": "resume-dl inventory", "inventory": SAID["inventory"]})
    assert read_inventory(place).wheels[0].size == 8
    with pytest.raises(ConfigurationError, match="is an inventory"):
        read_target(place)


def test_a_missing_or_too_large_file(tmp_path, monkeypatch):
    """The size is looked at before anything is parsed."""
    with pytest.raises(ConfigurationError, match="No such file"):
        read_target(tmp_path / "nowhere.json")
    with pytest.raises(ConfigurationError, match="cannot read"):
        read_target(tmp_path)
    place = written(tmp_path)
    monkeypatch.setattr(reading, "MOST_BYTES", place.stat().st_size)
    assert read_target(place).machine.platform == "linux-64"
    monkeypatch.setattr(reading, "MOST_BYTES", place.stat().st_size - 1)
    with pytest.raises(ConfigurationError, match="larger than"):
        read_target(place)
