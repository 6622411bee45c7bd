# ruff: noqa: FA100 - `from __future__ import` runs a __future__.py that somebody laid beside the script
"""What this machine is and has, as one JSON object on stdout: ``python probe.py > target.json``.

For a machine that a bundle is prepared for, and which has no net: platform and virtual packages as its conda says them
(CEP 30), the Python that its pip installs for, and the archives and wheels in its caches by digest. The file leaves
the machine, so no host name, user name, path or login is in it. One file, Python 3.8 or newer, nothing but its
standard library. conda is asked as a program and never imported: whatever Python runs this need not be conda's.
"""

import sys

if sys.version_info < (3, 8):  # noqa: UP036 - whatever Python is there runs this
    needed: str = "Python 3.8 or newer is needed"  # one without annotations ends here, and shows this line
    sys.stderr.write(f"{needed}; this is {sys.version.split()[0]}\n")
    sys.exit(2)

if __name__ == "__main__" and not __package__:
    # Nothing that lies beside this file may pass for a part of Python: a bundle comes from elsewhere.
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        del sys.path[0]
    import os

    _own = os.path.realpath(os.path.dirname(__file__))  # noqa: PTH120 - pathlib is looked for on that path
    sys.path[:] = [place for place in sys.path if place and os.path.realpath(place) != _own]

import argparse
import hashlib
import json
import os
import platform
import re
import signal
import socket
import subprocess
import sysconfig
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple
from urllib.parse import urlsplit

SCHEMA = 1
KIND = "resume-dl target"
INVENTORY_KIND = "resume-dl inventory"
CREATED_BY = "resume-dl probe.py"
PATIENCE = 60.0
"""Seconds for all questions to condas: the first start after a boot is slow."""
SHORT = 30.0
"""Seconds for a Python, a driver's library or nvidia-smi."""
ARCHIVES = (".conda", ".tar.bz2")
WINDOWS = sys.platform == "win32"
_BLOCK = 1 << 20
_EVERY = 5.0
_MOST_RECORD = 16 << 20
_DISTRIBUTIONS = ("miniforge3", "miniconda3", "anaconda3", "mambaforge", "conda")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+!~-]*")
_HEX = {"sha256": re.compile(r"[0-9a-f]{64}"), "md5": re.compile(r"[0-9a-f]{32}")}
_VIRTUAL = re.compile(r"__[a-z0-9][a-z0-9_.-]*")
_VERSION = re.compile(r"[0-9][0-9A-Za-z_.]*")
_BUILD = re.compile(r"[A-Za-z0-9_.+-]+")
_MACHINES = ("armv6l", "armv7l", "aarch64", "arm64", "ppc64", "ppc64le", "riscv64", "s390x")
_SCHEMES = ("http", "https", "s3", "gs", "oci", "ftp")
_LEVELS = (
    ("x86_64_v2", ("cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3")),
    ("x86_64_v3", ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave")),
    ("x86_64_v4", ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")),
)
"""Levels of the x86-64 psABI, by the names that /proc/cpuinfo gives their features; each needs those before it."""
_ASK_PYTHON = """
import sys, sysconfig
if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit("wheels are chosen for the usual CPython")
try:
    from importlib.metadata import version
except ImportError:
    from pkg_resources import get_distribution
    version = lambda name: get_distribution(name).version
try:
    pip = version("pip")
except Exception:
    pip = ""
print("%d.%d.%d" % sys.version_info[:3], pip, sep="\\n")
"""
_ASK_DRIVER = """
import ctypes, sys
load = ctypes.WinDLL if sys.platform == "win32" else ctypes.CDLL
for place in sys.argv[1:]:
    try:
        library = load(place)
    except OSError:
        continue
    number = ctypes.c_int(0)
    if library.cuDriverGetVersion(ctypes.byref(number)) == 0 and number.value > 0:
        print(number.value)
    break
"""


class ProbeError(Exception):
    """What ends a run: its text, what to do next, and the exit code."""

    def __init__(self, message: str, hint: str, code: int) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


class Client(NamedTuple):
    """A program on this machine that installs conda packages."""

    name: str
    """``conda``, ``mamba`` or ``micromamba``."""
    command: Tuple[str, ...]
    """What to start, before its own arguments."""


class CondaInfo(NamedTuple):
    """What one of them says of itself. ``channels`` may hold logins: never print it (``shareable_channels``)."""

    version: str
    platform: str
    """conda's subdir; empty where it does not say."""
    virtual_packages: Dict[str, str]
    """``__glibc`` -> ``2.31``, ``__archspec`` -> ``1=x86_64_v3``; empty where it knows none (conda before 4.7)."""
    channels: Tuple[str, ...]
    pkgs_dirs: Tuple[str, ...]
    root_prefix: str
    envs_dirs: Tuple[str, ...]
    solver: str
    python: str = ""
    """The path of the Python that it runs in; empty where it does not say."""


class Profile(NamedTuple):
    """The answer, and where to look for what this machine has."""

    answer: Dict[str, Any]
    """target.json without its inventory."""
    pkgs_dirs: Tuple[Path, ...]


Told = Callable[[str], None]


def tell(text: str) -> None:
    """A line on stderr; a closed stderr is no error."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")
        sys.stderr.flush()


# ---------------------------------------------------------------------------------------------------------- children


def run_quietly(
    command: Iterable[str], env: Mapping[str, str], timeout: float, told: Optional[Told] = None
) -> Tuple[Optional[int], str]:
    """Run a program to its end: its exit code and what it printed on stdout; (None, "") where it cannot be had.

    Whatever it started is gone too. It stands in its own folder: ``-m`` would run what lies in the user's. ``told``
    gets a line where it takes long.
    """
    line = list(command)
    try:
        with tempfile.TemporaryFile() as out:  # no pipe: a grandchild that keeps one open would hang its reader
            process = subprocess.Popen(
                line,
                env=dict(env),
                cwd=str(Path(line[0]).parent),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.DEVNULL,
                start_new_session=not WINDOWS,
                creationflags=int(getattr(subprocess, "CREATE_NO_WINDOW", 0)),
            )
            try:
                code = _wait(process, min(timeout, _EVERY))
                if code is None and timeout > _EVERY:
                    if told is not None:
                        told("waiting for " + " ".join(line) + f", for {timeout - _EVERY:.0f} s more at most")
                    code = _wait(process, timeout - _EVERY)
            finally:
                _end(process)
            return (None, "") if code is None else (code, _text(out))
    except (OSError, ValueError):
        return None, ""


def _wait(process: "subprocess.Popen[bytes]", timeout: float) -> Optional[int]:
    """Its exit code, or None where it has none after so many seconds."""
    try:
        return process.wait(max(0.0, timeout))
    except subprocess.TimeoutExpired:
        return None


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is not None:
        return
    with suppress(OSError):
        if WINDOWS:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):  # stuck in the kernel: it is not waited for
        process.wait(5)


def _text(out: IO[bytes]) -> str:
    out.seek(0)
    return out.read().decode("utf-8", "replace")


def _json_in(text: str) -> Any:
    """The first JSON object in a text: a plugin or a wrapper may have printed a line before."""
    start = text.find("{")
    try:
        return json.JSONDecoder().raw_decode(text, start)[0] if start >= 0 else None
    except (ValueError, RecursionError):
        return None


# -------------------------------------------------------------------------------------------------- finding programs


def _is_file(place: Path) -> bool:
    """Whether it is a file; False too where nobody may look (a folder of PATH, an alias of the Windows Store)."""
    try:
        return place.is_file()
    except OSError:
        return False


def find_program(name: str, env: Mapping[str, str]) -> Optional[Path]:
    """The first program of this name on PATH; never one in the current folder, which may be a bundle's."""
    endings = [ending for ending in env.get("PATHEXT", ".EXE;.BAT").split(";") if ending] if WINDOWS else [""]
    for folder in env.get("PATH", "").split(os.pathsep):
        if Path(folder).is_absolute():
            for ending in endings:
                place = Path(folder, name + ending.lower())
                if _is_file(place) and os.access(str(place), os.X_OK):
                    return place
    return None


def find_clients(env: Optional[Mapping[str, str]] = None) -> List[Client]:
    """conda, then mamba, then micromamba, each wherever it was found, the likeliest first; nothing is run.

    ``RESUME_DL_CONDA`` names the one to use (a program, or a Python that can ``-m conda``), ``none`` hides them all.
    """
    env = os.environ if env is None else env
    named = env.get("RESUME_DL_CONDA", "").strip()
    if named:
        if named.lower() == "none":
            return []
        place = Path(named) if Path(named).name != named else find_program(named, env)
        return [_client(place.absolute())] if place is not None and _is_file(place) else []
    found: Dict[Path, Client] = {}
    for place in _places(env):
        if place not in found and _is_file(place):
            found[place] = _client(place)
    order = ("conda", "mamba", "micromamba")
    return sorted(found.values(), key=lambda client: order.index(client.name))


def _client(place: Path) -> Client:
    stem = place.name.lower().split(".")[0]
    if stem.startswith(("python", "pypy")):
        return Client("conda", (str(place), "-m", "conda"))
    return Client("micromamba" if "micromamba" in stem else "mamba" if "mamba" in stem else "conda", (str(place),))


def _places(env: Mapping[str, str]) -> Iterator[Path]:
    for variable in ("CONDA_EXE", "CONDA_PYTHON_EXE", "MAMBA_EXE"):
        if Path(env.get(variable, "")).is_absolute():
            yield Path(env[variable])
    for name in ("conda", "mamba", "micromamba"):
        program = find_program(name, env)
        if program is not None:
            # condabin\conda.bat changes its caller's environment; the program that it calls is what answers.
            yield from _in_root(program.parent.parent) if program.suffix.lower() == ".bat" else (program,)
    for root in _roots(env):
        yield from _in_root(root)
    if not WINDOWS:
        yield home(env) / ".local" / "bin" / "micromamba"
        yield home(env) / "bin" / "micromamba"


def _in_root(root: Path) -> Tuple[Path, ...]:
    if WINDOWS:
        folders, ending = [root / "Scripts", root / "Library" / "bin", root], ".exe"
    else:
        folders, ending = [root / "bin"], ""
    return tuple(folder / (name + ending) for name in ("conda", "mamba", "micromamba") for folder in folders)


def _roots(env: Mapping[str, str]) -> List[Path]:
    """Root prefixes, and environments that may be one; they need not exist."""
    own = home(env)
    found = [Path(env[name]) for name in ("CONDA_ROOT_PREFIX", "MAMBA_ROOT_PREFIX") if env.get(name)]
    exe = Path(env.get("CONDA_EXE", ""))
    if exe.is_absolute():
        found.append(exe.parent.parent)
    found.append(Path(sys.prefix))
    with suppress(OSError):
        known = (own / ".conda" / "environments.txt").read_text(encoding="utf-8", errors="replace")
        for line in filter(None, map(str.strip, known.splitlines())):
            prefix = Path(line)
            found += [prefix, prefix.parent.parent] if prefix.parent.name == "envs" else [prefix]
    if WINDOWS:
        local = Path(env.get("LOCALAPPDATA") or own)
        folders = [own, local, Path(env.get("PROGRAMDATA", "C:/ProgramData")), Path("C:/tools"), Path("C:/")]
        found += [local / "micromamba", own / "AppData" / "Roaming" / "mamba"]
    else:
        folders = [own, own / "opt", own / ".local", Path("/opt"), Path("/usr/local")]
        found += [Path("/opt/homebrew/Caskroom", name, "base") for name in ("miniforge", "miniconda")]
    found += [folder / distribution for folder in folders for distribution in _DISTRIBUTIONS]
    found += [own / "micromamba", own / ".local" / "share" / "mamba"]
    return [root for root in dict.fromkeys(found) if root.is_absolute()]


def home(env: Mapping[str, str]) -> Path:
    """The user's home as ``~`` means it."""
    named = env.get("USERPROFILE" if WINDOWS else "HOME", "")
    try:
        return Path(named) if named else Path.home()
    except RuntimeError:
        return Path(os.sep)  # a user that the system has no record of


# ------------------------------------------------------------------------------------------------------ asking a conda


def plain_environment(env: Mapping[str, str]) -> Dict[str, str]:
    """``env`` without ``CONDA_OVERRIDE_*``: they say what the machine is not."""
    return {name: value for name, value in env.items() if not name.upper().startswith("CONDA_OVERRIDE_")}


def conda_info(
    command: Iterable[str],
    env: Optional[Mapping[str, str]] = None,
    timeout: float = PATIENCE,
    told: Optional[Told] = None,
) -> Optional[CondaInfo]:
    """What ``<command> info --json`` says, or None: it is not there, fails, or does not answer in time."""
    env = plain_environment(os.environ if env is None else env)
    code, text = run_quietly((*command, "info", "--json"), env, timeout, told)
    answer = _json_in(text) if code == 0 else None
    if not isinstance(answer, dict):
        return None
    version = next(
        (answer[key] for key in ("conda_version", "micromamba version", "mamba version", "libmamba version")
         if isinstance(answer.get(key), str)),
        "",
    )  # fmt: skip
    solver = answer.get("solver")
    return CondaInfo(
        version=_public(version),
        platform=_one(answer.get("platform")),
        virtual_packages=_virtual(answer.get("virtual_pkgs", answer.get("virtual packages"))),
        channels=_texts(answer.get("channels")),
        pkgs_dirs=_texts(answer.get("pkgs_dirs", answer.get("package cache"))),
        root_prefix=_one(answer.get("root_prefix", answer.get("base environment"))),
        envs_dirs=_texts(answer.get("envs_dirs", answer.get("envs directories"))),
        solver=_one(solver.get("name") if isinstance(solver, dict) else solver),
        python=_one(answer.get("sys.executable")),
    )


def _public(version: str) -> str:
    """A version without its local part, which one of a source checkout has; empty for what is none."""
    version = version.partition("+")[0]
    return version if _VERSION.fullmatch(version) else ""


def _one(value: Any) -> str:
    """A text; the only one of a list, as micromamba gives some."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> Tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _virtual(rows: Any) -> Dict[str, str]:
    """``[name, version, build]`` (conda) or ``name=version=build`` (mamba, micromamba) as a mapping."""
    found: Dict[str, str] = {}
    for row in rows if isinstance(rows, list) else ():
        parts = row.split("=") if isinstance(row, str) else list(row) if isinstance(row, list) else []
        name, version, build = [*(str(part or "0") for part in parts), "0", "0", "0"][:3]
        version = _public(version)
        if _VIRTUAL.fullmatch(name) and version and _BUILD.fullmatch(build):
            found[name] = version if build == "0" else version + "=" + build
    return dict(sorted(found.items()))


def first_answer(
    clients: Iterable[Client], env: Mapping[str, str], timeout: float = PATIENCE, told: Told = tell
) -> Optional[Tuple[Client, CondaInfo]]:
    """The first client that answers, within ``timeout`` seconds for all of them together; ``told`` who is awaited."""
    deadline = time.monotonic() + timeout
    for client in clients:
        left = deadline - time.monotonic()
        info = conda_info(client.command, env, left, told) if left > 0 else None
        if info is not None and (info.version or info.platform):
            return client, info
    return None


def _channel_priority(client: Client, env: Mapping[str, str]) -> Optional[str]:
    if client.name != "conda":
        return None
    command = (*client.command, "config", "--show", "channel_priority", "--json")
    _, text = run_quietly(command, plain_environment(env), SHORT)
    answer = _json_in(text)
    value = str(answer.get("channel_priority", "")).lower() if isinstance(answer, dict) else ""
    return value if value in ("strict", "flexible", "disabled") else None


def shareable_channels(urls: Iterable[str], subdir: str) -> Tuple[List[str], int]:
    """The channels' addresses without login, token and subdir, each once; and how many are left out.

    Left out is what only this machine can reach (``file:``, its own name), and what cannot be told from a login.
    """
    kept: Dict[str, None] = {}
    left: Dict[str, None] = {}
    for url in urls:
        base, _, last = url.rstrip("/").rpartition("/")
        place = base if last in (subdir, "noarch") else url.rstrip("/")
        shown = _shareable(place)
        if shown is None:
            left[place] = None
        else:
            kept[shown] = None
    return list(kept), len(left)


def _shareable(url: str) -> Optional[str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    path = re.sub(r"/t/[^/]*(?=/|$)", "", parts.path)
    if parts.scheme not in _SCHEMES or not re.fullmatch(r"[A-Za-z0-9._:-]+", host) or _is_own_name(host):
        return None
    if not re.fullmatch(r"(?:/[A-Za-z0-9._~%+-]+)*", path):
        return None
    netloc = "[" + host + "]" if ":" in host else host
    return parts.scheme + "://" + netloc + ("" if port is None else ":" + str(port)) + path


def _is_own_name(host: str) -> bool:
    names = {name.lower() for name in (platform.node(), socket.gethostname()) if name}
    return host.lower() in names | {name.split(".")[0] for name in names} - {"localhost"}


# -------------------------------------------------------------------------------------------------- the machine itself


def current_platform() -> str:
    """The subdir, as conda names it, for the Python that runs this: its own size counts, not the kernel's."""
    if WINDOWS:
        return {"win32": "win-32", "win-arm64": "win-arm64"}.get(sysconfig.get_platform(), "win-64")
    system = {"darwin": "osx", "zos": "zos"}.get(sys.platform, sys.platform.rstrip("0123456789"))
    machine = platform.machine().lower()
    bits = 64 if sys.maxsize > 2**32 else 32
    if bits == 32 and machine in ("aarch64", "armv8l"):
        machine = "armv7l"
    if system == "zos":
        return "zos-z"
    return system + "-" + (machine if machine in _MACHINES else str(bits))


def virtual_packages(subdir: str, env: Mapping[str, str]) -> Dict[str, str]:
    """This machine's, found without any conda: name -> version, or ``version=build``."""
    found: Dict[str, Optional[str]] = {}
    if subdir.startswith("linux-"):
        kernel = re.match(r"\d+\.\d+(\.\d+)?(\.\d+)?", platform.release())
        family, version = libc(env)
        found = {"__unix": "0", "__linux": kernel.group() if kernel else "0", "__" + family: version}
    elif subdir.startswith("osx-"):
        found = {"__unix": "0", "__osx": _macos(env)}
    elif subdir.startswith("win-"):
        found = {"__win": platform.version()}
    elif subdir.startswith("freebsd-"):
        found = {"__unix": "0"}
    found["__archspec"] = _archspec(subdir)
    found["__cuda"] = cuda_version(env)
    return {name: value for name, value in sorted(found.items()) if value}


def libc(env: Mapping[str, str], loaders: Path = Path("/lib")) -> Tuple[str, Optional[str]]:
    """The C library of a Linux and its version: ``glibc`` or ``musl``; None where nobody can tell the version."""
    with suppress(ValueError, OSError, AttributeError):
        family, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        if family == "glibc" and version:
            return "glibc", version
    family, version = platform.libc_ver()
    if family in ("glibc", "musl") and version:
        return family, version
    # musl has neither; its loader says its version when it is run without a program (PEP 656)
    for loader in sorted(loaders.glob("ld-musl-*.so.1")):
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(
                [str(loader)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=dict(env), timeout=SHORT, check=False,
            )  # fmt: skip
            said = re.search(rb"Version (\d+(?:\.\d+)+)", done.stdout)
            return "musl", said.group(1).decode() if said else "0"
    return "glibc", None


def _macos(env: Mapping[str, str]) -> Optional[str]:
    version = platform.mac_ver()[0]
    if version == "10.16":  # what a Python built for an older system is told by every newer one
        place = "/usr/bin/sw_vers"
        code, text = run_quietly((place, "-productVersion"), {**env, "SYSTEM_VERSION_COMPAT": "0"}, SHORT)
        version = text.strip() if code == 0 and text.strip() else version
    return version or None


def _archspec(subdir: str) -> Optional[str]:
    """The least that is sure: the family, and on Linux the level that the kernel's flags prove."""
    machine = subdir.partition("-")[2]
    name = {"64": "x86_64", "arm64": "m1" if subdir.startswith("osx-") else "aarch64"}.get(machine, machine)
    if name not in ("x86_64", "m1", "aarch64", "ppc64le"):
        return None
    if subdir == "linux-64":
        with suppress(OSError):
            name = level(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"))
    return "1=" + name


def level(cpuinfo: str) -> str:
    """The x86-64 level that every processor of /proc/cpuinfo has: ``x86_64`` to ``x86_64_v4``."""
    found = re.findall(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    flags = set.intersection(*(set(line.split()) for line in found)) if found else set()
    name = "x86_64"
    for higher, needed in _LEVELS:
        if not flags.issuperset(needed):
            break
        name = higher
    return name


def cuda_version(env: Mapping[str, str]) -> Optional[str]:
    """The newest CUDA that the driver can run (``12.2``), or None: no driver, or nobody can say."""
    number = ""
    if sys.executable:
        # In a process of its own: a driver's library that fits badly ends its process, not an exception.
        command = (sys.executable, "-I", "-c", _ASK_DRIVER, *_driver_libraries(env))
        code, text = run_quietly(command, env, SHORT)
        number = text.strip() if code == 0 else ""
    if re.fullmatch(r"[0-9]{4,6}", number):
        return str(int(number) // 1000) + "." + str(int(number) % 1000 // 10)
    return _asked_of_nvidia_smi(env)


def _driver_libraries(env: Mapping[str, str]) -> Tuple[str, ...]:
    if WINDOWS:
        return (str(Path(env.get("SYSTEMROOT", "C:/Windows"), "System32", "nvcuda.dll")), "nvcuda.dll")
    if sys.platform == "darwin":
        names = ("libcuda.1.dylib", "libcuda.dylib")
        return (*names, *("/usr/local/cuda/lib/" + name for name in names))
    machine = platform.machine()
    folders = ("", "/usr/lib64/nvidia/", "/usr/lib/" + machine + "-linux-gnu/", "/usr/lib/wsl/lib/")
    return tuple(folder + name for folder in folders for name in ("libcuda.so.1", "libcuda.so"))


def _asked_of_nvidia_smi(env: Mapping[str, str]) -> Optional[str]:
    places = [find_program("nvidia-smi", env)]
    if WINDOWS:
        places.append(Path(env.get("SYSTEMROOT", "C:/Windows"), "System32", "nvidia-smi.exe"))
    else:
        places.append(Path("/usr/lib/wsl/lib/nvidia-smi"))
    for place in places:
        if place is not None and _is_file(place):
            code, text = run_quietly((str(place),), env, SHORT)
            said = re.search(r"CUDA (?:\w+ )?Version:\s*(\d+\.\d+)", text)
            if code == 0 and said:
                return said.group(1)
    return None


# ---------------------------------------------------------------------------------------------------------------- pip


def pip_python(env: Mapping[str, str]) -> Optional[Tuple[str, str]]:
    """Versions of the Python that pip installs for and of its pip, or None where no Python has one.

    ``RESUME_DL_PIP_PYTHON``, else the active environment's, else the one that runs this, else the first on PATH.
    """
    named = env.get("RESUME_DL_PIP_PYTHON", "")
    candidates = [Path(named)] if named else _pythons(env)
    for place in dict.fromkeys(candidates):
        if not _is_file(place):
            continue
        code, text = run_quietly((str(place.absolute()), "-c", _ASK_PYTHON), env, SHORT)
        said = text.splitlines() if code == 0 else []
        if len(said) == 2 and re.fullmatch(r"\d+\.\d+\.\d+", said[0]) and _public(said[1]):
            return said[0], _public(said[1])
    return None


def _pythons(env: Mapping[str, str]) -> List[Path]:
    folders = env.get("PATH", "").split(os.pathsep)
    active = [_python_of(Path(env[name])) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if env.get(name)]

    def rank(place: Path) -> int:
        return folders.index(str(place.parent)) if str(place.parent) in folders else len(folders)

    on_path = [find_program(name, env) for name in ("python3", "python")]
    own = [Path(sys.executable)] if sys.executable else []
    return [*sorted(active, key=rank), *own, *(place for place in on_path if place is not None)]


def _python_of(prefix: Path) -> Path:
    if not WINDOWS:
        return prefix / "bin" / "python"
    of_venv = prefix / "Scripts" / "python.exe"
    return of_venv if _is_file(of_venv) else prefix / "python.exe"


# ---------------------------------------------------------------------------------------------------- what it has


def pkgs_dirs(info: Optional[CondaInfo], env: Optional[Mapping[str, str]] = None) -> List[Path]:
    """The package caches of this machine that are there: those that a client named, then where others keep theirs."""
    env = os.environ if env is None else env
    named = [Path(place) for place in info.pkgs_dirs] if info is not None else []
    if env.get("RESUME_DL_CONDA", "").strip().lower() != "none":
        variable = env.get("CONDA_PKGS_DIRS", "")
        named += [Path(place).expanduser() for place in variable.replace(",", os.pathsep).split(os.pathsep) if place]
        named += [root / "pkgs" for root in _roots(env)]
        named.append(home(env) / ".conda" / "pkgs")
        if WINDOWS and env.get("LOCALAPPDATA"):
            named.append(Path(env["LOCALAPPDATA"], "conda", "conda", "pkgs"))
    return _folders(named)


def wheel_dirs(env: Optional[Mapping[str, str]] = None) -> List[Path]:
    """The folder that resume-dl keeps wheels in, if it is there."""
    env = os.environ if env is None else env
    own = env.get("RESUME_DL_CACHE_DIR", "").strip()
    if own:
        cache = Path(own).expanduser()
    elif WINDOWS:
        cache = Path(env.get("LOCALAPPDATA") or home(env) / "AppData" / "Local", "resume-dl", "Cache")
    elif sys.platform == "darwin":
        cache = Path(env.get("XDG_CACHE_HOME") or home(env) / "Library" / "Caches", "resume-dl")
    else:
        cache = Path(env.get("XDG_CACHE_HOME") or home(env) / ".cache", "resume-dl")
    return _folders([cache / "wheels"])


def _folders(places: Iterable[Path]) -> List[Path]:
    found: Dict[str, Path] = {}
    for place in places:
        with suppress(OSError):
            if place.is_absolute() and place.is_dir():
                found.setdefault(os.path.realpath(str(place)), place)
    return list(found.values())


def hash_file(path: Path, told: Optional[Callable[[int], None]] = None) -> Tuple[int, str, Optional[str]]:
    """Size in bytes, sha256 and md5 of a file, read in blocks; no md5 where this Python forbids it (FIPS).

    ``told`` gets the size of each block. Raises OSError.
    """
    sha256, md5 = hashlib.sha256(), _md5()
    size = 0
    with path.open("rb") as file:
        while True:
            block = file.read(_BLOCK)
            if not block:
                break
            sha256.update(block)
            if md5 is not None:
                md5.update(block)
            size += len(block)
            if told is not None:
                told(len(block))
    return size, sha256.hexdigest(), None if md5 is None else md5.hexdigest()


def _md5() -> Any:
    options: Dict[str, Any] = {"usedforsecurity": False} if sys.version_info >= (3, 9) else {}
    try:
        return hashlib.md5(**options)  # noqa: S324 - old records have no other digest
    except ValueError:
        return None


class _Progress:
    """A line every few seconds while much is hashed; bytes."""

    def __init__(self, size: int, told: Told) -> None:
        self.size, self.told = size, told
        self.done = 0
        self.next = time.monotonic() + _EVERY

    def __call__(self, count: int) -> None:
        self.done += count
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + _EVERY
            self.told(f"  {show_size(self.done)} of {show_size(self.size)}")


def show_size(count: float) -> str:
    """For people, as ``1.5 MB``; what our own commands say too (model/units.py)."""
    for unit, scale, figures in (("B", 1, 0), ("kB", 1000, 1), ("MB", 1000**2, 1)):
        if round(count / scale, figures) < 1000:
            return f"{count / scale:.{figures}f} {unit}"
    return f"{count / 1000**3:.1f} GB"


def inventory(packages: Iterable[Path], wheels: Iterable[Path], told: Told = tell) -> Dict[str, List[Dict[str, Any]]]:
    """What lies in these package caches and wheel folders: whole archives and wheels, hashed here; unpacked packages.

    ``told`` gets lines for people; a file that cannot be read is named there and left out. Names carry no folder.
    """
    caches = _folders(packages)
    found: Dict[str, List[Dict[str, Any]]] = {"packages": [], "wheels": [], "unpacked": []}
    archives = _files(caches, ARCHIVES, told)
    known = _files(_folders(wheels), (".whl",), told)
    sizes = sum(size for _, size in (*archives, *known))
    if archives or known:
        told(f"hashing {len(archives) + len(known)} files, {show_size(sizes)}, in the caches of this machine")
    progress = _Progress(sizes, told)
    for kind, files in (("packages", archives), ("wheels", known)):
        for path, _ in files:
            try:
                size, sha256, md5 = hash_file(path, progress)
            except OSError as error:
                told("left out: " + str(path) + ": " + (error.strerror or str(error)))
                continue
            entry = {"filename": path.name, "size": size, "sha256": sha256}
            found[kind].append({**entry, "md5": md5} if kind == "packages" else entry)
    found["unpacked"] = _unpacked(caches, {path.name for path, _ in archives})
    return {kind: _each_once(entries) for kind, entries in found.items()}


def _files(folders: Iterable[Path], endings: Tuple[str, ...], told: Told) -> List[Tuple[Path, int]]:
    found = []
    for folder in folders:
        try:
            names = sorted(place.name for place in folder.iterdir() if place.name.endswith(endings))
        except OSError as error:
            told("left out: " + str(folder) + ": " + (error.strerror or str(error)))
            continue
        for name in names:
            path = folder / name
            if not _FILE_NAME.fullmatch(name):
                told("left out: " + str(path) + ": this is no package's name")
                continue
            with suppress(OSError):
                if path.is_file():
                    found.append((path, path.stat().st_size))
    return found


def _unpacked(caches: Iterable[Path], archives: Iterable[str]) -> List[Dict[str, Any]]:
    """Packages of which only the folder is left: with the digest that conda noted, not one found here."""
    whole = {name[: -len(ending)] for name in archives for ending in ARCHIVES if name.endswith(ending)}
    found = []
    for cache in caches:
        with suppress(OSError):
            for name in sorted(place.name for place in cache.iterdir()):
                record = cache / name / "info" / "repodata_record.json"
                if name not in whole and _FILE_NAME.fullmatch(name) and _is_file(record):
                    digests = _noted(record)
                    if digests:
                        found.append({"name": name, **digests})
    return found


def _noted(record: Path) -> Dict[str, str]:
    try:
        with record.open("rb") as file:
            noted = json.loads(file.read(_MOST_RECORD).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(noted, dict):
        return {}
    return {
        kind: noted[kind]
        for kind, form in _HEX.items()
        if isinstance(noted.get(kind), str) and form.fullmatch(noted[kind])
    }


def _each_once(entries: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    by_text = {json.dumps(entry, sort_keys=True): entry for entry in entries}
    return sorted(by_text.values(), key=json.dumps)


# ------------------------------------------------------------------------------------------------------- the profile


def look(env: Optional[Mapping[str, str]] = None, told: Told = tell, created_by: str = CREATED_BY) -> Profile:
    """This machine's profile, without its inventory."""
    env = os.environ if env is None else env
    clients = find_clients(env)
    answered = first_answer(clients, env, told=told)
    if clients and answered is None:
        told("note: " + clients[0].name + " is here and did not answer; this machine is described without it")
    client, info = answered or (None, None)
    subdir = (info.platform if info is not None else "") or current_platform()
    packages = (info.virtual_packages if info is not None else {}) or virtual_packages(subdir, plain_environment(env))
    if "__musl" in packages:
        told("note: this is a system with musl; conda's packages for Linux, and most wheels, are made for glibc")
    conda = None
    if client is not None and info is not None:
        channels, left = shareable_channels(info.channels, subdir)
        if left:
            told(f"note: channels left out: {left}: only this machine can reach them, or they may hold a login")
        conda = {
            "client": client.name,
            "version": info.version,
            "channels": channels,
            "channels_left_out": left,
            "solver": info.solver or None,
            "channel_priority": _channel_priority(client, env),
        }
    python = pip_python(env)
    answer = {
        "schema": SCHEMA,
        "kind": KIND,
        "created_by": created_by,
        "platform": subdir,
        "virtual_packages": packages,
        "python": None if python is None else python[0],
        "pip": None if python is None else python[1],
        "conda": conda,
        "clients": list(dict.fromkeys(each.name for each in clients)),
    }
    return Profile(answer, tuple(pkgs_dirs(info, env)))


def named_folders(places: Iterable[str]) -> List[Path]:
    """Folders that the user named. Raises ProbeError for what is none."""
    found = []
    for place in places:
        path = Path(place).expanduser().absolute()
        if not _folders([path]):
            raise ProbeError(str(place) + " is no folder", "name one that is there, or leave it out", 2)
        found.append(path)
    return found


def write_json(value: Mapping[str, Any]) -> None:
    """ASCII on stdout; a reader that has gone away is no error. Raises ProbeError where it cannot be written."""
    hint = "look at where the output goes, and run it again"
    if sys.stdout is None:
        raise ProbeError("standard output is closed", hint, 5)
    try:
        sys.stdout.write(json.dumps(value, indent=2) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    except OSError as error:
        raise ProbeError(f"cannot write to standard output: {error.strerror or error}", hint, 5) from error


def main(argv: Optional[List[str]] = None) -> int:
    """Print target.json; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="probe.py",
        description="This machine's profile, as a file for who prepares a bundle for it: python probe.py > target.json",
    )
    parser.add_argument("--no-inventory", action="store_true", help="do not hash what lies in the caches")
    parser.add_argument("--pkgs-dir", action="append", default=[], metavar="DIR", help="a package cache; repeatable")
    parser.add_argument("--wheels", action="append", default=[], metavar="DIR", help="a folder of wheels; repeatable")
    options = parser.parse_args(argv)
    try:
        packages, wheels = named_folders(options.pkgs_dir), named_folders(options.wheels)
        profile = look()
        answer = dict(profile.answer)
        if not options.no_inventory:
            answer["inventory"] = inventory([*packages, *profile.pkgs_dirs], [*wheels, *wheel_dirs()])
        write_json(answer)
    except ProbeError as error:
        tell("error: " + str(error) + "\n  " + error.hint)
        return error.code
    except KeyboardInterrupt:
        tell("stopped; nothing was written")
        return 130
    return 0


def settle() -> None:
    """At the end of a script: a reader that has gone away changes no exit code; as in verify.py."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except (AttributeError, ValueError):
            pass  # there is none, or it is closed


if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:
        settle()
