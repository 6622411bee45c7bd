"""``mirrors update``: a table from elsewhere is bounded, checked and shown before it replaces the built-in one."""

from __future__ import annotations

import json

import pytest

from faults.behaviours import Page, Status
from resume_dl.cli.main import main
from resume_dl.settings.mirrors import load_mirrors, shipped_file

NEW = """schema = 1
[origins]
"conda:conda-forge" = "https://evil.example/conda-forge"
"conda:new" = "https://evil.example/new"
[[mirror]]
name = "tuna"
operator = "someone"
[mirror.carries]
"conda:conda-forge" = "https://moved.example/conda-forge"
[[mirror]]
name = "fresh"
[mirror.carries]
"conda:conda-forge" = "https://fresh.example/conda-forge"
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    for name in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"RESUME_DL_{name}_DIR", str(tmp_path / name))
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("RESUME_DL_CONDA", "none")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path / "CONFIG" / "mirrors.toml"


@pytest.fixture
def server(fault_server):
    server = fault_server()
    server.put("/t.toml", NEW.encode())
    return server


def run(capsys, *words):
    code = main(["mirrors", "update", *map(str, words), "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["exit_code"] == code
    return code, said


def test_a_table_is_shown_then_used_then_left(own, server, capsys):
    url = f"{server.base()}/t.toml"
    assert main(["mirrors", "update", url]) == 0
    shown = capsys.readouterr().out
    for line in ("+ fresh", "- aliyun", "~ tuna", "operator: tuna -> someone", "= https://moved.example/conda-forge"):
        assert line in shown
    assert load_mirrors(user=own) == load_mirrors()
    digest = shown.rpartition(" ")[2].strip()
    code, said = run(capsys, url, "--yes", "--sha256", digest)
    assert (code, said["added"], said["changed"]) == (0, ["fresh"], ["tuna"])
    assert "aliyun" in said["removed"]
    table = load_mirrors(user=own)
    assert [mirror.name for mirror in table.mirrors] == ["tuna", "fresh"]
    assert main(["mirrors", "list"]) == 0
    assert "--built-in" in capsys.readouterr().out
    own.write_text('schema = 1\n[[mirror]]\nname = "fresh"\nconnections = 1\n')
    assert {mirror.name: mirror.connections for mirror in load_mirrors(user=own).mirrors} == {"tuna": None, "fresh": 1}
    assert run(capsys, "--built-in")[0] == 0
    assert "aliyun" in set(load_mirrors(user=own).names())


def test_the_origins_of_a_table_from_elsewhere_are_not_used(own, server, capsys):
    """Else it would choose the servers whose indexes are trusted."""
    assert run(capsys, f"{server.base()}/t.toml", "--yes")[0] == 0
    table, built_in = load_mirrors(user=own), load_mirrors()
    assert table.origins == built_in.origins
    assert table.own == frozenset()
    assert table.base_of("conda:new") == "https://conda.anaconda.org/new"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"schema = 1\n",
        b"schema = 2\n",
        b"schema = 1\nindex_from = ['tuna']\n",
        b"schema = 1\n[trust]\nindex_from = ['tuna']\n",
        b"\xff\xfe\x00",
        b"a = " + b"[" * 100_000,
        b"a = " + b"9" * 10_000,
        b'schema = 1\n[[mirror]]\nname = "a\\u001b[2J"\n[mirror.carries]\n',
        b"schema = 1\n[[mirror]]\nname = 'a'\n[mirror.carries]\n'conda:x' = 'ftp://x/y'\n",
        b"#" * 2_000_000,
    ],
    ids=lambda content: str(len(content)),
)
def test_an_invalid_table_replaces_nothing(own, server, capsys, content):
    server.put("/t.toml", content)
    assert main(["mirrors", "update", f"{server.base()}/t.toml", "--yes"]) in {1, 2}
    assert "\x1b" not in capsys.readouterr().err
    assert load_mirrors(user=own) == load_mirrors()
    assert server.body_bytes() < 1_500_000


@pytest.mark.parametrize("step", [Status(404), Page(200), Page(403)])
def test_an_answer_that_is_no_table_replaces_nothing(own, server, capsys, step):
    server.always(0, step)
    code, said = run(capsys, f"{server.base()}/t.toml", "--yes")
    assert (code, said["ok"]) == (1, False)
    assert load_mirrors(user=own) == load_mirrors()


def test_plain_http_another_digest_and_no_address_are_refused(own, server, capsys):
    assert run(capsys, "http://mirror.example/t.toml", "--yes")[0] == 2
    assert run(capsys, f"{server.base()}/t.toml", "--yes", "--sha256", "0" * 64)[0] == 4
    assert run(capsys, f"{server.base()}/t.toml", "--sha256", "0")[0] == 2
    assert run(capsys)[0] == 2
    assert run(capsys, f"{server.base()}/t.toml", "--built-in")[0] == 2
    assert load_mirrors(user=own) == load_mirrors()


def test_the_shipped_table_is_no_change(own, server, capsys):
    server.put("/t.toml", shipped_file().read_bytes())
    assert main(["mirrors", "update", f"{server.base()}/t.toml"]) == 0
    assert "nothing would change" in capsys.readouterr().out
