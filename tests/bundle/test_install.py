"""install.py with a real conda and a real pip: what is in the environment, and what was never started."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from resume_dl.demo.channel import ChannelInfo, PackageSpec, build_channel
from support.conda_env import TestConda
from support.fetching import TIMEOUT
from support.hand_bundle import bundle_tar
from support.installable import (
    CHANNEL,
    PYTHON,
    SITE,
    Target,
    content,
    is_linux,
    lay_bundle,
    pip_package,
    python_package,
)
from support.pip_index import BuiltFile, build_wheel

pytestmark = [pytest.mark.conda, pytest.mark.skipif(not is_linux(), reason="the package python is a script for bash")]


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> ChannelInfo:
    """python, pip, a package of each format and one of noarch."""
    specs = [
        python_package(),
        pip_package(),
        PackageSpec(name="numbers", version="1!2.0", depends=("python",), payload_size=50_000),
        PackageSpec(name="letters", version="1.0", format="tar.bz2", files={"share/letters/a.txt": b"a"}),
        PackageSpec(name="signs", version="1.0", subdir="noarch", files={"share/signs/plus.txt": b"+"}),
    ]
    return build_channel(tmp_path_factory.mktemp("channel"), specs)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[BuiltFile]:
    folder = tmp_path_factory.mktemp("wheels")
    app = build_wheel(folder, "demo-app", "1.0+cu110", requires=["demo.base"])
    return [app, build_wheel(folder, "demo.base", "2.0", filler=20_000)]


@pytest.fixture
def target(test_conda: TestConda) -> Target:
    return Target(test_conda)


def two(channel: ChannelInfo) -> list:
    return [channel.find("letters"), channel.find("signs")]


def modules(prefix: Path) -> set[str]:
    return {Path(path).parent.name for path in content(prefix) if path.startswith(SITE)} - {"pip"}


def test_conda_and_pip_parts(target: Target, channel: ChannelInfo, wheels: list[BuiltFile], tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", channel.packages, wheels)
    before = sorted(path for path in (tmp_path / "bundle").rglob("*"))
    done = target.install(tmp_path / "bundle", "-n", "lab")
    assert done.returncode == 0, done.stderr + done.stdout
    prefix = target.conda.folder / "envs" / "lab"
    assert modules(prefix) == {"demo_app", "demo_base"}
    assert content(prefix)["share/letters/a.txt"] == b"a"
    assert "share/numbers/payload.bin" in content(prefix)
    records = {path.stem: json.loads(path.read_text()) for path in prefix.glob("conda-meta/*.json")}
    assert sorted(records) == sorted(each.spec.stem for each in channel.packages)
    assert records["letters-1.0-0"]["url"] == f"{CHANNEL}/linux-64/letters-1.0-0.tar.bz2"
    ran = target.run(prefix / "bin" / "python", "-c", "import demo_app; print(demo_app.VERSION)")
    assert ran.stdout == "1.0+cu110\n"
    assert "only accidental damage is detected" in done.stderr
    assert f"ready: {prefix}" in done.stdout
    assert [call.split()[0] for call in target.calls] == ["create"]
    assert sorted(path for path in (tmp_path / "bundle").rglob("*")) == before, "nothing is written into a bundle"


def test_its_packages_are_in_condas_cache_afterwards(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", two(channel))
    assert target.install(tmp_path / "bundle", "-n", "lab").returncode == 0
    assert (target.conda.pkgs / "letters-1.0-0" / "info" / "repodata_record.json").is_file()
    assert (target.conda.pkgs / "letters-1.0-0.tar.bz2").read_bytes() == channel.find("letters").path.read_bytes()
    assert not (target.conda.pkgs / ".resume-dl").exists()
    for record in (target.conda.folder / "envs" / "lab" / "conda-meta").glob("*.json"):
        assert Path(json.loads(record.read_text())["link"]["source"]).parent == target.conda.pkgs
    # conda takes them from there: the channel cannot be reached
    (tmp_path / "list.txt").write_text(
        "@EXPLICIT\n" + "".join(f"{CHANNEL}/{each.url_path}#{each.md5}\n" for each in two(channel))
    )
    again = target.conda.run("create", "-n", "two", "--offline", "--file", tmp_path / "list.txt", plugin=False)
    assert again.returncode == 0, again.stderr
    assert content(target.conda.folder / "envs" / "two") == content(target.conda.folder / "envs" / "lab")


@pytest.mark.parametrize("harm", ["other-package", "altered-entry", "half-entry"])
def test_the_users_cache_is_not_trusted(target: Target, channel: ChannelInfo, tmp_path: Path, harm: str) -> None:
    lay_bundle(tmp_path / "bundle", two(channel))
    assert target.install(tmp_path / "bundle", "-n", "first").returncode == 0
    for stem, file in (("letters-1.0-0", "share/letters/a.txt"), ("signs-1.0-0", "share/signs/plus.txt")):
        inside = target.conda.pkgs / stem / file
        inside.unlink()
        if harm != "half-entry":
            inside.write_bytes(b"evil")
        if harm == "other-package":
            record = target.conda.pkgs / stem / "info" / "repodata_record.json"
            record.write_text(record.read_text().replace("conda.example.org", "other.example.org"))
    if harm == "other-package":
        urls = target.conda.pkgs / "urls.txt"
        urls.write_text(urls.read_text().replace("conda.example.org", "other.example.org"))
    done = target.install(tmp_path / "bundle", "-n", "second")
    assert done.returncode == 0, done.stderr
    found = content(target.conda.folder / "envs" / "second")
    assert (found["share/letters/a.txt"], found["share/signs/plus.txt"]) == (b"a", b"+")


def test_an_existing_environment_is_installed_into(
    target: Target, channel: ChannelInfo, wheels: list[BuiltFile], tmp_path: Path
) -> None:
    lay_bundle(tmp_path / "first", [channel.find("python"), channel.find("pip")])
    assert target.install(tmp_path / "first", "-n", "lab").returncode == 0
    prefix = target.conda.folder / "envs" / "lab"
    (prefix / "share").mkdir()
    (prefix / "share" / "mine.txt").write_bytes(b"mine")
    (prefix / "pip.conf").write_text(f"[install]\ntarget = {tmp_path / 'elsewhere'}\n")
    lay_bundle(tmp_path / "second", two(channel), wheels)
    done = target.install(tmp_path / "second", "-p", prefix)
    assert done.returncode == 0, done.stderr
    assert "installing into the existing environment" in done.stderr
    assert [call.split()[0] for call in target.calls] == ["create", "install"]
    assert content(prefix)["share/mine.txt"] == b"mine"
    assert not (tmp_path / "elsewhere").exists()
    assert modules(prefix) == {"demo_app", "demo_base"}
    assert len([*prefix.glob("conda-meta/*.json")]) == 4


def test_no_links_into_a_cache_that_goes_away(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", two(channel))
    target.conda.configure(allow_softlinks=True, always_softlink=True)
    assert target.install(tmp_path / "bundle", "-n", "lab").returncode == 0
    shutil.rmtree(target.conda.pkgs)
    assert content(target.conda.folder / "envs" / "lab")["share/letters/a.txt"] == b"a"


def test_an_environment_without_pip_gets_one(
    target: Target, channel: ChannelInfo, wheels: list[BuiltFile], tmp_path: Path
) -> None:
    lay_bundle(tmp_path / "bundle", [channel.find("python")], wheels)
    done = target.install(tmp_path / "bundle", "-n", "lab")
    assert done.returncode == 0, done.stderr
    assert "installing it with this Python's ensurepip" in done.stderr
    assert modules(target.conda.folder / "envs" / "lab") >= {"demo_app", "demo_base"}


def test_spaces_umlauts_and_percent(
    target: Target, channel: ChannelInfo, wheels: list[BuiltFile], tmp_path: Path
) -> None:
    bundle = tmp_path / "Bündel für 100% Ärger" / "b"
    lay_bundle(bundle, channel.packages, wheels)
    prefix = tmp_path / "Umgebung mit Lücke" / "änv"
    done = target.install(bundle, "-p", prefix, env={"PYTHONIOENCODING": "cp1252"})
    assert done.returncode == 0, done.stderr
    assert modules(prefix) == {"demo_app", "demo_base"}
    assert content(prefix)["share/signs/plus.txt"] == b"+"


def test_a_delta_is_completed_from_this_machine(
    target: Target, channel: ChannelInfo, wheels: list[BuiltFile], tmp_path: Path
) -> None:
    lay_bundle(tmp_path / "base", [channel.find("python"), channel.find("pip"), channel.find("letters")])
    assert target.install(tmp_path / "base", "-n", "base-lab").returncode == 0
    left_out = ["python", "pip", "letters", "demo.base"]
    lay_bundle(tmp_path / "delta", channel.packages, wheels, left_out=left_out)
    (tmp_path / "own wheels").mkdir()
    shutil.copy(wheels[1].path, tmp_path / "own wheels")
    done = target.install(tmp_path / "delta", "-n", "lab", "--wheels", tmp_path / "own wheels")
    assert done.returncode == 0, done.stderr
    prefix = target.conda.folder / "envs" / "lab"
    assert modules(prefix) == {"demo_app", "demo_base"}
    assert len([*prefix.glob("conda-meta/*.json")]) == 5


def test_a_missing_base_is_named_and_nothing_is_started(
    target: Target, channel: ChannelInfo, wheels: list[BuiltFile], tmp_path: Path
) -> None:
    lay_bundle(tmp_path / "delta", channel.packages, wheels, left_out=["letters", "signs", "demo.base"])
    target.conda.pkgs.mkdir()
    letters, signs = two(channel)
    (target.conda.pkgs / signs.filename).write_bytes(b"something else")
    done = target.install(tmp_path / "delta", "-n", "lab", "--wheels", tmp_path)
    assert done.returncode == 1
    for each in (letters, signs, wheels[1]):
        assert f"{each.path.name}\n" in done.stderr
        assert f"sha256 {each.sha256}, {each.size:,} bytes" in done.stderr
    assert f"present, with other bytes: {target.conda.pkgs / signs.filename}" in done.stderr
    assert f"missing: {target.conda.pkgs / letters.filename}" in done.stderr
    assert f"missing: {tmp_path / wheels[1].filename}" in done.stderr
    assert target.calls == []
    assert not (target.conda.folder / "envs" / "lab").exists()


@pytest.mark.parametrize(
    "what", ["channel/linux-64/letters-1.0-0.tar.bz2", "manifest.json", "wheels/demo_base-2.0-py3-none-any.whl"]
)
def test_a_damaged_bundle_starts_nothing(
    target: Target, channel: ChannelInfo, wheels: list[BuiltFile], tmp_path: Path, what: str
) -> None:
    lay_bundle(tmp_path / "bundle", channel.packages, wheels)
    data = bytearray((tmp_path / "bundle" / what).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "bundle" / what).write_bytes(data)
    done = target.install(tmp_path / "bundle", "-n", "lab")
    assert done.returncode == 4
    assert what in done.stderr
    assert not target.log.exists(), "conda was not even asked what it is"
    assert not (target.conda.folder / "envs").exists()


def test_another_manifest_than_the_one_that_was_made(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    digest = lay_bundle(tmp_path / "bundle", two(channel))
    refused = target.install(tmp_path / "bundle", "-n", "lab", "--manifest-sha256", "0" * 64)
    assert refused.returncode == 4
    assert target.calls == []
    done = target.install(tmp_path / "bundle", "-n", "lab", "--manifest-sha256", digest)
    assert done.returncode == 0
    assert "only accidental damage" not in done.stderr


def test_an_archive_that_changes_while_it_is_copied(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    """conda is asked what it is after the verification: at that moment an archive is exchanged."""
    lay_bundle(tmp_path / "bundle", two(channel))
    evil = build_channel(tmp_path / "evil", [PackageSpec(name="letters", version="1.0", format="tar.bz2")])
    place = tmp_path / "bundle" / "channel" / "linux-64" / "letters-1.0-0.tar.bz2"
    script = target.program.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\ncp '{evil.packages[0].path}' '{place}'\n")
    target.program.write_text(script)
    done = target.install(tmp_path / "bundle", "-n", "lab")
    assert done.returncode == 4, done.stderr
    assert f"{place} has changed since it was verified" in done.stderr
    assert target.calls == []
    assert not (target.conda.pkgs / ".resume-dl").exists()


def test_an_archive_that_changes_while_conda_reads_it(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", two(channel))
    evil = build_channel(tmp_path / "evil", [PackageSpec(name="letters", version="1.0", format="tar.bz2")])
    script = target.program.read_text().replace(
        "#!/bin/sh\n",
        f'#!/bin/sh\ntest -d "$CONDA_PKGS_DIRS" && cp \'{evil.packages[0].path}\' "$CONDA_PKGS_DIRS"/\n',
    )
    target.program.write_text(script)
    done = target.install(tmp_path / "bundle", "-n", "lab")
    assert done.returncode == 4, done.stderr
    assert "letters-1.0-0.tar.bz2" in done.stderr
    assert not (target.conda.folder / "envs" / "lab" / "bin" / "letters-version").exists()
    assert not (target.conda.pkgs / "letters-1.0-0").exists()


def test_only_pip_makes_a_venv(wheels: list[BuiltFile], test_conda: TestConda, tmp_path: Path) -> None:
    target = Target(test_conda)
    lay_bundle(tmp_path / "bundle", (), wheels)
    done = target.install(tmp_path / "bundle", "-p", tmp_path / "venv", env={"RESUME_DL_CONDA": "none"})
    assert done.returncode == 0, done.stderr
    assert modules(tmp_path / "venv") >= {"demo_app", "demo_base"}
    ran = target.run(tmp_path / "venv" / "bin" / "python", "-c", "import demo_app; print(demo_app.VERSION)")
    assert ran.stdout == "1.0+cu110\n"
    assert target.calls == []
    assert [path.name for path in tmp_path.glob(".bundle-*")] == []


def test_a_venv_that_a_killed_run_left_half_made(
    wheels: list[BuiltFile], test_conda: TestConda, tmp_path: Path
) -> None:
    lay_bundle(tmp_path / "bundle", (), wheels)
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("home = /nowhere\n")
    install = (tmp_path / "bundle", "-p", venv)
    env = {"RESUME_DL_CONDA": "none"}
    refused = Target(test_conda).install(*install, env=env)
    assert refused.returncode == 5, refused.stderr
    assert "does not run" in refused.stderr
    stage = tmp_path / f".{stage_of(Target(test_conda), venv).name}"
    mark(stage, venv)
    done = Target(test_conda).install(*install, env=env)
    assert done.returncode == 0, done.stderr
    assert modules(venv) >= {"demo_app", "demo_base"}
    assert not stage.exists()


def test_without_our_plugin(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    """The target's conda knows nothing of us, nor of the setting that quietens our plugin."""
    lay_bundle(tmp_path / "bundle", two(channel))
    done = target.install(tmp_path / "bundle", "-n", "lab", env=target.conda.environment(plugin=False))
    assert done.returncode == 0, done.stderr
    assert "resume-dl:" not in done.stdout + done.stderr
    assert content(target.conda.folder / "envs" / "lab")["share/letters/a.txt"] == b"a"


@pytest.mark.parametrize(
    ("arguments", "python", "code", "words"),
    [
        (["-n", "lab"], PYTHON, 2, "there is no environment 'lab'"),
        (["-p", "venv"], "3.6", 5, "the wheels are for Python 3.6"),
        ([], PYTHON, 2, "no environment is given"),
        (["-n", "lab", "-p", "venv"], PYTHON, 2, "-n and -p exclude each other"),
        (["-n", "a/b"], PYTHON, 2, "is not a valid environment name"),
        (["-p", "venv", "--platform", "win-64"], PYTHON, 2, "it has linux-64"),
    ],
)
def test_impossible_requests_are_refused_before_anything_is_started(
    wheels: list[BuiltFile],
    test_conda: TestConda,
    tmp_path: Path,
    arguments: list[str],
    python: str,
    code: int,
    words: str,
) -> None:
    target = Target(test_conda)
    lay_bundle(tmp_path / "bundle", (), wheels, python=python, platform="linux-64")
    done = target.install(tmp_path / "bundle", *arguments)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    assert target.calls == []
    assert not (test_conda.folder / "venv").exists()


def test_conda_packages_and_no_conda(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", two(channel))
    done = target.install(tmp_path / "bundle", "-p", tmp_path / "env", env={"RESUME_DL_CONDA": "none"})
    assert done.returncode == 5
    assert "the bundle has 2 conda packages for linux-64, and no conda, mamba or micromamba was found" in done.stderr
    asked = target.install(tmp_path / "bundle", "-p", tmp_path / "env", "--with", "pip")
    assert asked.returncode == 2
    assert "which pip cannot install" in asked.stderr
    assert not (tmp_path / "env").exists()


def test_newer_foreign_files_are_never_removed(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    """A run was killed; its user then made an environment of that name by other means, and lost a file of it."""
    lay_bundle(tmp_path / "other", [channel.find("numbers"), channel.find("python")])
    assert target.install(tmp_path / "other", "-n", "lab").returncode == 0
    prefix = target.conda.folder / "envs" / "lab"
    (prefix / "share" / "numbers" / "payload.bin").unlink()
    (prefix / "share" / "mine.txt").write_bytes(b"mine")
    mark(stage_of(target, prefix), prefix)
    (prefix / ".resume-dl-making").unlink()
    lay_bundle(tmp_path / "bundle", two(channel))
    script = target.program.read_text()
    target.program.write_text(script.replace("exec ", 'test "$1" = info || exit 7\nexec '))
    assert target.install(tmp_path / "bundle", "-n", "lab").returncode == 5
    assert content(prefix)["share/mine.txt"] == b"mine"
    target.program.write_text(script)
    done = target.install(tmp_path / "bundle", "-n", "lab")
    assert done.returncode == 0, done.stderr
    assert content(prefix)["share/mine.txt"] == b"mine"


def test_another_platform_on_request(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", two(channel), platform="osx-64", virtual_packages=["__osx=99=0"])
    refused = target.install(tmp_path / "bundle", "-n", "lab")
    assert refused.returncode == 2
    assert "nothing for linux-64, which this machine is; it has osx-64" in refused.stderr
    done = target.install(tmp_path / "bundle", "-n", "lab", "--platform", "osx-64")
    assert done.returncode == 0, done.stderr
    assert "this machine is linux-64, and osx-64 was asked for" in done.stderr
    assert content(target.conda.folder / "envs" / "lab")["share/letters/a.txt"] == b"a"


def test_a_cache_whose_name_conda_would_misparse(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", two(channel))
    target.conda.configure(pkgs_dirs=[str(tmp_path / "a,b")])
    done = target.install(tmp_path / "bundle", "-p", tmp_path / "envs" / "lab")
    assert done.returncode == 0, done.stderr
    assert f"to {tmp_path / 'envs'}" in done.stderr
    assert content(tmp_path / "envs" / "lab")["share/letters/a.txt"] == b"a"
    assert [path.name for path in (tmp_path / "envs").iterdir()] == ["lab"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": "1.0 --index-url=http://127.0.0.1:9"},
        {"name": "demo\n-e ."},
        {"path": Path("dëmo-1.0-py3-none-any.whl")},
    ],
)
def test_a_manifest_writes_no_options_into_a_list(
    target: Target, wheels: list[BuiltFile], tmp_path: Path, wrong: dict[str, Any]
) -> None:
    shutil.copy(wheels[1].path, tmp_path / "dëmo-1.0-py3-none-any.whl")
    wrong = {name: tmp_path / value if name == "path" else value for name, value in wrong.items()}
    lay_bundle(tmp_path / "bundle", (), [replace(wheels[1], **wrong)])
    done = target.install(tmp_path / "bundle", "-p", tmp_path / "venv")
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "venv").exists()


def test_an_address_with_a_login_is_not_handed_on(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", two(channel), channel="https://me:secret@conda.example.org/lab")
    done = target.install(tmp_path / "bundle", "-n", "lab")
    assert done.returncode == 0, done.stderr
    assert "secret" not in done.stdout + done.stderr
    records = [path.read_text() for path in target.conda.folder.glob("envs/lab/conda-meta/*.json")]
    assert len(records) == 2
    assert not any("secret" in record for record in records)


def test_a_link_to_an_empty_folder(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", two(channel))
    (tmp_path / "disk").mkdir()
    (tmp_path / "env").symlink_to(tmp_path / "disk", target_is_directory=True)
    script = target.program.read_text()
    target.program.write_text(script.replace("exec ", 'test "$1" = info || exit 7\nexec '))
    failed = target.install(tmp_path / "bundle", "-p", tmp_path / "env")
    assert failed.returncode == 5, failed.stderr
    assert (tmp_path / "env").is_symlink()
    target.program.write_text(script)
    done = target.install(tmp_path / "bundle", "-p", tmp_path / "env")
    assert done.returncode == 0, done.stderr
    assert content(tmp_path / "disk")["share/letters/a.txt"] == b"a"


def test_a_folder_that_is_not_an_environment(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", two(channel))
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.jpg").write_bytes(b"1")
    done = target.install(tmp_path / "bundle", "-p", tmp_path / "photos")
    assert done.returncode == 2
    assert "is not an environment" in done.stderr
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["1.jpg"]


def test_an_older_target_causes_a_warning(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    wanted = ["__cuda=99.0=0", "__glibc=99.1=0", "__linux=2.6=0", "__unix=0=0", "__never=1=0"]
    lay_bundle(tmp_path / "bundle", two(channel), virtual_packages=wanted)
    done = target.install(tmp_path / "bundle", "-n", "lab", env={"CONDA_OVERRIDE_GLIBC": "100"})
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: the bundle was made for")]
    assert len(warnings) == 3, warnings
    assert any("__glibc 99.1 or newer; this machine has 2." in line for line in warnings)
    assert any("__cuda 99.0 or newer; " in line for line in warnings)


def test_files_beside_the_script_are_never_run(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", two(channel))
    for name in ("json", "hashlib", "argparse", "__future__", "re", "os", "typing", "encodings", "sitecustomize"):
        (tmp_path / "bundle" / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')\n")
    done = target.install(tmp_path / "bundle", "-n", "lab")
    assert done.returncode in {0, 4}, done.stderr
    assert "json.py" in done.stderr
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_bytecode_beside_the_scripts_is_never_run(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", two(channel))
    evil = tmp_path / "evil" / "verify.py"
    evil.parent.mkdir()
    own = (tmp_path / "bundle" / "verify.py").stat()
    evil.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n".ljust(own.st_size))
    os.utime(evil, ns=(own.st_atime_ns, own.st_mtime_ns))
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(evil)], check=True)
    shutil.copytree(evil.parent / "__pycache__", tmp_path / "bundle" / "__pycache__")
    target.install(tmp_path / "bundle", "-n", "lab")
    assert not (tmp_path / "ran").exists()


def test_a_tar_is_unpacked_and_the_rest_removed(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", two(channel))
    tar = bundle_tar(tmp_path / "bundle", tmp_path / "b.tar")
    shutil.rmtree(tmp_path / "bundle" / "channel")  # so that nothing can come from there
    done = target.install(tmp_path / "bundle", tar, "-n", "lab")
    assert done.returncode == 0, done.stderr
    assert content(target.conda.folder / "envs" / "lab")["share/letters/a.txt"] == b"a"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar", "bundle", "conda"]
    kept = target.install(tmp_path / "bundle", tar, "-n", "two", "--unpack-to", tmp_path / "kept")
    assert kept.returncode == 0, kept.stderr
    assert (tmp_path / "kept" / "manifest.json").is_file()


def test_a_dry_run_writes_nothing(
    target: Target, channel: ChannelInfo, wheels: list[BuiltFile], tmp_path: Path
) -> None:
    lay_bundle(tmp_path / "bundle", channel.packages, wheels)
    tar = bundle_tar(tmp_path / "bundle", tmp_path / "b.tar")
    for bundle in (tmp_path / "bundle", tar):
        done = target.install(tmp_path / "bundle", bundle, "-n", "lab", "--dry-run")
        assert done.returncode == 0, done.stderr
        assert "by conda: 5 packages" in done.stderr
        assert "by pip: 2 packages" in done.stderr
    assert target.calls == []
    assert not (target.conda.folder / "envs").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar", "bundle", "conda"]


def test_a_failure_of_conda_is_reported(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", two(channel))
    script = target.program.read_text().replace("exec ", 'test "$1" = info || exit 7\nexec ')
    target.program.write_text(script)
    done = target.install(tmp_path / "bundle", "-n", "lab")
    assert done.returncode == 5
    assert "conda ended with exit code 7" in done.stderr
    lazy = target.program.read_text().replace("exit 7", "exit 0")
    target.program.write_text(lazy)
    unfinished = target.install(tmp_path / "bundle", "-n", "lab")
    assert unfinished.returncode == 5
    assert "did not install letters-1.0-0, signs-1.0-0" in unfinished.stderr
    assert not (target.conda.pkgs / ".resume-dl").exists()


def test_a_failure_of_pip_is_reported(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path / "w", "demo-other", "1.0", tag="cp27-cp27m-win32")
    lay_bundle(tmp_path / "bundle", channel.packages, [wheel])
    done = target.install(tmp_path / "bundle", "-n", "lab")
    assert done.returncode == 5
    assert "pip ended with exit code 1" in done.stderr
    assert len([*target.conda.folder.glob("envs/lab/conda-meta/*.json")]) == 5, "conda's part stands"


def stage_of(target: Target, prefix: Path) -> Path:
    name = hashlib.sha256(str(prefix).encode()).hexdigest()[:8]
    return target.conda.pkgs / ".resume-dl" / f"bundle-{name}"


def mark(stage: Path, prefix: Path) -> None:
    """As a run has left it that was killed while it made the environment."""
    stage.mkdir(parents=True)
    for place in (stage / "making", prefix / ".resume-dl-making"):
        place.write_text("0123456789abcdef" * 2)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> ChannelInfo:
    files = {f"share/many/{number}.txt": b"right" for number in range(2000)}
    return build_channel(tmp_path_factory.mktemp("large"), [PackageSpec(name="many", version="1.0", files=files)])


def wait_for_files(folder: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not folder.is_dir() or sum(1 for _ in folder.iterdir()) < 50:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_killed_in_the_middle_then_repeated(target: Target, large: ChannelInfo, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", large.packages)
    command = (sys.executable, tmp_path / "bundle" / "install.py", "-n", "lab")
    prefix = target.conda.folder / "envs" / "lab"
    with target.start(*command) as process:
        wait_for_files(prefix / "share" / "many", process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        for child in children:
            os.kill(int(child), signal.SIGSTOP)
        busy = target.run(*command)  # its conda lives on, and holds the lock
        for child in children:
            os.kill(int(child), signal.SIGKILL)
    assert busy.returncode == 5, busy.stderr
    assert "another process installs" in busy.stderr
    assert not (prefix / "conda-meta" / "history").exists(), "it was stopped too late to show anything"
    half = next((prefix / "share" / "many").iterdir())
    half.unlink()
    half.write_bytes(b"ri")
    done = target.run(*command)
    assert done.returncode == 0, done.stderr
    assert "starting again" in done.stderr
    assert len(content(prefix)) == 2000
    assert set(content(prefix).values()) == {b"right"}
    assert not (target.conda.pkgs / ".resume-dl").exists()


def test_an_environment_that_conda_only_partly_removed_is_created_again(
    target: Target, channel: ChannelInfo, tmp_path: Path
) -> None:
    """A record without its files, as conda 24 leaves it when it is stopped; then both were killed."""
    lay_bundle(tmp_path / "bundle", two(channel))
    assert target.install(tmp_path / "bundle", "-n", "lab").returncode == 0
    prefix = target.conda.folder / "envs" / "lab"
    (prefix / "share" / "letters" / "a.txt").unlink()
    mark(stage_of(target, prefix), prefix)
    done = target.install(tmp_path / "bundle", "-n", "lab")
    assert done.returncode == 0, done.stderr
    assert "starting again" in done.stderr
    assert content(prefix)["share/letters/a.txt"] == b"a"
    (prefix / "share" / "letters" / "a.txt").unlink()
    told = target.install(tmp_path / "bundle", "-n", "lab")
    assert "files of letters-1.0-0 are missing" in told.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_the_user(target: Target, large: ChannelInfo, tmp_path: Path, number: int) -> None:
    lay_bundle(tmp_path / "bundle", large.packages)
    prefix = target.conda.folder / "envs" / "lab"
    with target.start(sys.executable, tmp_path / "bundle" / "install.py", "-n", "lab") as process:
        wait_for_files(prefix / "share" / "many", process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "stopped" in err
    assert "Traceback" not in err.replace("conda", "")
    assert children
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert not prefix.exists()
    assert not (target.conda.pkgs / ".resume-dl").exists()
    done = target.run(sys.executable, tmp_path / "bundle" / "install.py", "-n", "lab")
    assert done.returncode == 0, done.stderr
    assert len(content(prefix)) == 2000
