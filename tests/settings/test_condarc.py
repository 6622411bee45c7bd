"""Reading condarc files where no conda can be asked."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs
import pytest

from resume_dl.model.exclude_newer import is_off
from resume_dl.settings.condarc import read_settings
from settings.users_machine import Machine


def revealed(settings: object, name: str) -> dict[str, str]:
    return {key: url.reveal() for key, url in getattr(settings, name).items()}


def home_pkgs(machine: Machine) -> tuple[Path, ...]:
    """conda's package caches without any setting; on Windows a second one in the local application data."""
    found = [machine.home / ".conda" / "pkgs"]
    if sys.platform == "win32":
        found.append(Path(platformdirs.user_data_dir("conda", "conda")) / "pkgs")
    return tuple(found)


def test_nothing_set_means_conda_s_defaults(machine: Machine) -> None:
    """Without any file the settings are conda's own defaults, with the package cache of a conda that is not there."""
    found = read_settings(machine.env)
    assert (found.source, found.channels, found.channel_priority) == ("defaults", ("defaults",), "flexible")
    assert found.pkgs_dirs == home_pkgs(machine)
    assert found.ssl_verify is True
    assert found.add_pip_as_python_dependency
    assert [url.reveal() for url in found.default_channels][:2] == [
        "https://repo.anaconda.com/pkgs/main",
        "https://repo.anaconda.com/pkgs/r",
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("7d", "7d"), ("2026-04-01", "2026-04-01"), ("604800", "604800"), ("2026-04-01 12:00:00", "2026-04-01 12:00:00")],
)
def test_dates_are_texts(machine: Machine, value: str, expected: str) -> None:
    """YAML makes dates and numbers of what conda reads as text; a package's ``false`` stays one."""
    machine.write(".condarc", f"exclude_newer: {value}\nexclude_newer_package: {{a: {value}, b: false}}\n")
    found = read_settings(machine.env)
    assert found.exclude_newer == expected
    assert found.exclude_newer_package["a"] == expected
    assert is_off(found.exclude_newer_package["b"])


def test_conda_s_other_names_of_dates(machine: Machine) -> None:
    """``cooldown`` is ``exclude_newer``, in files and in the environment, and ``cooldown_exclude`` its packages'."""
    machine.write(".condarc", "cooldown: 7d\ncooldown_exclude: {a: false}\n")
    found = read_settings(machine.env)
    assert (found.exclude_newer, set(found.exclude_newer_package)) == ("7d", {"a"})
    machine.env["CONDA_COOLDOWN"] = "14d"
    assert read_settings(machine.env).exclude_newer == "14d"


def test_root_prefix_comes_first(machine: Machine) -> None:
    """Where a root prefix is known its pkgs folder comes before the home's, as in conda."""
    root = machine.folder / "root"
    assert read_settings(machine.env, root=root).pkgs_dirs == (root / "pkgs", *home_pkgs(machine))


def test_later_files_win_and_lists_join(machine: Machine) -> None:
    """System before user before environment before $CONDARC: the last scalar wins, its list items come first."""
    root, prefix = machine.folder / "root", machine.folder / "env"
    for place, number in ((root / ".condarc", 1), (prefix / ".condarc", 4)):
        place.parent.mkdir()
        place.write_text(f"channels: [c{number}, shared]\nchannel_priority: strict\n", encoding="utf-8")
    machine.write(".config/conda/condarc.d/10-a.yml", "channels: [c2]\ncustom_channels: {x: https://a.example}\n")
    machine.write(".config/conda/condarc.d/notes.txt", "channels: [never]\n")
    machine.write(".condarc", "channels: [c3]\ncustom_channels: {x: https://b.example, y: https://c.example/}\n")
    named = machine.write("mine.yaml", "channel_priority: disabled\nchannels: [c5]\n")
    machine.env["CONDARC"] = str(named)
    machine.env["CONDA_CHANNELS"] = "c6, c7"
    found = read_settings(machine.env, root=root, prefix=prefix)
    assert found.channels == ("c6", "c7", "c5", "c4", "shared", "c3", "c2", "c1")
    assert found.channel_priority == "disabled"
    custom = revealed(found, "custom_channels")
    assert (custom["x"], custom["y"]) == ("https://b.example", "https://c.example")
    assert found.source == "files"


def test_condarc_must_have_a_name_that_conda_reads(machine: Machine) -> None:
    """conda passes over a $CONDARC that is neither named condarc nor YAML; so do we."""
    machine.env["CONDARC"] = str(machine.write("settings.conf", "channel_priority: strict\n"))
    assert read_settings(machine.env).channel_priority == "flexible"


def test_environment_variables_win(machine: Machine) -> None:
    """CONDA_* set what files set, with conda's separators and aliases."""
    machine.write(".condarc", "channel_priority: strict\nssl_verify: true\npkgs_dirs: [~/files]\noffline: false\n")
    machine.env |= {
        "CONDA_PKGS_DIRS": "~/one,$HOME/two",
        "CONDA_ENVS_PATH": f"/a{os.pathsep}/b",
        "CONDA_CHANNEL_PRIORITY": "false",
        "CONDA_VERIFY_SSL": "no",
        "CONDA_PINNED_PACKAGES": "numpy 1.2&python >=3,<4",
        "CONDA_OFFLINE": "1",
        "CONDA_REMOTE_READ_TIMEOUT_SECS": "7.5",
        "CONDA_SUBDIR": "osx-64",
    }
    found = read_settings(machine.env)
    assert found.pkgs_dirs == tuple(machine.home / name for name in ("one", "two", "files"))
    assert found.envs_dirs[:2] == (Path("/a").absolute(), Path("/b").absolute())
    assert (found.channel_priority, found.ssl_verify, found.offline) == ("disabled", False, True)
    assert found.pinned_packages == ("numpy 1.2", "python >=3,<4")
    assert (found.remote_read_timeout_secs, found.subdir) == (7.5, "osx-64")


def test_values_are_expanded(machine: Machine) -> None:
    """$NAME, ${NAME} and ~ stand for what the environment says; an unknown name stays as it is."""
    machine.write(
        ".condarc",
        "channel_alias: https://$MIRROR/anaconda/cloud/\n"
        "proxy_servers: {http: 'http://${WHO}:pw@px:80'}\n"
        "ssl_verify: $HOME/ca.pem\n"
        "pkgs_dirs: [$NOBODY/x]\n",
    )
    machine.env |= {"MIRROR": "m.example", "WHO": "me"}
    found = read_settings(machine.env)
    assert found.channel_alias.reveal() == "https://m.example/anaconda/cloud"
    assert found.proxy_servers == {"http": "http://me:pw@px:80"}
    assert found.ssl_verify == f"{machine.home}/ca.pem"
    assert found.pkgs_dirs[0].parts[-2:] == ("$NOBODY", "x")


def test_multichannels_are_put_below_the_alias(machine: Machine) -> None:
    """A member without a scheme goes below channel_alias, even where custom_channels knows the name."""
    machine.write(
        ".condarc",
        "channel_alias: https://a.example/cloud\n"
        "custom_channels: {conda-forge: https://b.example}\n"
        "custom_multichannels: {mine: [conda-forge, https://c.example/x/y, https://d.example/t/tok/z]}\n"
        "default_channels: [https://e.example/anaconda/pkgs/main]\n",
    )
    found = read_settings(machine.env)
    assert [url.reveal() for url in found.custom_multichannels["mine"]] == [
        "https://a.example/cloud/conda-forge",
        "https://c.example/x/y",
        "https://d.example/t/tok/z",
    ]
    assert revealed(found, "custom_channels") == {
        "anaconda/pkgs/main": "https://e.example",
        "conda-forge": "https://b.example",
        "x/y": "https://c.example",
        "z": "https://d.example/t/tok",
    }


@pytest.mark.parametrize(
    "text", ["{", "- a\n- b\n", "channels: 5\n", "channels: x\nchannel_priority: fast\n", "a: \x00"]
)
def test_broken_files_are_named_and_passed_over(machine: Machine, text: str) -> None:
    """A file or value that cannot be read costs nothing but a word in ``problem``; the other files still count."""
    machine.write(".condarc", text)
    machine.write(".config/conda/.condarc", "pinned_packages: [a 1]\n")
    found = read_settings(machine.env)
    assert ".condarc" in found.problem
    assert found.channels == ("defaults",)
    assert found.pinned_packages == ("a 1",)


def test_nothing_secret_is_shown(machine: Machine) -> None:
    """repr of the settings shows no password and no token."""
    machine.write(
        ".condarc",
        "channels: ['https://u:s3cret@h.example/x']\n"
        "custom_channels: {a: 'https://u:s3cret@h.example', b: 'https://h.example/t/s3cret'}\n"
        "channel_alias: https://u:s3cret@alias.example\n"
        "proxy_servers: {http: 'http://u:s3cret@px'}\n",
    )
    assert "s3cret" not in repr(read_settings(machine.env))
