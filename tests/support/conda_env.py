"""Real condas for tests: the one bundled in the PyPI package conda-lock, and any that the environment names.

``RESUME_DL_TEST_CONDA`` names interpreters that can ``python -m conda``, separated by ``os.pathsep``; every test that
uses the fixture ``test_conda`` runs once for each of them and once for the bundled one.

The bundled conda (24.7.1) lives in ``<project>/.conda-venv``, made once and kept while its stamp is right. This project
is installed there as a user would have it, so the plugin is active by its entry point. In a conda named by the
environment nothing is installed: a folder on PYTHONPATH carries the package and the same entry point.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import subprocess
import sys
import textwrap
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support import forked
from support.processes import Run

PROJECT = Path(__file__).resolve().parents[2]
BUNDLED_VENV = PROJECT / ".conda-venv"
BUNDLED_REQUIREMENTS = (
    "conda-lock>=3",
    "pluggy",
    "pycosat",
    "tqdm",
    "archspec",
    "conda-package-handling",
)
VARIABLE = "RESUME_DL_TEST_CONDA"
_STAMP_VERSION = 1

SHIM = '''\
"""Hand out conda-lock's bundled conda as the package ``conda``: the very same module objects, under a second name."""

import importlib
import importlib.util
import sys
import types

REAL = "conda_lock._vendor."


def light_parents():
    """Packages that lead to the bundled conda without conda-lock's own imports, which take half a second."""
    spec = importlib.util.find_spec("conda_lock")
    for name, part in (("conda_lock", ""), ("conda_lock._vendor", "/_vendor")):
        module = types.ModuleType(name)
        module.__path__ = [path + part for path in spec.submodule_search_locations]
        sys.modules[name] = module


class BundledConda:
    """Finder and loader at once; first on sys.meta_path, or conda.x would be loaded twice."""

    def find_spec(self, name, path=None, target=None):
        if name != "conda" and not name.startswith("conda."):
            return None
        found = importlib.util.find_spec(REAL + name)
        if found is None:
            return None
        spec = importlib.util.spec_from_loader(name, self, origin=found.origin)
        spec.submodule_search_locations = found.submodule_search_locations
        return spec

    def create_module(self, spec):
        module = importlib.import_module(REAL + spec.name)
        spec.loader_state = getattr(module, "__spec__", None)
        return module

    def exec_module(self, module):
        alias = module.__spec__
        module.__spec__ = alias.loader_state

    def get_code(self, name):
        return importlib.util.find_spec(REAL + name).loader.get_code(REAL + name)


def install():
    if not any(type(finder).__name__ == "BundledConda" for finder in sys.meta_path):
        light_parents()
        sys.meta_path.insert(0, BundledConda())
'''


@dataclass(frozen=True)
class CondaAtHand:
    """One conda that tests can run; ``python`` is None for the bundled one, whose environment is made on demand."""

    label: str
    python: Path | None

    def interpreter(self) -> Path:
        return self.python if self.python is not None else bundled_python()


def condas_at_hand() -> list[CondaAtHand]:
    """The bundled conda and those that the environment names; known without making anything."""
    named = [Path(entry) for entry in os.environ.get(VARIABLE, "").split(os.pathsep) if entry]
    return [
        CondaAtHand("bundled-24.7.1", None),
        *(CondaAtHand(f"named-{number}", path) for number, path in enumerate(named)),
    ]


@functools.cache
def bundled_python() -> Path:
    """The interpreter of the bundled conda's environment, which is made or made anew where its stamp is wrong."""
    if sys.platform == "win32":
        pytest.skip("no conda for Windows can be installed from a package index")
    python = _venv_python(BUNDLED_VENV)
    stamp = BUNDLED_VENV / "resume-dl-stamp"
    (PROJECT / ".cache").mkdir(exist_ok=True)
    with _only_one(PROJECT / ".cache" / "conda-venv.lock"):
        if not (stamp.exists() and stamp.read_text(encoding="utf-8") == _wanted_stamp() and python.exists()):
            stamp.unlink(missing_ok=True)
            _make_bundled(python)
            stamp.write_text(_wanted_stamp(), encoding="utf-8")
    return python


def _wanted_stamp() -> str:
    """What the environment was made from: any change of these makes it anew."""
    parts = (
        str(_STAMP_VERSION),
        sys.version,
        str(BUNDLED_VENV),
        *BUNDLED_REQUIREMENTS,
        SHIM,
        (PROJECT / "pyproject.toml").read_text(encoding="utf-8"),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _make_bundled(python: Path) -> None:
    venv.EnvBuilder(with_pip=True, clear=not python.exists()).create(BUNDLED_VENV)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for arguments in ([*BUNDLED_REQUIREMENTS], ["--editable", str(PROJECT)]):
        done = subprocess.run([*install, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            tail = done.stderr.strip().splitlines()[-5:]
            raise RuntimeError("cannot make the conda that the tests need (" + VARIABLE + "):\n" + "\n".join(tail))
    packages = Path(
        subprocess.run(
            [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    )
    (packages / "bundled_conda.py").write_text(SHIM, encoding="utf-8")
    (packages / "bundled_conda.pth").write_text("import bundled_conda; bundled_conda.install()\n", encoding="utf-8")
    (BUNDLED_VENV / "conda-meta").mkdir(exist_ok=True)
    (BUNDLED_VENV / "conda-meta" / "history").touch()


def _venv_python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold a file lock: two test runs must not make one environment at once."""
    with path.open("w") as file:
        if os.name == "posix":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class TestConda:
    """One conda with a home, a condarc, a package cache and a root prefix of its own below ``folder``.

    ``run("create", "-p", prefix, ...)`` runs it. With ``plugin=False`` an empty module stands in front of our plugin's:
    the very same conda without us (``--no-plugins`` would take the bundled conda's own solver away too).
    ``settings`` are condarc's; ``configure(channels=[...])`` changes them for the runs that follow.
    """

    __test__ = False

    def __init__(self, conda: CondaAtHand, folder: Path) -> None:
        self.conda = conda
        self.python = conda.interpreter()
        self.folder = folder
        self.home = folder / "home"
        self.root = folder / "root"
        self.pkgs = folder / "pkgs"
        self._extra_path = folder / "on-pythonpath"
        self._stub = folder / "without-us"
        stub = self._stub / "resume_dl" / "conda_plugin"
        for path in (self.home, self.root / "conda-meta", self._extra_path, stub):
            path.mkdir(parents=True, exist_ok=True)
        for package in (stub, stub.parent):
            (package / "__init__.py").touch()
        (self.root / "conda-meta" / "history").touch()
        self.settings: dict[str, Any] = {
            "pkgs_dirs": [str(self.pkgs)],
            "envs_dirs": [str(folder / "envs")],
            "channels": [],
            "default_channels": [],
            "solver": "classic",
            "subdir": "linux-64",
            "notify_outdated_conda": False,
            "always_yes": True,
            "number_channel_notices": 0,
            "remote_read_timeout_secs": 20,
            "remote_max_retries": 0,
        }
        if conda.python is not None:
            self.add_plugin("resume_dl_here", entry="resume-dl = resume_dl.conda_plugin")

    def configure(self, **settings: Any) -> None:
        """Change condarc settings (None removes one)."""
        self.settings.update(settings)
        self.settings = {name: value for name, value in self.settings.items() if value is not None}

    def add_plugin(self, name: str, *, entry: str, source: str | None = None) -> None:
        """Make another plugin active by an entry point on PYTHONPATH; ``source`` is the text of its module."""
        if source is not None:
            (self._extra_path / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")
        info = self._extra_path / f"{name}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[conda]\n{entry}\n", encoding="utf-8")

    def environment(self, extra: Mapping[str, str] | None = None, *, plugin: bool = True) -> dict[str, str]:
        """The whole environment of a run: nothing of this machine's conda or proxies is in it."""
        text, condarc = json.dumps(self.settings), self.folder / "condarc"
        if not condarc.exists() or condarc.read_text(encoding="utf-8") != text:  # another run may read it just now
            condarc.write_text(text, encoding="utf-8")
        path = [str(self._extra_path)] if plugin else [str(self._stub), str(self._extra_path)]
        if self.conda.python is not None:
            path.append(str(PROJECT / "src"))
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT", "TMPDIR") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.home),
            "USERPROFILE": str(self.home),
            "CONDARC": str(condarc),
            "CONDA_ROOT_PREFIX": str(self.root),
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUTF8": "1",
            "CONDA_OVERRIDE_CUDA": "",
            **(extra or {}),
        }

    def run(
        self,
        *arguments: str | Path,
        plugin: bool = True,
        env: Mapping[str, str] | None = None,
        answer: str = "",
        timeout: float = 120,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run conda to its end; ``answer`` is typed at its prompt. File permissions hold, for root too.

        It is forked (``support.forked``) where that makes no difference.
        """
        environment = self.environment(env, plugin=plugin)
        if forked.possible(environment, conda=True):
            return forked.run(
                [*map(str, arguments)],
                environment=environment,
                folder=cwd or self.folder,
                timeout=timeout,
                conda=self.python,
                answer=answer,
                obey=_is_root(),
            )
        with self.start(*arguments, plugin=plugin, env=env, cwd=cwd) as process:
            try:
                out, err = process.communicate(answer, timeout=timeout)
            finally:
                process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def start(
        self,
        *arguments: str | Path,
        plugin: bool = True,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Run:
        """Start conda in ``cwd`` (default: ``folder``), with pipes to all three streams."""
        command: Sequence[str] = [str(self.python), "-m", "conda", *map(str, arguments)]
        return Run(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(env, plugin=plugin),
            cwd=cwd or self.folder,
            preexec_fn=_obey_permissions if _is_root() and sys.platform == "linux" else None,
        )

    def version(self) -> tuple[int, ...]:
        """conda's version as numbers."""
        text = self.run("--version").stdout.split()[1]
        return tuple(int(part) for part in text.split(".")[:2])


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _obey_permissions() -> None:
    """Give up the capability by which root passes over file permissions, for the program that is run next."""
    prctl_capability_bounding_set_drop, dac_override = 24, 1
    ctypes.CDLL(None).prctl(prctl_capability_bounding_set_drop, dac_override, 0, 0, 0)
