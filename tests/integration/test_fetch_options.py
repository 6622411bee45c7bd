"""Options of fetch: files, folders, locks, offline, and their defaults from the environment and config.toml."""

from __future__ import annotations

import json
import sys

import pytest

from support.fetching import User
from support.pip_index import build_wheel, write_find_links

WANTED = "pytorch=1.7"
LARGE = "pytorch-1.7.1-py3.8_cuda11.0.221_cudnn8.0.5_0.conda"


@pytest.fixture
def served(offer, nginx_mirrors):
    return nginx_mirrors([offer.root, offer.root])


@pytest.fixture
def user(tmp_path, served):
    user = User(tmp_path / "user")
    user.mirrors(one=served.base(0), two=served.base(1))
    return user


def files(offer):
    return {package.filename for package in offer.wanted.values()}


# --- what to fetch, from files ----------------------------------------------------------------------------------------


def test_environment_file(user, offer, tmp_path, nginx_mirrors):
    """Channels and dependencies of an environment.yml, and what stands below pip: there."""
    wheel = build_wheel(tmp_path / "built", "demo-app", "1.0")
    write_find_links(tmp_path / "wheels", [wheel], page="page.html")
    page = f"{nginx_mirrors([tmp_path / 'wheels']).base()}/page.html"
    user.condarc["channels"] = ["nowhere"]
    file = user.folder / "environment.yml"
    file.write_text(
        "name: x\nchannels: [pytorch, pkgs/main, nodefaults]\n"
        f"dependencies: [pytorch=1.7, {{pip: [--no-index, '-f {page}', demo-app>=1]}}]\n"
    )
    done = user.fetch("--file", file, "--dry-run", "--json")
    assert done.code == 0, done.err
    assert done.statuses.keys() == files(offer) | {wheel.filename}


def test_lock_and_explicit_file(user, served, offer):
    """--lock writes a list that --file takes: the same files, without any index asked for."""
    lock = user.folder / "deep" / "lock.txt"
    first = user.fetch(WANTED, "--lock", lock, "--dry-run", "--json")
    assert first.code == 0, first.err
    served.reset_log()
    done = user.fetch("--file", lock, "--json")
    assert done.code == 0, done.err
    assert done.statuses == dict.fromkeys(files(offer), "downloaded")
    assert all(request.is_archive for request in served.requests())
    user.assert_complete(offer.wanted)
    assert str(lock) in done.report["next_command"]
    again = user.fetch("--file", lock, "--json")
    assert set(again.statuses.values()) == {"cached"}


def test_a_spec_beside_an_explicit_file(user, offer):
    """Specs and lists together: both are fetched, and the command at the end names both."""
    package = offer.wanted["pkgs/main/libuv-1.40.0-h7b6447c_0.tar.bz2"]
    file = user.folder / "list.txt"
    file.write_text(f"@EXPLICIT\nhttps://repo.anaconda.com/pkgs/main/{package.url_path}#{package.md5}\n")
    lock = user.folder / "lock.txt"
    done = user.fetch(WANTED, "--no-deps", "--file", file, "--lock", lock, "--json")
    assert done.code == 0, done.err
    assert done.statuses == {LARGE: "downloaded", package.filename: "downloaded"}
    assert {line.partition("#")[0].rpartition("/")[2] for line in lock.read_text().splitlines() if "://" in line} == {
        LARGE,
        package.filename,
    }


@pytest.mark.parametrize("option", [[], ["--dest", "plain"], ["--dry-run"]])
def test_a_lock_that_cannot_be_written(user, served, option):
    """A list that cannot be written is refused before anything is asked for; with --dest it is written as well."""
    good = user.fetch(WANTED, "--no-deps", "--lock", user.folder / "lock.txt", *option)
    assert good.code == 0, good.err
    assert LARGE in (user.folder / "lock.txt").read_text()
    served.reset_log()
    for lock in (user.folder / "lock.txt" / "below", user.folder):
        bad = user.fetch(WANTED, "--no-deps", "--lock", lock, "--json", *option)
        assert bad.code == 5, bad.err
        assert bad.report["error"]["type"] == "NotWritableError"
        assert "--lock" in bad.report["error"]["hint"]
    assert served.requests() == []
    several = user.fetch(WANTED, "--lock", "x", "--platform", "win-64", "--platform", "linux-64", *option)
    assert several.code == 2


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder that nobody can write to")
def test_folders_of_ours_that_cannot_be_written(user, served, offer):
    """No place for indexes: exit 5 before anything is asked. None for the list: all is fetched, and a warning."""
    bad = user.fetch(WANTED, "--json", env={"RESUME_DL_CACHE_DIR": "/proc/nope"})
    assert (bad.code, bad.report["error"]["type"]) == (5, "NotWritableError"), bad.err
    assert "RESUME_DL_CACHE_DIR" in bad.report["error"]["hint"]
    assert served.requests() == []
    done = user.fetch(WANTED, "--json", env={"RESUME_DL_STATE_DIR": "/proc/nope"})
    assert done.code == 0, done.err
    assert done.report["next_command"] == ""
    assert "/proc/nope" in done.err
    user.assert_complete(offer.wanted)


def test_explicit_lines_without_a_digest(user, offer):
    """A line without a digest cannot be verified: exit 4, not published, and what to add."""
    package = offer.wanted[f"pytorch/{LARGE}"]
    file = user.folder / "list.txt"
    file.write_text(f"@EXPLICIT\nhttps://conda.anaconda.org/pytorch/{package.url_path}\n")
    done = user.fetch("--file", file, "--json")
    assert done.code == 4, done.err
    assert "#<md5>" in done.err
    assert user.archives() == set()


@pytest.mark.parametrize("option", [[], ["--dest", "plain"], ["--no-extract"]])
def test_a_list_without_sizes(user, offer, option):
    """A list has no sizes: that is said before, and afterwards the sizes on disk are counted, cached ones too."""
    lock = user.folder / "lock.txt"
    assert user.fetch(WANTED, "--lock", lock, "--dry-run").code == 0
    total = sum(package.path.stat().st_size for package in offer.wanted.values())
    planned = user.fetch("--file", lock, "--dry-run", "--json", *option)
    assert f"{len(offer.wanted)} files of unknown size to download" in planned.err
    assert planned.report["totals"]["bytes"] == 0
    done = user.fetch("--file", lock, "--json", *option)
    assert done.code == 0, done.err
    totals = done.report["totals"]
    assert (totals["bytes"], totals["downloaded"], totals["cached"]) == (total, total, 0)
    again = user.fetch("--file", lock, "--json", *option)
    assert "0 B to download" in again.err
    assert "unknown" not in again.err
    totals = again.report["totals"]
    assert (totals["bytes"], totals["downloaded"], totals["cached"]) == (total, 0, total)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yml", "dependencies: {a: 1}"),
        ("b.yml", "- [unclosed"),
        ("c.txt", "@EXPLICIT\nnot an address\n"),
        ("d.txt", "pytorch=1.7\n"),
        ("e.txt", "@EXPLICIT\nhttps://conda.anaconda.org/x/linux-64/a-1-0.conda#abc\n"),
        ("f.txt", "@EXPLICIT\nhttps://conda.anaconda.org/x/linux-64/..%2fa-1-0.conda#" + "0" * 32 + "\n"),
        ("g.yml", "dependencies: []"),
        ("h.txt", "\x00\xff"),
    ],
)
def test_files_that_cannot_be_read(user, served, name, text):
    """Files of another form end in 2 with their name, before anything is asked."""
    file = user.folder / name
    file.write_bytes(text.encode("latin-1"))
    done = user.fetch("--file", file, "--json")
    assert done.code == 2, done.err
    assert "Traceback" not in done.err
    assert done.report["error"]["message"]
    assert served.requests() == []


# --- where to


def test_dest(user, served, offer):
    """--dest: plain files, no cache, no folder of ours left; a second run finds them, a damaged one is replaced."""
    place = user.folder / "plain" / "deeper"
    done = user.fetch(WANTED, "--dest", place, "--json")
    assert done.code == 0, done.err
    assert {path.name for path in place.iterdir()} == files(offer)
    assert not user.pkgs.exists()
    assert {artifact["path"] for artifact in done.report["artifacts"]} == {str(place / name) for name in files(offer)}
    assert done.report["next_command"] == ""
    (place / LARGE).write_bytes(b"damaged")
    served.reset_log()
    again = user.fetch(WANTED, "--dest", place, "--json")
    assert again.code == 0
    assert {request.uri.rpartition("/")[2] for request in served.archive_requests()} == {LARGE}
    assert (place / LARGE).read_bytes() == offer.wanted[f"pytorch/{LARGE}"].path.read_bytes()
    assert not [path for path in place.rglob("*") if path.is_file() and path.name not in files(offer)]


def test_no_extract(user, served, offer):
    """--no-extract: the verified archives with their urls.txt lines; a later run without it unpacks them."""
    done = user.fetch(WANTED, "--no-extract", "--json")
    assert done.code == 0, done.err
    assert user.archives() == files(offer)
    assert len((user.pkgs / "urls.txt").read_text().splitlines()) == len(files(offer))
    served.reset_log()
    again = user.fetch(WANTED, "--no-extract", "--json")
    assert set(again.statuses.values()) == {"cached"}
    whole = user.fetch(WANTED, "--json")
    assert whole.code == 0, whole.err
    assert served.archive_requests() == []
    user.assert_complete(offer.wanted)


def test_pkgs_dir(user, offer):
    """--pkgs-dir wins over condarc, and the command at the end names it."""
    other = user.folder / "other pkgs"
    done = user.fetch(WANTED, "--pkgs-dir", other, "--json")
    assert done.code == 0, done.err
    assert not user.pkgs.exists()
    assert f"CONDA_PKGS_DIRS='{other}'" in done.report["next_command"]
    user.pkgs = other
    user.assert_complete(offer.wanted)


def test_the_package_is_in_the_second_pkgs_dir(user, served, offer):
    """conda's read-only second cache has everything: cached, and nothing is asked for or written twice."""
    assert user.fetch(WANTED).code == 0
    first = user.folder / "first"
    user.condarc["pkgs_dirs"] = [str(first), str(user.pkgs)]
    served.reset_log()
    done = user.fetch(WANTED, "--json")
    assert done.code == 0, done.err
    assert set(done.statuses.values()) == {"cached"}
    assert served.archive_requests() == []
    assert {path.suffix for path in first.iterdir()} <= {"", ".txt"}


# --- who is asked ---------------------------------------------------------------------------------------------------


def test_mirror(user, served):
    """--mirror NAME: nobody else is asked; an unknown name is refused with the known ones."""
    done = user.fetch(WANTED, "--mirror", "two", "--json")
    assert done.code == 0, done.err
    assert served.requests(0) == []
    unknown = user.fetch(WANTED, "--mirror", "three", "--json")
    assert unknown.code == 2
    for name in ("one", "two", "upstream"):
        assert name in unknown.err


def test_offline(user, served, offer):
    """--offline asks nobody: with everything here it is cached, with the index alone it names what is missing."""
    never = user.fetch(WANTED, "--no-deps", "--offline", "--json")
    assert never.code == 3, never.err
    assert "has not been fetched before" in never.err
    assert user.fetch(WANTED, "--no-deps", "--dry-run").code == 0
    served.reset_log()
    lacking = user.fetch(WANTED, "--no-deps", "--offline", "--json")
    assert lacking.code == 1, lacking.err
    assert set(lacking.statuses.values()) == {"failed"}
    assert "run it without --offline" in lacking.err
    assert served.requests() == []
    assert user.fetch(WANTED, "--no-deps").code == 0
    served.reset_log()
    for arguments in ([], ["--dry-run"]):
        done = user.fetch(WANTED, "--no-deps", "--offline", "--json", *arguments)
        assert done.code == 0, done.err
        assert set(done.statuses.values()) == {"cached"}
    user.condarc["offline"] = True
    assert user.fetch(WANTED, "--no-deps").code == 0
    assert served.requests() == []


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["-c", "pytorch/../x"], "pytorch/../x"),
        (["-c", "http://127.0.0.1:9/a/%2e%2e/b"], "%2e%2e"),
        (["-c", "pytorch//x"], "pytorch//x"),
        (["-c", "pytorch\\x"], "pytorch\\x"),
        (["pytorch/../x::mkl"], "pytorch"),
        (["--platform", "../.."], "../.."),
        (["--virtual-package", "glibc=2"], "glibc"),
        (["--cuda", "../x"], "--cuda"),
        (["--override-channels"], "-c"),
    ],
)
def test_names_that_must_not_become_a_url(user, served, option, words):
    """Channels and platforms that lead elsewhere, and malformed virtual packages: exit 2 before anyone is asked."""
    done = user.fetch(WANTED, "--json", *option)
    assert done.code == 2, done.err
    assert words in done.report["error"]["message"] + done.report["error"]["hint"]
    assert served.requests() == []


@pytest.mark.parametrize("text", ["channels: [", "hello", "channels: pytorch", "channel_priority: weird"])
def test_a_broken_condarc_is_reported(user, text):
    """What of the condarc cannot be used is named in an error line; a good one has none."""
    channels = ["-c", "pytorch", "-c", "pkgs/main"]
    broken = user.folder / "broken.yml"
    broken.write_text(text)
    done = user.fetch(WANTED, "--dry-run", *channels, env={"CONDARC": str(broken)})
    assert done.code == 0, done.err
    assert f"error: some conda settings could not be read: {broken}" in done.err
    good = user.fetch(WANTED, "--dry-run", *channels).err
    assert "warning" not in good
    assert "conda settings" not in good


@pytest.mark.parametrize("option", [["-n", "typo"], ["-p", "/nonexistent/typo"]])
def test_a_new_environment(user, option):
    """A new environment is solved for, and that is said once."""
    done = user.fetch(WANTED, "--dry-run", *option)
    assert done.code == 0, done.err
    assert [line for line in done.err.splitlines() if "no environment" in line and "typo" in line and "new" in line]


def test_limit_rate(user, served):
    """--limit-rate holds over all connections together: 900 kB at 600 kB/s takes more than a second."""
    done = user.fetch(WANTED, "--limit-rate", "600k", "--json", "--dest", user.folder / "plain")
    assert done.code == 0, done.err
    assert done.report["elapsed"] > 1


# --- defaults


def test_config_file_environment_and_command_line(user, offer):
    """config.toml gives defaults, RESUME_DL_* wins over it, the command line over both."""
    config = user.own["config"] / "config.toml"
    config.parent.mkdir(parents=True)
    places = {name: user.folder / name for name in ("from-config", "from-env", "from-line")}
    config.write_text(f'pkgs-dir = "{places["from-config"]}"\nno_extract = true\njson = true\nmirror = ["two"]\n')
    by_config = user.fetch(WANTED, "--no-deps")
    assert by_config.code == 0, by_config.err
    assert by_config.artifact("pytorch")["path"] == str(places["from-config"] / LARGE)
    assert {source["mirror"] for source in by_config.artifact("pytorch")["sources"]} == {"two"}
    assert not (places["from-config"] / LARGE.removesuffix(".conda")).exists()
    env = {"RESUME_DL_PKGS_DIR": str(places["from-env"]), "RESUME_DL_MIRROR": "one", "RESUME_DL_NO_DEPS": "1"}
    by_env = user.fetch(WANTED, env=env)
    assert by_env.artifact("pytorch")["path"] == str(places["from-env"] / LARGE)
    assert {source["mirror"] for source in by_env.artifact("pytorch")["sources"]} == {"one"}
    assert len(by_env.report["artifacts"]) == 1
    by_line = user.fetch(WANTED, "--pkgs-dir", places["from-line"], env=env)
    assert by_line.artifact("pytorch")["path"] == str(places["from-line"] / LARGE)


@pytest.mark.parametrize("text", ["pkgs_dri = 1", "connections = 0", "limit_rate = 'fast'", "= broken", "json = {}"])
def test_wrong_config_file(user, text):
    """A wrong config.toml ends in 2 and names what is wrong."""
    config = user.own["config"] / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(text + "\n")
    done = user.fetch(WANTED, "--json")
    assert done.code == 2, done.err
    assert done.report["error"]["type"] == "ConfigurationError"
    assert "Traceback" not in done.err


def test_wrong_environment_variable(user):
    """The same for a variable."""
    done = user.fetch(WANTED, "--json", env={"RESUME_DL_CONNECTIONS": "many"})
    assert done.code == 2
    assert "RESUME_DL_CONNECTIONS" in done.err or "--connections" in done.err


# --- an environment that is there


@pytest.mark.conda
def test_prefix(test_conda, served, tmp_path, offer):
    """-p PREFIX: what is installed there is kept and not fetched; conda then installs without a request."""
    base = served.base(0)
    test_conda.configure(channels=[f"{base}/pytorch", f"{base}/pkgs/main"])
    env = {**test_conda.environment(), "RESUME_DL_CONDA": str(test_conda.python)}
    user = User(tmp_path / "user", env=env, pkgs=test_conda.pkgs)
    user.mirrors(one=served.base(0), two=served.base(1))
    prefix = test_conda.folder / "env"
    made = test_conda.run("create", "-p", prefix, "pytorch=1.7.0", "python", "pip")
    assert made.returncode == 0, made.stderr
    nothing = user.fetch("ninja", "-p", prefix, "--json")
    assert nothing.code == 0, nothing.err
    assert nothing.report["artifacts"] == []
    assert nothing.report["next_command"] == ""
    assert "everything is installed" in nothing.err
    done = user.fetch("pytorch=1.7.1", "-p", prefix, "--json")
    assert done.code == 0, done.err
    assert done.statuses == {LARGE: "downloaded"}
    assert f"conda install --prefix {prefix} --file" in done.report["next_command"]
    served.reset_log()
    installed = test_conda.run("install", "-p", prefix, "pytorch=1.7.1")
    assert installed.returncode == 0, installed.stdout + installed.stderr
    assert served.archive_requests() == []
    names = {json.loads(path.read_text())["fn"] for path in (prefix / "conda-meta").glob("*.json")}
    assert names == files(offer)
