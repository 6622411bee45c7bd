# ruff: noqa: FA100 - `from __future__ import` runs a __future__.py that somebody laid beside the script
"""Install an offline bundle with this machine's own conda, mamba or micromamba and pip, after every file was verified.

Run it as ``python install.py -n NAME`` in a bundle, or ``python install.py BUNDLE.tar -p PREFIX``: Python 3.8 and
newer, its standard library, and the verify.py, unpack.py, probe.py and fs.py that lie beside it. ``resume-dl bundle
install`` calls ``install``. Sizes are in bytes, digests in lower-case hex.

Why conda gets a package cache of its own, filled by us, and a list of the canonical addresses with their MD5
(measured with conda 24.7.1, 25.11.1 and 26.7.1; what ended in the environment, or that conda refused):

| | ``-c file:`` and a solve | ``@EXPLICIT file:...#digest`` | the same cache, filled by us | a cache of its own |
| --- | --- | --- | --- | --- |
| archive replaced after we had verified it | **the wrong one** | **the wrong one** | refused | refused |
| a bit flipped after we had verified it | refused (CRC) | refused (CRC) | refused | refused |
| other package of that name in the user's cache | right | right | refused | right |
| unpacked entry in that cache was altered | **the wrong one** | **the wrong one** | **the wrong one** | right |
| unpacked entry there is half | refused | refused | refused | right |

conda copies the archive of a ``file:`` address and compares nothing, whatever digest stands behind it; an archive that
lies in its cache is compared with the MD5 of its line. So each archive is hashed once more while it is copied into
that cache (the copy that conda reads is the one that was hashed), nothing of the user's cache is read, ``--offline``
has nothing left to ask for, and the environment names the channels that its packages came from. What conda has unpacked
is then moved into the user's cache: the next delta builds on it. ``--download-only`` closes no gap: since conda 25.7 it
installs explicit lists all the same.
"""

import sys

if sys.version_info < (3, 8):  # noqa: UP036 - whatever Python is there runs this
    needed: str = "Python 3.8 or newer is needed"  # one without annotations ends here, and shows this line
    sys.stderr.write(f"{needed}; this is {sys.version.split()[0]}\n")
    sys.exit(2)

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    # Python puts the script's own folder first, and a json.py that somebody added there would run
    sys.path[:] = [entry for entry in sys.path[1:] if entry not in ("", sys.path[0])]

import argparse
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    Type,
)

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def _beside(name: str) -> Any:
    """The script of that name beside this one, as a module; these lines are the same in each script that needs it.

    Its text is compiled: Python would take a ``__pycache__`` for it, which nothing verifies. It runs before the bundle
    is verified, so it is held against SHA256SUMS; where there is none it is no bundle's. Raises OSError, SystemExit.
    """
    loaded = sys.modules.get("resume_dl_bundle_" + name)
    if loaded is not None:
        return loaded
    path = Path(os.path.abspath(__file__)).with_name(name + ".py")  # noqa: PTH100 - resolve() follows links
    data = path.read_bytes()
    with suppress(FileNotFoundError):
        listed = path.with_name("SHA256SUMS").read_bytes().splitlines()
        if f"{hashlib.sha256(data).hexdigest()}  {path.name}".encode() not in listed:
            what, hint = "is not the file that SHA256SUMS lists", f"copy {path.name} and SHA256SUMS again"
            with suppress(OSError):
                print(f"error: {path.name} {what}; nothing was started\n  {hint}", file=sys.stderr)  # noqa: T201 - a script has nothing else
            sys.exit(4)
    module = ModuleType("resume_dl_bundle_" + name)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(data, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102 - what an import does
    return module


if TYPE_CHECKING or __package__:
    from resume_dl.standalone import fs, probe, unpack, verify
else:
    try:
        probe, verify, unpack, fs = _beside("probe"), _beside("verify"), _beside("unpack"), _beside("fs")
    except OSError as _error:
        with suppress(OSError):
            print(  # noqa: T201 - a script has nothing else
                f"error: {_error.filename}: {_error.strerror}; nothing was started\n"
                "  copy the whole bundle again: install.py needs this file",
                file=sys.stderr,
            )
        sys.exit(4)

CONDAS = ("conda", "mamba", "micromamba")
WINDOWS = sys.platform == "win32"
_PATIENCE_AFTER_CTRL_C = 60.0
"""Seconds for conda to take back what it has begun."""
_MAKING = "making"
"""In the stage as long as an environment is made that was not there before: the mark, which holds a token."""
_BEGUN = ".resume-dl-making"
"""In that environment, with the same token: only where both agree is it a killed run's rest, which may be removed."""
_OF_A_VENV = re.compile(
    r"pyvenv\.cfg|\.gitignore|lib64|(bin|Scripts)/(activate|deactivate|python|pip|easy_install|\U0001d70bthon)[^/]*"
    r"|(bin|Scripts)/[^/]*\.dll|[Ll]ib(64)?/([^/]*/)?site-packages/(pip|setuptools|pkg_resources|wheel|_distutils_hack"
    r"|distutils-precedence\.pth|__pycache__)(-[^/]*)?(/.*)?",
    re.IGNORECASE,
)
"""What ``python -m venv`` lays into a folder, as paths in it."""
_MOST_JSON = 64 << 20
"""Bytes of a file that describes one package: what is longer would take the memory."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.!+-]*")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.!+~-]*")
_ADDRESS = re.compile(r"https?://[!-\"$-?A-~]+")
"""Printable ASCII without blank, ``#`` and ``@``: it becomes a line of a list."""
_FOR_CONDA = re.compile(
    r"CONDARC|CONDA_(EXE|PYTHON_EXE|BAT|ROOT|ROOT_PREFIX|PREFIX|PREFIX_[0-9]+|ENVS_DIRS|ENVS_PATH|SHLVL|DEFAULT_ENV"
    r"|PROMPT_MODIFIER|SUBDIR|OVERRIDE_.*|ALWAYS_COPY|REGISTER_ENVS|NO_LOCK|DEBUG|VERBOSITY|NO_PLUGINS)"
    r"|MAMBA_(EXE|ROOT_PREFIX|ENVS_DIRS)"
)
"""What says where things are, what this machine is, and what its disk can do; the rest changes what conda does."""
_UNREADABLE_IN_A_LIST = set(",[]{}#'\"" + os.pathsep)
"""What conda or mamba would take apart in CONDA_PKGS_DIRS."""

Told = Callable[[str], None]


class InstallError(Exception):
    """What ends an installation: its text, what to do next, and the exit code of docs/interface.md."""

    def __init__(self, message: str, hint: str, code: int) -> None:
        super().__init__(_shown(message))
        self.hint = _shown(hint)
        self.code = code


class Wish(NamedTuple):
    """What the user asked for."""

    name: str = ""
    prefix: Optional[Path] = None
    platform: str = ""
    """conda's subdir; empty: this machine's."""
    client: str = ""
    """``conda``, ``mamba``, ``micromamba`` or ``pip``; empty: what is there."""
    wheels: Tuple[Path, ...] = ()
    """Folders with wheels that a delta relies on, beside resume-dl's own."""
    pkgs_dirs: Tuple[Path, ...] = ()
    """Folders with conda packages that a delta relies on, beside conda's own caches."""
    manifest_sha256: Optional[str] = None
    allowed_signers: Optional[Path] = None
    signer: Optional[str] = None
    dry_run: bool = False
    unpack_to: Optional[Path] = None


class Outcome(NamedTuple):
    """How it ended."""

    prefix: Path
    platform: str
    trust: str
    """``signature``, ``digest`` or ``accidents``."""
    existed: bool
    """The environment was there before."""
    client: str
    """Who installed the conda packages; empty where there were none."""
    packages: List[Dict[str, Any]]
    """Those of the manifest that this platform has, each with ``found``: where its bytes were, as a text."""
    warnings: List[str]
    planned: bool
    """It was a dry run."""


class _Package(NamedTuple):
    """One of the manifest's."""

    entry: Dict[str, Any]
    source: Path
    """Where its bytes are."""

    @property
    def filename(self) -> str:
        return str(self.entry["path"]).rpartition("/")[2]

    @property
    def stem(self) -> str:
        """What conda calls the unpacked folder."""
        return re.sub(r"(\.conda|\.tar\.bz2)$", "", self.filename)

    @property
    def url(self) -> str:
        """Canonical, with the file's name as it is on disk: conda compares it letter by letter."""
        url = str(self.entry["url"])
        if not _ADDRESS.fullmatch(url):
            url = "https://bundle.invalid/{}/{}".format(
                self.entry["path"].split("/")[1], self.filename
            )  # from a file: channel
        return url.rpartition("/")[0] + "/" + self.filename


class _Plan(NamedTuple):
    """All that is decided before anything is started."""

    prefix: Path
    existed: bool
    platform: str
    foreign: bool
    """Not this machine's platform."""
    python: str
    client: Optional["probe.Client"]
    info: Optional["probe.CondaInfo"]
    conda: List[_Package]
    pip: List[_Package]
    rest: bool = False
    """There is what a killed run had begun to make."""

    @property
    def marks(self) -> bool:
        """Whether a new environment gets a token first: mamba and micromamba make none in a folder with a file."""
        return not self.conda or (self.client is not None and self.client.name == "conda")


# ---------------------------------------------------------------------------------------------------------------------
# The order of things


def install(
    bundle: Path, wish: Wish, *, told: Optional[Told] = None, env: Optional[Mapping[str, str]] = None, output: int = 1
) -> Outcome:
    """Verify ``bundle`` (a folder or a tar), then install it. Raises InstallError; KeyboardInterrupt passes.

    ``told`` gets lines for people; conda's and pip's own words go to the file descriptor ``output``.
    """
    run = _Installation(wish, told or probe.tell, dict(os.environ if env is None else env), output)
    try:
        return run.of(Path(bundle))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        hint = "look at this disk, its free space, and the permissions; then run the same command again"
        raise InstallError(where + (error.strerror or str(error)), hint, 5) from error


class _Installation:
    def __init__(self, wish: Wish, told: Told, env: Dict[str, str], output: int) -> None:
        self.wish = wish
        self.told: Told = lambda text: told(_shown(text))
        self.env = env
        self.output = output
        self.warnings: List[str] = []

    def of(self, bundle: Path) -> Outcome:
        self._refuse_nonsense()
        if bundle.is_dir() or not bundle.exists() or self.wish.dry_run:
            return self._verified(bundle, self._verify(bundle))
        if self.wish.unpack_to is not None:
            return self._unpacked(bundle, self.wish.unpack_to)
        beside = str(bundle.absolute().parent)
        place = beside if os.access(beside, os.W_OK) else None  # else where this system keeps such things
        folder = Path(tempfile.mkdtemp(prefix=bundle.name + ".", dir=place))
        try:
            return self._unpacked(bundle, folder)
        finally:
            fs.remove(folder)

    def _refuse_nonsense(self) -> None:
        wish = self.wish
        if bool(wish.name) == (wish.prefix is not None):
            what = "both -n and -p were given" if wish.name else "it was not said where to install"
            raise InstallError(what, "give -n NAME (an environment of your conda) or -p PREFIX (a folder)", 2)
        if wish.name and (wish.name in (".", "..") or re.search(r"[/\\ :#]", wish.name)):
            raise InstallError(f"{wish.name!r} cannot be an environment's name", "a folder is given as -p PREFIX", 2)
        if wish.client not in ("", "pip", *CONDAS):
            raise InstallError(f"{wish.client!r} is unknown", "--with takes conda, mamba, micromamba or pip", 2)

    def _warn(self, text: str) -> None:
        self.warnings.append(text)
        self.told("warning: " + text)

    # -- verified first

    def _verify(self, bundle: Path) -> "verify.Report":
        return self._trusted(lambda **options: unpack.check_any(bundle, **options))

    def _unpacked(self, tar: Path, folder: Path) -> Outcome:
        self.told(f"unpacking {tar} to {folder}")
        report = self._trusted(lambda **options: unpack.unpack(tar, folder, **options))
        return self._verified(folder, report)

    def _trusted(self, check: Callable[..., "verify.Report"]) -> "verify.Report":
        wish = self.wish
        try:
            report = check(
                manifest_sha256=wish.manifest_sha256,
                allowed_signers=wish.allowed_signers,
                signer=wish.signer,
                told=self.told,
            )
        except verify.UsageError as error:
            raise InstallError(str(error), "see --help", 2) from error
        for line in verify.lines(report):
            self.told(line)
        if report.problems or report.manifest is None:
            files = sorted({problem.path for problem in report.problems})
            if report.exit_code == 5:
                hint = "look at what is named above, then run the same command again"
                raise InstallError("this machine failed, and nothing was started: " + _some(files), hint, 5)
            raise InstallError(
                "the bundle is not to be used, and nothing was started: " + _some(files),
                "repair what is named above, then run the same command again",
                report.exit_code or 4,
            )
        self.warnings += [problem.text for problem in report.warnings]
        return report

    def _verified(self, folder: Path, report: "verify.Report") -> Outcome:
        plan = self._plan(folder.absolute(), report.manifest or {})
        if report.unlooked and folder.is_dir():
            self._look_inside(folder.absolute(), report.unlooked, plan.info)
        outcome = Outcome(
            prefix=plan.prefix,
            platform=plan.platform,
            trust=report.trust,
            existed=plan.existed,
            client=plan.client.name if plan.client is not None and plan.conda else "",
            packages=[{**each.entry, "found": str(each.source)} for each in (*plan.conda, *plan.pip)],
            warnings=self.warnings,
            planned=self.wish.dry_run,
        )
        if self.wish.dry_run:
            self._tell_plan(plan)
        else:
            self._do(plan)
        return outcome

    def _look_inside(self, folder: Path, paths: List[str], info: Optional["probe.CondaInfo"]) -> None:
        """Let conda's own Python look into the packages that this one cannot unpack."""
        code = 2
        if info is not None and info.python:
            self.told(f"looking into them with {info.python}")
            command = [info.python, "-I", os.path.abspath(verify.__file__), str(folder), "--inside"]  # noqa: PTH100 - resolve() follows links
            with suppress(OSError):
                code = subprocess.run(command, input="\n".join(paths).encode("utf-8"), stdout=self.output).returncode  # noqa: PLW1510 - its code is looked at
        if code == 4:
            raise InstallError("the bundle is not to be used, and nothing was started", "see above", 4)
        if code != 0:
            self._warn(f"{len(paths)} .conda packages were not looked into: no Python with zstandard is at hand")

    # -- what to do

    def _plan(self, folder: Path, manifest: Dict[str, Any]) -> _Plan:
        client, info = self._client()
        here = (info.platform if info is not None else "") or probe.current_platform()
        name = self.wish.platform or here
        platform = manifest["platforms"].get(name)
        if platform is None:
            has = ", ".join(sorted(manifest["platforms"])) or "nothing"
            whose = "as you asked" if self.wish.platform else "which this machine is"
            hint = "make one for it on the connected machine: resume-dl bundle create --platform " + name
            raise InstallError(f"the bundle has nothing for {name}, {whose}; it has {has}", hint, 2)
        if platform["conda"] and (client is None or info is None):
            raise InstallError(*self._no_client(len(platform["conda"]), name))
        if name == here:
            self._compare_machine(platform, info, name)
        else:
            self._warn(f"this machine is {here}, and {name} was asked for: its programs may not run here")
        prefix = self._prefix(info)
        packages = {each["path"]: each for each in manifest["packages"]}
        listed = dict.fromkeys((*platform["conda"], *platform["pip"]))  # each once
        found = self._find(folder, [packages[path] for path in listed], info)
        conda = [each for each in found if each.entry["kind"] == "conda"]
        _refuse_same_names(conda)
        plan = _Plan(
            prefix=prefix,
            existed=False,
            platform=name,
            foreign=name != here,
            python=str(platform["python"]),
            client=client,
            info=info,
            conda=conda,
            pip=[each for each in found if each.entry["kind"] != "conda"],
        )
        plan = self._looked_at(plan)
        self._refuse_prefix(plan)
        return plan

    def _looked_at(self, plan: _Plan) -> _Plan:
        """The plan with what is in its prefix now."""
        rest = _marked(plan) is not None and not _is_complete(plan, self.env)
        return plan._replace(existed=_is_environment(plan.prefix) and not rest, rest=rest)

    def _client(self) -> Tuple[Optional["probe.Client"], Optional["probe.CondaInfo"]]:
        """The client to use and what it says of itself; (None, None) where none is there or none answers."""
        wanted = self.wish.client
        clients = [each for each in probe.find_clients(self.env) if wanted in ("", each.name)]
        return probe.first_answer(clients, self.env) or (None, None)

    def _no_client(self, count: int, platform: str) -> Tuple[str, str, int]:
        wanted = self.wish.client
        what = f"the bundle has {count} conda packages for {platform}, "
        if wanted == "pip":
            return what + "which pip cannot install", "leave --with out, or name conda, mamba or micromamba", 2
        lost = self._named_and_lost()
        if lost:
            return what + lost, "give RESUME_DL_CONDA the path of a conda that is there, or unset it", 5
        hint = "install conda, mamba or micromamba first, or name the one that is there: RESUME_DL_CONDA=/path/to/conda"
        return what + f"and no {wanted or 'conda, mamba or micromamba'} was found here that answers", hint, 5

    def _named_and_lost(self) -> str:
        named = self.env.get("RESUME_DL_CONDA", "").strip()
        if not named or named.lower() == "none" or probe.find_clients(self.env):
            return ""
        return f"and RESUME_DL_CONDA names {named}, which is not there"

    def _compare_machine(self, platform: Dict[str, Any], info: Optional["probe.CondaInfo"], name: str) -> None:
        """Warn where this machine is older or has less than what the bundle was solved for."""
        have = dict(info.virtual_packages) if info is not None else {}
        have = have or probe.virtual_packages(name, probe.plain_environment(self.env))
        for wanted in platform["virtual_packages"]:
            package, version, build = [*verify.shown(str(wanted)).split("="), "", ""][:3]
            own = have.get(package)
            if own is None:
                shown = {"__cuda": "no NVIDIA driver was found here"}.get(package, "this machine has none")
                self._warn(f"the bundle was made for {package} {version} or newer; {shown}")
            elif package == "__archspec":
                own_level, level = (_x86_level(each) for each in (own.partition("=")[2], build))
                if own_level < level:
                    self._warn(f"the bundle was made for a {build} processor; this one is {own.partition('=')[2]}")
            elif _numbers(own) < _numbers(version):
                self._warn(f"the bundle was made for {package} {version} or newer; this machine has {own}")

    def _prefix(self, info: Optional["probe.CondaInfo"]) -> Path:
        if self.wish.prefix is not None:
            try:
                prefix = self.wish.prefix.expanduser()
            except RuntimeError as error:
                what = f"{self.wish.prefix}: there is no such user, or no home"
                raise InstallError(what, "write ./ before a folder whose name begins with ~", 2) from error
            return Path(os.path.abspath(str(prefix)))  # noqa: PTH100 - links stay as they are
        if info is None:
            return self._venv_of_name()
        if self.wish.name == "base":
            return Path(info.root_prefix)
        places = [Path(folder, self.wish.name) for folder in info.envs_dirs]
        for place in places:
            if _is_environment(place):
                return place
        for place in places:
            if place.exists() or _can_be_made(place.parent):
                return place
        raise InstallError("none of conda's folders for environments can be written to", "give -p PREFIX", 5)

    def _venv_of_name(self) -> Path:
        """Where ``-n`` is without conda: the virtual environment of that name, there or to be made."""
        name, lost = self.wish.name, self._named_and_lost()
        if lost or name == "base":
            what = f"no conda is here that knows where environment {name!r} is"
            raise InstallError(f"{what}, {lost}" if lost else what, "give -p PREFIX, the folder of an environment", 5)
        home = self.env.get("USERPROFILE" if WINDOWS else "HOME") or os.path.expanduser("~")  # noqa: PTH111 - it raises nothing
        folder = Path(self.env.get("WORKON_HOME") or os.path.join(home, ".virtualenvs"))  # noqa: PTH118 - as above
        prefix = folder / name
        if not folder.is_absolute() or not (prefix.exists() or _can_be_made(folder)):
            hint = f"give the folder of the environment, as in -p {os.path.join('.', name)}"  # noqa: PTH118 - keeps the dot
            raise InstallError(f"no conda is here, and {folder}, for virtual environments, cannot be written", hint, 5)
        self.told(f"no conda is used: {name!r} is the virtual environment {prefix} (another place: -p PREFIX)")
        return prefix

    def _find(self, folder: Path, entries: List[Dict[str, Any]], info: Optional["probe.CondaInfo"]) -> List[_Package]:
        """Where each package's bytes are; what a delta relies on is looked for on this machine. Nothing is written."""
        found = []
        missing = []
        caches = [*self.wish.pkgs_dirs, *probe.pkgs_dirs(info, self.env)]
        wheels = [*self.wish.wheels, *probe.wheel_dirs(self.env)]
        relied_on = [entry for entry in entries if not entry["included"]]
        if relied_on:
            size = sum(entry["size"] for entry in relied_on)
            self.told(f"looking for {len(relied_on)} files that this machine should have, {verify.show_size(size)}")
        for entry in entries:
            name = entry["path"].rpartition("/")[2]
            fits = _NAME.fullmatch(entry["name"]) and _VERSION.fullmatch(entry["version"]) and _FILE.fullmatch(name)
            if not fits:
                text = "{}: its name or version is none that a list can hold".format(entry["path"])
                raise InstallError(text, "do not use this bundle; ask whoever made it for another", 4)
            if entry["included"]:
                found.append(_Package(entry, folder / entry["path"]))
                continue
            places = [each / name for each in (caches if _is_conda(entry) else wheels)]
            place = next((each for each in places if _holds(each, entry)), None)
            if place is None:
                missing.append(_describe_missing(entry, places))
            else:
                found.append(_Package(entry, place))
        if missing:
            raise InstallError(
                f"the bundle leaves out what this machine was said to have, and {len(missing)} of these files are not "
                "here; nothing was started:\n" + "\n".join(missing),
                "put them there, or name their folder with --pkgs-dir DIR (wheels: --wheels DIR), or make the bundle "
                "anew with an inventory of this machine: resume-dl bundle inventory",
                1,
            )
        return found

    def _refuse_prefix(self, plan: _Plan) -> None:
        """Find out before anything is started that pip, or conda, could not work there."""
        if plan.conda and plan.existed and not _is_conda_environment(plan.prefix):
            text = f"{plan.prefix} is an environment that conda did not make: it installs nothing into it"
            raise InstallError(text, "choose another place with -p or -n", 2)
        _refuse_other_content(plan)
        if plan.conda and not plan.existed and _refuses_blanks(plan) and " " in plan.prefix.name:
            text = f"conda 25 and newer make no environment whose folder's name has a blank: {plan.prefix}"
            raise InstallError(text, "choose another name; only its last part is meant", 2)
        if not plan.pip or any(each.entry["name"] == "python" for each in plan.conda):
            return
        if plan.existed:
            self._refuse_other_python(plan, _python_of(plan.prefix))
        elif plan.conda:
            hint = "install it into an environment that has one: -p PREFIX or -n NAME of an existing one"
            raise InstallError("the bundle has wheels, and no Python for a new environment", hint, 2)
        elif self.wish.name and plan.info is not None:
            hint = (
                "name an environment that is there, or a folder for a new one of this Python: -p PREFIX; or --with pip"
            )
            raise InstallError(f"there is no environment {self.wish.name!r}, and the bundle brings no Python", hint, 2)
        elif not sys.executable:
            raise InstallError("it is not known which Python this is", "run install.py with a Python on disk", 5)
        elif not plan.foreign and probe.current_platform() != plan.platform:
            text = f"the wheels are for {plan.platform}; {sys.executable} is of {probe.current_platform()}"
            raise InstallError(text, "run install.py with a Python of that platform", 5)
        else:
            self._refuse_other_python(plan, Path(sys.executable))

    def _refuse_other_python(self, plan: _Plan, python: Path) -> None:
        wanted = verify.shown(plan.python).split(".")[:2]
        version = _ask_version(python, self.env)
        if not version:
            hint = "give another environment, or a folder that is not there yet"
            raise InstallError(f"{python} does not run", hint, 5)
        if len(wanted) == 2 and version.split(".")[:2] != wanted:
            text = f"the wheels are for Python {'.'.join(wanted)}; {python} is {version}"
            hint = f"run install.py with a Python {'.'.join(wanted)}, or give an environment that has one: -p PREFIX"
            raise InstallError(text, hint, 5)

    def _tell_plan(self, plan: _Plan) -> None:
        where = "into the environment that is there" if plan.existed else "as a new environment"
        self.told(f"{plan.platform}, {where}: {plan.prefix}")
        if plan.rest:
            _refuse_strangers(plan)
            how = "everything in it would be removed first" if plan.conda else "it would be made over what is there"
            self.told(f"an earlier run was ended while it made this environment: {how}")
        for packages, who in ((plan.conda, plan.client.name if plan.client is not None else ""), (plan.pip, "pip")):
            if packages:
                size = sum(each.entry["size"] for each in packages)
                self.told(f"by {who}: {len(packages)} packages, {verify.show_size(size)}")
        self.told("dry run: nothing was started, nothing was written")

    # -- doing it

    def _do(self, plan: _Plan) -> None:
        with _Stage(plan) as stage:
            for refused in stage.refused:
                self._warn(refused)
            plan = self._looked_at(plan)  # again: now nobody else is at work there
            _refuse_other_content(plan)
            _refuse_strangers(plan)
            stage.begin()
            existed = plan.existed
            token = ""
            if plan.rest:
                self.told(f"an earlier run was ended while it made {plan.prefix}: begun anew")
                if plan.conda:
                    _remove_environment(plan.prefix)
                else:  # a venv is made over what is there
                    token = _token_in(plan.prefix / _BEGUN)
            if existed:
                stage.unmark()
                self.told(f"installing into the environment that is there: {plan.prefix}")
            else:
                if plan.marks:
                    stage.mark(token)
                self.told(f"making a new environment: {plan.prefix}")
            if plan.conda:
                self._conda(plan, stage, existed=existed)
            elif not existed:
                self._make_venv(plan, stage)
            stage.unmark()
            if plan.pip:
                self._pip(plan, stage, existed=existed)

    def _conda(self, plan: _Plan, stage: "_Stage", *, existed: bool) -> None:
        client, info = plan.client, plan.info
        if client is None or info is None:
            raise AssertionError("no conda part is planned without a client")
        if existed and os.path.realpath(str(plan.prefix)) == os.path.realpath(info.root_prefix):
            self._warn("this is the environment that conda itself lives in")
        cache = stage.folder / "pkgs"
        cache.mkdir()
        size = sum(each.entry["size"] for each in plan.conda)
        self.told(f"bringing {len(plan.conda)} archives, {verify.show_size(size)}, to {cache}")
        lines = ["@EXPLICIT"]
        digests = {}
        for each in plan.conda:
            md5 = _bring(each, cache / each.filename) or each.entry["md5"]
            digests[each.stem] = {"md5": md5, "sha256": each.entry["sha256"]}
            lines.append(each.url + (f"#{md5}" if md5 else ""))
        (cache / "urls.txt").write_bytes("".join(each.url + "\n" for each in plan.conda).encode("ascii"))
        listed = stage.folder / "explicit.txt"
        listed.write_bytes("\n".join([*lines, ""]).encode("ascii"))
        verb = "install" if existed else "create"
        command = [*client.command, verb, "-p", str(plan.prefix), "--offline", "--yes", "--file", str(listed)]
        env = {name: value for name, value in self.env.items() if _reaches_conda(name)}
        env.update({"CONDA_PKGS_DIRS": str(cache), "CONDA_OFFLINE": "true", "CONDA_ALWAYS_YES": "true"})
        # An environment of links into a cache that is gone in a moment would be none.
        env.update({"CONDA_ALLOW_SOFTLINKS": "false", "CONDA_ALWAYS_SOFTLINK": "false"})
        env["CONDA_PLUGINS_RESUME_DL_PREFETCH"] = "never"
        if plan.foreign:
            env["CONDA_SUBDIR"] = plan.platform
        self.told(f"{client.name} {verb} --offline: {len(plan.conda)} packages")
        code = self._run(command, env, stage)
        if code:
            raise self._conda_failed(plan, cache, f"{client.name} ended with exit code {code}")
        records = {each.stem: plan.prefix / "conda-meta" / f"{each.stem}.json" for each in plan.conda}
        lacking = [stem for stem, record in records.items() if not record.is_file()]
        if lacking:
            raise self._conda_failed(
                plan, cache, f"{client.name} says it is done, and did not install {_some(lacking)}"
            )
        lost = [stem for stem, record in records.items() if _lost(record, plan.prefix)]
        if lost:
            self._warn(f"files of {_some(lost)} are not there: {client.name} thought that it had installed them before")
        kept = [stem for stem, record in records.items() if _is_of_another(record, digests[stem])]
        if kept:
            text = "was there with other bytes than the bundle's, and {} keeps what is there"
            self._warn(f"{_some(kept)}: {text.format(client.name)}")
        _publish(cache, plan, info)

    def _conda_failed(self, plan: _Plan, cache: Path, text: str) -> InstallError:
        changed = [each.filename for each in plan.conda if not _holds(cache / each.filename, each.entry)]
        if changed:
            hint = "something on this machine writes there, or its disk fails; nothing of it was installed"
            return InstallError(f"{text}; archives have changed in {cache}: {_some(changed)}", hint, 4)
        return InstallError(text, "look at what it says above, repair that, then run the same command again", 5)

    def _make_venv(self, plan: _Plan, stage: "_Stage") -> None:
        code = self._run([sys.executable, "-I", "-m", "venv", str(plan.prefix)], self._plain(), stage)
        if code:
            hint = "give this Python venv and ensurepip (Debian: python3-venv), or give an environment that is there"
            raise InstallError(f"{sys.executable} could not make the environment {plan.prefix}", hint, 5)

    def _pip(self, plan: _Plan, stage: "_Stage", *, existed: bool) -> None:
        python = _python_of(plan.prefix)
        self._refuse_other_python(plan, python)
        if probe.run_quietly((str(python), "-I", "-m", "pip", "--version"), self._plain(plan.prefix), probe.SHORT)[0]:
            self.told("there is no pip: it is taken from this Python's own ensurepip")
            if self._run([str(python), "-I", "-m", "ensurepip"], self._plain(plan.prefix), stage):
                hint = "put pip into it, or make the bundle anew with pip among its conda packages"
                raise InstallError(f"{plan.prefix} has no pip, and the wheels are not installed", hint, 5)
        listed = stage.folder / "requirements.txt"
        listed.write_bytes(
            "".join("{name}=={version} --hash=sha256:{sha256}\n".format(**each.entry) for each in plan.pip).encode(
                "ascii"
            )
        )
        folders = list(dict.fromkeys(str(each.source.parent) for each in plan.pip))
        command = [str(python), "-I", "-m", "pip", "install", "--isolated", "--no-index", "--no-cache-dir"]
        command += ["--disable-pip-version-check", "--no-input", "--no-warn-script-location"]
        # The set is closed and was solved as a whole. pip cannot see it in conda's packages that lack its metadata,
        # and would then ask for what the bundle does not have: it is asked afterwards what it misses.
        command += ["--no-deps", "--require-hashes", "-r", str(listed)]
        if existed:  # pip would keep what has the same version, whatever its bytes
            command.append("--force-reinstall")
        for folder in folders:
            command += ["--find-links", folder]
        if all(each.entry["kind"] == "wheel" for each in plan.pip):
            command += ["--only-binary", ":all:"]
        self.told(f"pip install --no-index --require-hashes: {len(plan.pip)} packages")
        code = self._run(command, self._plain(plan.prefix), stage)
        if code:
            changed = [each.filename for each in plan.pip if not _holds(each.source, each.entry)]
            if changed:
                hint = "copy these files again, then run the same command again"
                raise InstallError(f"pip ended with exit code {code}; files have changed: {_some(changed)}", hint, 4)
            hint = "look at what it says above, repair that, then run the same command again"
            raise InstallError(f"pip ended with exit code {code}", hint, 5)
        if self._run([str(python), "-I", "-m", "pip", "--isolated", "check"], self._plain(plan.prefix), stage):
            self._warn("pip misses something in this environment, or something does not fit: see above")

    def _plain(self, prefix: Optional[Path] = None) -> Dict[str, str]:
        """The environment for a Python: nothing in it names another index, or other folders of modules."""
        env = {name: value for name, value in self.env.items() if not name.upper().startswith(("PIP_", "PYTHON"))}
        env["PIP_CONFIG_FILE"] = os.devnull
        if prefix is not None:
            folders = ["", "Library/bin", "Scripts"] if WINDOWS else ["bin"]
            own = os.pathsep.join(str(prefix / folder) for folder in folders)
            env["PATH"] = own + os.pathsep + env.get("PATH", os.defpath)
        return env

    def _run(self, command: List[str], env: Dict[str, str], stage: "_Stage") -> int:
        """Run a program to its end; on Ctrl-C it may take back what it began, and is killed if that takes too long."""
        refused = [word for word in command if Path(command[0]).suffix.lower() in (".bat", ".cmd") and "%" in word]
        if refused:
            hint = "name conda.exe: set RESUME_DL_CONDA=C:\\path\\to\\Scripts\\conda.exe"
            raise InstallError(f"{refused[0]}: a batch file cannot be given a path with %", hint, 5)
        _flush()
        with _terminated_like_interrupted():
            try:
                process = subprocess.Popen(
                    command,
                    env=env,
                    cwd=str(stage.folder),
                    stdin=subprocess.DEVNULL,
                    stdout=self.output,
                    start_new_session=not WINDOWS,  # Ctrl-C comes to us alone, and once to it
                    pass_fds=stage.descriptors,  # who is killed without it still holds the lock
                )
            except OSError as error:
                raise InstallError(
                    f"{command[0]} cannot be started: {error.strerror}", "look at this program", 5
                ) from error
            try:
                return process.wait()
            except KeyboardInterrupt:
                self.told("stopping: waiting for the program that was started")
                _stop(process)
                raise


# ---------------------------------------------------------------------------------------------------------------------
# The stage


class _Stage:
    """A folder for one environment's installation: conda's cache and the lists; held by a lock, gone at the end.

    In the first of the places that can be written to and whose name conda reads as it is. Its name cannot be guessed,
    and it is private: in a folder that others may write to, they can make none for us. A run that was killed leaves it
    behind; the next one for the same environment, which holds the same lock, takes it over.
    """

    def __init__(self, plan: _Plan) -> None:
        self.plan = plan
        self.prefix = plan.prefix
        self.place = _places(plan)[-1]
        self.folder = self.place.new()
        self.refused: List[str] = []
        """Places that other users may have written into, and why they are not used."""
        self._begun = False
        self._lock = -1

    @property
    def descriptors(self) -> Tuple[int, ...]:
        """To be passed on to a child."""
        return () if WINDOWS else (self._lock,)

    def __enter__(self) -> "_Stage":  # noqa: PYI034 - typing.Self is of 3.11
        for place in _places(self.plan):
            if not _is_read_as_it_is(place.folder / place.name):
                continue
            try:
                self._lock = _locked(place.lock)
            except fs.UntrustedFolderError as error:
                self.refused.append(f"{error}; it is not used")
                continue
            except OSError:
                continue
            self.place = place
            break
        else:
            tried = (str(place.folder / place.name) for place in _places(self.plan))
            text = "there is no folder that can be written to and that conda would find: tried " + _some(tried)
            text = "\n".join([text, *self.refused])
            raise InstallError(text, "set CONDA_PKGS_DIRS to a folder of yours, and run it again", 5)
        if self._lock < 0:
            text = f"another installation into {self.prefix} is at work"
            raise InstallError(text, "wait until it has ended, then run the same command again", 5)
        left = self.place.left()
        marked = _marked(self.plan)
        self.folder = marked if marked is not None and marked in left else [*left, self.place.new()][0]
        return self

    def begin(self) -> None:
        """Take over the folder, empty but for the mark. Until then it is as a killed run has left it."""
        self._begun = True
        for each in self.place.left():
            if each != self.folder:
                fs.remove(each)
        try:
            self.folder.mkdir(mode=0o700)
        except FileExistsError:
            for each in list(self.folder.iterdir()):
                if each.name != _MAKING:
                    fs.remove(each)

    def mark(self, token: str) -> None:
        """From here on the environment is ours to remove, should we be killed; without a ``token`` it gets one."""
        data = (token or os.urandom(16).hex()).encode("ascii")
        fs.write_file(self.folder / _MAKING, data)
        self.prefix.mkdir(parents=True, exist_ok=True)
        fs.write_file(self.prefix / _BEGUN, data)

    def unmark(self) -> None:
        """What is made stays."""
        for place in (self.prefix / _BEGUN, self.folder / _MAKING):
            with suppress(FileNotFoundError):
                place.unlink()

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._begun:
            if kind is not None and _marked(self.plan) == self.folder:
                # conda takes back what it did, and may leave the record of a package without its files (24.7)
                with suppress(OSError):
                    if not _stranger(self.plan, self.folder):
                        _remove_environment(self.prefix)
            if _marked(self.plan) != self.folder:  # else the next run needs it to tell what is ours there
                fs.remove(self.folder)
        _unlock(self._lock, self.place.lock)
        with suppress(OSError):
            if self.folder.parent.name == verify.UNFINISHED:
                self.folder.parent.rmdir()


class _Place(NamedTuple):
    """A folder in which the stage of one environment may be, and how the stage's name begins there."""

    folder: Path
    name: str

    @property
    def lock(self) -> Path:
        """The same for each run, so that only one works on that environment."""
        return self.folder / (self.name + ".lock")

    def new(self) -> Path:
        """The path of a stage that is not there: its name cannot be guessed."""
        return self.folder / f"{self.name}-{os.urandom(8).hex()}"

    def left(self) -> List[Path]:
        """The stages that earlier runs of this user left; what another user made, or may have written into, is none."""
        form = re.compile(re.escape(self.name) + "(-[0-9a-f]{16})?")  # earlier versions added nothing
        try:
            return sorted(path for path in self.folder.iterdir() if form.fullmatch(path.name) and _is_own(path))
        except OSError:
            return []


def _places(plan: _Plan) -> List[_Place]:
    """Where the stage may be: in conda's caches, so that what it unpacks is linked and later moved, else beside."""
    name = "bundle-" + hashlib.sha256(str(plan.prefix).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    caches = plan.info.pkgs_dirs if plan.info is not None and plan.conda else ()
    return [*(_Place(Path(cache, verify.UNFINISHED), name) for cache in caches), _Place(plan.prefix.parent, "." + name)]


def _is_own(folder: Path) -> bool:
    try:
        fs.check_private(folder, alone=True)
    except OSError:
        return False
    return True


def _is_read_as_it_is(place: Path) -> bool:
    text = str(place)
    return os.path.expandvars(text) == text and not _UNREADABLE_IN_A_LIST & set(text)


def _locked(path: Path) -> int:
    """A descriptor that holds the lock of this file, which is made; -1 where another has it. Raises OSError."""
    while True:
        if path.parent.name == verify.UNFINISHED:
            fs.make_private(path.parent)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = fs.open_regular(path, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            if path.parent.is_dir():
                raise
            continue  # its last owner has removed the folder
        try:
            _lock(descriptor)
        except OSError:
            os.close(descriptor)
            return -1
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.lstat()):
                return descriptor
        os.close(descriptor)  # its last owner removed the file between our open and our lock


def _unlock(descriptor: int, path: Path) -> None:
    """Let go, and remove the file: POSIX while it is held, Windows where nobody else has it open."""
    if not WINDOWS:
        with suppress(OSError):
            path.unlink()
    os.close(descriptor)
    if WINDOWS:
        with suppress(OSError):
            path.unlink()


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_environment(prefix: Path) -> None:
    """Remove what we made; a link that leads there, and a disk that is mounted there, are the user's."""
    if prefix.is_dir():
        for each in sorted(prefix.iterdir(), key=lambda each: each.name == _BEGUN):  # last: until then it is ours
            fs.remove(each)
        with suppress(OSError):
            prefix.rmdir()


def _token_in(place: Path) -> str:
    """Empty where there is none."""
    try:
        data = fs.read_regular(place, 64)
    except OSError:
        return ""
    return data.decode("ascii") if re.fullmatch(b"[0-9a-f]{32}", data) else ""


def _marked(plan: _Plan) -> Optional[Path]:
    """The stage whose mark agrees with the token in the prefix: a run that has not ended well made it."""
    token = _token_in(plan.prefix / _BEGUN)
    if not token:
        return None
    left = (stage for place in _places(plan) for stage in place.left())
    return next((stage for stage in left if _token_in(stage / _MAKING) == token), None)


def _refuse_other_content(plan: _Plan) -> None:
    if not plan.existed and not plan.rest and plan.prefix.exists() and not _is_empty(plan.prefix):
        text = f"{plan.prefix} is there, and is no environment"
        raise InstallError(text, "choose another place with -p or -n, or empty it first", 2)


def _refuse_strangers(plan: _Plan) -> None:
    """A killed run's rest, and somebody has put something of their own into it since: nobody removes that."""
    stage = _marked(plan) if plan.rest else None
    stranger = _stranger(plan, stage) if stage is not None else ""
    if stranger:
        text = f"{plan.prefix} is there, and is no environment: an earlier run was ended while it made it"
        name = verify.shown(stranger)
        hint = f"{name} in it is not known to come from that run: take it out, or choose another place with -p or -n"
        raise InstallError(text, hint, 2)


def _stranger(plan: _Plan, stage: Path) -> str:
    """A file in the prefix that conda or venv is not known to have put there; empty where all are. Raises OSError."""

    def raised(error: OSError) -> None:
        raise error

    ours = _Ours(plan, stage).has if plan.conda else _OF_A_VENV.fullmatch
    for folder, folders, files in os.walk(str(plan.prefix), onerror=raised):
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in (*files, *links):
            path = Path(folder, name).relative_to(plan.prefix).as_posix()
            if path != _BEGUN and not ours(path):
                return path
    return ""


class _Ours:
    """What a run of conda makes: the files of the packages that it has unpacked, their bytecode, and its records."""

    def __init__(self, plan: _Plan, stage: Path) -> None:
        self._files = {"conda-meta/history", "conda-meta/created_at", ".messages.txt"}  # created_at: by newer condas
        self._scripts: List[str] = []
        for each in plan.conda:
            self._files.add(f"conda-meta/{each.stem}.json")
            package = stage / "pkgs" / each.stem
            with suppress(OSError, ValueError):
                self._files.update(_read_info(package, "files").splitlines())
            with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                paths = json.loads(_read_info(package, "paths.json"))["paths"]
                self._files.update(str(path["_path"]) for path in paths)
            with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                noarch = json.loads(_read_info(package, "link.json"))["noarch"]
                self._scripts += [str(line).partition("=")[0].strip() for line in noarch["entry_points"]]
            with suppress(OSError, ValueError, KeyError, TypeError):
                record = plan.prefix / "conda-meta" / f"{each.stem}.json"
                self._files.update(map(str, json.loads(_read(record))["files"]))

    def has(self, path: str) -> bool:
        path = re.sub(r"(\.c~|\.conda_trash)$", "", path)  # what conda is about to replace or remove
        if path in self._files:
            return True
        folder, _, name = path.rpartition("/")
        if folder in ("bin", "Scripts"):
            stem = re.sub(r"(-script\.pyw?|\.exe)$", "", name)
            return stem in self._scripts or f"python-scripts/{name}" in self._files
        _, inside, rest = path.partition("site-packages/")  # a noarch package does not say of which Python
        if inside and inside + rest in self._files:
            return True
        compiled = re.fullmatch(r"(.*/)?__pycache__/([^/.]+)\.[^/]*\.pyc", path)
        return compiled is not None and self.has(f"{compiled.group(1) or ''}{compiled.group(2)}.py")


def _read_info(package: Path, name: str) -> str:
    """A text that an unpacked package brought; never one to which a link of it leads. Raises OSError, ValueError."""
    return str(fs.read_below(package, "info", name, limit=_MOST_JSON), "utf-8")


def _read(path: Path) -> str:
    """A text where packages put files. Raises OSError, ValueError."""
    return str(fs.read_regular(path, _MOST_JSON), "utf-8")


def _bring(package: _Package, place: Path) -> Optional[str]:
    """Copy an archive and hash the copy; its MD5, None where this Python forbids it. Raises InstallError, OSError."""
    shutil.copyfile(str(package.source), str(place))
    _, sha256, md5 = probe.hash_file(place)
    if sha256 != package.entry["sha256"]:
        hint = "something writes to it, or a disk fails; copy it again"
        raise InstallError(f"{package.source} has changed since it was verified; nothing was installed", hint, 4)
    return md5


def _publish(cache: Path, plan: _Plan, info: "probe.CondaInfo") -> None:
    """Move what conda has unpacked into its own cache, where nothing is of that name: folder, archive, address.

    The environment's records then name that place: conda-pack looks there. Without any of this the environment is
    whole too, only the next one is slower, so that errors end in nothing.
    """
    own = cache.parent.parent.parent
    if cache.parent.parent.name != verify.UNFINISHED or str(own) not in info.pkgs_dirs:
        return
    for each in plan.conda:
        name = "repodata_record.json"
        places = own / each.stem, own / each.filename
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            is_new = not any(place.exists() or place.is_symlink() for place in places)
            if is_new and _read_info(cache / each.stem, name):
                (cache / each.stem).rename(places[0])
                (cache / each.filename).rename(places[1])
                urls = fs.open_regular(own / "urls.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                with open(urls, "ab") as addresses:  # noqa: PTH123 - a descriptor
                    addresses.write((each.url + os.linesep).encode("ascii"))
            if json.loads(_read_info(places[0], name))["url"] == each.url:
                _name_place(plan.prefix / "conda-meta" / f"{each.stem}.json", *places)


def _name_place(record: Path, folder: Path, archive: Path) -> None:
    """Say in an environment's record of a package where its cache entry is. Raises OSError, ValueError, KeyError."""
    said = json.loads(_read(record))
    said["link"]["source"] = said["extracted_package_dir"] = str(folder)
    said["package_tarball_full_path"] = str(archive)
    beside = record.with_name(record.name + ".new")
    fs.write_file(beside, json.dumps(said, indent=2, sort_keys=True).encode("utf-8"))
    beside.replace(record)


# ---------------------------------------------------------------------------------------------------------------------
# Small things


def _refuses_blanks(plan: _Plan) -> bool:
    if plan.client is None or plan.info is None or plan.client.name != "conda":
        return False
    return _numbers(plan.info.version)[:1] >= _numbers("25")


def _is_conda(entry: Dict[str, Any]) -> bool:
    return bool(entry["kind"] == "conda")


def _holds(place: Path, entry: Dict[str, Any]) -> bool:
    """Whether a file has the bytes of this package."""
    try:
        if not place.is_file() or place.stat().st_size != entry["size"]:
            return False
        return bool(probe.hash_file(place)[1] == entry["sha256"])
    except OSError:
        return False


def _describe_missing(entry: Dict[str, Any], places: List[Path]) -> str:
    name = entry["path"].rpartition("/")[2]
    lines = [f"  {name}", f"    sha256 {entry['sha256']}, {entry['size']:,} bytes"]
    for place in places:
        what = "there, with other bytes" if place.is_file() else "not there"
        lines.append(f"    {what}: {place}")
    if not places:
        lines.append("    there is no folder to look in")
    return "\n".join(lines)


def _refuse_same_names(packages: List[_Package]) -> None:
    seen: Dict[str, str] = {}
    for each in packages:
        other = seen.setdefault(each.stem, each.entry["path"])
        if other != each.entry["path"]:
            text = f"{other} and {each.entry['path']} are one package to conda"
            raise InstallError(text, "do not use this bundle; ask whoever made it for another", 2)


def _is_conda_environment(prefix: Path) -> bool:
    return (prefix / "conda-meta" / "history").is_file()


def _is_environment(prefix: Path) -> bool:
    return _is_conda_environment(prefix) or (prefix / "pyvenv.cfg").is_file()


def _is_complete(plan: _Plan, env: Mapping[str, str]) -> bool:
    """Whether what a killed run has left can be gone on with: conda writes its history last, a venv gets pip last.

    Always, where it holds another package than those that we were installing: somebody else has made it since.
    """
    if not _is_conda_environment(plan.prefix):
        command = (str(_python_of(plan.prefix)), "-I", "-m", "pip", "--version")
        return not plan.conda and probe.run_quietly(command, env, probe.SHORT)[0] == 0
    records = list((plan.prefix / "conda-meta").glob("*.json"))
    others = {record.stem for record in records} - {each.stem for each in plan.conda}
    return bool(others) or not any(_lost(record, plan.prefix) for record in records)


def _lost(record: Path, prefix: Path) -> bool:
    """Whether a file that conda's record of a package names is not there."""
    try:
        files = json.loads(_read(record))["files"]
        return not all(os.path.lexists(str(prefix / file)) for file in files)
    except (OSError, ValueError, KeyError, TypeError):
        return True


def _is_of_another(record: Path, digests: Mapping[str, Optional[str]]) -> bool:
    """Whether conda's record of a package is of an archive with other digests; what it does not say is not compared."""
    try:
        said = json.loads(_read(record))
        return any(said.get(kind) and own and said[kind] != own for kind, own in digests.items())
    except (OSError, ValueError, AttributeError):
        return False


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _can_be_made(folder: Path) -> bool:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(str(folder), os.W_OK)


def _python_of(prefix: Path) -> Path:
    if not WINDOWS:
        return prefix / "bin" / "python"
    of_venv = prefix / "Scripts" / "python.exe"
    return of_venv if of_venv.is_file() else prefix / "python.exe"


def _ask_version(python: Path, env: Mapping[str, str]) -> str:
    """``3.10.4``; empty where it does not run."""
    script = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    code, text = probe.run_quietly((str(python), "-I", "-c", script), env, probe.SHORT)
    return text.strip() if code == 0 else ""


def _numbers(version: str) -> List[Tuple[int, str]]:
    """To be compared with another's, whatever their length: each number as the count of its digits, and these."""
    found = re.findall(r"0*([0-9]+)", version.partition("=")[0])
    return [(len(digits), digits) for digits in found]


def _x86_level(name: str) -> int:
    found = re.fullmatch(r"x86_64_v(\d)", name)
    return int(found.group(1)) if found else 1 if name == "x86_64" else 9


def _shown(text: str) -> str:
    """Lines with nothing in them that a terminal would obey."""
    return "\n".join(verify.shown(line) for line in text.split("\n"))


def _reaches_conda(name: str) -> bool:
    """Whether conda gets this variable of the user's: a CONDA_DRY_RUN would leave it with nothing done."""
    upper = name.upper() if WINDOWS else name
    return not upper.startswith(("CONDA_", "MAMBA_")) or _FOR_CONDA.fullmatch(upper) is not None


def _some(names: Any) -> str:
    """The first few of them."""
    listed = list(names)
    rest = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    return ", ".join(listed[:5]) + rest


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM, and a closed terminal, as Ctrl-C: the program that we started is not left alone."""

    def interrupt(number: int, frame: Optional[FrameType]) -> None:
        del number, frame
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [signal.SIGTERM] if sys.platform == "win32" else [signal.SIGTERM, signal.SIGHUP]
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """One interrupt, so that it takes back what it began; then the whole group is killed."""
    try:
        if sys.platform != "win32":
            process.send_signal(signal.SIGINT)  # on Windows the console has told it already
        process.wait(_PATIENCE_AFTER_CTRL_C)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        pass
    finally:
        with suppress(OSError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# ---------------------------------------------------------------------------------------------------------------------
# The command line


def main(argv: Optional[List[str]] = None) -> int:
    """Install what the command line names. Returns the exit code of docs/interface.md."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a console of another language shows what it can
    parser = argparse.ArgumentParser(
        description="Verify every file of an offline bundle, then install it with this machine's conda and pip.",
        epilog="Exit codes: 0 done, 1 a file of a delta is missing, 2 wrong usage, 4 not to be used, 5 this machine.",
    )
    parser.add_argument("bundle", metavar="FOLDER|TAR", nargs="?", type=Path, help="default: where this script lies")
    parser.add_argument(
        "-n",
        "--name",
        default="",
        help="the environment, by its name: conda's, or without conda a venv in $WORKON_HOME or ~/.virtualenvs",
    )
    parser.add_argument("-p", "--prefix", type=_place, help="the environment, by its folder")
    parser.add_argument("--platform", metavar="SUBDIR", default="", help="default: this machine's")
    verify.add_trust_options(parser)
    parser.add_argument("--with", dest="client", choices=(*CONDAS, "pip"), default="", help="default: what is there")
    parser.add_argument("--pkgs-dir", metavar="DIR", action="append", default=[], type=Path, help="packages of a delta")
    parser.add_argument("--wheels", metavar="DIR", action="append", default=[], type=Path, help="wheels of a delta")
    parser.add_argument("--unpack-to", metavar="DIR", type=Path, help="keep what is unpacked from a tar")
    parser.add_argument("--dry-run", action="store_true", help="verify, and say what would be done")
    parser.add_argument("-y", "--yes", action="store_true", help="nothing is asked anyway")
    given = vars(parser.parse_args(argv))
    bundle = given.pop("bundle") or Path(__file__).absolute().parent
    given.pop("yes")
    try:
        places = {"wheels": tuple(given["wheels"]), "pkgs_dirs": tuple(given.pop("pkgs_dir"))}
        outcome = install(bundle, Wish(**{**given, **places}))
    except InstallError as error:
        probe.tell(f"error: {error}\n  {error.hint}")
        return error.code
    except KeyboardInterrupt:
        probe.tell("stopped; run the same command again to begin or to continue")
        return 130
    if not outcome.planned:
        with suppress(OSError):
            print(ready(outcome), flush=True)  # noqa: T201 - a script has nothing else
    return 0


def _place(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("an empty name is no folder")  # Path would take it for the current one
    return Path(text)


def ready(outcome: Outcome) -> str:
    """The last line: how to use it."""
    if _is_conda_environment(outcome.prefix):
        return f'ready: {outcome.prefix}  (activate it: {outcome.client or "conda"} activate "{outcome.prefix}")'
    python = _python_of(outcome.prefix)
    activate = python.parent / "activate"
    how = f'"{activate}"' if WINDOWS else f". {shlex.quote(str(activate))}"
    return f"ready: {outcome.prefix}  (activate it: {how}; its Python: {python})"


if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:
        verify.settle()
