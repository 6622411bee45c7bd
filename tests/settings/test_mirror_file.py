"""``mirrors add`` and ``remove``: the user's own mirrors.toml is changed, its comments and its rest stay."""

from __future__ import annotations

import json
import os

import pytest

from resume_dl.cli.main import main
from resume_dl.settings.mirrors import load_mirrors

BASE = "https://mirror.lab.example/conda-forge"
OWN = """# mine\r
schema = 1

[origins]
"conda:own" = "https://own.example/own"  # the origin

# the lab's
[[mirror]]
name = "lab"  # a name
title = "[[mirror]]"
[mirror.carries]
"conda:own" = "https://lab.example/own"

# the other one
[[ mirror ]] # here
name = "other"
carries = { "conda:own" = "https://other.example/own" }
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("RESUME_DL_CONFIG_DIR", str(tmp_path / "config"))
    return tmp_path / "config" / "mirrors.toml"


def mirrors(file):
    return {mirror.name: mirror for mirror in load_mirrors(user=file).mirrors}


def test_a_mirror_is_added_to_a_file_that_was_not_there_and_removed(file, capsys):
    words = [
        "lab",
        f"conda-forge={BASE}/",
        "pypi:simple=http://10.0.0.7/simple",
        "--operator",
        "us",
        "--connections",
        "3",
    ]
    assert main(["mirrors", "add", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == str(file)
    lab = mirrors(file)["lab"]
    assert lab.carries == {"conda:conda-forge": BASE, "pypi:simple": "http://10.0.0.7/simple"}
    assert (lab.operator, lab.connections, lab.active) == ("us", 3, True)
    assert main(["mirrors", "add", *words]) == 2
    assert main(["mirrors", "remove", "lab"]) == 0
    assert "lab" not in mirrors(file)
    assert main(["mirrors", "remove", "lab"]) == 2


def test_what_else_is_in_the_file_stays(file):
    file.parent.mkdir()
    file.write_bytes(OWN.encode())
    assert main(["mirrors", "remove", "lab"]) == 0
    assert main(["mirrors", "add", "third", f"own={BASE}", "--title", '实验室 "3"\\']) == 0
    left = file.read_bytes().decode()
    for kept in ("# mine\r\n", "# the origin", "# the other one\n[[ mirror ]] # here", '"https://other.example/own" }'):
        assert kept in left
    assert mirrors(file)["third"].title == '实验室 "3"\\'
    assert mirrors(file)["other"].carries == {"conda:own": "https://other.example/own"}
    assert "lab" not in mirrors(file)


def test_a_built_in_mirror_is_retired_and_used_again(file):
    assert main(["mirrors", "add", "tuna", f"own={BASE}"]) == 0
    assert mirrors(file)["tuna"].carries["conda:own"] == BASE
    assert main(["mirrors", "remove", "tuna"]) == 0
    assert not mirrors(file)["tuna"].active
    assert main(["mirrors", "remove", "tuna"]) == 2
    assert main(["mirrors", "add", "tuna"]) == 0
    assert mirrors(file)["tuna"].active
    assert main(["mirrors", "add", "tuna"]) == 2


@pytest.mark.parametrize(
    "words",
    [
        ["lab"],
        ["lab", "conda-forge"],
        ["lab", "conda-forge=ftp://x/y"],
        ["lab", "conda-forge=https://user:secret@x/y"],
        ["lab", "conda-forge=https://x/y\x1b[2J"],
        ["two words", f"conda-forge={BASE}"],
        ["lab\x1b[2J", f"conda-forge={BASE}"],
        ["lab", f"conda-forge={BASE}", "--title", "a\nb = 1"],
        ["lab", f"conda-forge={BASE}", "--home", "x\u202e"],
    ],
)
def test_invalid_values_change_nothing(file, capsys, words):
    assert main(["mirrors", "add", *words]) == 2
    assert not file.exists()
    said = capsys.readouterr().err
    assert "secret" not in said
    assert "\x1b" not in said


@pytest.mark.parametrize(
    "text",
    [
        'schema = 1\nmirror = [{ name = "lab", carries = {} }]\n',
        "schema = 1\nx = [\n",
        "schema = 2\n",
        'schema = 1\n[[mirror]]\nname = """\n[[mirror]]\n"""\n',
    ],
)
def test_a_file_that_cannot_be_edited_is_left_as_it_is(file, text):
    file.parent.mkdir()
    file.write_text(text)
    assert main(["mirrors", "remove", "lab"]) == 2
    assert main(["mirrors", "add", "new", f"own={BASE}"]) == 2
    assert file.read_text() == text


def test_headers_inside_a_text_do_not_lead_to_another_mirrors_lines(file):
    """Cut by lines alone, the text of ``a`` would be shortened, and ``lab`` would stay."""
    text = 'schema = 1\n[[mirror]]\nname = "a"\ntitle = """\n[[mirror]]\nx\n[[mirror]]\n"""\n[[mirror]]\nname = "lab"\n'
    file.parent.mkdir()
    file.write_text(text)
    assert main(["mirrors", "remove", "lab"]) == 2
    assert file.read_text() == text


@pytest.mark.skipif(os.name == "nt", reason="making a link takes a privilege there")
def test_a_linked_file_stays_a_link(file, tmp_path):
    file.parent.mkdir()
    (tmp_path / "dotfiles").write_text("schema = 1\n")
    file.symlink_to(tmp_path / "dotfiles")
    assert main(["mirrors", "add", "lab", f"own={BASE}"]) == 0
    assert file.is_symlink()
    assert "lab" in (tmp_path / "dotfiles").read_text()
