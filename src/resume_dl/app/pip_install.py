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
from resume_dl.resolution.build_requirements import is_built, tools_of
from resume_dl.resolution.fetch_request import FetchRequest, PipOptions
from resume_dl.resolution.pip_arguments import read_arguments
from resume_dl.resolution.pip_option_settings import files_said, wants_anew
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
        allow_sdist: bool = False,
    ) -> None:
        """``words`` are the arguments of pip install. Raises ConfigurationError."""
        self._python = find_python(setup.env)
        self._pip = _pip_for(self._python)
        self.arguments = read_arguments(words, self._help(setup), Path.cwd())
        self._setup = changed(setup, env={**setup.env, **self.arguments.variables})
        self._wheel_dir = wheel_dir
        self._allow_sdist = allow_sdist
        self._files = (*self.arguments.files, *files_said(self._setup.env, self._python.prefix))
        self._anew = self.arguments.anew or wants_anew(self._setup.env, self._python.prefix)
        self._fetched: tuple[ArtifactResult, ...] = ()
        self._lines: tuple[str, ...] = ()
        self._constraints: tuple[str, ...] = ()
        self._left: tuple[LeftToPip, ...] = ()

    def _help(self, setup: Setup) -> str:
        """The options of the pip that is run: the environment's, or ours."""
        python = self._python if self._python.has_pip else own_python()
        return kept_install_help(python, setup.env, setup.paths.pip_help)

    def fetch(self, reporter: Reporter, cancelled: Callable[[], bool]) -> RunResult:
        """Resolve, and bring what is not installed already. Raises what ``FetchPip`` does."""
        arguments, result, notes = self.arguments, RunResult(COMMAND), index_notes(reporter)
        for word in arguments.unfetched:
            text = f"{scrub(word)}: pip takes it from where it is; what it needs is not fetched"
            reporter.message(text, level="warning")
        plans: list[tuple[FetchPip, Plan]] = []
        indexes: PipIndexes | None = None
        if arguments.requirements or self._files or arguments.constraints:
            request = self._request(arguments.requirements, self._files)
            pip = FetchPip(request, self._setup, reporter, cancelled, notes=notes)
            wanted = pip.read()
            self._left, indexes = wanted.left, wanted.indexes
            if wanted.solvable:
                # pip builds with files of what is installed, too
                if not (self._anew or self._built()):
                    pip.installed = _installed(self._python, self._setup.env)
                plans.append((pip, pip.plan(pip.resolve())))
                self._lines, self._constraints = pip.asked_for()
            else:
                self._constraints = wanted.constraints
                for note in wanted.notes:
                    reporter.message(note, level="warning")
        for tools in tools_of(self._built(), Path.cwd()) if arguments.isolated else ():
            pip = FetchPip(self._request(tools), self._setup, reporter, cancelled, indexes=indexes, notes=notes)
            try:
                plans.append((pip, pip.plan(pip.resolve())))
            except (PackageNotFoundError, UnsatisfiableError) as error:
                text = f"what a project here is built with is not fetched: {error.message}"
                reporter.message(text, level="warning")
        for pip, plan in plans:
            with closing(pip):
                pip.carry_out(plan, result)
            if result.exit_code != 0:
                break
        self._fetched = tuple(result.artifacts)
        return result

    def _request(self, requirements: tuple[str, ...], files: tuple[Path, ...] | None = None) -> FetchRequest:
        """For what was asked for, with its ``files``; without them for what it takes to build something."""
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
                allow_sdist=self._allow_sdist,
            ),
        )

    def _built(self) -> list[str]:
        """What pip has to build, of what is left to it."""
        left = [each.place for each in self._left if not each.constraint]
        return [place for place in (*self.arguments.unfetched, *left) if is_built(place)]

    def install(self) -> int:
        """Run pip, its output as it is; its exit code.

        Raises ConfigurationError where it cannot be started, StoreError where a file is no longer there.
        """
        with tempfile.TemporaryDirectory(prefix="resume-dl-") as name:
            folder = Path(name)
            page = _write(folder / "files.html", dict.fromkeys(_link(each) for each in self._fetched))
            # as a variable: it takes the place of what pip.conf says, to which an option would only add
            env = {**self._setup.env, "PIP_FIND_LINKS": page.as_uri()}
            env.pop("PIP_REQUIREMENT", None)  # its files were read
            lines, limits = list(self._lines), list(self._constraints)
            for number, each in enumerate(self._left):
                # pip puts variables in itself; so a password in the line is neither in a file nor in a command
                env[f"RESUME_DL_LINE_{number}"] = each.line
                (limits if each.constraint else lines).append(f"${{RESUME_DL_LINE_{number}}}")
            command = [*self._pip, "install", "--no-index", *self.arguments.passed]
            if lines or self._files:  # pip has nothing against an empty file
                command += ["-r", str(_write(folder / "requirements.txt", lines))]
            if limits:
                command += ["-c", str(_write(folder / "constraints.txt", limits))]
            try:
                return subprocess.run(command, env=tolerant_output(env), check=False).returncode
            except OSError as error:
                why = f"{self._pip[0]} cannot be started: {error.strerror or error}"
                raise ConfigurationError(why, hint="name another Python with --python") from error


def _pip_for(python: TargetPython) -> tuple[str, ...]:
    """The command that installs into ``python``; an environment without a pip gets ours (pip's ``--python``)."""
    if python.has_pip:
        return python.pip
    if find_spec("pip") is None:
        ensure = command_line([Step((str(python.executable), "-m", "ensurepip"))])
        raise ConfigurationError(f"{python.executable} has no pip", hint=f"{ensure} makes one")
    return (sys.executable, *module_arguments("pip"), "--python", str(python.executable))


def _installed(python: TargetPython, env: Mapping[str, str]) -> dict[str, str]:
    """Project -> version of everything in its environment; empty where it does not say."""
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
    """A link with the digest that the file was verified by, or pinned with: pip compares it again as it installs.

    Raises StoreError for a file whose digest could not be taken.
    """
    path, digest = required(result.path, "the path of a fetched file"), result.artifact.sha256
    if digest is None:
        raise StoreError(f"{path} cannot be read", hint="run the same command again")
    return f'<a href="{html.escape(path.as_uri())}#sha256={digest}">{html.escape(path.name)}</a>'
