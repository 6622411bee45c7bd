"""Bundles that can be installed: a channel's archives and real wheels in the folder that docs/offline.md draws.

    channel = build_channel(tmp_path / "channel", [python_package(), pip_package(), PackageSpec(...)])
    lay_bundle(tmp_path / "bundle", channel.packages, [build_wheel(...)])     # the manifest's digest
    Target(test_conda).install(tmp_path / "bundle", "-n", "lab")              # python install.py in it

The package ``python`` is the interpreter that runs the tests under another prefix, ``pip`` is the one in ensurepip.
"""

from __future__ import annotations

import atexit
import ensurepip
import functools
import hashlib
import importlib.util
import marshal
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from resume_dl.bundle.manifest import write_manifest
from resume_dl.demo.channel import BuiltPackage, PackageSpec
from resume_dl.model.bundle import BundleFile, BundlePackage, BundlePlatform, Manifest
from resume_dl.offline_tools.machine.virtual_packages import current_platform
from support.conda_env import TestConda
from support.hand_bundle import seal
from support.offline_scripts import archive
from support.pip_index import BuiltFile
from support.processes import Run

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SITE = f"lib/python{PYTHON}/site-packages"
CHANNEL = "https://conda.example.org/lab"
SCRIPTS = ("install.py", "verify.py", "unpack.py", "probe.py")


def python_package() -> PackageSpec:
    """A Python for an environment; it starts the tests' own, which finds its prefix by ``pyvenv.cfg``."""
    real = Path(getattr(sys, "_base_executable", sys.executable))
    start = f'#!/bin/bash\nexec -a "$0" {shlex.quote(str(real))} "$@"\n'.encode()
    config = f"home = {real.parent}\ninclude-system-site-packages = false\n".encode()
    files = {"bin/python": start, f"bin/python{PYTHON}": start, "pyvenv.cfg": config, f"{SITE}/README.txt": b""}
    return PackageSpec(name="python", version=f"{PYTHON}.{sys.version_info.micro}", files=files)


def pip_package() -> PackageSpec:
    """The pip that comes with Python, as a conda package."""
    version, files = _pip()
    return PackageSpec(name="pip", version=version, depends=("python",), files=files)


def venv_with_pip(folder: Path) -> Path:
    """What ``python -m venv`` makes, in a fiftieth of its time; returns its ``python``."""
    venv.create(folder, symlinks=True)
    for name, data in _pip()[1].items():
        path = folder / (name.replace(SITE, "Lib/site-packages") if os.name == "nt" else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


@functools.cache
def _pip() -> tuple[str, Mapping[str, bytes]]:
    """ensurepip's pip below a prefix, its inner modules as bytecode alone: each run of it would compile them anew."""
    wheel = next((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
    files = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            is_script = name.endswith("/_in_process.py")  # which pip runs by its path
            if name.endswith(".py") and name.startswith(("pip/_internal/", "pip/_vendor/")) and not is_script:
                files[f"{SITE}/{name}c"] = _bytecode(archive.read(name), name)
            elif not name.endswith("/"):
                files[f"{SITE}/{name}"] = archive.read(name)
    return wheel.name.split("-")[1], files


def _bytecode(source: bytes, name: str) -> bytes:
    """A ``.pyc`` that wants no source beside it (PEP 552, unchecked)."""
    unchecked = (1).to_bytes(4, "little")
    code = compile(source, name, "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(source) + marshal.dumps(code)


def lay_bundle(
    folder: Path,
    conda: Iterable[BuiltPackage] = (),
    wheels: Iterable[BuiltFile] = (),
    *,
    platform: str = "",
    python: str = PYTHON,
    virtual_packages: Sequence[str] = (),
    left_out: Sequence[str] = (),
    channel: str = CHANNEL,
    texts: Mapping[str, bytes] | None = None,
) -> str:
    """Lay a bundle with the real scripts into ``folder``; ``left_out`` are names of packages that a delta relies on.

    ``texts`` are other scripts in place of the real ones, by name. ``platform`` is this machine's if it is not given.
    Returns the digest of the manifest.
    """
    platform = platform or current_platform()
    listed = []
    for built in conda:
        path = f"channel/{built.url_path}"
        url, spec = f"{channel}/{built.url_path}", built.spec
        listed.append(_listed(path, "conda", built, name=spec.name, version=spec.version, url=url))
        if built.spec.name not in left_out:
            _copy(built.path, folder / path)
    for wheel in wheels:
        path = f"wheels/{wheel.filename}"
        url = f"{channel}/{wheel.filename}"
        listed.append(_listed(path, "wheel", wheel, name=wheel.name, version=wheel.version, url=url))
        if wheel.name not in left_out:
            _copy(wheel.path, folder / path)
    packages = tuple(
        BundlePackage(**{**each, "included": each["name"] not in left_out})
        for each in sorted(listed, key=lambda each: each["path"])
    )
    paths = {kind: tuple(each.path for each in packages if each.kind == kind) for kind in ("conda", "wheel")}
    files = []
    for name, data in (texts or {name: archive(name) for name in SCRIPTS}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        files.append(BundleFile(name, len(data), hashlib.sha256(data).hexdigest()))
    manifest = Manifest(
        created_by="resume-dl 0.0",
        platforms=(
            BundlePlatform(
                platform=platform,
                python=python,
                virtual_packages=tuple(virtual_packages),
                conda=paths["conda"],
                pip=paths["wheel"],
            ),
        ),
        packages=packages,
        files=tuple(sorted(files, key=lambda each: each.path)),
    )
    return seal(folder, b"".join(write_manifest(manifest)), manifest)


def _listed(path: str, kind: str, built: BuiltPackage | BuiltFile, **values: str) -> dict[str, object]:
    subdir = path.split("/")[1] if kind == "conda" else ""
    return {"path": path, "kind": kind, "size": built.size, "sha256": built.sha256, "subdir": subdir, **values}


def _copy(source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)


class Target:
    """A machine with a real conda and no CUDA, behind a wrapper that notes each call in ``calls``."""

    def __init__(self, conda: TestConda) -> None:
        self.conda = conda
        self.log = conda.folder / "calls.txt"
        self.program = conda.folder / "conda"
        self.program.write_text(
            f'#!/bin/sh\necho "$*" >> {shlex.quote(str(self.log))}\n'
            # without it conda starts another of itself each time, to look for a driver
            ': "${CONDA_OVERRIDE_CUDA=}"; export CONDA_OVERRIDE_CUDA\n'
            f'exec {shlex.quote(str(self._conda_that_says_once()))} "$@"\n',
            encoding="utf-8",
        )
        self.program.chmod(0o755)

    def _conda_that_says_once(self) -> Path:
        """conda, which repeats what the real one has said of itself for the same settings, below another folder.

        ``install.py`` asks each time, and each time a real conda needs half a second of processor time to start.
        """
        program = self.conda.folder / "conda-that-says-once"
        folder, kept = self.conda.folder, _said()
        program.write_text(
            f"""#!/bin/sh
test "$*" = "info --json" || exec {shlex.quote(str(self.conda.python))} -m conda "$@"
settings() {{
    cat "$CONDARC" "$HOME/.condarc" "$CONDA_ROOT_PREFIX/.condarc" 2>/dev/null
    env | grep -Ev '^(_|PWD|OLDPWD|SHLVL|PATH)=' | sort
}}
said={shlex.quote(str(kept))}/$(settings | sed 's|{folder}|@FOLDER@|g' | cksum | tr ' ' -)
if ! test -f "$said"; then
    {shlex.quote(str(self.conda.python))} -m conda info --json > "$said.$$" || {{ cat "$said.$$"; exit 1; }}
    sed 's|{folder}|@FOLDER@|g' "$said.$$" > "$said.$$.new" && mv "$said.$$.new" "$said"
fi
exec sed 's|@FOLDER@|{folder}|g' "$said"
""",
            encoding="utf-8",
        )
        program.chmod(0o755)
        return program

    @property
    def calls(self) -> list[str]:
        """What conda was asked to change; that it was asked what it is (``info``) is not counted."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return [line for line in lines if not line.startswith("info ")]

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        """As the user of this machine has it; no index can be reached, and a poisoned pip.conf says so."""
        own = {"RESUME_DL_CONDA": str(self.program), "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_USER": "1"}
        return self.conda.environment({**own, **(env or {})})

    def start(self, *command: str | Path, env: Mapping[str, str] | None = None) -> Run:
        """Start a program of this machine, from a folder that is no bundle."""
        return Run(
            [*map(str, command)],
            env=self.environment(env),
            cwd=self.conda.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )

    def run(
        self, *command: str | Path, env: Mapping[str, str] | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        with self.start(*command, env=env) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            finally:
                process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def install(
        self, bundle: Path, *arguments: str | Path, python: str = sys.executable, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """``python install.py`` in a bundle."""
        return self.run(python, bundle / "install.py", *arguments, env=env)


@functools.cache
def _said() -> Path:
    """A folder of this process's own for what condas have said of themselves."""
    folder = tempfile.mkdtemp(prefix="conda-said-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def content(prefix: Path) -> dict[str, bytes]:
    """Every file below ``share``, and of modules installed by pip their ``__init__.py``."""
    found = [*prefix.glob("share/**/*"), *prefix.glob(f"{SITE}/*/__init__.py")]
    return {path.relative_to(prefix).as_posix(): path.read_bytes() for path in found if path.is_file()}


@functools.cache
def is_linux() -> bool:
    """The package ``python`` is a script for bash."""
    return os.name == "posix" and shutil.which("bash") is not None
