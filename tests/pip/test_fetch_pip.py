"""``fetch --pip`` as a user runs it: a real index, real kills, and the real pip and uv that install what came."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
import venv

import pytest

from resume_dl.resolve.uv_program import find_uv
from resume_dl.store.part import FOLDER, PartStore
from support.channels import build_pytorch_channels
from support.fetching import CHANNELS, TIMEOUT, User, finish
from support.installable import venv_with_pip
from support.pip_index import big_wheel, build_wheel, put, write_find_links, write_index

pytestmark = pytest.mark.nginx
MIB = 1 << 20


@pytest.fixture
def user(tmp_path):
    """Somebody with no mirrors, for this machine's platform."""
    found = User(tmp_path / "user")
    found.options = ["--give-up-after", "20s", "--mirrors", str(found.write_mirrors({}))]
    return found


@pytest.fixture(scope="session")
def torch(tmp_path_factory):
    """A wheel of 100 MB."""
    return big_wheel(tmp_path_factory.mktemp("big"), size=100 * MIB)


@pytest.fixture
def small(tmp_path):
    """tqdm as the real one depends, colorama, and a program that needs both."""
    built = tmp_path / "built"
    tqdm = build_wheel(built, "tqdm", "4.66.0", requires=["colorama; platform_system == 'Windows'"])
    colorama = build_wheel(built, "colorama", "0.4.6")
    return tqdm, colorama, build_wheel(built, "demo-app", "1.0", requires=["tqdm>=4"])


def needed_on_windows(small):
    """What tqdm needs besides on the system of these tests: a file of its own, which comes though tqdm's does not."""
    return {small[1].filename} if sys.platform == "win32" else set()


def wheel_dir(user):
    return user.own["cache"] / "wheels"


def names(folder):
    """What pip would take there."""
    return {path.name for path in folder.iterdir() if path.name != FOLDER} if folder.exists() else set()


def offline(user, *command, env=None):
    """A command of somebody else's in a world without a network."""
    environment = {**user.environment(env), "PIP_INDEX_URL": "http://127.0.0.1:9/", "UV_OFFLINE": "1"}
    environment["UV_CACHE_DIR"] = str(user.folder / "uv-cache")
    return subprocess.run(
        [*map(str, command)], env=environment, cwd=user.folder, check=False, capture_output=True, text=True, timeout=120
    )


def new_environment(user, *, with_pip=True):
    """A fresh venv; its Python."""
    place = user.folder / "venv"
    if with_pip:
        return venv_with_pip(place)
    venv.create(place, symlinks=True)
    return place / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


# --- the main job -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_killed_resumed_installed(tmp_path, nginx_mirrors, user, torch, small):
    """A wheel of 100 MB without a hash, killed half way: two runs and the resolution take its size and little more."""
    tqdm, colorama, _ = small
    write_find_links(tmp_path / "root", [torch])
    write_index(tmp_path / "root", [tqdm, colorama])
    nginx = nginx_mirrors([tmp_path / "root"], rate=30 * MIB, send_buffer=None)
    wanted = ["--pip", "torch==1.6.0+cu101", "--pip", "tqdm", "--index-url", f"{nginx.base()}/simple"]
    wanted += ["--find-links", f"{nginx.base()}/whl/torch_stable.html"]
    parts = PartStore(wheel_dir(user) / FOLDER)
    with user.start("fetch", *user.options, *wanted) as process:
        deadline = time.monotonic() + TIMEOUT
        while sum(part.done for part in parts.unfinished()) < torch.size // 2:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with nginx.paused():
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert torch.filename not in names(wheel_dir(user))
    status = user.run("status").out
    assert str(wheel_dir(user)) in status
    done = user.fetch(*wanted, "--json")
    assert done.code == 0, done.err
    report = done.artifact("torch")
    assert (report["kind"], report["status"], report["verified_by"]) == ("wheel", "resumed", "record")
    assert report["sha256"] == torch.sha256
    assert any("hash first seen here" in note and torch.sha256 in note for note in done.report["notes"])
    assert torch.size <= nginx.body_bytes(archives=False) <= torch.size + 4 * MIB
    assert names(wheel_dir(user)) == {torch.filename, tqdm.filename}

    python = new_environment(user)
    command = shlex.split(done.report["next_command"])
    assert command[:4] == ["pip", "install", "--no-index", "--find-links"]
    installed = offline(user, python, "-m", *command)
    assert installed.returncode == 0, installed.stderr
    shown = offline(user, python, "-c", "import torch, tqdm; print(torch.VERSION, tqdm.VERSION)")
    assert shown.stdout.split() == ["1.6.0+cu101", "4.66.0"]

    before = nginx.body_bytes()
    again = user.fetch(*wanted, "--json")
    assert set(again.statuses.values()) == {"cached"}
    assert again.artifact("torch")["verified_by"] == "pin"
    assert nginx.body_bytes() - before <= 256 * 1024  # METADATA, read from the wheel's end


def test_uv_installs_from_the_same_folder(tmp_path, nginx_mirrors, user, small):
    """``uv pip install --no-index --find-links``, and with the exact list too."""
    write_index(tmp_path / "root", small)
    nginx = nginx_mirrors([tmp_path / "root"])
    done = user.fetch("--pip", "demo-app", "--index-url", f"{nginx.base()}/simple", "--json")
    assert done.code == 0, done.err
    python = new_environment(user, with_pip=False)
    uv = find_uv()
    links = ["--no-index", "--find-links", wheel_dir(user), "--python", python]
    installed = offline(user, uv, "pip", "install", *links, "demo-app")
    assert installed.returncode == 0, installed.stderr
    assert offline(user, python, "-c", "import demo_app, tqdm").returncode == 0
    exact = shlex.split(done.report["next_command"], posix=sys.platform != "win32")[-1].strip('"')
    installed = offline(user, uv, "pip", "install", *links, "--require-hashes", "--reinstall", "-r", exact)
    assert installed.returncode == 0, installed.stderr


def test_another_platform(tmp_path, nginx_mirrors, user, small):
    """Windows' markers bring colorama, and what lies there then installs for it."""
    tqdm, colorama, _ = small
    write_index(tmp_path / "root", small)
    nginx = nginx_mirrors([tmp_path / "root"])
    index = ["--index-url", f"{nginx.base()}/simple"]
    done = user.fetch("--pip", "tqdm", *index, "--platform", "win-64", "--python", "3.10", "--json")
    assert done.code == 0, done.err
    assert names(wheel_dir(user)) == {tqdm.filename, colorama.filename}
    assert done.report["next_command"] == ""
    uv = find_uv()
    target = ["--python-platform", "windows", "--python-version", "3.10", "--target", user.folder / "target"]
    links = ["--no-index", "--find-links", wheel_dir(user), "--python", sys.executable]
    installed = offline(user, uv, "pip", "install", *links, *target, "tqdm")
    assert installed.returncode == 0, installed.stderr
    assert (user.folder / "target" / "colorama").is_dir()


def test_several_platforms_at_once(tmp_path, nginx_mirrors, user, small):
    """Each has what it needs, what they share is there once; --dest names the folder."""
    tqdm, colorama, _ = small
    write_index(tmp_path / "root", small)
    nginx = nginx_mirrors([tmp_path / "root"])
    both = ["--platform", "win-64", "--platform", "linux-64", "--python", "3.10", "--dest", "there"]
    done = user.fetch("--pip", "tqdm", "--index-url", f"{nginx.base()}/simple", *both, "--json")
    assert done.code == 0, done.err
    assert sorted(done.statuses) == sorted([tqdm.filename, colorama.filename])
    assert names(user.folder / "there") == {tqdm.filename, colorama.filename}


# --- mirrors ----------------------------------------------------------------------------------------------------------


def test_every_mirror_gives_a_share(tmp_path, nginx_mirrors, user):
    """The files of an index come from all mirrors that carry it; one that lacks them costs an answer."""
    wheel = build_wheel(tmp_path / "built", "app", "1.0", filler=24 * MIB)
    for name in ("one", "two"):
        write_index(tmp_path / name, [wheel])
    write_index(tmp_path / "three", [])
    nginx = nginx_mirrors([tmp_path / name for name in ("one", "two", "three")], rate=2 * MIB)
    carries = {
        f"m{number}": {"pypi:simple": f"{nginx.base(number)}/simple", "pypi:files": f"{nginx.base(number)}/packages"}
        for number in range(3)
    }
    user.options += ["--mirrors", str(user.write_mirrors(carries)), "--no-upstream"]
    done = user.fetch("--pip", "app", "--index-url", f"{nginx.base(0)}/simple", "--json")
    assert done.code == 0, done.err
    sources = {source["mirror"]: source for source in done.artifact("app")["sources"]}
    assert sources["m0"]["bytes"] > MIB
    assert sources["m1"]["bytes"] > MIB
    assert sources["m2"]["bytes"] == 0
    assert nginx.body_bytes() <= wheel.size + 2 * MIB


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hashes", [True, False])
def test_a_wrong_hash(tmp_path, nginx_mirrors, user, small, hashes):
    """Exit 4 with both hashes, whether the index has one or the bytes have to come first; nothing is there."""
    tqdm, *_ = small
    write_index(tmp_path / "root", small, hashes=hashes)
    nginx = nginx_mirrors([tmp_path / "root"])
    wrong = "0123456789abcdef" * 4
    file = user.folder / "requirements.txt"
    file.write_text(f"--index-url {nginx.base()}/simple\ntqdm==4.66.0 --hash=sha256:{wrong}\n")
    done = user.fetch("--file", file, "--json")
    assert done.code == 4, done.err
    assert wrong in done.err
    assert tqdm.sha256 in done.err
    assert names(wheel_dir(user)) == (set() if hashes else needed_on_windows(small))
    assert bool(nginx.body_bytes()) != hashes


@pytest.mark.parametrize("code", [0, 4])
def test_several_hashes_for_a_file_without_one(tmp_path, nginx_mirrors, user, small, code):
    """One of them must be the file's."""
    tqdm, *_ = small
    write_index(tmp_path / "root", small, hashes=False)
    nginx = nginx_mirrors([tmp_path / "root"])
    allowed = ["0123456789abcdef" * 4, "fedcba9876543210" * 4 if code else tqdm.sha256]
    file = user.folder / "requirements.txt"
    line = " ".join(["tqdm==4.66.0", *(f"--hash=sha256:{each}" for each in allowed)])
    file.write_text(f"--index-url {nginx.base()}/simple\n{line}\n")
    done = user.fetch("--file", file, "--json")
    assert done.code == code, done.err
    assert code == 0 or (allowed[0] in done.err and tqdm.sha256 in done.err)
    assert names(wheel_dir(user)) == ({tqdm.filename} if code == 0 else set()) | needed_on_windows(small)


def test_contradictions(tmp_path, nginx_mirrors, user, small):
    """Exit 3 and the resolver's words."""
    write_index(tmp_path / "root", small)
    nginx = nginx_mirrors([tmp_path / "root"])
    done = user.fetch("--pip", "demo-app", "--pip", "tqdm<4", "--index-url", f"{nginx.base()}/simple", "--json")
    assert done.code == 3
    assert "tqdm<4" in done.err
    assert done.report["error"]["type"] == "UnsatisfiableError"


def test_no_wheel_for_the_platform(tmp_path, nginx_mirrors, user):
    """Exit 3, and which there are."""
    wheel = build_wheel(tmp_path / "built", "native", "1.0", tag="cp310-cp310-win_amd64")
    write_index(tmp_path / "root", [wheel])
    nginx = nginx_mirrors([tmp_path / "root"])
    index = ["--index-url", f"{nginx.base()}/simple"]
    done = user.fetch("--pip", "native", *index, "--platform", "linux-64", "--python", "3.10")
    assert done.code == 3
    assert "win_amd64" in done.err


def test_no_server_is_running(user):
    """Exit 6."""
    done = user.fetch("--pip", "app", "--index-url", "http://127.0.0.1:9/simple", "--give-up-after", "1s", "--json")
    assert done.code == 6, done.err
    assert done.report["error"]["retryable"]


@pytest.mark.parametrize("trouble", ["none", "unhashed", "login", "name", "hash", "nobody"])
def test_a_password_is_never_shown(tmp_path, nginx_mirrors, user, small, trouble):
    """Neither printed nor kept in any file, whatever happens."""
    tqdm, *_ = small
    wrong = {tqdm.filename: "0" * 64} if trouble == "hash" else None
    write_index(tmp_path / "root", small, hashes=trouble != "unhashed", wrong_hash=wrong)
    nginx = nginx_mirrors([tmp_path / "root"])
    nginx.change(0, login="me:pass-word" if trouble != "login" else "me:other")
    port = 9 if trouble == "nobody" else nginx.port()
    file = user.folder / "requirements.txt"
    name = "no-such" if trouble == "name" else "demo-app"
    file.write_text(f"--index-url http://me:pass-word@127.0.0.1:{port}/simple\n{name}\n")
    more = ["--lock", "pylock.toml", "--json", "--verbose", "--give-up-after", "2s", "--debug-trace", "trace.jsonl"]
    done = user.fetch("--file", file, *more)
    assert done.code == {"none": 0, "unhashed": 0, "login": 6, "name": 3, "hash": 4, "nobody": 6}[trouble], done.err
    assert "pass-word" not in done.out + done.err
    file.unlink()
    texts = [path for path in user.folder.rglob("*") if path.is_file()]
    assert done.code or user.folder / "pylock.toml" in texts
    for path in texts:
        assert b"pass-word" not in path.read_bytes(), path


def test_the_files_of_a_private_index_are_asked_for_there_alone(tmp_path, nginx_mirrors, user, small):
    """They are laid out as the default index's; no mirror is told their names, and --no-upstream leaves their place."""
    write_index(tmp_path / "root", small)
    nginx = nginx_mirrors([tmp_path / "root", tmp_path / "root"])
    carries = {"pypi:simple": f"{nginx.base(1)}/simple", "pypi:files": f"{nginx.base(1)}/packages"}
    mirrors = user.write_mirrors({"public": carries})
    index = f"{nginx.base(0)}/simple"
    done = user.fetch("--pip", "demo-app", "--index-url", index, "--mirrors", mirrors, "--no-upstream", "--json")
    assert done.code == 0, done.err
    assert nginx.requests(1) == []
    assert done.artifact("demo-app")["status"] == "downloaded"


def test_two_at_once(tmp_path, nginx_mirrors, user):
    """A wheel without a hash that two processes want: one brings it, the other waits and takes it."""
    wheel = build_wheel(tmp_path / "built", "app", "1.0", filler=12 * MIB)
    write_index(tmp_path / "root", [wheel], hashes=False)
    nginx = nginx_mirrors([tmp_path / "root"], rate=2 * MIB)
    arguments = ["fetch", *user.options, "--pip", "app", "--index-url", f"{nginx.base()}/simple", "--json"]
    with user.start(*arguments) as one, user.start(*arguments) as two:
        runs = [finish(one), finish(two)]
    assert [done.code for done in runs] == [0, 0], [done.err for done in runs]
    assert sum(done.report["totals"]["downloaded"] for done in runs) == wheel.size
    assert sorted(done.artifact("app")["verified_by"] for done in runs) == ["pin", "record"]
    assert {done.artifact("app")["sha256"] for done in runs} == {wheel.sha256}
    assert nginx.body_bytes() <= wheel.size + 2 * MIB


def test_a_folder_of_wheels(tmp_path, user, small):
    """--find-links DIR: what is on this machine is copied, and held by its RECORD."""
    tqdm, colorama, app = small
    folder = user.folder / "links"
    for file in small:
        put(folder / file.filename, file)
    done = user.fetch("--pip", "demo-app", "--find-links", "links", "--json", env={"PIP_NO_INDEX": "1"})
    assert done.code == 0, done.err
    wanted = [tqdm, app, *([colorama] if sys.platform == "win32" else [])]
    assert names(wheel_dir(user)) == {wheel.filename for wheel in wanted}
    assert {artifact["verified_by"] for artifact in done.report["artifacts"]} == {"record"}


# --- options and files ------------------------------------------------------------------------------------------------


def test_conda_and_pip_in_one_call(tmp_path, nginx_mirrors, small):
    """Wheels are for the Python that conda brings; both locks are written; the command installs both."""
    tqdm, *_ = small
    old = build_wheel(tmp_path / "built", "native", "1.0", tag="cp38-cp38-manylinux1_x86_64")
    new = build_wheel(tmp_path / "built", "native", "1.0", tag="cp311-cp311-manylinux1_x86_64")
    root = tmp_path / "root"
    build_pytorch_channels(root, large=MIB)
    write_index(root, [*small, old, new])
    nginx = nginx_mirrors([root])
    user = User(tmp_path / "user")
    carries = {"pypi:simple": f"{nginx.base()}/simple", "pypi:files": f"{nginx.base()}/packages"}
    carries |= {f"conda:{channel}": f"{nginx.base()}/{channel}" for channel in CHANNELS}
    user.options += ["--mirrors", str(user.write_mirrors({"one": carries})), "--no-upstream", "--index-from", "one"]
    pip = ["--pip", "native", "--pip", "tqdm", "--index-url", f"{nginx.base()}/simple"]
    locks = ["--lock", "explicit.txt", "--lock", "pylock.mine.toml"]
    done = user.fetch("pytorch=1.7", *pip, *locks, "--name", "new", "--json")
    assert done.code == 0, done.err
    kinds = {artifact["name"]: artifact["kind"] for artifact in done.report["artifacts"]}
    assert kinds["pytorch"] == "conda"
    assert kinds["native"] == "wheel"
    assert names(wheel_dir(user)) == {old.filename, tqdm.filename}
    assert (user.folder / "explicit.txt").read_text().count("http") == len(kinds) - 2
    assert old.sha256 in (user.folder / "pylock.mine.toml").read_text()
    *before, conda, pip_command = done.report["next_command"].split(" && ")
    assert before == (['set "CONDA_SUBDIR=linux-64"'] if sys.platform == "win32" else [])
    assert conda.startswith("conda create --name new --file")
    assert pip_command.startswith("conda run --name new python -m pip install --no-index --find-links")


def test_both_are_resolved_before_either_is_fetched(tmp_path, nginx_mirrors, small):
    """A pip side without an answer costs no conda package."""
    root = tmp_path / "root"
    build_pytorch_channels(root, large=MIB)
    write_index(root, small)
    nginx = nginx_mirrors([root])
    user = User(tmp_path / "user")
    carries = {"pypi:simple": f"{nginx.base()}/simple", "pypi:files": f"{nginx.base()}/packages"}
    carries |= {f"conda:{channel}": f"{nginx.base()}/{channel}" for channel in CHANNELS}
    user.options += ["--mirrors", str(user.write_mirrors({"one": carries})), "--no-upstream", "--index-from", "one"]
    done = user.fetch("pytorch=1.7", "--pip", "no-such", "--index-url", f"{nginx.base()}/simple")
    assert done.code == 3
    assert nginx.archive_requests() == []


def test_a_lock_is_fetched_again(tmp_path, nginx_mirrors, user, small):
    """--lock pylock.toml, and --file pylock.toml: the same files, no index asked; offline what is here is found."""
    write_index(tmp_path / "root", small, hashes=False)
    nginx = nginx_mirrors([tmp_path / "root"])
    first = user.fetch("--pip", "demo-app", "--index-url", f"{nginx.base()}/simple", "--lock", "pylock.toml", "--json")
    assert first.code == 0, first.err
    nginx.reset_log()
    again = user.fetch("--file", "pylock.toml", "--wheel-dir", "other", "--json")
    assert again.code == 0, again.err
    assert set(again.statuses) == set(first.statuses)
    assert {artifact["verified_by"] for artifact in again.report["artifacts"]} == {"digest"}
    assert not any("/simple/" in request.uri for request in nginx.requests())
    nginx.reset_log()
    alone = user.fetch("--file", "pylock.toml", "--wheel-dir", "other", "--offline", "--json")
    assert (alone.code, set(alone.statuses.values())) == (0, {"cached"})
    assert nginx.requests() == []


def test_a_lock_holds_no_made_up_hash(tmp_path, nginx_mirrors, user, small):
    """A dry run cannot know the hash of a file that nobody publishes one for; once it was seen it can."""
    tqdm, *_ = small
    write_index(tmp_path / "root", small, hashes=False)
    nginx = nginx_mirrors([tmp_path / "root"])
    wanted = ["--pip", "tqdm", "--index-url", f"{nginx.base()}/simple", "--lock", "pylock.toml"]
    done = user.fetch(*wanted, "--dry-run")
    assert done.code == 2
    assert tqdm.filename in done.err
    assert not (user.folder / "pylock.toml").exists()
    assert user.fetch(*wanted).code == 0
    (user.folder / "pylock.toml").unlink()
    assert user.fetch(*wanted, "--dry-run").code == 0
    assert tqdm.sha256 in (user.folder / "pylock.toml").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--pip", "app", "--lock", "explicit.txt"],
        ["pytorch", "--lock", "pylock.toml"],
        ["--pip", "app", "--lock", "pylock.toml", "--lock", "pylock.b.toml"],
        ["--pip", "=="],
        ["--pip", "app", "--index-url", "http://["],
        ["--pip", "app @ http://[bad/app-1.0-py3-none-any.whl"],
        ["--pip", "app", "--python", "abc"],
        ["--pip", "app", "--python", "3"],
    ],
)
def test_mistakes(user, arguments):
    """Exit 2 and a reason, before anybody is asked."""
    done = user.fetch(*arguments)
    assert done.code == 2, done.err
    assert done.err


def test_a_dry_run(tmp_path, nginx_mirrors, user, small):
    """What would come, its sizes from the index; nothing does."""
    tqdm, colorama, app = small
    write_index(tmp_path / "root", small)
    nginx = nginx_mirrors([tmp_path / "root"])
    done = user.fetch("--pip", "demo-app", "--index-url", f"{nginx.base()}/simple", "--dry-run", "--json")
    assert done.code == 0, done.err
    wanted = [tqdm, app, *([colorama] if sys.platform == "win32" else [])]
    assert {a["filename"]: (a["status"], a["size"]) for a in done.report["artifacts"]} == {
        file.filename: ("planned", file.size) for file in wanted
    }
    assert not wheel_dir(user).exists()
    assert nginx.body_bytes() == 0


def test_what_waits_for_its_record_is_listed_and_removed(user, small):
    """status and clean look into the wheel dir, and at whole wheels that have no name yet."""
    tqdm, *_ = small
    waiting = wheel_dir(user) / FOLDER / f"0123456789abcdef-{tqdm.filename}"
    put(waiting, tqdm)
    assert waiting.name in user.run("status").out
    assert waiting.name in user.run("clean").out
    assert not waiting.parent.exists()


def test_settings_of_ours_and_of_pip(tmp_path, nginx_mirrors, user, small):
    """config.toml and pip.conf name the index and the folder."""
    write_index(tmp_path / "root", small)
    nginx = nginx_mirrors([tmp_path / "root"])
    conf = user.folder / "pip.conf"
    conf.write_text(f"[global]\nindex-url = {nginx.base()}/simple\n")
    user.own["config"].mkdir()
    (user.own["config"] / "config.toml").write_text(f"wheel-dir = '{user.folder / 'mine'}'\npython = \"3.10\"\n")
    done = user.fetch("--pip", "demo-app", env={"PIP_CONFIG_FILE": str(conf)})
    assert done.code == 0, done.err
    assert len(names(user.folder / "mine")) == 2 + len(needed_on_windows(small))
    assert str(user.folder / "mine") in done.out
