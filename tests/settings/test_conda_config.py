"""Asking a conda for its settings, keeping what it said, and living with one that fails or hangs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.python_command import module_arguments
from resume_dl.settings.channels import expand_channels
from resume_dl.settings.conda_config import load_conda_settings
from resume_dl.settings.conda_find import find_conda_commands
from resume_dl.settings.condarc import read_settings
from resume_dl.settings.mirrors import load_mirrors
from settings.users_machine import Machine
from support.conda_env import TestConda
from support.processes import has_ended

TUNA = "https://mirrors.tuna.tsinghua.edu.cn/anaconda"
posix = pytest.mark.skipif(os.name != "posix", reason="the stand-in for a broken conda is a shell script")


def load(machine: Machine, program: Path | None = None, **options: object) -> CondaSettings:
    if program is not None:
        machine.env["RESUME_DL_CONDA"] = str(program)
    return load_conda_settings(machine.paths, machine.env, **options)


@posix
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("exit 3", "exit code 3"),
        ('echo "{}"; exit 0', "gave no settings"),
        ("echo hello", "gave no settings"),
        ('echo "{\\"pkgs_dirs\\": [1], \\"channels\\": 5}"', "an unexpected form"),
        ('echo "{\\"exception_name\\": \\"Boom\\"}"; exit 1', "Boom"),
    ],
)
def test_conda_that_fails_breaks_nothing(machine: Machine, body: str, why: str) -> None:
    """A conda that gives no settings is named with the reason, the files are read, and it is left alone for a while."""
    machine.write(".condarc", "channel_priority: strict\n")
    program = machine.program("conda", body)
    for _ in range(2):
        found = load(machine, program)
        assert (found.source, found.channel_priority) == ("files", "strict")
        assert why in found.problem
        assert str(program) in found.problem
        assert found.conda_command == ()
    assert machine.runs(program) == 2  # the two questions of the first time


@posix
def test_conda_that_hangs_breaks_nothing(machine: Machine) -> None:
    """A conda that never answers is killed with what it started, and not waited for again in the next run."""
    pids = machine.folder / "pids"
    program = machine.program("conda", f"sleep 300 & echo $! $$ >> {pids}; wait")
    assert "did not answer" in load(machine, program, timeout=5.0).problem
    assert "did not answer" in load(machine, program, timeout=60.0).problem
    assert machine.runs(program) == 2
    for pid in map(int, pids.read_text(encoding="utf-8").split()):
        assert has_ended(pid)


@posix
def test_next_conda_is_asked_where_the_first_fails(machine: Machine) -> None:
    """A broken conda on PATH does not hide the one that CONDA_PYTHON_EXE names; at most three are asked."""
    del machine.env["RESUME_DL_CONDA"]
    for name in ("CONDA_EXE", "CONDA_PYTHON_EXE"):
        machine.env[name] = str(machine.program(name.lower(), "exit 9"))
    path = machine.program("conda", "exit 9")
    machine.env["PATH"] = f"{machine.folder}:{machine.env['PATH']}"
    assert [command.executable.name for command in find_conda_commands(machine.env)][:3] == [
        "conda_exe",
        "conda_python_exe",
        "conda",
    ]
    found = load(machine)
    assert found.problem.count("exit code 9") == 3
    assert machine.runs(path) == 2


@posix
def test_condas_are_found_where_they_are(machine: Machine) -> None:
    """environments.txt and the usual folders name condas, each once, and a Python runs the module conda."""
    del machine.env["RESUME_DL_CONDA"]
    machine.env["PATH"] = ""
    for place in ("root/bin/conda", "miniforge3/bin/conda"):
        machine.write(place, "")
    machine.write(".conda/environments.txt", f"{machine.home}/root/envs/work\n{machine.home}/root\n\n/not/there\n")
    found = [command for command in find_conda_commands(machine.env) if machine.home in command.executable.parents]
    assert [str(command.executable.relative_to(machine.home)) for command in found] == [
        "root/bin/conda",
        "miniforge3/bin/conda",
    ]
    machine.env["RESUME_DL_CONDA"] = str(machine.program("python3.12", ""))
    (command,) = find_conda_commands(machine.env)
    assert command.line[1:] == module_arguments("conda")


def test_conda_named_and_not_there_is_a_mistake(machine: Machine) -> None:
    """RESUME_DL_CONDA that names nothing is told; ``none`` asks nobody."""
    machine.env["RESUME_DL_CONDA"] = "/not/there/conda"
    with pytest.raises(ConfigurationError, match="/not/there/conda"):
        load(machine)
    machine.env["RESUME_DL_CONDA"] = "None"
    assert load(machine).source == "defaults"


ANSWER = {
    "root_prefix": "/r",
    "subdir": "linux-64",
    "channels": ["defaults"],
    "channel_alias": {"scheme": "https", "auth": None, "location": "conda.anaconda.org", "token": None, "name": ""},
    "default_channels": [],
    "custom_channels": {},
    "custom_multichannels": {},
    "pkgs_dirs": ["/r/pkgs"],
}


def answering(machine: Machine, **changed: object) -> Path:
    """A program that answers as conda does; the real one is asked below."""
    answer = json.dumps({**ANSWER, **changed})
    return machine.program("conda", f"echo a warning\ncat <<'END'\n{answer}\nEND")


@posix
def test_answer_is_kept_until_something_changes(machine: Machine) -> None:
    """Conda is asked again after a condarc, a CONDA_ variable, one that a condarc uses, or conda itself changed."""
    program = answering(machine)
    runs = 0

    def asked() -> bool:
        nonlocal runs
        before, _ = runs, load(machine, program)
        runs = machine.runs(program)
        return runs > before

    assert [asked(), asked()] == [True, False]
    machine.write(".condarc", "pkgs_dirs: [$WHERE/x]\n")
    assert [asked(), asked()] == [True, False]
    machine.env["WHERE"] = "/a"
    assert [asked(), asked()] == [True, False]
    machine.env["UNRELATED"] = "/a"
    assert not asked()
    machine.env["CONDA_CHANNEL_PRIORITY"] = "strict"
    assert [asked(), asked()] == [True, False]
    machine.write(".config/conda/condarc.d/new.yml", "offline: true\n")
    assert [asked(), asked()] == [True, False]
    answering(machine, subdir="osx-64")
    assert [asked(), asked()] == [True, False]
    assert load(machine, program).subdir == "osx-64"
    cached = next((machine.paths.cache / "conda-settings").iterdir())
    cached.write_text('{"schema": 1, "seal": ', encoding="utf-8")
    assert [asked(), asked()] == [True, False]


@posix
@pytest.mark.parametrize(
    "secret",
    [
        {"proxy_servers": {"http": "http://u:s3cret@px:80"}},
        {"channels": ["https://u:s3cret@h.example/x"]},
        {"channel_alias": {**ANSWER["channel_alias"], "token": "s3cret"}},
        {
            "custom_channels": {
                "x": {"scheme": "https", "auth": "u:s3cret", "location": "h", "token": None, "name": "x"}
            }
        },
    ],
)
def test_no_login_is_ever_kept(machine: Machine, secret: dict[str, object]) -> None:
    """An answer with a password or a token is used and never written; an earlier one is removed."""
    program = answering(machine)
    load(machine, program)
    answering(machine, **secret)
    for _ in range(2):
        assert "s3cret" not in repr(load(machine, program))
    assert machine.runs(program) == 6
    assert not [file for file in machine.paths.cache.rglob("*") if file.is_file()]


@posix
def test_target_environment_counts(machine: Machine) -> None:
    """With -p the condarc in that environment counts, for the files as for the conda that is asked."""
    prefix = machine.folder / "env"
    prefix.mkdir()
    (prefix / ".condarc").write_text("channel_priority: strict\n", encoding="utf-8")
    assert load(machine).channel_priority == "flexible"
    assert load(machine, prefix=prefix).channel_priority == "strict"
    program = machine.program("conda", f'echo "$CONDA_PREFIX" > {machine.folder}/seen; exit 1')
    load(machine, program, prefix=prefix)
    assert (machine.folder / "seen").read_text(encoding="utf-8").strip() == str(prefix)


@posix
def test_cache_that_cannot_be_written_costs_nothing(machine: Machine) -> None:
    """With a file where the cache folder should be, conda is asked each time and answers."""
    machine.paths.cache.write_text("", encoding="utf-8")
    program = answering(machine)
    assert [load(machine, program).source for _ in range(2)] == ["conda", "conda"]


NAMES = [
    "pytorch", "defaults", "pkgs/main", "conda-forge", "conda-forge/label/dev", "both", "private", "private/sub",
    "tokened", f"{TUNA}/cloud/bioconda", "https://conda.anaconda.org/pytorch", "https://h.example/a/b/linux-64", "file:///srv/ch",
    "/srv/x y", "./here", "https://corp.example/repo/private", "pkgs/r",
]  # fmt: skip
SETTINGS = {
    "channels": ["conda-forge", "both", "defaults"],
    "channel_priority": "strict",
    "channel_alias": "https://alias.example/$WHERE/",
    "default_channels": [f"{TUNA}/pkgs/main", f"{TUNA}/pkgs/r"],
    "custom_channels": {
        "conda-forge": f"{TUNA}/cloud/",
        "private": "https://user:s3cret@corp.example/repo",
        "tokened": "https://corp.example/t/s3cret",
    },
    "custom_multichannels": {"both": ["bioconda", "https://h.example/x/y"]},
    "pinned_packages": ["numpy 1.19.*"],
    "create_default_packages": ["ipython"],
    "allowlist_channels": ["both", "conda-forge", "defaults", "https://h.example/$WHERE"],
    "channel_settings": [{"channel": "https://h.example/*", "auth": "corp"}, {"channel": "x", "auth": "none"}],
    "add_anaconda_token": False,
    "ssl_verify": False,
    "proxy_servers": {"https": "http://u:s3cret@px:80"},
    "use_only_tar_bz2": True,
}
ASK_CHANNELS = """
import json, sys
from conda.base.context import reset_context
reset_context()
from conda.models.channel import Channel
def bases(name):
    return list(dict.fromkeys(url.rpartition("/")[0] for url in Channel(name).urls(True, ["noarch"])))
print(json.dumps({name: bases(name) for name in json.load(sys.stdin)}))
"""


@pytest.mark.conda
@pytest.mark.parametrize("configured", [False, True])
def test_real_conda_is_asked(machine: Machine, test_conda: TestConda, configured: bool) -> None:
    """What a real conda answers is what reading its files gives, and channels expand as it expands them."""
    test_conda.configure(default_channels=None, channels=None)
    if configured:
        test_conda.configure(**SETTINGS)
    env = {**test_conda.environment({"WHERE": "cloud"}), "RESUME_DL_CONDA": str(test_conda.python)}
    asked = load_conda_settings(machine.paths, env)
    assert (asked.source, asked.problem) == ("conda", "")
    assert asked.root_prefix == test_conda.root
    assert asked.pkgs_dirs == (test_conda.pkgs,)
    # conda looks for a condarc in the prefix it runs in, which need not be root_prefix
    read = read_settings(env, root=test_conda.root)
    same = (
        "subdir", "default_channels", "custom_channels", "channel_alias", "channel_priority", "pkgs_dirs", "ssl_verify",
        "proxy_servers", "pinned_packages", "create_default_packages", "aggressive_update_packages", "use_only_tar_bz2",
        "add_pip_as_python_dependency", "offline", "override_channels_enabled", "solver",
        "remote_connect_timeout_secs", "remote_read_timeout_secs", "allowlist_channels", "channel_settings",
        "add_anaconda_token",
    )  # fmt: skip
    assert {name: getattr(asked, name) for name in same} == {name: getattr(read, name) for name in same}
    assert asked.channels == (read.channels if configured else asked.channels)
    assert set(asked.envs_dirs) == set(read.envs_dirs)
    members = {name: members for name, members in asked.custom_multichannels.items() if name != "local"}
    assert members == {name: members for name, members in read.custom_multichannels.items() if name != "local"}

    answer = subprocess.run(
        [test_conda.python, "-c", ASK_CHANNELS],
        input=json.dumps(NAMES),
        capture_output=True,
        text=True,
        env=env,
        cwd=test_conda.folder,
        check=True,
    )
    wanted = json.loads(answer.stdout)
    table = load_mirrors()
    got = {
        name: [
            channel.client_base.reveal() for channel in expand_channels([name], asked, table, folder=test_conda.folder)
        ]
        for name in NAMES
    }
    assert got == wanted


FINAL = """
allowlist_channels:  #!final
  - conda-forge
  - defaults
channel_priority: strict  #!final
denylist_channels: [evil]  #!final
ssl_verify: false
"""


@pytest.mark.conda
def test_what_is_final_stays(machine: Machine, test_conda: TestConda) -> None:
    """A real conda reads no later file for a setting that an earlier one marks as final; no more do we."""
    (test_conda.home / ".condarc").write_text(FINAL, encoding="utf-8")
    mine = ["mine", "conda-forge"]
    test_conda.configure(allowlist_channels=mine, denylist_channels=mine, channel_priority="disabled", ssl_verify=True)
    env = {**test_conda.environment({"CONDA_WHITELIST_CHANNELS": "mine"}), "RESUME_DL_CONDA": str(test_conda.python)}
    asked, read = load_conda_settings(machine.paths, env), read_settings(env, root=test_conda.root)
    assert (asked.source, read.source) == ("conda", "files")
    for found in (asked, read):
        assert found.allowlist_channels == ("conda-forge", "defaults")
        assert (found.channel_priority, found.ssl_verify) == ("strict", True)
    assert read.denylist_channels == ("evil",)
    assert asked.denylist_channels == (() if test_conda.version() < (25,) else ("evil",))


@pytest.mark.conda
def test_a_conda_whose_own_channels_are_denied(machine: Machine, test_conda: TestConda) -> None:
    """conda 26 then ends before it says any setting: the files are read, and the lists hold all the same."""
    test_conda.configure(channels=["forge"], allowlist_channels=["main", "forge"], denylist_channels=["forge"])
    env = {**test_conda.environment(), "RESUME_DL_CONDA": str(test_conda.python)}
    found = load_conda_settings(machine.paths, env)
    ends = test_conda.version() >= (25,)
    assert (found.source, "ChannelDenied" in found.problem) == (("files", True) if ends else ("conda", False))
    assert found.allowlist_channels == ("main", "forge")
    assert found.denylist_channels == (("forge",) if ends else ())


IN_PROCESS = """
import os, sys
from pathlib import Path
from conda.base.context import reset_context
reset_context()
from resume_dl.conda_plugin.context import conda_settings
from resume_dl.python_command import module_arguments
from resume_dl.settings.conda_ask import ask_conda
from resume_dl.settings.conda_find import CondaCommand
asked, _ = ask_conda(CondaCommand(Path(sys.executable), module_arguments("conda")), os.environ, timeout=60)
inside = conda_settings()
for name in type(asked).__dataclass_fields__:
    if getattr(asked, name) != getattr(inside, name):
        print(name, getattr(asked, name), getattr(inside, name))
print(inside.source, len(inside.channels), inside.remote_read_timeout_secs)
"""


@pytest.mark.conda
@pytest.mark.parametrize("configured", [False, True])
def test_from_inside_it_is_the_same(test_conda: TestConda, configured: bool) -> None:
    """The plugin takes from conda's context, setting by setting, what a child conda would have answered."""
    if configured:
        bundle = test_conda.folder / "ca.pem"
        bundle.touch()
        given = {"ssl_verify": str(bundle), "client_ssl_cert": "c.pem", "client_ssl_cert_key": "c.key", "offline": True}
        test_conda.configure(**{**SETTINGS, **given, "remote_read_timeout_secs": 7})
    done = subprocess.run(
        [test_conda.python, "-c", IN_PROCESS],
        capture_output=True,
        text=True,
        env=test_conda.environment({"WHERE": "cloud"}),
        cwd=test_conda.folder,
        check=True,
    )
    assert done.stdout == ("conda 3 7.0\n" if configured else "conda 0 20.0\n")


@pytest.mark.conda
def test_real_conda_s_answer_is_kept(machine: Machine, test_conda: TestConda) -> None:
    """The second run does not start conda, and a changed condarc starts it again."""
    env = {**test_conda.environment(), "RESUME_DL_CONDA": str(test_conda.python)}
    first = load_conda_settings(machine.paths, env)
    (kept,) = (machine.paths.cache / "conda-settings").iterdir()
    before = kept.stat().st_mtime_ns
    assert load_conda_settings(machine.paths, env) == first
    assert kept.stat().st_mtime_ns == before
    test_conda.configure(channel_priority="disabled")
    env = {**test_conda.environment(), "RESUME_DL_CONDA": str(test_conda.python)}
    assert load_conda_settings(machine.paths, env).channel_priority == "disabled"
