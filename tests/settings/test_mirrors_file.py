"""mirrors.toml: the shipped file, the user's, and one given instead."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.settings.mirrors import load_mirrors, shipped_file

GOOD = """
schema = 1
[origins]
"conda:mine" = "https://conda.example/mine/"
[[mirror]]
name = "tuna"
connections = 1
[mirror.carries]
"conda:mine" = "http://127.0.0.1:8000/mine/"
"""


def test_shipped_table() -> None:
    """The seven mirrors stand in order with two connections each, and none claims what its site denies."""
    table = load_mirrors()
    active = {mirror.name: mirror for mirror in table.mirrors if mirror.active}
    assert list(active) == ["tuna", "ustc", "bfsu", "sjtu", "nju", "sustech", "aliyun"]
    assert {mirror.connections for mirror in active.values()} == {2}
    having = {
        origin: [name for name, mirror in active.items() if origin in mirror.carries]
        for origin in ("conda:nvidia", "wheels:pytorch", "conda:pytorch-nightly", "conda:pkgs/free")
    }
    assert having == {
        "conda:nvidia": ["sustech"],
        "wheels:pytorch": ["sjtu", "nju", "aliyun"],
        "conda:pytorch-nightly": [],
        "conda:pkgs/free": ["tuna", "sjtu"],
    }
    assert {origin for origin in active["ustc"].carries if origin.startswith("conda:")} == {
        "conda:conda-forge",
        "conda:bioconda",
    }
    assert not any(name.startswith("pypi:") for name in table.origins)


def test_retired_mirrors_are_shipped() -> None:
    """The pip mirrors of old notes, and parts that mirrors gave up, are recognised with a word on what to do."""
    table = load_mirrors()
    for url, name in {
        "http://pypi.douban.com/simple/": "douban",
        "http://pypi.hustunique.com/simple": "hust",
        "https://pypi.sdutlinux.org/simple/numpy/": "sdut",
        "https://mirrors.ustc.edu.cn/anaconda/pkgs/main/linux-64": "ustc-former",
        "https://mirrors.tuna.tsinghua.edu.cn/anaconda/cloud/nvidia": "tuna-nvidia",
    }.items():
        mirror = table.retired(url)
        assert mirror is not None
        assert (mirror.name, bool(mirror.note)) == (name, True)


def test_user_file_is_merged_by_name(tmp_path: Path) -> None:
    """A user's mirrors.toml extends the shipped mirror of the same name and its origins join the shipped ones."""
    file = tmp_path / "mirrors.toml"
    assert load_mirrors(user=file) == load_mirrors()
    file.write_text(GOOD, encoding="utf-8")
    table = load_mirrors(user=file)
    tuna = next(mirror for mirror in table.mirrors if mirror.name == "tuna")
    assert tuna.connections == 1
    assert tuna.carries["conda:mine"] == "http://127.0.0.1:8000/mine"
    assert "conda:pytorch" in tuna.carries
    assert table.origins["conda:mine"] == "https://conda.example/mine"
    assert (table.own, load_mirrors().own) == ({"conda:mine"}, frozenset())


def test_override_replaces_mirrors_and_keeps_origins(tmp_path: Path) -> None:
    """--mirrors FILE: its mirrors alone, whatever the user has; the shipped origins with its own over them."""
    user, file = tmp_path / "user.toml", tmp_path / "m.toml"
    user.write_text("schema = 1\n[[mirror]]\nname = 'x'\n", encoding="utf-8")
    file.write_text(GOOD, encoding="utf-8")
    table = load_mirrors(override=file, user=user)
    assert [(mirror.name, dict(mirror.carries)) for mirror in table.mirrors] == [
        ("tuna", {"conda:mine": "http://127.0.0.1:8000/mine"})
    ]
    assert table.origins == {**load_mirrors().origins, "conda:mine": "https://conda.example/mine"}
    assert table.own == {"conda:mine"}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("schema = 2", "schema"),
        ("schema = true", "schema"),
        ("", "schema"),
        ("schema = 1\nmirrors = []", "'mirrors'"),
        ("schema = 1\n[origins]\na = 1", "origins 'a'"),
        ("schema = 1\n[origins]\na = 'ftp://h/x'", "origins 'a'"),
        ("schema = 1\n[origins]\na = 'https://[::1/x'", "origins 'a'"),
        ("schema = 1\n[mirror]\nname = 'x'", "mirror"),
        ("schema = 1\n[[mirror]]\ntitle = 'x'", "mirror[0].name"),
        ("schema = 1\n[[mirror]]\nname = 'a b'", "mirror[0].name"),
        ("schema = 1\n[[mirror]]\nname = 'x'\nspeed = 1", "mirror 'x' 'speed'"),
        ("schema = 1\n[[mirror]]\nname = 'x'\nconnections = '2'", "mirror 'x' connections"),
        ("schema = 1\n[[mirror]]\nname = 'x'\nconnections = 0", "mirror 'x' connections"),
        ("schema = 1\n[[mirror]]\nname = 'x'\nstatus = 'dead'", "mirror 'x' status"),
        ("schema = 1\n[[mirror]]\nname = 'x'\n[[mirror]]\nname = 'x'", "mirror 'x'"),
        ("schema = 1\n[[mirror]]\nname = 'x'\n[mirror.carries]\na = 'h/x'", "mirror 'x' carries 'a'"),
        ("schema = 1\n[[mirror]]\nname = 'x'\n[mirror.carries]\na = 'https://h/x?q=1'", "mirror 'x' carries 'a'"),
        ("schema = ", "TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, named: str) -> None:
    """A mistake is a ConfigurationError (exit 2) that names the file and the key."""
    file = tmp_path / "m.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_mirrors(override=file)
    assert str(file) in caught.value.message
    assert named in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 2


def test_login_in_a_base_is_refused_and_not_shown(tmp_path: Path) -> None:
    """A mirror base with a password is refused, and the message does not repeat it."""
    file = tmp_path / "m.toml"
    for base in ("https://user:s3cret@h.example/x", "https://h.example/t/s3cret/x", "x://user:s3cret@h/x"):
        file.write_text(f"schema = 1\n[origins]\na = '{base}'", encoding="utf-8")
        with pytest.raises(ConfigurationError) as caught:
            load_mirrors(override=file)
        assert "s3cret" not in caught.value.message + caught.value.hint


def test_missing_file_is_named(tmp_path: Path) -> None:
    """--mirrors with a path that is not there says which."""
    with pytest.raises(ConfigurationError, match=r"gone\.toml"):
        load_mirrors(override=tmp_path / "gone.toml")


def test_shipped_file_is_the_project_s() -> None:
    """In a checkout the table is the one at the root, so that there is one to edit."""
    assert shipped_file().read_bytes() == (Path(__file__).parents[2] / "mirrors.toml").read_bytes()


def test_import_is_light() -> None:
    """The conda plugin's fast path loads the table without platformdirs, yaml, click, httpx or a child process."""
    code = (
        "import sys; from resume_dl.settings.mirrors import load_mirrors; load_mirrors();"
        "print(*sorted({'platformdirs', 'yaml', 'click', 'httpx', 'tqdm', 'rattler', 'subprocess'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
