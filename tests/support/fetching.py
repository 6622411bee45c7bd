"""A user who runs ``resume-dl`` as a real process: a home, a condarc, a package cache and mirrors of their own.

user = User(tmp_path)
user.mirrors(one=nginx.base(0), two=nginx.base(1))   # both carry pytorch and pkgs/main below these bases
done = user.fetch("pytorch=1.7", "--json")
done.code, done.out, done.err, done.report           # report: the JSON object
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resume_dl.demo.channel import BuiltPackage
from support import forked
from support.processes import Run

if TYPE_CHECKING:
    from support.conda_env import TestConda
    from support.nginx import NginxMirrors

CHANNELS = ("pytorch", "pkgs/main")
TIMEOUT = 240.0
"""Seconds after which a run is taken for hung: a guard, far above what it takes on a busy machine."""


def index_from(names: Iterable[str]) -> list[str]:
    """The options that make these mirrors ones whose indexes are believed, in this order."""
    return [word for name in names for word in ("--index-from", name)]


@dataclass(frozen=True)
class Done:
    """A run that has ended."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        """stdout as the one JSON object that it must be."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def statuses(self) -> dict[str, str]:
        """File name -> status."""
        return {artifact["filename"]: artifact["status"] for artifact in self.report["artifacts"]}

    def artifact(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(each for each in self.report["artifacts"] if each["name"] == name)
        return found

    def events(self) -> list[dict[str, Any]]:
        """stderr of ``--progress json``: every line must be an object."""
        return [json.loads(line) for line in self.err.splitlines()]


class User:
    """``fetch`` and ``run`` are real processes; no conda is asked unless ``env`` names one.

    ``condarc`` is written as it stands at each run. Nothing but loopback can be reached.
    """

    def __init__(self, folder: Path, *, env: Mapping[str, str] | None = None, pkgs: Path | None = None) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.pkgs = pkgs or folder / "pkgs"
        self.home.mkdir(parents=True, exist_ok=True)
        self.own = {name: folder / name for name in ("config", "cache", "state")}
        self.given = env
        self.condarc: dict[str, Any] = {"pkgs_dirs": [str(self.pkgs)], "channels": list(CHANNELS)}
        self.options: list[str] = ["--platform", "linux-64", "--give-up-after", "20s"]
        self._of_mirrors: list[str] = []

    # --- settings ---------------------------------------------------------------------------------------------------

    def mirrors(self, **bases: str) -> None:
        """Only these mirrors, no origin, all of them trusted; each carries ``CHANNELS`` below its base."""
        self.write_mirrors({name: {f"conda:{c}": f"{base}/{c}" for c in CHANNELS} for name, base in bases.items()})
        for word in self._of_mirrors:
            if word in self.options:
                self.options.remove(word)
        self._of_mirrors = ["--mirrors", str(self.folder / "mirrors.toml"), "--no-upstream", *index_from(bases)]
        self.options += self._of_mirrors

    def write_mirrors(
        self, carries: Mapping[str, Mapping[str, str]], *, origins: Mapping[str, str] | None = None
    ) -> Path:
        """A mirrors.toml of these, for ``--mirrors`` and as it may lie in the user's config folder."""
        text = "schema = 1\n[origins]\n" + "".join(f'"{name}" = "{base}"\n' for name, base in (origins or {}).items())
        for name, places in carries.items():
            text += f'\n[[mirror]]\nname = "{name}"\n[mirror.carries]\n'
            text += "".join(f'"{origin}" = "{base}"\n' for origin, base in places.items())
        path = self.folder / "mirrors.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The whole environment of a run."""
        if self.given is None:
            text, condarc = json.dumps(self.condarc), self.home / ".condarc"
            if not condarc.exists() or condarc.read_text(encoding="utf-8") != text:  # another run may read it just now
                condarc.write_text(text, encoding="utf-8")
            kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT", "TMPDIR") if name in os.environ}
            base = {**kept, "HOME": str(self.home), "USERPROFILE": str(self.home), "RESUME_DL_CONDA": "none"}
        else:
            base = dict(self.given)
        own = {f"RESUME_DL_{name.upper()}_DIR": str(place) for name, place in self.own.items()}
        nowhere = {f"{scheme}_PROXY": "http://127.0.0.1:9" for scheme in ("HTTP", "HTTPS", "ALL")}
        nowhere["PIP_CONFIG_FILE"] = os.devnull  # this machine's own pip.conf may name an index
        return {**base, **own, **nowhere, "NO_PROXY": "127.0.0.1", "PYTHONUTF8": "1", **(extra or {})}

    # --- runs -------------------------------------------------------------------------------------------------------

    def start(self, *arguments: str | Path, env: Mapping[str, str] | None = None, as_root: bool = True) -> Run:
        """Start ``resume-dl``; with ``as_root`` False file permissions hold, for root too."""
        obey = not as_root and sys.platform == "linux" and os.geteuid() == 0
        return Run(
            [sys.executable, "-m", "resume_dl", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(env),
            cwd=self.folder,
            preexec_fn=_obey_permissions if obey else None,
        )

    def run(
        self,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        as_root: bool = True,
        timeout: float = TIMEOUT,
    ) -> Done:
        """To its end; forked (``support.forked``) where that makes no difference."""
        environment = self.environment(env)
        if as_root and forked.possible(environment):
            words = [*map(str, arguments)]
            done = forked.run(words, environment=environment, folder=self.folder, timeout=timeout)
            return Done(done.returncode, done.stdout, done.stderr)
        with self.start(*arguments, env=env, as_root=as_root) as process:
            return finish(process, timeout=timeout)

    def fetch(
        self,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        as_root: bool = True,
        timeout: float = TIMEOUT,
    ) -> Done:
        """``resume-dl fetch`` with this user's own options before ``arguments``."""
        return self.run("fetch", *self.options, *arguments, env=env, as_root=as_root, timeout=timeout)

    # --- what is there afterwards --------------------------------------------------------------------------------

    def assert_complete(self, packages: Mapping[str, BuiltPackage] | list[BuiltPackage]) -> None:
        """Each package is a complete cache entry, and nothing else has a name that a client would take."""
        wanted = list(packages.values()) if isinstance(packages, Mapping) else packages
        for package in wanted:
            assert (self.pkgs / package.filename).read_bytes() == package.path.read_bytes()
            assert (self.pkgs / package.spec.stem / "info" / "repodata_record.json").is_file()
        names = {package.filename for package in wanted} | {package.spec.stem for package in wanted}
        assert {path.name for path in self.pkgs.iterdir()} - {"urls", "urls.txt", ".resume-dl"} == names

    def archives(self) -> set[str]:
        """Names in the package cache that a client would take for packages."""
        if not self.pkgs.is_dir():
            return set()
        return {path.name for path in self.pkgs.iterdir()} - {"urls", "urls.txt", ".resume-dl"}


def finish(process: subprocess.Popen[str], *, timeout: float = TIMEOUT) -> Done:
    """Wait for a run to end."""
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return Done(process.returncode, out, err)


def _obey_permissions() -> None:
    """Give up the capability by which root passes over file permissions, for the program that is run next."""
    prctl_capability_bounding_set_drop, dac_override = 24, 1
    ctypes.CDLL(None).prctl(prctl_capability_bounding_set_drop, dac_override, 0, 0, 0)


def user_of(conda: TestConda, served: NginxMirrors, folder: Path) -> User:
    """A user whose ``resume-dl`` asks this conda and its condarc, and has both mirrors of ``served``."""
    user = User(folder / "user", env={**conda.environment(), "RESUME_DL_CONDA": str(conda.python)}, pkgs=conda.pkgs)
    user.options = ["--give-up-after", "20s"]
    user.mirrors(one=served.base(0), two=served.base(1))
    return user
