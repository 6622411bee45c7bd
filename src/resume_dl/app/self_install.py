"""``self install``: the whole program from ``resume-dl.pyz``, into an environment of its own.

The archive has a lock of everything that the program needs (PEP 751), with digests, so nothing is resolved and no index
is asked. The wheels are downloaded as ``fetch --pip`` does it, from every mirror and resumable. Our own wheel is made
again from the archive's members. pip, which is one of the wheels, installs them without a network.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace as changed
from pathlib import Path
from tempfile import TemporaryDirectory
from zipimport import zipimporter

from resume_dl.app.pipeline import Batch, run
from resume_dl.errors import ConfigurationError, IntegrityError, NotWritableError, StoreError, required
from resume_dl.fs.removal import remove
from resume_dl.model.pip import PipIndexes
from resume_dl.ports import Reporter
from resume_dl.python_command import isolated_command, utf8_output
from resume_dl.resolve.pylock import read_lock
from resume_dl.resolve.target import tags_of
from resume_dl.settings.condarc import native_subdir
from resume_dl.settings.network import load_network
from resume_dl.settings.pip_find import own_python
from resume_dl.settings.pip_network import pip_network
from resume_dl.settings.pip_settings import load_pip_settings
from resume_dl.shell_commands import Step
from resume_dl.store.pins import Pins
from resume_dl.transfer.destination import check_folder
from resume_dl.transfer.plan import Wanted
from resume_dl.transfer.report import ArtifactResult, RunResult
from resume_dl.transfer.setup import EngineAccess, Setup
from resume_dl.transfer.wheel_destination import WheelDestination
from resume_dl.transfer.wheel_transfer import WheelDir
from resume_dl.zip_application import LOCK, zip_application

COMMAND = "self install"
_MARK = ".resume-dl-program"
"""A file that says that a folder was made by this module and may be replaced by it."""
_INSTALL_SECONDS = 1800.0


def self_install(
    folder: Path | None, setup: Setup, reporter: Reporter, *, cancelled: Callable[[], bool] = lambda: False
) -> RunResult:
    """Install into ``folder`` (default: ``program`` in our state folder), which is created or replaced.

    Raises ConfigurationError if this program is not ``resume-dl.pyz``, if that has no lock or no wheel for this Python,
    or if ``folder`` holds other files; StoreError if the environment cannot be made.
    """
    started = time.monotonic()
    archive = zip_application()
    if archive is None:
        raise ConfigurationError("only resume-dl.pyz can install itself", hint="this program is installed already")
    target = check_folder(folder or setup.paths.state / "program", "--folder")
    _refuse_other_files(target)
    wheels = Wheels(archive, setup, reporter, cancelled)
    result = run([wheels], RunResult(COMMAND))
    if result.exit_code == 0:
        paths = [required(each.path, "the wheel's path") for each in result.artifacts]
        reporter.message(f"installing into {target}")
        program = _install(archive, paths, target)
        result.next_steps = (Step((str(program), "--help")),)
        result.notes = (f"installed: {program}",)
    result.elapsed = time.monotonic() - started
    return result


class Wheels(Batch):
    """The wheels of the lock for this machine and Python."""

    def __init__(self, archive: zipimporter, setup: Setup, reporter: Reporter, cancelled: Callable[[], bool]) -> None:
        super().__init__(setup, reporter, cancelled)
        self._archive = archive
        self._pip = load_pip_settings(setup.env, prefix=Path(sys.prefix))

    @property
    def access(self) -> EngineAccess:
        """Pip's settings (its proxy and certificates), merged over the general ones."""
        network = load_network(self.setup.env, self.setup.conda, self.setup.named)
        return EngineAccess(pip_network(network, self._pip, PipIndexes()))

    def resolve(self) -> Wanted:
        """Select the files of the lock. Raises what ``read_lock`` does."""
        setup = self.setup
        with TemporaryDirectory(prefix="resume-dl-") as name:
            path = Path(name, "pylock.toml")
            path.write_bytes(_lock_of(self._archive))
            python = own_python()
            solution = read_lock(
                path,
                platform=native_subdir(),
                python=python.full_version,
                tags=tags_of(python.executable, setup.env),
                canonical=setup.table.canonical,
            )
        artifacts = [changed(each, sources=setup.places.of(each.url)) for each in solution.artifacts]
        if unverifiable := [each.filename for each in artifacts if each.digest is None]:
            raise IntegrityError(f"the lock has no digest of {unverifiable[0]}", hint="fetch resume-dl.pyz again")
        self.destination = WheelDestination(
            WheelDir(
                check_folder(setup.paths.wheels, "RESUME_DL_CACHE_DIR"),
                Pins(setup.paths.pins),
                self.reporter,
                cancelled=self.cancelled,
                by_digest=setup.places.of,
            ),
            near=[],
            offline=setup.options.offline,
            pack=False,
            options="RESUME_DL_CACHE_DIR",
        )
        return Wanted(artifacts)

    def report(self, result: RunResult, done: Sequence[ArtifactResult]) -> None:
        """Add nothing: the installation follows."""


def _lock_of(archive: zipimporter) -> bytes:
    try:
        return archive.get_data(LOCK)
    except OSError:
        text = f"{archive.archive} was built without the list of what the whole program needs"
        hint = "use the resume-dl.pyz of a release, or: python -m pip install resume-dl"
        raise ConfigurationError(text, hint=hint) from None


def _refuse_other_files(folder: Path) -> None:
    """Raise ConfigurationError if ``folder`` holds files that are not ours to remove."""
    if folder.exists() and not (folder / _MARK).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(f"{folder} exists and is not an installation of ours", hint="name another --folder")


def _install(archive: zipimporter, wheels: Sequence[Path], folder: Path) -> Path:
    """Make the environment, and return the path of its ``resume-dl``. Raises StoreError."""
    import venv  # noqa: PLC0415 - only for this command

    try:
        remove(folder)  # also what an interrupted installation has left
        folder.mkdir(parents=True)
        (folder / _MARK).write_bytes(b"")
        venv.EnvBuilder(symlinks=os.name != "nt").create(folder)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotWritableError(
            f"cannot make the environment {folder}: {error}", hint="name another --folder"
        ) from error
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    suffix = ".exe" if os.name == "nt" else ""
    with TemporaryDirectory(prefix="resume-dl-") as place:
        every = [_own_wheel(archive, Path(place)), *wheels]
        pip = next((each for each in wheels if each.name.startswith("pip-")), None)
        if pip is None:
            raise ConfigurationError("the lock of this archive lacks pip", hint="fetch resume-dl.pyz again")
        words = ("install", "--no-index", "--no-deps", "--no-cache-dir", "--no-input", "--disable-pip-version-check")
        command = isolated_command(str(programs / f"python{suffix}"), f"{pip}/pip", *words, "--quiet", *map(str, every))
        env = {name: value for name, value in os.environ.items() if not name.upper().startswith("PIP_")}
        try:
            done = subprocess.run(
                command,
                env={**utf8_output(env), "PIP_CONFIG_FILE": os.devnull},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                timeout=_INSTALL_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StoreError(f"pip cannot be run: {error}", hint="run the same command again") from error
    program = programs / f"resume-dl{suffix}"
    if done.returncode != 0 or not program.is_file():
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise StoreError(f"pip ended with exit code {done.returncode}: {last}", hint="run the same command again")
    return program


def _own_wheel(archive: zipimporter, folder: Path) -> Path:
    """Write our wheel from the members of the archive, which holds them unchanged."""
    with zipfile.ZipFile(archive.archive) as members:
        names = [each for each in members.namelist() if each.startswith(("resume_dl/", "resume_dl-"))]
        version = next(each for each in names if each.endswith(".dist-info/METADATA")).partition(".dist-info")[0]
        wheel = folder / f"{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as made:
            for name in names:
                made.writestr(name, members.read(name))
    return wheel
