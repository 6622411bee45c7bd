"""``resume-dl config``: each setting with its place, no secret in it, and a file that is checked after its editor."""

from __future__ import annotations

import json
import sys

import pytest

from resume_dl.cli.main import main
from resume_dl.settings.config import OPTIONS


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    """A user without conda, and without settings of the machine."""
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    for kind in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"RESUME_DL_{kind}_DIR", str(tmp_path / kind.lower()))
    for name in ("VISUAL", "EDITOR", "CONDA_PREFIX", "CONDARC", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RESUME_DL_CONDA", "none")
    (tmp_path / "config").mkdir()
    return tmp_path


def shown(capsys, *arguments):
    """Name -> row of ``config show --json``."""
    assert main(["config", "show", "--json", *arguments]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["schema"], report["ok"]) == (1, True)
    return {row["name"]: row for row in report["settings"]}


def test_each_setting_has_its_value_and_its_place(home, capsys, monkeypatch):
    """Default, config.toml, environment, command line, condarc and a variable of conda."""
    (home / "config" / "config.toml").write_text('limit-rate = "2M"\nmirror = ["tuna"]\n[trust]\nindex_from = "bfsu"\n')
    (home / ".condarc").write_text("channels: [conda-forge]\noffline: true\n")
    monkeypatch.setenv("RESUME_DL_PER_HOST", "3")
    monkeypatch.setenv("CONDA_CHANNEL_ALIAS", "https://conda.example")
    rows = shown(capsys, "--connections", "5")
    assert {*OPTIONS} <= {*rows}
    file = str(home / "config" / "config.toml")
    found = {name: (rows[name]["value"], rows[name]["source"], rows[name]["where"]) for name in rows}
    assert found["limit_rate"] == ("2.0 MB/s", "config.toml", [file])
    assert found["mirror"] == (["tuna"], "config.toml", [file])
    assert found["index_from"] == (["bfsu"], "config.toml", [file])
    assert found["per_host"] == (3, "environment", ["RESUME_DL_PER_HOST"])
    assert found["connections"] == (5, "command line", [])
    assert found["give_up_after"] == ("10 min 0 s", "default", [])
    assert found["channels"] == (["conda-forge"], "condarc", [str(home / ".condarc")])
    assert found["channel_alias"] == ("https://conda.example", "environment", ["CONDA_CHANNEL_ALIAS"])
    assert found["channel_priority"] == ("flexible", "default", [])
    assert found["config_dir"] == (str(home / "config"), "environment", ["RESUME_DL_CONFIG_DIR"])


def test_no_secret_is_shown(home, capsys, monkeypatch):
    """Logins and tokens of indexes, channels, proxies and plugins, as lines and as JSON."""
    (home / "config" / "config.toml").write_text('index_url = "https://me:hidden1@pypi.example/simple"\n')
    (home / ".condarc").write_text(
        "channels: ['https://me:hidden2@conda.example/a', 'https://conda.example/t/hidden3/b']\n"
        "proxy_servers: {https: 'http://me:hidden4@proxy.example:3128'}\n"
        "channel_settings: [{channel: a, auth: keyring, password: hidden5}]\n"
        "custom_channels: {lab: 'https://me:hidden6@lab.example'}\n"
    )
    monkeypatch.setenv("HTTP_PROXY", "http://me:hidden7@proxy.example:1")
    monkeypatch.setenv("http_proxy", "http://me:hidden7@proxy.example:1")
    assert main(["config", "show"]) == 0
    lines = capsys.readouterr().out
    assert "hidden" not in lines
    assert "pypi.example" in lines
    assert "hidden" not in json.dumps(shown(capsys))


def test_lines_name_value_and_place(home, capsys):
    """The form of the lines; a setting without a value says so."""
    (home / "config" / "config.toml").write_text("offline = true\n")
    assert main(["config", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"  offline = true  (config.toml: {home / 'config' / 'config.toml'})" in lines
    assert "  dest = not set  (default)" in lines
    assert main(["config", "show", "--nope"]) == 2


def test_path_is_printed_beside_a_broken_file(home, capsys):
    """It helps to find the file that every other command refuses."""
    (home / "config" / "config.toml").write_text("= broken")
    assert main(["config", "path"]) == 0
    assert capsys.readouterr().out == f"{home / 'config' / 'config.toml'}\n"


def editor(monkeypatch, home, text):
    """An editor that writes ``text`` (None: leaves the file), and notes what it was given."""
    script = home / "an editor.py"
    body = f"open(sys.argv[1], 'w').write({text!r})" if text is not None else "pass"
    script.write_text(f"import sys\nopen({str(home / 'given')!r}, 'w').write(open(sys.argv[1]).read())\n{body}\n")
    monkeypatch.setenv("VISUAL", f'"{sys.executable}" "{script}"')
    monkeypatch.setenv("EDITOR", "not-this-one")


def test_every_mistake_is_named_with_its_line(home, capsys, monkeypatch):
    """Unknown names, wrong types, wrong values, tables: all of them at once, and the file stays for the next try."""
    text = '# mine\nconections = 4\nconnections = 99\nlimit-rate = "fast"\n[trust]\nindexfrom = "a"\n[fetch]\na = 1\n'
    editor(monkeypatch, home, text)
    assert main(["config", "edit"]) == 2
    err = capsys.readouterr().err
    for wanted in (
        "has 5 mistakes",
        "line 2: 'conections' is not an option (did you mean connections?)",
        "line 3: 'connections': 99 is not in the range",
        "line 4: 'limit-rate': 'fast' is not a rate",
        "line 6: 'indexfrom' is not a key of [trust]",
        "line 7: 'fetch' is not an option",
    ):
        assert wanted in err
    assert (home / "config" / "config.toml").read_text() == text
    assert main(["config", "show"]) == 2
    assert "line 2: 'conections'" in capsys.readouterr().err


def test_broken_toml_names_its_line(home, capsys, monkeypatch):
    """The parser's own message has it."""
    editor(monkeypatch, home, "offline = true\n= broken\n")
    assert main(["config", "edit"]) == 2
    assert "at line 2" in capsys.readouterr().err


def test_a_valid_file_is_said_to_be_valid(home, capsys, monkeypatch):
    """A missing one begins with the names of all options, commented out."""
    editor(monkeypatch, home, "offline = true\n")
    assert main(["config", "edit"]) == 0
    assert capsys.readouterr().out == f"{home / 'config' / 'config.toml'}: valid\n"
    given = (home / "given").read_text()
    assert all(line.startswith("#") for line in given.splitlines())
    assert all(f"{name}: " in given for name in OPTIONS)


def test_a_file_that_was_not_changed_is_not_left_behind(home, capsys, monkeypatch):
    """The editor was closed: there is no file, as before."""
    editor(monkeypatch, home, None)
    assert main(["config", "edit"]) == 0
    assert not (home / "config" / "config.toml").exists()
    assert "was not created" in capsys.readouterr().out


@pytest.mark.parametrize("named", ["no-such-editor-here", "'", " "])
def test_an_editor_that_cannot_be_started(home, capsys, monkeypatch, named):
    """An error line that says which variable to set; nothing is left."""
    monkeypatch.setenv("VISUAL", named)
    monkeypatch.setenv("PATH", str(home))
    assert main(["config", "edit"]) == 2
    assert "EDITOR" in capsys.readouterr().err
    assert not (home / "config" / "config.toml").exists()
