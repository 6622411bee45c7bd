"""``pip install``: resolve and download here, then install with the user's own pip.

pip gets a page that lists exactly the files of the solution, and no index, so that it cannot choose others. It keeps
installed packages that satisfy the request, as it always does.
"""

from __future__ import annotations

import html
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace as changed
from importlib.util import find_spec
from pathlib import Path

from resume_dl.app.pip_fetch import FetchPip, index_notes
from resume_dl.errors import ConfigurationError, PackageNotFoundError, StoreError, UnsatisfiableError, required
from resume_dl.model.pip import LeftToPip, PipIndexes
from resume_dl.model.url import scrub
from resume_dl.ports import Reporter
from resume_dl.python_command import module_arguments, tolerant_output, users_command, utf8_output
from resume_dl.resolution.build_requirements import build_requirements_of, is_built
from resume_dl.resolution.fetch_request import FetchRequest, PipOptions
from resume_dl.resolution.pip_arguments import read_arguments
from resume_dl.resolution.pip_option_settings import files_in_settings, reinstalls
from resume_dl.settings.pip_find import TargetPython, find_python, own_python
from resume_dl.settings.pip_help import kept_install_help
from resume_dl.shell_commands import Step, command_line
from resume_dl.transfer.plan import Plan
from resume_dl.transfer.report import ArtifactResult, RunResult
from resume_dl.transfer.setup import Setup

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
        shared_wheel_dirs: tuple[Path, ...] = (),
        allow_sdist: bool = False,
    ) -> None:
        """``words``: the arguments of pip install. Raises ConfigurationError."""
        self._python = find_python(setup.env)
        self._pip = _pip_for(self._python)
        self.arguments = read_arguments(words, self._help(setup), Path.cwd())
        self._setup = changed(setup, env={**setup.env, **self.arguments.variables})
        self._wheel_dir = wheel_dir
        self._shared_wheel_dirs = shared_wheel_dirs
        self._allow_sdist = allow_sdist
        self._files = (*self.arguments.files, *files_in_settings(self._setup.env, self._python.prefix))
        self._anew = self.arguments.anew or reinstalls(self._setup.env, self._python.prefix)
        self._fetched: tuple[ArtifactResult, ...] = ()
        self._lines: tuple[str, ...] = ()
        self._constraints: tuple[str, ...] = ()
        self._left: tuple[LeftToPip, ...] = ()

    def _help(self, setup: Setup) -> str:
        """The help text of the pip that will run, the environment's or ours, which lists its options."""
        python = self._python if self._python.has_pip else own_python()
        return kept_install_help(python, setup.env, setup.paths.pip_help)

    def fetch(self, reporter: Reporter, cancelled: Callable[[], bool]) -> RunResult:
        """Resolve, and download what is not installed. Raises what ``FetchPip`` does."""
        arguments, result, notes = self.arguments, RunResult(COMMAND), index_notes(reporter)
        for word in arguments.unfetched:
            text = f"{scrub(word)}: pip reads it in place; its dependencies are not fetched"
            reporter.message(text, level="warning")
        plans: list[tuple[FetchPip, Plan]] = []
        indexes: PipIndexes | None = None
        if arguments.requirements or self._files or arguments.constraints:
            request = self._request(arguments.requirements, self._files)
            pip = FetchPip(request, self._setup, reporter, cancelled, notes=notes)
            wanted = pip.read()
            self._left, indexes = wanted.left, wanted.indexes
            if wanted.solvable:
                # a build may need files of installed packages too
                if not (self._anew or self._built()):
                    pip.installed = _installed(self._python, self._setup.env)
                plans.append((pip, pip.plan(pip.resolve())))
                self._lines, self._constraints = pip.asked_for()
            else:
                self._constraints = wanted.constraints
                for note in wanted.notes:
                    reporter.message(note, level="warning")
        for tools in build_requirements_of(self._built(), Path.cwd()) if arguments.isolated else ():
            pip = FetchPip(self._request(tools), self._setup, reporter, cancelled, indexes=indexes, notes=notes)
            try:
                plans.append((pip, pip.plan(pip.resolve())))
            except (PackageNotFoundError, UnsatisfiableError) as error:
                text = f"the build requirements of a local project are not fetched: {error.message}"
                reporter.message(text, level="warning")
        for pip, plan in plans:
            with closing(pip):
                pip.carry_out(plan, result)
            if result.exit_code != 0:
                break
        self._fetched = tuple(result.artifacts)
        return result

    def _request(self, requirements: tuple[str, ...], files: tuple[Path, ...] | None = None) -> FetchRequest:
        """The fetch of the user's requirements with ``files``; without ``files``, of build requirements."""
        arguments, building = self.arguments, files is None
        return FetchRequest(
            files=files or (),
            no_deps=arguments.no_deps and not building,
            dry_run=arguments.dry_run,
            pip=PipOptions(
                requirements=requirements,
                indexes=arguments.indexes,
                constraints=() if building else arguments.constraints,
                python=arguments.python,
                wheel_dir=self._wheel_dir,
                shared_wheel_dirs=self._shared_wheel_dirs,
                allow_sdist=self._allow_sdist,
            ),
        )

    def _built(self) -> list[str]:
        """The local projects that pip has to build."""
        left = [each.place for each in self._left if not each.constraint]
        return [place for place in (*self.arguments.unfetched, *left) if is_built(place)]

    def install(self) -> int:
        """Run pip with its output unchanged; return its exit code.

        Raises ConfigurationError if pip cannot be started, StoreError if a file has vanished.
        """
        with tempfile.TemporaryDirectory(prefix="resume-dl-") as name:
            folder = Path(name)
            page = _write(folder / "files.html", dict.fromkeys(_link(each) for each in self._fetched))
            # the variable replaces the setting of pip.conf; an option would only add to it
            env = {**self._setup.env, "PIP_FIND_LINKS": page.as_uri()}
            env.pop("PIP_REQUIREMENT", None)  # read already
            lines, limits = list(self._lines), list(self._constraints)
            for number, each in enumerate(self._left):
                # pip expands variables itself, so that a password in the line is in no file and no command line
                env[f"RESUME_DL_LINE_{number}"] = each.line
                (limits if each.constraint else lines).append(f"${{RESUME_DL_LINE_{number}}}")
            command = [*self._pip, "install", "--no-index", *self.arguments.passed]
            if lines or self._files:  # pip accepts an empty file
                command += ["-r", str(_write(folder / "requirements.txt", lines))]
            if limits:
                command += ["-c", str(_write(folder / "constraints.txt", limits))]
            try:
                return subprocess.run(command, env=tolerant_output(env), check=False).returncode
            except OSError as error:
                why = f"{self._pip[0]} cannot be started: {error.strerror or error}"
                raise ConfigurationError(why, hint="name another Python with --python") from error


def _pip_for(python: TargetPython) -> tuple[str, ...]:
    """The command that installs into ``python``; our pip (with ``--python``) if the environment has none."""
    if python.has_pip:
        return python.pip
    if find_spec("pip") is None:
        ensure = command_line([Step((str(python.executable), "-m", "ensurepip"))])
        raise ConfigurationError(f"{python.executable} has no pip", hint=f"run {ensure}")
    return (sys.executable, *module_arguments("pip"), "--python", str(python.executable))


def _installed(python: TargetPython, env: Mapping[str, str]) -> dict[str, str]:
    """Project -> version of everything in its environment; empty if it cannot be listed."""
    command = users_command(str(python.executable), "-c", _LIST)
    try:
        done = subprocess.run(
            command, env=utf8_output(env), cwd=python.executable.parent, capture_output=True, timeout=60, check=False
        )
        found = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _link(result: ArtifactResult) -> str:
    """A link with the verified or pinned digest of a file, which pip compares again when it installs.

    Raises StoreError for a file without a digest, which could not be read.
    """
    path, digest = required(result.path, "the path of a fetched file"), result.artifact.sha256
    if digest is None:
        raise StoreError(f"{path} cannot be read", hint="run the same command again")
    return f'<a href="{html.escape(path.as_uri())}#sha256={digest}">{html.escape(path.name)}</a>'
