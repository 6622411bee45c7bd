"""A bundle's folder behind a real nginx is a channel, an index and a mirror for a whole lab.

nginx runs with the very block, and resume-dl with the very mirrors.toml, that docs/offline.md prints: only port, root
and addresses are other ones. Nobody but this nginx can be reached.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from resume_dl.demo.channel import PackageSpec, build_channel
from support.bundles import Maker, files_of
from support.conda_env import PROJECT
from support.fetching import User
from support.installable import PYTHON, SITE, venv_with_pip
from support.nginx import NginxMirrors
from support.offline import NEEDS, Offline, commands_of, offline
from support.pip_index import build_wheel, write_index

__all__ = ["offline"]
pytestmark = NEEDS
ADDRESS = "http://10.0.0.7"
"""Of the documentation's server."""
LAB = PROJECT / "docs" / "offline.md"
CUDA = {"CONDA_OVERRIDE_CUDA": "11.0"}
DEMO = ("demo_app", "fast", "tqdm")


def block(language: str, word: str) -> str:
    """The one block of the documentation that is in this language and holds this word."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", LAB.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = [each for each in blocks if word in each]
    return found


class DocumentedNginx(NginxMirrors):
    """nginx as docs/offline.md has it, and what the tests count with."""

    def _server(self, index: int) -> str:
        text = block("nginx", "server {")
        assert text.count("listen 80;") == text.count("root /srv/bundles;") == 1
        text = text.replace("listen 80;", f"listen 127.0.0.1:{self.port(index)};")
        text = text.replace("root /srv/bundles;", f'root "{self._mirrors[index].root}";')
        ours = (
            f'location = /.generation {{ access_log off; return 200 "{self._generation}"; }}\n'
            "location = /.status { access_log off; stub_status; }\n"
        )
        return text.rstrip().removesuffix("}") + ours + "}"


@dataclass(frozen=True)
class Lab:
    """``nginx`` gives out ``root``: ``torch`` is the bundle of ``offline``, ``second`` a small one."""

    nginx: DocumentedNginx
    root: Path
    offline: Offline

    def url(self, path: str) -> str:
        return f"{self.nginx.base()}/{path}"

    def asked(self) -> set[str]:
        """Folders of bundles that somebody asked for something in."""
        return {request.uri.split("/")[1] for request in self.nginx.requests()}


@pytest.fixture(scope="module")
def running(offline: Offline, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    root = folder / "srv" / "bundles"
    offline.copy(root / "torch")
    mirror = NginxMirrors([offline.world.root], folder / "mirror")
    mirror.start()
    try:
        maker = Maker(folder / "maker", mirror)
        wanted = ("mkl", "--platform", "linux-64", "--pip", "colorama", "--python", PYTHON)
        done = maker.create(*wanted, out=root / "second")
    finally:
        mirror.stop()
    assert done.code == 0, done.err
    nginx = DocumentedNginx([root], folder / "nginx", send_buffer=None)
    nginx.start()
    try:
        yield Lab(nginx, root, offline)
    finally:
        nginx.stop()


@pytest.fixture
def lab(running: Lab) -> Lab:
    running.nginx.reset_log()
    return running


class Somebody(User):
    """A user in the lab; whoever else than this machine is asked, the trap at ``proxy`` is reached."""

    proxy = ""

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        trap = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), self.proxy)
        return {**super().environment(extra), **trap}


@pytest.fixture
def user(lab: Lab, tmp_path: Path) -> Iterator[User]:
    """Somebody with the documentation's mirrors.toml, who reaches nobody else."""
    user = Somebody(tmp_path / "somebody")
    text = block("toml", "[mirror.carries]")
    assert text.count(f"{ADDRESS}/torch/") == 3
    (user.folder / "mirrors.toml").write_text(text.replace(ADDRESS, lab.nginx.base()), encoding="utf-8")
    user.options += [
        "--mirrors",
        str(user.folder / "mirrors.toml"),
        "--no-upstream",
        "--index-from",
        "lab",
        "--cuda",
        "11.0",
    ]
    with socket.create_server(("127.0.0.1", 0)) as trap:
        user.proxy = f"http://127.0.0.1:{trap.getsockname()[1]}"
        yield user
        trap.setblocking(False)
        with pytest.raises(BlockingIOError):
            trap.accept()


def readme_line(lab: Lab, word: str, packages: str, name: str = "lab", bundle: str = "torch") -> list[str]:
    """The command of README.txt for many machines that begins so, filled in."""
    commands = commands_of((lab.root / bundle / "README.txt").read_text(encoding="utf-8"))
    (line,) = [each.line for each in commands if each.title == "For many machines" and each.line.startswith(word)]
    server = lab.nginx.base().removeprefix("http://")
    for old, new in (("SERVER", server), ("BUNDLE", bundle), ("NAME", name), ("PACKAGE ...", packages)):
        line = line.replace(old, new)
    return shlex.split(line)


def installed(prefix: Path) -> set[str]:
    return {path.stem for path in (prefix / "conda-meta").glob("*.json")}


def stems(paths: list[str]) -> set[str]:
    return {re.sub(r"(\.conda|\.tar\.bz2)$", "", Path(path).name) for path in paths}


def run(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(python.parent)}
    env |= {"PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "127.0.0.1"}
    return subprocess.run([str(python), *words], env=env, capture_output=True, text=True, check=False, timeout=120)


def test_plain_conda(lab: Lab, test_conda) -> None:
    """The README's command; conda checks what it downloads against the bundle's index."""
    _, *words = readme_line(lab, "conda create", "pytorch ninja")
    done = test_conda.run(*words, env=CUDA, plugin=False)
    assert done.returncode == 0, done.stdout + done.stderr
    prefix = test_conda.folder / "envs" / "lab"
    assert installed(prefix) == stems(lab.offline.listed("linux-64", "conda"))
    for path in lab.offline.listed("linux-64", "conda"):
        assert (test_conda.pkgs / Path(path).name).read_bytes() == (lab.root / "torch" / path).read_bytes()
    ran = run(prefix / "bin" / "python", "-I", "-c", "import torch; print(torch.BUILD)")
    assert ran.stdout == "py_cuda11.0\n", ran.stderr
    assert lab.asked() == {"torch"}
    missing = [request.uri for request in lab.nginx.requests() if request.status >= 400]
    assert all(re.search(r"repodata(_shards)?[^/]*$", uri) for uri in missing), "other forms of the index, and no more"


def test_plain_pip(lab: Lab, tmp_path: Path) -> None:
    python = venv_with_pip(tmp_path / "venv")
    _, *words = readme_line(lab, "python -m pip", "demo-app")
    done = run(python, *words)
    assert done.returncode == 0, done.stderr
    ran = run(python, "-I", "-c", "import demo_app, fast, tqdm; print(demo_app.VERSION, fast.__file__)")
    assert ran.stdout == f"1.0 {tmp_path / 'venv' / SITE / 'fast' / '__init__.py'}\n", ran.stderr
    assert {Path(request.uri).name.partition("-")[0] for request in lab.nginx.archive_requests()} == {*DEMO}
    assert {request.status for request in lab.nginx.archive_requests()} == {200}


def test_as_a_mirror(lab: Lab, user: User) -> None:
    """conda and pip packages for somebody who names the public channels, from the lab alone, each verified."""
    done = user.fetch("pytorch", "ninja", "--pip", "demo-app", "--python", PYTHON, "--connections", "1", "--json")
    assert done.code == 0, done.err
    paths = [*lab.offline.listed("linux-64", "conda"), *lab.offline.listed("linux-64", "pip")]
    names = {Path(path).name for path in paths}
    assert {*done.statuses} == names
    assert {*done.statuses.values()} == {"downloaded"}
    for path in paths:
        place = user.own["cache"] / "wheels" if path.startswith("wheels/") else user.pkgs
        assert (place / Path(path).name).read_bytes() == (lab.root / "torch" / path).read_bytes()
    sent = {Path(path).name: 0 for path in paths}
    for request in lab.nginx.archive_requests():
        sent[Path(request.uri).name] += request.bytes
    for path in lab.offline.listed("linux-64", "conda"):
        assert sent[Path(path).name] == (lab.root / "torch" / path).stat().st_size, "each byte once"
    assert lab.asked() == {"torch"}
    assert all(request.is_ours for request in lab.nginx.archive_requests())


def test_a_damaged_file_on_the_server(lab: Lab, user: User, test_conda, tmp_path: Path) -> None:
    """Nobody installs it: we say 4 and name it, conda and pip refuse it by the digests of index and page."""
    places = [lab.root / "torch" / "channel" / "linux-64" / "mkl-2020.2-0.conda"]
    places += [lab.root / "torch" / "wheels" / "tqdm-4.66.0-py3-none-any.whl"]
    before = [place.read_bytes() for place in places]
    try:
        for place, data in zip(places, before, strict=True):
            middle = len(data) // 2
            place.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        done = user.fetch("mkl", "--pip", "tqdm", "--python", PYTHON, "--json", "--no-deps")
        assert done.code == 4, done.err
        assert done.artifact("mkl")["status"] == "failed"
        _, *words = readme_line(lab, "conda create", "mkl")
        refused = test_conda.run(*words, env=CUDA, plugin=False)
        assert refused.returncode != 0
        assert "mkl-2020.2-0.conda" in refused.stdout + refused.stderr
        _, *words = readme_line(lab, "python -m pip", "tqdm")
        refused = run(venv_with_pip(tmp_path / "venv"), *words)
        assert refused.returncode != 0
        assert "THESE PACKAGES DO NOT MATCH THE HASHES" in refused.stderr
    finally:
        for place, data in zip(places, before, strict=True):
            place.write_bytes(data)
    assert not [*user.pkgs.glob("mkl*")]


def test_what_the_bundle_does_not_have(lab: Lab, user: User, test_conda, tmp_path: Path) -> None:
    """Each says what it did not find; a platform that the bundle is not for is told as such."""
    for words in (["scipy"], ["--pip", "scipy", "--python", PYTHON]):
        done = user.fetch(*words)
        assert done.code == 3, done.err
        assert "scipy" in done.err
    done = user.run("fetch", *user.options[2:], "--platform", "osx-64", "pytorch")
    assert done.code in {3, 6}, done.err
    assert "pytorch" in done.err
    _, *words = readme_line(lab, "conda create", "scipy")
    done = test_conda.run(*words, plugin=False)
    assert done.returncode == 1
    assert "PackagesNotFound" in done.stderr
    assert "scipy" in done.stderr
    assert lab.url("torch/channel") in done.stderr
    _, *words = readme_line(lab, "python -m pip", "scipy")
    done = run(venv_with_pip(tmp_path / "venv"), *words)
    assert done.returncode == 1
    assert "No matching distribution found for scipy" in done.stderr
    assert lab.nginx.archive_requests() == []


def test_two_bundles_on_one_server(lab: Lab, user: User, test_conda, tmp_path: Path) -> None:
    """Each is a channel and an index of its own; who wants both names both."""
    channels = ["--override-channels", "-c", lab.url("torch/channel"), "-c", lab.url("second/channel")]
    done = test_conda.run("create", "-n", "two", *channels, "libuv", "mkl", plugin=False)
    assert done.returncode == 0, done.stderr
    assert installed(test_conda.folder / "envs" / "two") == {"libuv-1.40.0-0", "mkl-2020.2-0"}

    plain = User(tmp_path / "plain")
    wheel = ["--index-url", lab.url("second/simple/"), "--pip", "colorama", "--python", PYTHON]
    done = plain.fetch(*channels, "libuv", "mkl", *wheel, "--json")
    assert done.code == 0, done.err
    assert {*done.statuses} == {"libuv-1.40.0-0.conda", "mkl-2020.2-0.conda", "colorama-0.4.6-py3-none-any.whl"}
    assert lab.asked() == {"torch", "second"}
    only = plain.fetch("--override-channels", "-c", lab.url("second/channel"), "libuv")
    assert only.code == 3
    assert "libuv" in only.err

    python = venv_with_pip(tmp_path / "venv")
    _, *words = readme_line(lab, "python -m pip", "demo-app colorama")
    assert run(python, *words, "--extra-index-url", lab.url("second/simple/")).returncode == 0


def test_a_newer_bundle_in_the_same_place(lab: Lab, nginx_mirrors, test_conda, tmp_path: Path) -> None:
    """Its index has the size and the time of the older one, as tar unpacks it: nobody goes on with the older one."""
    place = lab.root / "same"
    plain = User(tmp_path / "plain")
    python = venv_with_pip(tmp_path / "venv")
    channel = ["--override-channels", "-c", lab.url("same/channel")]
    index = ["--index-url", lab.url("same/simple/")]
    indexes = []
    for version in ("one", "two"):
        place.mkdir()
        try:
            tar = make_small(tmp_path / version, nginx_mirrors, version.encode())
            subprocess.run(["tar", "-xf", str(tar), "-C", str(place)], check=True, timeout=60)
            index_of_conda = (place / "channel" / "linux-64" / "repodata.json").stat()
            indexes.append((index_of_conda.st_size, index_of_conda.st_mtime))

            shutil.rmtree(plain.pkgs, ignore_errors=True)
            done = plain.fetch(*channel, "tool", *index, "--pip", "app", "--python", PYTHON)
            assert done.code == 0, done.err
            assert (plain.pkgs / "tool-1.0-0" / "share" / "tool").read_text() == version
            for entry in test_conda.pkgs.glob("tool-1.0-0*"):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            made = test_conda.run("create", "-n", version, *channel, "tool", plugin=False)
            assert made.returncode == 0, made.stderr
            assert (test_conda.folder / "envs" / version / "share" / "tool").read_text() == version
            cache = ["--cache-dir", str(tmp_path / "cache of pip")]
            got = run(python, "-m", "pip", "install", "--force-reinstall", *cache, *index, "app")
            assert got.returncode == 0, got.stderr
            assert (tmp_path / "venv" / SITE / "app" / "text.txt").read_text() == version
        finally:
            shutil.rmtree(place)
    assert indexes[0] == indexes[1], "else this proves nothing"


def make_small(folder: Path, nginx_mirrors, text: bytes) -> Path:
    """A bundle's tar with a conda package and a wheel that hold this text."""
    folder.mkdir()
    tool = PackageSpec(name="tool", version="1.0", files={"share/tool": text})
    build_channel(folder / "pkgs" / "main", [tool])
    build_channel(folder / "pytorch", [])
    write_index(folder, [build_wheel(folder / "built", "app", "1.0", files={"app/text.txt": text})])
    maker = Maker(folder / "maker", nginx_mirrors([folder]))
    tar = folder / "small.tar"
    done = maker.create("tool", "--platform", "linux-64", "--pip", "app", "--python", PYTHON, out=tar)
    assert done.code == 0, done.err
    return tar


def test_it_is_only_read(lab: Lab, offline: Offline) -> None:
    """Nothing that the others did has changed the folder: it verifies still."""
    assert files_of(lab.root / "torch") == files_of(offline.folder)
