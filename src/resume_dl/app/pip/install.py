"""``pip install`` with its files fetched first: resolved and downloaded by us, installed by the user's own pip.

pip is given a page that lists just the files of the solution, and no index: it can choose among nothing else, and
whatever is installed and fits, it leaves as it would have.
"""

from __future__ import annotations

import html
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as changed
from pathlib import Path

from resume_dl.app.pip.arguments import read_arguments
from resume_dl.app.pip.fetch import FetchPip
from resume_dl.app.report import ArtifactResult, RunResult
from resume_dl.app.request import FetchRequest, PipOptions
from resume_dl.app.setup import Setup
from resume_dl.errors import ConfigurationError
from resume_dl.ports import Reporter
from resume_dl.settings.pip_find import TargetPython, find_python, install_help

COMMAND = "pip install"
_LIST = (
    "import importlib.metadata as m, json; "
    "print(json.dumps({d.metadata['Name']: d.version for d in m.distributions() if d.metadata['Name']}))"
)


class PipInstall:
    """One run: ``fetch``, then ``install``."""

    def __init__(
        self,
        words: Sequence[str],
        setup: Setup,
        *,
        wheel_dir: Path | None = None,
        allow_sdist: bool = False,
    ) -> None:
        """``words`` are the arguments of pip install. Raises ConfigurationError."""
        self._python = find_python(setup.env)
        self._pip = _pip_for(self._python)
        self.arguments = read_arguments(words, install_help(self._asked(), setup.env), Path.cwd())
        self._setup = changed(setup, env={**setup.env, **self.arguments.variables})
        self._wheel_dir = wheel_dir
        self._allow_sdist = allow_sdist
        self._fetched: tuple[ArtifactResult, ...] = ()
        self._lines: tuple[str, ...] = ()
        self._constraints: tuple[str, ...] = ()

    def _asked(self) -> TargetPython:
        """The Python whose pip is run."""
        return self._python if self._python.has_pip else changed(self._python, executable=Path(sys.executable))

    def fetch(self, reporter: Reporter, cancelled: Callable[[], bool]) -> RunResult:
        """Resolve, and bring what is not installed already. Raises what ``FetchPip`` does."""
        arguments, result = self.arguments, RunResult(COMMAND)
        for word in arguments.unfetched:
            reporter.message(f"{word}: pip takes it from where it is; what it needs is not fetched", level="warning")
        if not arguments.requirements and not arguments.files:
            return result
        request = FetchRequest(
            files=arguments.files,
            no_deps=arguments.no_deps,
            dry_run=arguments.dry_run,
            pip=PipOptions(
                requirements=arguments.requirements,
                indexes=arguments.indexes,
                constraints=arguments.constraints,
                python=arguments.python,
                wheel_dir=self._wheel_dir,
                allow_sdist=self._allow_sdist,
            ),
        )
        pip = FetchPip(request, self._setup, reporter, cancelled)
        pip.resolve(installed={} if arguments.anew else _installed(self._python, self._setup.env))
        self._lines, self._constraints = pip.asked_for()
        result = pip.fetch(result)
        self._fetched = tuple(result.artifacts)
        return result

    def install(self) -> int:
        """Run pip, its output as it is; its exit code. Raises ConfigurationError where it cannot be started."""
        with tempfile.TemporaryDirectory(prefix="resume-dl-") as name:
            folder = Path(name)
            page = _write(folder / "files.html", [_link(each) for each in self._fetched])
            command = [*self._pip, "install", "--no-index", *self.arguments.passed]
            if self._lines:
                command += ["-r", str(_write(folder / "requirements.txt", self._lines))]
            if self._constraints:
                command += ["-c", str(_write(folder / "constraints.txt", self._constraints))]
            # as a variable: it takes the place of what pip.conf says, to which an option would only add
            env = {**self._setup.env, "PIP_FIND_LINKS": page.as_uri()}
            try:
                return subprocess.run(command, env=env, check=False).returncode
            except OSError as error:
                why = f"{self._pip[0]} cannot be started: {error.strerror or error}"
                raise ConfigurationError(why, hint="name another Python with --python") from error


def _pip_for(python: TargetPython) -> tuple[str, ...]:
    """The command that installs into ``python``; an environment without a pip gets ours (pip's ``--python``)."""
    if python.has_pip:
        return python.pip
    from importlib.util import find_spec  # noqa: PLC0415 - rarely needed

    if find_spec("pip") is None:
        raise ConfigurationError(f"{python.executable} has no pip", hint=f"{python.executable} -m ensurepip makes one")
    return (sys.executable, "-m", "pip", "--python", str(python.executable))


def _installed(python: TargetPython, env: Mapping[str, str]) -> dict[str, str]:
    """Project -> version of everything in its environment; empty where it does not say."""
    command = [str(python.executable), "-c", _LIST]
    try:
        done = subprocess.run(
            command, env=dict(env), cwd=python.executable.parent, capture_output=True, timeout=60, check=False
        )
        found = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _link(result: ArtifactResult) -> str:
    path = result.path
    assert path is not None  # noqa: S101 - pip is only run where all files are here
    return f'<a href="{html.escape(path.as_uri())}#sha256={result.artifact.sha256}">{html.escape(path.name)}</a>'
