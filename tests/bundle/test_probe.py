"""probe.py as it is run on a machine without resume-dl: one file, whatever Python is there, no conda."""

from __future__ import annotations

import ast
import ctypes
import hashlib
import io
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import textwrap
import time
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from resume_dl.offline_tools.machine import programs
from resume_dl.offline_tools.machine.conda_clients import Client, find_clients
from resume_dl.offline_tools.machine.conda_info import first_answer
from resume_dl.offline_tools.machine.shareable import shareable_channels
from resume_dl.offline_tools.machine.virtual_packages import current_platform, level, libc
from resume_dl.offline_tools.tool_names import NAMES
from support.offline_scripts import archive, scripts
from support.processes import Run, has_ended
from support.pythons import SUPPORTED

POSIX = os.name == "posix"
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks at a Linux machine")


def a_machine(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a user who has a home with nothing in it, and no conda."""
    home = folder / "home of müller"
    home.mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("SYSTEMROOT", "LD_PRELOAD", "TMPDIR") if name in os.environ}
    user = {"HOME": str(home), "USERPROFILE": str(home), "USER": "müller", "PATH": os.defpath}
    return {**kept, **user, "RESUME_DL_CONDA": "none", **more}


def run(
    folder: Path, *arguments: str | Path, python: str = sys.executable, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A copy of the script in a folder of its own, as somebody has carried it there."""
    place = folder / "Stick mit Ümlaut"
    place.mkdir(exist_ok=True)
    shutil.copyfile(scripts() / "probe.py", place / "probe.py")
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return subprocess.run(
        [python, str(place / "probe.py"), *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        env=env or a_machine(folder),
        cwd=place,
        timeout=120,
        check=False,
        preexec_fn=_obey_permissions if as_root and sys.platform == "linux" else None,
    )


def _obey_permissions() -> None:
    """Give up what lets root pass over file permissions, CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
    prctl_capability_bounding_set_drop = 24
    for capability in (1, 2):
        ctypes.CDLL(None).prctl(prctl_capability_bounding_set_drop, capability, 0, 0, 0)


def profile(folder: Path, *arguments: str | Path, **options: object) -> dict[str, object]:
    """What it printed."""
    done = run(folder, *arguments, **options)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert isinstance(said, dict)
    return said


@pytest.mark.parametrize("name", NAMES)
def test_they_are_python_3_8_and_need_nothing_but_the_standard_library(name):
    """The grammar of 3.8, and imports of that and of the archive alone (vermin looks at the rest, in make lint)."""
    with zipfile.ZipFile(io.BytesIO(archive(name))) as members:
        sources = {name: members.read(name).decode("utf-8") for name in members.namelist()}
    own = {name[: -len(".py")].replace("/", ".").replace(".__init__", "") for name in sources}
    for path, source in sources.items():
        tree = ast.parse(source, feature_version=(3, 8))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        foreign = {each for each in imported if each.partition(".")[0] not in sys.stdlib_module_names}
        assert foreign <= own, path


def on_windows(monkeypatch: pytest.MonkeyPatch, *, windows: bool = True) -> None:
    """What looks at a machine takes this one for Windows, or for none."""
    for name in [*sys.modules]:
        if name.startswith("resume_dl.offline_tools.machine.") and hasattr(sys.modules[name], "WINDOWS"):
            monkeypatch.setattr(sys.modules[name], "WINDOWS", windows)


@pytest.mark.parametrize("python", SUPPORTED, indirect=True)
def test_every_python_here_runs_it(tmp_path, python):
    """From a folder with blanks and an umlaut; what it says of the Python is that Python's."""
    said = profile(tmp_path, python=python)
    asked = [python, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"]
    assert said["python"] == subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    assert (said["schema"], said["kind"], said["conda"], said["clients"]) == (1, "resume-dl target", None, [])
    assert said["inventory"] == {"packages": [], "wheels": [], "unpacked": []}


@linux_only
def test_the_profile_of_this_machine(tmp_path):
    """Without any conda: as the system's own answers are."""
    said = profile(tmp_path, "--no-inventory")
    packages = said["virtual_packages"]
    assert packages["__glibc"] == os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    assert platform.release().startswith(packages["__linux"])
    assert packages["__unix"] == "0"
    assert packages["__archspec"].startswith("1=x86_64" if platform.machine() == "x86_64" else "1=")
    assert said["platform"] == current_platform()
    assert said["pip"] == version("pip")
    assert "inventory" not in said


def test_isolated_it_runs_too(tmp_path):
    """``python -I``: there is no folder to take off the path."""
    done = subprocess.run(
        [sys.executable, "-I", str(scripts() / "probe.py"), "--no-inventory"],
        capture_output=True,
        check=True,
        env=a_machine(tmp_path),
    )
    assert json.loads(done.stdout)["kind"] == "resume-dl target"


@pytest.mark.parametrize("variable", [{}, {"PYTHONPATH": "."}, {"PYTHONPATH": ""}], ids=["plain", "dot", "empty"])
def test_a_file_beside_it_is_not_run(tmp_path, variable):
    """A bundle's folder may hold a ``json.py`` that somebody has put there."""
    place = tmp_path / "Stick mit Ümlaut"
    place.mkdir()
    for name in ("__future__", "json", "argparse", "os", "pathlib", "pip", "ctypes", "conda", "sysconfig"):
        (place / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n", encoding="utf-8")
    assert profile(tmp_path, env=a_machine(tmp_path, **variable))["python"] is not None
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("python", SUPPORTED, indirect=True)
def test_nor_where_python_has_loaded_nothing_yet(tmp_path, python):
    """``-S``: not even os is there before the script's first import (older Pythons look for it on the path)."""
    shutil.copyfile(scripts() / "probe.py", tmp_path / "probe.py")
    (tmp_path / "os.py").write_text("import sys; sys.exit('ran')\n", encoding="utf-8")
    command = [python, "-S", str(tmp_path / "probe.py"), "--help"]
    done = subprocess.run(command, env=a_machine(tmp_path), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not POSIX, reason="a program is a script with a mode here")
def test_a_program_in_the_current_folder_is_not_run(tmp_path):
    """Nor one that a PATH with relative folders would find."""
    place = tmp_path / "Stick mit Ümlaut"
    place.mkdir()
    for name in ("conda", "mamba", "micromamba", "nvidia-smi", "python3"):
        a_program(place / name, f"touch '{tmp_path}/ran'")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    env = a_machine(tmp_path, PATH=os.pathsep.join(["", ".", "bin", str(closed), os.defpath]))
    del env["RESUME_DL_CONDA"]
    profile(tmp_path, "--no-inventory", env={**env, "MAMBA_ROOT_PREFIX": str(closed), "VIRTUAL_ENV": str(closed)})
    assert not (tmp_path / "ran").exists()


# ------------------------------------------------------------------------------------------------------------ the GPU


def driver(folder: Path, body: str) -> Path:
    """A real shared library in place of NVIDIA's, which no test machine has."""
    if shutil.which("gcc") is None or sys.platform != "linux":
        pytest.skip("gcc makes the driver's library of this test, on Linux")
    folder.mkdir()
    source = folder / "cuda.c"
    source.write_text(f"#include <stdlib.h>\nint cuDriverGetVersion(int *n) {{ {body} }}\n", encoding="utf-8")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", source], check=True)
    return folder


@pytest.mark.parametrize(("number", "version"), [(11000, "11.0"), (12020, "12.2"), (9020, "9.2"), (13000, "13.0")])
def test_the_driver_says_its_version(tmp_path, number, version):
    """The library is asked as conda asks it."""
    library = driver(tmp_path / "driver", f"*n = {number}; return 0;")
    said = profile(tmp_path, "--no-inventory", env=a_machine(tmp_path, LD_LIBRARY_PATH=str(library)))
    assert said["virtual_packages"]["__cuda"] == version


@pytest.mark.parametrize("body", ["abort();", "return 999;", "*n = 0; return 0;", "*(int*)0 = 1; return 0;"])
def test_a_broken_driver_counts_as_missing(tmp_path, body):
    """Even one that ends its process."""
    library = driver(tmp_path / "driver", body)
    said = profile(tmp_path, "--no-inventory", env=a_machine(tmp_path, LD_LIBRARY_PATH=str(library)))
    assert "__cuda" not in said["virtual_packages"]
    assert "__unix" in said["virtual_packages"]


@pytest.mark.skipif(not POSIX, reason="a program is a script with a mode here")
@pytest.mark.parametrize("line", ["| Driver Version: 535.1  CUDA Version: 12.2 |", "| CUDA UMD Version: 12.2 |"])
def test_nvidia_smi_is_used_if_the_library_fails(tmp_path, line):
    """Its table has the number too."""
    (tmp_path / "bin").mkdir()
    a_program(tmp_path / "bin" / "nvidia-smi", f"echo '{line}'")
    env = a_machine(tmp_path, PATH=f"{tmp_path / 'bin'}{os.pathsep}{os.defpath}")
    assert profile(tmp_path, "--no-inventory", env=env)["virtual_packages"]["__cuda"] == "12.2"


def test_an_override_is_not_the_machine(tmp_path):
    """``CONDA_OVERRIDE_*`` says what somebody wants to be solved for."""
    env = a_machine(tmp_path, CONDA_OVERRIDE_CUDA="12.0", CONDA_OVERRIDE_GLIBC="2.99")
    packages = profile(tmp_path, "--no-inventory", env=env)["virtual_packages"]
    assert "__cuda" not in packages
    assert packages.get("__glibc") != "2.99"


# ------------------------------------------------------------------------------------------------------ other machines


@pytest.mark.parametrize(
    ("system", "machine", "bits", "subdir"),
    [
        ("linux", "x86_64", 64, "linux-64"),
        ("linux", "x86_64", 32, "linux-32"),
        ("linux", "i686", 32, "linux-32"),
        ("linux", "aarch64", 64, "linux-aarch64"),
        ("linux", "aarch64", 32, "linux-armv7l"),
        ("linux", "armv7l", 32, "linux-armv7l"),
        ("linux", "ppc64le", 64, "linux-ppc64le"),
        ("linux", "s390x", 64, "linux-s390x"),
        ("linux", "riscv64", 64, "linux-riscv64"),
        ("darwin", "x86_64", 64, "osx-64"),
        ("darwin", "arm64", 64, "osx-arm64"),
        ("freebsd13", "amd64", 64, "freebsd-64"),
    ],
)
def test_platforms_as_conda_names_them(monkeypatch, system, machine, bits, subdir):
    """Those of machines that are not at hand."""
    on_windows(monkeypatch, windows=False)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(sys, "maxsize", 2 ** (bits - 1) - 1)
    assert current_platform() == subdir


@pytest.mark.parametrize(("name", "subdir"), [("win-amd64", "win-64"), ("win32", "win-32"), ("win-arm64", "win-arm64")])
def test_windows_by_what_python_was_built_for(monkeypatch, name, subdir):
    """A 32-bit Python on a 64-bit Windows installs 32-bit packages."""
    on_windows(monkeypatch)
    monkeypatch.setattr(sysconfig, "get_platform", lambda: name)
    assert current_platform() == subdir


def cpuinfo(*flags: str) -> str:
    """/proc/cpuinfo of a machine with one processor for each text."""
    return "".join(f"processor\t: {number}\nflags\t\t: {each}\n\n" for number, each in enumerate(flags))


V2 = "fpu lm cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"
V3 = f"{V2} avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (cpuinfo("fpu lm"), "x86_64"),
        (cpuinfo(V2), "x86_64_v2"),
        (cpuinfo(V3), "x86_64_v3"),
        (cpuinfo(V4), "x86_64_v4"),
        (cpuinfo(V4.replace("popcnt ", "")), "x86_64"),
        (cpuinfo(V4.replace(" movbe", "")), "x86_64_v2"),
        (cpuinfo(V4, V2), "x86_64_v2"),
        ("", "x86_64"),
        ("flags without a colon", "x86_64"),
    ],
)
def test_the_level_is_what_every_processor_has(text, name):
    """Nothing is guessed: a level needs all below it."""
    assert level(text) == name


@pytest.mark.skipif(not POSIX, reason="a program is a script with a mode here")
def test_musl_is_known_by_its_loader(tmp_path, monkeypatch):
    """There ``confstr`` has no such name; the loader prints its version and ends with 1."""

    def unknown(name: str) -> str:
        raise ValueError(name)

    monkeypatch.setattr(os, "confstr", unknown)
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert libc({}, tmp_path) == ("glibc", None)
    a_program(tmp_path / "ld-musl-x86_64.so.1", "printf 'musl libc (x86_64)\\nVersion 1.2.4\\n' >&2; exit 1")
    assert libc({}, tmp_path) == ("musl", "1.2.4")


# ---------------------------------------------------------------------------------------------------------- inventory


def test_archives_and_wheels_by_what_is_in_them(tmp_path):
    """Hashed here; once for each content; what is only unpacked by the digest that conda noted."""
    pkgs, again, wheels = tmp_path / "pkgs", tmp_path / "again", tmp_path / "wheels"
    for folder in (pkgs, again, wheels):
        folder.mkdir()
    content = b"x" * (2 * 2**20 + 1)
    for place in (pkgs / "a-1.0-0.conda", again / "a-1.0-0.conda", pkgs / "b-1.0-0.tar.bz2", wheels / "c.whl"):
        place.write_bytes(content)
    (again / "b-1.0-0.tar.bz2").write_bytes(b"another channel's")
    for name in ("c-1.0-0.conda.partial", "urls.txt", "d.conda.part"):
        (pkgs / name).write_bytes(b"")
    (pkgs / "folder.conda").mkdir()
    unpacked(pkgs / "a-1.0-0", sha256="11" * 32)
    unpacked(pkgs / "e-1.0-0", sha256="22" * 32, md5="33" * 16, url="https://user:secret@host/e")
    unpacked(pkgs / "f-1.0-0", md5="44" * 16, sha256="no digest")
    unpacked(pkgs / "g-1.0-0", url="https://host/g")
    (pkgs / "h-1.0-0" / "info").mkdir(parents=True)
    (pkgs / "h-1.0-0" / "info" / "repodata_record.json").write_text("[" * 100_000, encoding="utf-8")

    folders = ("--pkgs-dir", pkgs, "--pkgs-dir", again, "--pkgs-dir", tmp_path / "again" / ".." / "pkgs")
    done = run(tmp_path, *folders, "--wheels", wheels)
    assert "hashing 5 files, 8.4 MB" in done.stderr  # one folder by two names is one
    said = json.loads(done.stdout)["inventory"]
    sha256, md5 = hashlib.sha256(content).hexdigest(), hashlib.md5(content).hexdigest()
    other = b"another channel's"
    packages = sorted(said["packages"], key=lambda entry: (entry["filename"], entry["size"]))
    assert packages == [
        {"filename": "a-1.0-0.conda", "size": len(content), "sha256": sha256, "md5": md5},
        {
            "filename": "b-1.0-0.tar.bz2",
            "size": len(other),
            "sha256": hashlib.sha256(other).hexdigest(),
            "md5": hashlib.md5(other).hexdigest(),
        },
        {"filename": "b-1.0-0.tar.bz2", "size": len(content), "sha256": sha256, "md5": md5},
    ]
    assert said["wheels"] == [{"filename": "c.whl", "size": len(content), "sha256": sha256}]
    assert said["unpacked"] == [
        {"name": "e-1.0-0", "sha256": "22" * 32, "md5": "33" * 16},
        {"name": "f-1.0-0", "md5": "44" * 16},
    ]


def unpacked(folder: Path, **record: str) -> None:
    """A package of which no archive is left."""
    (folder / "info").mkdir(parents=True)
    (folder / "info" / "repodata_record.json").write_text(json.dumps(record), encoding="utf-8")


@pytest.mark.parametrize("place", ["named", "default"])
def test_our_own_wheels_are_found(tmp_path, place):
    """Where resume-dl puts them by default, and where RESUME_DL_CACHE_DIR says."""
    variables = {"RESUME_DL_CACHE_DIR": str(tmp_path / "cache")} if place == "named" else {}
    env = a_machine(tmp_path, **variables)
    code = "import os; from resume_dl.settings.paths import find_paths; print(find_paths(os.environ).wheels)"
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", code], env=env, capture_output=True, encoding="utf-8", check=True
    )
    wheels = Path(done.stdout.strip())
    assert wheels.is_relative_to(tmp_path)
    wheels.mkdir(parents=True)
    (wheels / "tqdm-4.0-py3-none-any.whl").write_bytes(b"wheel")
    said = profile(tmp_path, env=env)
    assert [each["filename"] for each in said["inventory"]["wheels"]] == ["tqdm-4.0-py3-none-any.whl"]


@pytest.mark.skipif(not POSIX, reason="file modes and names as POSIX has them")
def test_unreadable_and_unnameable_files_are_reported_and_skipped(tmp_path):
    """The rest is there, and the exit code is 0."""
    pkgs = tmp_path / "pkgs"
    pkgs.mkdir()
    for name in ("good-1.0-0.conda", "closed-1.0-0.conda", "of müller-1.0-0.conda"):
        (pkgs / name).write_bytes(b"archive")
    (pkgs / "closed-1.0-0.conda").chmod(0)
    Path(os.fsdecode(os.fsencode(pkgs) + b"/no\xfftext-1.0-0.conda")).touch()
    os.mkfifo(pkgs / "pipe-1.0-0.conda")
    (pkgs / "loop-1.0-0.conda").symlink_to("loop-1.0-0.conda")
    done = run(tmp_path, "--pkgs-dir", pkgs)
    assert done.returncode == 0
    assert [each["filename"] for each in json.loads(done.stdout)["inventory"]["packages"]] == ["good-1.0-0.conda"]
    for name in ("closed-1.0-0.conda: Permission denied", "müller-1.0-0.conda", "text-1.0-0.conda"):
        assert name in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bundle_does_not_name_its_maker_or_machine(tmp_path):
    """No host, user, home or folder, in the values or in the names."""
    pkgs = tmp_path / "pkgs"
    pkgs.mkdir()
    (pkgs / "good-1.0-0.conda").write_bytes(b"archive")
    unpacked(pkgs / "e-1.0-0", sha256="22" * 32, url="https://user:secret@lab-host/e", fn="/home/of/e")
    done = run(tmp_path, "--pkgs-dir", pkgs, "--wheels", pkgs, env=a_machine(tmp_path, HOSTNAME="lab-host"))
    assert "good-1.0-0.conda" in done.stdout
    told = [platform.node(), socket.gethostname(), "müller", "m\\u00fcller", "lab-host", "secret", "/", "\\\\"]
    assert [word for word in told if word and word in done.stdout] == []


# ---------------------------------------------------------------------------------------------------------------- ends


def test_a_missing_folder_is_wrong_usage(tmp_path):
    """Named by the user: 2, before anything is asked or hashed."""
    done = run(tmp_path, "--pkgs-dir", tmp_path / "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path / 'nowhere'} is not a folder" in done.stderr


@linux_only
def test_an_unwritable_output_is_an_error_of_this_machine(tmp_path):
    """5, one line, no traceback from the interpreter's end either."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, str(scripts() / "probe.py"), "--no-inventory"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=a_machine(tmp_path),
            check=False,
        )
    assert done.returncode == 5
    assert done.stderr.splitlines()[0] == "error: cannot write to standard output: No space left on device"
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.skipif(not POSIX, reason="a program is a script with a mode here")
def test_ctrl_c_ends_it_and_its_child_processes(tmp_path):
    """130; the conda that hung is gone."""
    number = tmp_path / "number"
    conda = a_program(tmp_path / "conda", f"echo $$ > '{number}.new'; mv '{number}.new' '{number}'; sleep 600")
    with Run(
        [sys.executable, str(scripts() / "probe.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=a_machine(tmp_path, RESUME_DL_CONDA=str(conda)),
    ) as running:
        wait_for(number)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert err == "stopped; nothing was written\n"
    assert has_ended(int(number.read_text()))


# --------------------------------------------------------------------------------------------------- condas that break


@pytest.mark.skipif(not POSIX, reason="a program is a script with a mode here")
@pytest.mark.parametrize("body", ["exit 1", "echo no json", "echo '{\"a\": 1}'", "echo '[]'", "kill -9 $$", "exit 0"])
def test_a_broken_conda_is_reported_and_skipped(tmp_path, body):
    """It is named among the clients; the platform comes from the machine itself."""
    conda = a_program(tmp_path / "conda", body)
    done = run(tmp_path, "--no-inventory", env=a_machine(tmp_path, RESUME_DL_CONDA=str(conda)))
    said = json.loads(done.stdout)
    assert (done.returncode, said["conda"], said["clients"]) == (0, None, ["conda"])
    assert said["virtual_packages"]
    assert "note: conda does not answer" in done.stderr


@pytest.mark.skipif(not POSIX, reason="a program is a script with a mode here")
def test_a_hanging_conda_costs_only_its_time_out(tmp_path):
    """It and what it has started are ended; the next one is not asked in its time."""
    number, asked = tmp_path / "number", tmp_path / "asked"
    hangs = a_program(tmp_path / "conda", f"sleep 600 & echo $! > '{number}'; wait")
    later = a_program(tmp_path / "mamba", f"touch '{asked}'")
    clients = [Client("conda", (str(hangs),)), Client("mamba", (str(later),))]
    assert first_answer(clients, dict(os.environ), timeout=5) is None
    assert has_ended(int(number.read_text()))
    assert not asked.exists()


MICROMAMBA = {
    "base environment": "/opt/micromamba",
    "channels": ["https://conda.anaconda.org/conda-forge/linux-64", "https://conda.anaconda.org/conda-forge/noarch"],
    "libmamba version": "2.0.5",
    "micromamba version": "2.0.5",
    "package cache": ["/opt/micromamba/pkgs"],
    "platform": "linux-64",
    "virtual packages": ["__unix=0=0", "__linux=5.10=0", "__glibc=2.31=0", "__archspec=1=skylake", "__cuda=12.2=0"],
}
"""``micromamba info --json`` (libmamba's api/info.cpp)."""


@pytest.mark.skipif(not POSIX, reason="a program is a script with a mode here")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"virtual_pkgs": [["__cuda", "12.2", "0"], ["__bad name", "1", "0"], ["__x", "", ""], ["__y", "of 1", "0"], 5]},
    ],
)
def test_micromamba_is_used_without_conda(tmp_path, changes):
    """It answers in a form of its own, with lines of a wrapper before it."""
    answer = {**MICROMAMBA, **changes}
    (tmp_path / "said.json").write_text(json.dumps(answer), encoding="utf-8")
    program = a_program(tmp_path / "micromamba", f"echo a line; cat '{tmp_path / 'said.json'}'")
    said = profile(tmp_path, "--no-inventory", env=a_machine(tmp_path, RESUME_DL_CONDA=str(program)))
    assert said["clients"] == ["micromamba"]
    assert said["conda"] == {
        "client": "micromamba",
        "version": "2.0.5",
        "channels": ["https://conda.anaconda.org/conda-forge"],
        "channels_left_out": 0,
        "solver": None,
        "channel_priority": None,
    }
    expected = {"__archspec": "1=skylake", "__cuda": "12.2", "__glibc": "2.31", "__linux": "5.10", "__unix": "0"}
    assert said["virtual_packages"] == ({"__cuda": "12.2", "__x": "0"} if changes else expected)


@pytest.mark.skipif(not POSIX, reason="a program is a script with a mode here")
def test_clients_are_found_in_their_usual_places(tmp_path):
    """By variable, PATH and the usual folders; conda before mamba before micromamba, each place once."""
    env = a_machine(tmp_path)
    del env["RESUME_DL_CONDA"]
    own = Path(env["HOME"])
    places = [
        own / "miniforge3" / "bin" / "conda",
        own / "miniforge3" / "bin" / "mamba",
        own / ".local" / "bin" / "micromamba",
        tmp_path / "on path" / "conda",
        tmp_path / "elsewhere" / "bin" / "mamba",
        tmp_path / "by name" / "micromamba-2",
        tmp_path / "envs" / "of" / "bin" / "conda",
    ]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        a_program(place, "exit 1")
    (own / ".conda").mkdir()
    (own / ".conda" / "environments.txt").write_text(f"{tmp_path / 'envs' / 'of'}\n", encoding="utf-8")
    env["PATH"] = str(tmp_path / "on path")
    env["MAMBA_ROOT_PREFIX"] = str(tmp_path / "elsewhere")
    env["MAMBA_EXE"] = str(tmp_path / "by name" / "micromamba-2")
    env["CONDA_EXE"] = str(own / "miniforge3" / "bin" / "conda")
    found = [client for client in find_clients(env) if client.command[0].startswith(str(tmp_path))]
    assert [client.name for client in found] == ["conda"] * 3 + ["mamba"] * 2 + ["micromamba"] * 2
    assert {client.command[0] for client in found} == set(map(str, places))
    assert found[0].command == (env["CONDA_EXE"],)
    assert find_clients({**env, "RESUME_DL_CONDA": "none"}) == []
    assert [each.command[0] for each in find_clients({**env, "RESUME_DL_CONDA": str(places[1])})] == [str(places[1])]


def test_clients_of_windows(tmp_path, monkeypatch):
    """The folders that their installers fill there; for ``conda.bat`` of PATH the program that it calls."""
    on_windows(monkeypatch)
    env = {"USERPROFILE": str(tmp_path / "home"), "LOCALAPPDATA": str(tmp_path / "local"), "PATH": "", "CONDA_EXE": ""}
    places = [
        tmp_path / "own" / "Scripts" / "conda.exe",
        tmp_path / "home" / "miniconda3" / "Scripts" / "conda.exe",
        tmp_path / "own" / "Library" / "bin" / "mamba.exe",
        tmp_path / "local" / "micromamba" / "micromamba.exe",
    ]
    for place in (*places, tmp_path / "own" / "condabin" / "conda.bat"):
        place.parent.mkdir(parents=True, exist_ok=True)
        a_program(place, "exit 1")
    env |= {"PATH": str(tmp_path / "own" / "condabin"), "PATHEXT": ".COM;.EXE;.BAT"}
    env["MAMBA_ROOT_PREFIX"] = str(tmp_path / "own")
    found = [client for client in find_clients(env) if client.command[0].startswith(str(tmp_path))]
    assert [client.command[0] for client in found] == list(map(str, places))
    assert [client.name for client in found] == ["conda", "conda", "mamba", "micromamba"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://conda.anaconda.org/conda-forge/linux-64", "https://conda.anaconda.org/conda-forge"),
        ("https://conda.anaconda.org/conda-forge/noarch", "https://conda.anaconda.org/conda-forge"),
        ("https://conda.anaconda.org/linux-64x", "https://conda.anaconda.org/linux-64x"),
        ("https://user:pass@nexus.example:8443/conda/main/noarch", "https://nexus.example:8443/conda/main"),
        ("https://conda.anaconda.org/t/tk-1-2/private/noarch", "https://conda.anaconda.org/private"),
        ("https://conda.anaconda.org/t/<TOKEN>/private/noarch", "https://conda.anaconda.org/private"),
        ("http://[::1]:80/c/noarch", "http://[::1]:80/c"),
        ("https://user:pa/ss@host.example/c/noarch", None),
        ("https://host.example/user:pass@c/noarch", None),
        ("https://host.example/c?token=x/noarch", "https://host.example/c"),
        ("https://host.example:no/c/noarch", None),
        ("file:///srv/channel/noarch", None),
        ("file://host/channel/noarch", None),
        (f"http://{socket.gethostname()}/c/noarch", None),
        (f"http://{platform.node().upper()}:8080/c/noarch", None),
        ("http://[broken/noarch", None),
        ("/srv/channel", None),
        ("", None),
    ],
)
def test_private_channels_are_left_out(url, shown):
    """A login is taken out; what only this machine reaches, or cannot be told from a login, is left out."""
    assert shareable_channels([url], "linux-64") == (([], 1) if shown is None else ([shown], 0))


def a_program(place: Path, body: str) -> Path:
    """A shell script that runs."""
    place.write_text(textwrap.dedent(f"#!/bin/sh\n{body}\n"), encoding="utf-8")
    place.chmod(0o755)
    return place


def wait_for(place: Path) -> None:
    """Until it is there."""
    for _ in range(1200):
        if place.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{place} has not come")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_closed_pipe_is_not_an_error(tmp_path: Path, stream: str) -> None:
    read, write = os.pipe()
    os.close(read)
    folder = tmp_path / "caches"
    folder.mkdir()
    (folder / "a-1-0.conda").write_bytes(b"some")  # it is told on stderr that it is hashed
    command = [sys.executable, str(scripts() / "probe.py"), "--pkgs-dir", str(folder)]
    env = {name: value for name, value in a_machine(tmp_path).items() if name != "PYTHONUNBUFFERED"}
    other = "stderr" if stream == "stdout" else "stdout"
    try:
        done = subprocess.run(
            command,
            **{stream: write, other: subprocess.PIPE},
            env=env,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write)
    assert done.returncode == 0
    if stream == "stderr":
        assert json.loads(done.stdout)["inventory"]["packages"][0]["filename"] == "a-1-0.conda"
    else:
        assert done.stderr.startswith("hashing 1 files")


@pytest.mark.skipif(not POSIX, reason="a program is a script with a mode here")
@pytest.mark.parametrize("slow", [True, False])
def test_a_slow_conda_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: bool) -> None:
    monkeypatch.setattr(programs, "SECONDS_BETWEEN_LINES", 0.2 if slow else 30.0)
    conda = a_program(tmp_path / "conda", 'sleep 1\necho \'{"conda_version": "24.1"}\'')
    lines: list[str] = []
    client = Client("conda", (str(conda),))
    answered = first_answer([client], dict(os.environ), log=lines.append)
    assert answered is not None
    assert answered[1].version == "24.1"
    assert len(lines) == slow
    assert all(
        re.fullmatch(rf"waiting for {re.escape(str(conda))} info --json, for \d+ s more at most", each)
        for each in lines
    )


@pytest.mark.skipif(not POSIX, reason="a program is a script with a mode here")
def test_a_hanging_conda_is_reported_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "SECONDS_BETWEEN_LINES", 0.2)
    conda = a_program(tmp_path / "conda", "exec sleep 600")
    lines: list[str] = []
    client = Client("conda", (str(conda),))
    assert first_answer([client], dict(os.environ), timeout=5.2, log=lines.append) is None
    (line,) = lines
    assert re.fullmatch(rf"waiting for {re.escape(str(conda))} info --json, for [0-5] s more at most", line)
