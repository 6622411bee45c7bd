"""``fetch --dry-run`` over nginx: the real pytorch repodata of 2021, and what a dry run must not do."""

from __future__ import annotations

import pytest

from support import records
from support.fetching import User, index_from

CPU = "pytorch-1.7.1-py3.8_cpu_0.tar.bz2"
CUDA_102 = "pytorch-1.7.1-py3.8_cuda10.2.89_cudnn7.6.5_0.tar.bz2"
CUDA_110 = "pytorch-1.7.1-py3.8_cuda11.0.221_cudnn8.0.5_0.tar.bz2"


@pytest.fixture(scope="module")
def channels(tmp_path_factory):
    """The real records of pytorch, and made ones of pkgs/main; no archive exists."""
    root = tmp_path_factory.mktemp("real")
    (root / "pytorch" / "linux-64").mkdir(parents=True)
    (root / "pytorch" / "linux-64" / "repodata.json").write_bytes(records.PYTORCH.read_bytes())
    records.write(root / "pytorch" / "noarch" / "repodata.json", records.mutex_records(), subdir="noarch")
    records.write(root / "pkgs" / "main" / "linux-64" / "repodata.json", records.main_records())
    windows = [
        records.record("numpy", "1.19.2", "py38hadc3359_0", ["wheel", "__win"], subdir="win-64"),
        records.record("python", "3.8.8", "hdbf39b2_5", subdir="win-64"),
        records.record("pip", "21.0.1", "py38haa95532_0", subdir="win-64"),
        records.record("libuv", "1.40.0", "h7b6447c_0", subdir="win-64", sha256="0" * 64),
    ]
    records.write(root / "pkgs" / "main" / "win-64" / "repodata.json", windows, subdir="win-64")
    records.write(root / "pkgs" / "main" / "noarch" / "repodata.json", records.noarch_records(), subdir="noarch")
    return root


@pytest.fixture
def served(channels, nginx_mirrors):
    return nginx_mirrors([channels])


@pytest.fixture
def user(tmp_path, served):
    user = User(tmp_path / "user")
    user.mirrors(only=served.base(0))
    return user


def everything(folder):
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("cuda", "build"), [("11.0", CUDA_110), ("10.2", CUDA_102), ("none", CPU)])
def test_cuda(user, served, cuda, build):
    """--cuda chooses the 1.7.1 build; nothing is written but the kept index, and no archive is asked for."""
    done = user.fetch("--dry-run", "pytorch=1.7", "--cuda", cuda, "--json")
    assert done.code == 0, done.err
    assert done.artifact("pytorch")["filename"] == build
    assert ("cudatoolkit" in {each["name"] for each in done.report["artifacts"]}) is (cuda != "none")
    assert {each["status"] for each in done.report["artifacts"]} == {"planned"}
    assert {each["path"] for each in done.report["artifacts"]} == {None}
    assert served.archive_requests() == []
    assert not user.pkgs.exists()
    assert not user.own["state"].exists()
    written = everything(user.folder) - {path for path in everything(user.folder) if path.parts[0] in {"cache", "home"}}
    assert {path.name for path in written} == {"mirrors.toml"}
    totals = done.report["totals"]
    assert totals["bytes"] == sum(each["size"] for each in done.report["artifacts"]) > 0
    assert totals["downloaded"] == totals["resumed"] == totals["cached"] == totals["wasted"] == 0


def test_a_dry_run_says_what_it_would_fetch(user, served):
    """For people: a line a package, the sum, and neither a command to run nor a claim that anything was done."""
    done = user.fetch("--dry-run", "pytorch=1.7", "--cuda", "11.0")
    assert done.code == 0
    assert f"pytorch/linux-64/{CUDA_110}" in done.out
    assert "808.1 MB" in done.out
    assert "To use exactly" not in done.out


def test_impossible(user):
    """pytorch 1.7 with python 3.12: exit 3, and the solver's explanation names both sides, in text and in JSON."""
    done = user.fetch("--dry-run", "pytorch=1.7", "python=3.12", "--json")
    assert done.code == 3
    assert done.report["error"]["type"] == "UnsatisfiableError"
    for text in (done.err, done.report["error"]["message"]):
        assert "python >=3.8,<3.9.0a0" in text
        assert "python 3.12.1" in text
    assert "Traceback" not in done.err
    assert done.report["artifacts"] == []
    assert done.report["ok"] is False


def test_a_dry_run_with_a_lock_writes_only_the_lock(user, served):
    """--lock is asked for, so it is written; its lines are the client's addresses with digests."""
    lock = user.folder / "lock.txt"
    done = user.fetch("--dry-run", "pytorch=1.7", "--lock", lock, "--json")
    assert done.code == 0, done.err
    lines = lock.read_text().splitlines()
    assert "@EXPLICIT" in lines
    addresses = [line for line in lines if "://" in line and not line.startswith("#")]
    assert len(addresses) == len(done.report["artifacts"])
    assert all("#" in line for line in addresses)
    assert not user.pkgs.exists()


def test_platform(user):
    """--platform win-64 solves for Windows wherever it runs: its subdir, and virtual packages said by name."""
    user.options = user.options[2:]
    options = ["--dry-run", "numpy", "-c", "pkgs/main", "--override-channels", "--json"]
    windows = user.fetch(*options, "--platform", "win-64")
    assert windows.code == 0, windows.err
    assert {each["subdir"] for each in windows.report["artifacts"]} == {"win-64", "noarch"}
    both = user.fetch(*options, "--platform", "win-64", "--platform", "linux-64")
    assert both.code == 0, both.err
    assert {each["subdir"] for each in both.report["artifacts"]} == {"win-64", "linux-64", "noarch"}


def test_two_files_of_one_name_are_refused(user):
    """Other bytes under the same name for another platform is refused before anything moves."""
    both = ("--platform", "win-64", "--platform", "linux-64", "-c", "pkgs/main", "--override-channels")
    done = user.fetch("libuv", *both, "--json")
    assert done.code == 2, done.err
    assert done.report["error"]["type"] == "ConfigurationError"
    for word in ("libuv-1.40.0-h7b6447c_0.tar.bz2", "win-64", "linux-64"):
        assert word in done.err
    assert user.archives() == set()


def test_virtual_package(user):
    """--virtual-package __glibc=2.12 leaves out what needs 2.17."""
    newest = user.fetch("--dry-run", "mkl", "--json", "--virtual-package", "__glibc=2.28")
    older = user.fetch("--dry-run", "mkl", "--json", "--virtual-package", "__glibc=2.12")
    assert newest.artifact("mkl")["version"] == "2021.4.0"
    assert older.artifact("mkl")["version"] == "2020.2"


def test_no_deps_and_only_deps(user):
    """--no-deps and --only-deps split one and the same solution."""
    whole = user.fetch("--dry-run", "pytorch=1.7", "--json").statuses.keys()
    alone = user.fetch("--dry-run", "pytorch=1.7", "--json", "--no-deps").statuses.keys()
    rest = user.fetch("--dry-run", "pytorch=1.7", "--json", "--only-deps").statuses.keys()
    assert alone == {CUDA_110}
    assert alone | rest == whole
    assert not alone & rest


@pytest.mark.parametrize(
    ("spec", "outcome", "words"),
    [
        ("pytroch=1.7", (3, "PackageNotFoundError"), ["pytroch", "pytorch"]),
        ("pytorch=1.99", (3, "PackageNotFoundError"), ["1.99", "1.13.1"]),
        ("pytorch==1.7=*=*=x", (2, "InvalidSpecError"), ["pytorch==1.7=*=*=x"]),
        ("pytorch>=1.7,", (2, "InvalidSpecError"), ["pytorch>=1.7,"]),
        ("pytorch[version='1.7'", (2, "InvalidSpecError"), ["pytorch[version='1.7'"]),
        ("", (2, "InvalidSpecError"), []),
        ("-n", (2, "ConfigurationError"), []),
    ],
)
def test_unsatisfiable_specs(user, served, spec, outcome, words):
    """Unknown names and versions end in 3 with the nearest ones, malformed specs in 2 with the part refused."""
    done = user.fetch("--dry-run", "--json", spec)
    assert (done.code, done.report["error"]["type"]) == outcome, done.err
    for word in words:
        assert word in done.err
    assert "Traceback" not in done.err
    assert served.archive_requests() == []


def test_unknown_channel(user, served):
    """A channel that no mirror has: exit 3 and every address that was tried."""
    tried = {"one": "a", "two": "b"}
    carries = {name: {"conda:nowhere": f"{served.base(0)}/{folder}"} for name, folder in tried.items()}
    user.options = ["--platform", "linux-64", "--mirrors", str(user.write_mirrors(carries)), "--no-upstream"]
    user.options += index_from(tried)
    done = user.fetch("pytorch", "-c", "nowhere", "--override-channels", "--json")
    assert done.code == 3, done.err
    assert done.report["error"]["type"] == "ChannelNotFoundError"
    for folder in tried.values():
        assert f"{served.base(0)}/{folder}/linux-64/repodata.json" in done.err
    assert "nowhere" in done.err


def test_unreachable_channel(user):
    """Nobody answers: exit 6, soon with --give-up-after, and what to do; no archive, no pkgs folder harmed."""
    carries = {"dead": {"conda:pytorch": "http://127.0.0.1:9/pytorch"}}
    mirrors = ["--mirrors", str(user.write_mirrors(carries)), "--no-upstream"]
    user.options = ["--platform", "linux-64", "--give-up-after", "200s", *mirrors]
    done = user.fetch("pytorch", "-c", "pytorch", "--override-channels", "--json", "--give-up-after", "2s")
    assert done.code == 6, done.err
    error = done.report["error"]
    assert (error["type"], error["retryable"]) == ("ChannelUnavailableError", True)
    assert "pytorch/linux-64" in error["message"]
    assert 1 < done.report["elapsed"] < 200  # which it would be without the last option
