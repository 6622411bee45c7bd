"""resume-dl.pyz: one small file that any Python 3.10 runs, goes on after a kill, and installs the whole program."""

from __future__ import annotations

import ensurepip
import hashlib
import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from faults.behaviours import Ok, Stall, Status
from faults.server import FaultServer
from pack.built import lock_of, own_places, plain_python, script, wheel, wheel_of
from resume_dl.demo.channel import PackageSpec, build_channel
from support.fetching import Done, User
from support.pip_index import build_wheel, write_index
from support.processes import Run

MOST = 3_000_000
SIZE = 200_000_000
MIB = 1 << 20


@pytest.fixture(scope="module")
def own_wheel(tmp_path_factory):
    return wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def application(own_wheel, tmp_path_factory):
    path = tmp_path_factory.mktemp("pyz") / "resume-dl.pyz"
    script("zip_application").build(own_wheel, path)
    return path


@pytest.fixture
def server():
    running = FaultServer()
    running.start()
    yield running
    running.stop()


def environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TEMP", "TMP") if name in os.environ}
    return {**kept, **own_places(folder)}


def run(application: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*plain_python(), str(application), *words],
        capture_output=True,
        text=True,
        env=environment(folder),
        cwd=folder,
        timeout=300,
        check=False,
    )


def test_it_is_small_pure_and_the_same_each_time(own_wheel, application, tmp_path):
    """3 MB at most; no extension module; each library with its licence; our files as in the wheel."""
    assert application.stat().st_size <= MOST
    script("zip_application").build(own_wheel, tmp_path / "again.pyz")
    assert (tmp_path / "again.pyz").read_bytes() == application.read_bytes()
    with zipfile.ZipFile(application) as archive, zipfile.ZipFile(own_wheel) as ours:
        names = archive.namelist()
        assert not [name for name in names if name.endswith((".so", ".pyd", ".pyc"))]
        assert all(archive.read(name) == ours.read(name) for name in ours.namelist())
        infos = {name.partition("/")[0] for name in names if ".dist-info/" in name}
        licensed = {name.partition("/")[0] for name in names if ".dist-info/" in name and "LICEN" in name.upper()}
        assert infos == licensed


def test_it_shows_only_what_it_can_do(application, tmp_path):
    """Commands that need a library with extension modules are not listed; one that is typed says what to do."""
    shown = run(application, tmp_path, "--help").stdout
    commands = {line.split()[0] for line in shown.partition("Commands:")[2].splitlines() if line.strip()}
    assert {"get", "adopt", "status", "verify", "mirrors", "bundle", "self"} <= commands
    assert not {"fetch", "pip", "demo"} & commands
    refused = run(application, tmp_path, "fetch", "numpy")
    assert refused.returncode == 2
    assert "fetch is not part of resume-dl.pyz" in refused.stderr
    assert f'python "{application}" self install' in refused.stderr
    assert run(application, tmp_path, "clean").returncode == 0
    listed = run(application, tmp_path, "mirrors", "list", "--json")
    assert "tuna" in {each["name"] for each in json.loads(listed.stdout)["mirrors"]}


@pytest.mark.slow
def test_a_killed_get_goes_on(application, tmp_path, server):
    """200 MB by the machine's plain Python: killed with kill -9 in the middle, then only the rest is fetched."""
    data = random.Random(1).randbytes(MIB) * (SIZE // MIB) + bytes(SIZE % MIB)
    server.put("/big.bin", data)
    server.always(None, Stall(after=30 * MIB))
    words = ["get", f"{server.base()}/big.bin", "--sha256", hashlib.sha256(data).hexdigest()]
    command = [*plain_python(), str(application), *words, "--progress", "json"]
    settings = {"env": environment(tmp_path), "cwd": tmp_path, "text": True}
    done = 0
    with Run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, **settings) as process:
        for line in process.stderr:
            event = json.loads(line)
            done = max(done, event.get("done") or 0) if event["event"] == "progress" else done
            if done >= 20 * MIB:
                break
        process.kill()
    assert 20 * MIB <= done < SIZE
    before = len(server.requests())
    server.always(None, Ok())
    again = run(application, tmp_path, *words, "--json")
    assert again.returncode == 0, again.stderr
    totals = json.loads(again.stdout)["totals"]
    assert totals["downloaded"] + totals["resumed"] == SIZE
    assert totals["resumed"] >= done - MIB  # under 128 KiB a connection, and what was read last
    # Of an answer that the client leaves early, the kernel may have taken megabytes that were never received.
    read = sum(each.sent for each in server.requests()[before:] if each.ended == "complete")
    assert read <= totals["downloaded"] + totals["wasted"]
    assert totals["wasted"] <= MIB
    assert (tmp_path / "big.bin").read_bytes() == data


BIG = PackageSpec(name="big", version="1.0", build="h1_0", payload_size=12 * MIB)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of a channel and a package index, and name -> the archive in it."""
    root = tmp_path_factory.mktemp("site")
    built = build_channel(root / "pytorch", [BIG])
    build_channel(root / "pkgs" / "main", [])
    wide = build_wheel(root / "built", "wide", "1.5", filler=4 * MIB)
    write_index(root, [wide])
    return root, {each.spec.name: each.path for each in built.packages} | {"wide": wide.path}


class Adopter:
    """A user of the application with one mirror."""

    def __init__(self, application: Path, folder: Path, base: str, files: dict[str, Path]) -> None:
        self.files, self.user = files, User(folder / "user")
        self.user.mirrors(one=base)
        self.downloads, self.wheels = folder / "Downloads", folder / "wheels"
        self.downloads.mkdir()
        index = ["--index-url", f"{base}/simple", "--wheel-dir", str(self.wheels)]
        # one connection: of an answer that is left to a faster one, the server counts what only the kernel has
        self._options = [*self.user.options, *index, "--connections", "1", "--json"]
        self._command = [*plain_python(), str(application)]

    def adopt(self, *words: str | Path) -> Done:
        return self.run("adopt", *self._options, *words)

    def run(self, *words: str | Path) -> Done:
        environment = {**self.user.environment(), "PATH": str(self.downloads)}  # where there is neither uv nor pip
        command = [*self._command, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    def put(self, name: str, data: bytes) -> Path:
        path = self.downloads / name
        path.write_bytes(data)
        return path


@pytest.fixture
def nginx(nginx_mirrors, site):
    """The mirror, which counts what it sends."""
    return nginx_mirrors([site[0]])


@pytest.fixture
def adopter(application, tmp_path, nginx, site):
    return Adopter(application, tmp_path, nginx.base(0), site[1])


@pytest.mark.nginx
def test_finished_downloads_are_adopted(adopter, nginx):
    """A package and a wheel, both renamed: the indexes say which they are, and no byte of them is fetched."""
    big, wide = adopter.files["big"], adopter.files["wide"]
    done = adopter.adopt(
        adopter.put("big-1.0-h1_0 (1).conda", big.read_bytes()), adopter.put("download", wide.read_bytes())
    )
    assert done.code == 0, done.err
    assert [each["status"] for each in done.report["files"]] == ["adopted", "adopted"]
    assert (adopter.user.pkgs / big.name).read_bytes() == big.read_bytes()
    urls = (adopter.user.pkgs / "urls.txt").read_text(encoding="utf-8").splitlines()
    assert [url.rpartition("/")[2] for url in urls] == [big.name]  # conda takes it for the channel's
    assert (adopter.wheels / wide.name).read_bytes() == wide.read_bytes()
    assert nginx.requests()
    assert nginx.archive_requests() == []


@pytest.mark.nginx
def test_unfinished_downloads_are_finished(adopter, nginx):
    """It has no fetch that could go on: only what a browser has not fetched comes, 1 MiB more at most."""
    missing = 0
    files = []
    for name in ("big", "wide"):
        path = adopter.files[name]
        data = path.read_bytes()
        kept = len(data) * 9 // 10
        missing += len(data) - kept
        files.append(adopter.put(f"{path.name}.crdownload", data[:kept]))
    done = adopter.adopt(*files)
    assert done.code == 0, done.err
    assert [(each["status"], each["whole"]) for each in done.report["files"]] == [("adopted", False)] * 2
    assert (adopter.user.pkgs / adopter.files["big"].name).read_bytes() == adopter.files["big"].read_bytes()
    assert (adopter.wheels / adopter.files["wide"].name).read_bytes() == adopter.files["wide"].read_bytes()
    assert done.report["next_command"] == ""
    assert missing <= nginx.body_bytes() <= missing + MIB
    again = adopter.adopt(*files)
    assert [each["status"] for each in again.report["files"]] == ["here", "here"]
    assert nginx.body_bytes() <= missing + MIB


def test_resume_finishes_what_could_not_be_finished(application, tmp_path, server, site):
    """The mirror has lost the file: its start is kept, and ``resume`` runs ``adopt`` again once the file is back."""
    root, files = site
    server.mount(root)
    server.always(None, Status(404), path="*.conda")
    adopter = Adopter(application, tmp_path, server.base(), files)
    whole = files["big"].read_bytes()
    stopped = adopter.adopt(adopter.put(f"{files['big'].name}.part", whole[: 8 * MIB]))
    assert stopped.code == 1, stopped.err
    (file,) = stopped.report["files"]
    assert (file["status"], file["bytes"], bool(file["error"])) == ("started", 8 * MIB, True)
    server.always(None, Ok(), path="*.conda")
    resumed = adopter.run("resume", "--json")
    assert resumed.code == 0, resumed.err
    assert (adopter.user.pkgs / files["big"].name).read_bytes() == whole
    assert resumed.report["totals"]["downloaded"] <= len(whole) - 8 * MIB + MIB


@pytest.mark.nginx
def test_what_cannot_be_adopted(adopter):
    """Each file has its reason and what to do; the exit code is that of the worst; nothing has a traceback."""
    files = {
        adopter.downloads / "no.conda": "cannot be read",
        adopter.put("song.mp3", b"ID3" + bytes(99)): "neither its name nor its content",
        adopter.put("x-1-0.conda", b"PK\3\4" + bytes(9999)): "no index lists x-1-0.conda",
        adopter.put(BIG.filename, b"<!DOCTYPE html>"): "is no conda",
    }
    done = adopter.adopt(*files)
    errors = {Path(each["path"]): each["error"] for each in done.report["files"]}
    assert {path: text in errors[path]["message"] for path, text in files.items()} == dict.fromkeys(files, True)
    assert all(each["hint"] for each in errors.values())
    assert (done.code, "Traceback" in done.err) == (5, False), done.err


@pytest.mark.nginx
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "Missing argument"),
        (["--rattler-cache", "DIR", "a.conda"], "is not part of resume-dl.pyz"),
        (["--platform", "../x", "big-1.0-h1_0.conda"], "platform"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(adopter, words, says):
    for each in words:
        if each.endswith(".conda"):
            adopter.put(each, b"PK")
    done = adopter.adopt(*[adopter.downloads / each if each.endswith(".conda") else each for each in words])
    assert (done.code, says in done.err, "Traceback" in done.err) == (2, True, False), done.err


def test_without_a_lock_it_says_so(application, tmp_path):
    done = run(application, tmp_path, "self", "install")
    assert done.returncode == 2
    assert "was built without the list" in done.stderr


@pytest.mark.slow
def test_self_install_goes_on_after_a_kill(own_wheel, tmp_path, server):
    """The wheels of its lock come by our engine, resumable; pip, one of them, installs without an index."""
    wheels = [wheel_of("click", tmp_path)]
    (bundled,) = Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl")
    wheels.append(bundled)
    for each in wheels:
        server.put(f"/{each.name}", each.read_bytes())
    lock = tmp_path / "pylock.toml"
    lock.write_text(lock_of(wheels, server.base()), encoding="utf-8")
    application = tmp_path / "resume-dl.pyz"
    script("zip_application").build(own_wheel, application, lock)
    server.always(None, Stall(after=MIB), path=f"/{bundled.name}")
    command = [*plain_python(), str(application), "self", "install", "--progress", "json"]
    settings = {"env": environment(tmp_path), "cwd": tmp_path, "text": True}
    with Run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, **settings) as process:
        for line in process.stderr:
            event = json.loads(line)
            if event["event"] == "progress" and event["filename"] == bundled.name and event["done"] >= MIB // 2:
                break
        process.kill()
    server.always(None, Ok())
    done = run(application, tmp_path, "self", "install", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["totals"]["resumed"] >= MIB // 4
    assert {each["filename"] for each in report["artifacts"]} == {each.name for each in wheels}
    program = Path(report["notes"][0].removeprefix("installed: "))
    assert program.is_relative_to(tmp_path / "state" / "program")
    said = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.startswith("resume-dl, version")
    other = tmp_path / "mine"
    other.mkdir()
    (other / "thesis.txt").write_text("mine", encoding="utf-8")
    refused = run(application, tmp_path, "self", "install", "--folder", str(other))
    assert refused.returncode == 2
    assert (other / "thesis.txt").is_file()
    again = run(application, tmp_path, "self", "install", "--json")  # over itself, without a download
    assert (again.returncode, json.loads(again.stdout)["totals"]["downloaded"]) == (0, 0), again.stderr


def test_only_the_application_has_the_command():
    """An installed program is installed already."""
    done = subprocess.run([sys.executable, "-m", "resume_dl", "self"], capture_output=True, text=True, check=False)
    assert (done.returncode, "No such command 'self'" in done.stderr) == (2, True)
