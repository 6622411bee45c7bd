"""Solving as conda would: priorities, platforms, formats, environments that exist, and indexes that are hostile."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone

import pytest

from resume_dl.errors import (
    ConfigurationError,
    IntegrityError,
    InvalidSpecError,
    PackageNotFoundError,
    UnsatisfiableError,
)
from resume_dl.model.channel import Channel
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.installed import read_installed
from resume_dl.resolve.request import RepodataFile
from support import records
from support.records import record


def names(solution):
    return {artifact.name: artifact.filename for artifact in solution.artifacts}


# --- channel priority

FIRST = [record("a", "1"), record("b", "1")]
SECOND = [record("a", "2"), record("b", "2"), record("c", "1", depends=["b >=2"])]


@pytest.mark.parametrize(("priority", "file"), [("strict", "a-1-0"), ("flexible", "a-1-0"), ("disabled", "a-2-0")])
def test_channel_priority_decides_between_channels(made, priority, file):
    """An earlier channel wins over a newer version, unless priority is disabled."""
    solution = made({"one": FIRST, "two": SECOND}, "a", channel_priority=priority)
    assert names(solution)["a"] == f"{file}.tar.bz2"


def test_flexible_priority_solves_where_strict_fails(made):
    """Flexible takes from the later channel what is needed; strict says why it may not, and what to try."""
    solution = made({"one": FIRST, "two": SECOND}, "c", channel_priority="flexible")
    assert names(solution) == {"b": "b-2-0.tar.bz2", "c": "c-1-0.tar.bz2"}
    assert {artifact.channel for artifact in solution.artifacts} == {"two"}
    with pytest.raises(UnsatisfiableError) as caught:
        made({"one": FIRST, "two": SECOND}, "c", channel_priority="strict")
    assert "strict channel priority" in caught.value.message
    assert "'two'" in caught.value.message
    assert "flexible" in caught.value.hint


def test_a_spec_may_name_its_channel(made):
    """channel::name takes the package from there, also in brackets; a channel that is not given is refused."""
    for spec in (
        "two::a",
        "a[channel=two]",
        "https://conda.anaconda.org/two::a",
        "https://mirror.example/anaconda/cloud/two::a",
    ):
        solution = made({"one": FIRST, "two": SECOND}, spec, channel_priority="disabled")
        assert names(solution)["a"] == "a-2-0.tar.bz2"
    assert names(made({"one": FIRST, "two": SECOND}, "one::a", channel_priority="disabled"))["a"] == "a-1-0.tar.bz2"
    with pytest.raises(PackageNotFoundError, match="no package is named c in one"):
        made({"one": FIRST, "two": SECOND}, "one::c")
    with pytest.raises(ConfigurationError, match="three::a"):
        made({"one": FIRST, "two": SECOND}, "three::a")


def test_defaults_means_all_its_members(worker, fetch, tmp_path):
    """defaults::name finds the package in whichever member has it."""
    files = []
    for name, content in (("pkgs/main", [record("a", "1")]), ("pkgs/r", [record("r-base", "4.0")])):
        base = RedactedUrl(f"https://repo.anaconda.com/{name}")
        path = records.write(tmp_path / f"{name}.json", content)
        files.append(RepodataFile(Channel(name, f"conda:{name}", base, base, "defaults"), "linux-64", path))
    solution = fetch("defaults::r-base", "defaults::a", repodata=files)
    assert {artifact.name: artifact.channel for artifact in solution.artifacts} == {
        "a": "pkgs/main",
        "r-base": "pkgs/r",
    }


# --- formats and platforms


def test_conda_is_preferred_unless_only_tar_bz2(made):
    """Of one package in both formats .conda is taken; with use_only_tar_bz2 the other, and .conda does not exist."""
    both = [record("a", "1"), record("a", "1", extension=".conda"), record("b", "1", extension=".conda")]
    assert names(made({"one": both}, "a"))["a"] == "a-1-0.conda"
    assert names(made({"one": both}, "a", use_only_tar_bz2=True))["a"] == "a-1-0.tar.bz2"
    with pytest.raises(PackageNotFoundError):
        made({"one": both}, "b", use_only_tar_bz2=True)


def test_solving_for_windows_on_linux(fetch, tmp_path):
    """Another platform is solved with named defaults, and the note says which and that no GPU is assumed."""
    win = [*records.main_records("win-64"), record("needs-win", "1", depends=["__win"], subdir="win-64")]
    path = records.write(tmp_path / "win.json", win, subdir="win-64")
    noarch = records.write(tmp_path / "noarch.json", records.noarch_records(), subdir="noarch")
    base = RedactedUrl("https://repo.anaconda.com/pkgs/main")
    main = Channel("pkgs/main", "conda:pkgs/main", base, base)
    files = [RepodataFile(main, "win-64", path), RepodataFile(main, "noarch", noarch)]
    solution = fetch("numpy", "needs-win", repodata=files, platform="win-64")
    assert {artifact.subdir for artifact in solution.artifacts} == {"win-64", "noarch"}
    assert solution.virtual_packages == ("__archspec=1=x86_64", "__win=10.0=0")
    (note,) = solution.notes
    assert note.startswith("win-64 is not this machine: assumed __archspec=x86_64, __win=10.0 and no GPU (--cuda);")


def test_an_old_glibc_is_respected(made):
    """--virtual-package __glibc=2.17 takes the older build, and explains where there is none."""
    both = [record("a", "2", depends=["__glibc >=2.28"]), record("a", "1", depends=["__glibc >=2.12"])]
    assert names(made({"one": both}, "a", virtual_packages=("__glibc=2.17",)))["a"] == "a-1-0.tar.bz2"
    assert names(made({"one": both}, "a", env={"CONDA_OVERRIDE_GLIBC": "2.17"}))["a"] == "a-1-0.tar.bz2"
    assert names(made({"one": both}, "a", virtual_packages=("__glibc=2.35",)))["a"] == "a-2-0.tar.bz2"
    with pytest.raises(UnsatisfiableError, match=r"__glibc >=2\.28") as caught:
        made({"one": both}, "a=2", virtual_packages=("__glibc=2.17",))
    assert "__glibc=2.17" in caught.value.hint


def test_a_cuda_driver_that_packages_depend_on(made):
    """Newer packages depend on __cuda: --cuda gives it a version, none takes it away."""
    both = [record("a", "1", "cuda", ["__cuda >=11"]), record("a", "1", "cpu", track_features="cpu")]
    assert names(made({"one": both}, "a", cuda="11.8"))["a"] == "a-1-cuda.tar.bz2"
    assert names(made({"one": both}, "a", cuda="10.2"))["a"] == "a-1-cpu.tar.bz2"
    assert names(made({"one": both}, "a", cuda="none"))["a"] == "a-1-cpu.tar.bz2"
    assert names(made({"one": both}, "a", env={"CONDA_OVERRIDE_CUDA": "11.8"}))["a"] == "a-1-cuda.tar.bz2"


# --- malformed specs


@pytest.mark.parametrize(
    ("spec", "part"),
    [
        ("a b c d", "b c d"),
        ("numpy[sha256=abc]", "[sha256=abc]"),
        ("pytorch=1.7 python=3.8", "python=3.8"),
        ("pytorch>=", ">="),
        ("pytorch=1.7=", "="),
        ("@@", "@@"),
        ("foo bar", "bar"),
        ("num*", "num*"),
        ("", ""),
    ],
)
def test_malformed_specs_are_quoted(made, spec, part):
    """A malformed spec is exit 2, and the message quotes the part that was refused."""
    with pytest.raises(InvalidSpecError) as caught:
        made({"one": FIRST}, spec)
    assert caught.value.exit_code == 2
    assert caught.value.part == part
    assert repr(part) in caught.value.message


@pytest.mark.parametrize(
    "spec", ["a=1", "a 1", "a==1", "a=1.*", "a>=1,<2", "A", "a=1=0", "a 1 0", "a[version='>=1']", "a=1|2"]
)
def test_every_spec_form_that_conda_accepts(made, spec):
    """What conda's command line has always taken is taken, also where rattler's strict parser is narrower."""
    assert names(made({"one": FIRST}, spec))["a"] == "a-1-0.tar.bz2"


# --- hostile and damaged indexes


@pytest.mark.parametrize(
    "filename",
    [
        "../a-1-0.tar.bz2",
        "/etc/a-1-0.tar.bz2",
        "C:a-1-0.conda",
        "a\\..-1-0.conda",
        "a-1-\0.conda",
        "x/../../a-1-0.conda",
        "a-1-../x.conda",
    ],
)
def test_a_path_in_a_file_name_is_refused(made, filename):
    """One such name anywhere in the index is enough: exit 4, and the index is refused."""
    _, fields = record("a", "1")
    with pytest.raises(IntegrityError, match="repodata of one/linux-64 is refused") as caught:
        made({"one": [(filename, fields), record("b", "1")]}, "b")
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    "more",
    [
        {"fn": "../a-1-0.tar.bz2"},
        {"fn": "b-1-0.tar.bz2"},
        {"url": "https://x.example/linux-64/../../a-1-0.tar.bz2"},
        {"url": "file:///etc/passwd"},
        {"subdir": "../linux-64"},
        {"build": "../../0"},
    ],
)
def test_a_record_that_points_elsewhere_is_refused(made, more):
    """The fields that a client might follow or make a file of are looked at too."""
    filename, fields = record("a", "1")
    with pytest.raises(IntegrityError, match="refused"):
        made({"one": [(filename, {**fields, **more})]}, "a")


@pytest.mark.parametrize(
    "base",
    [
        "file:///etc",
        "http://elsewhere.example/x",
        "https://u:p@elsewhere.example/x",
        "s3://bucket/x",
    ],
)
def test_a_malicious_base_url_is_refused(made, base):
    """info.base_url (CEP 15) may not lead to a file, a weaker scheme, a login or a path that climbs."""
    with pytest.raises(IntegrityError, match="base_url") as caught:
        made({"one": FIRST}, "a", info={"base_url": base})
    assert "u:p" not in str(caught.value)


def test_base_url_is_respected(made):
    """info.base_url says where the archives are: elsewhere, for us and for the user's conda; or below the channel."""
    (artifact,) = made({"one": FIRST}, "a", info={"base_url": "https://cdn.example/pk"}).artifacts
    assert str(artifact.url) == str(artifact.client_url) == "https://cdn.example/pk/a-1-0.tar.bz2"
    assert artifact.client_channel == "https://mirror.example/anaconda/cloud/one/linux-64"
    (artifact,) = made({"one": FIRST}, "a", info={"base_url": "../../../pk"}).artifacts
    assert str(artifact.url) == "https://conda.anaconda.org/one/pk/a-1-0.tar.bz2"
    assert str(artifact.client_url) == "https://mirror.example/anaconda/cloud/one/pk/a-1-0.tar.bz2"


@pytest.mark.parametrize("text", ["", "<html>blocked</html>", '{"packages": {"a-1-0.tar.bz2": {"na'])
def test_a_damaged_index_is_named(fetch, tmp_path, text):
    """An empty, cut or foreign file is an integrity error that names the channel."""
    path = tmp_path / "repodata.json"
    path.write_text(text, encoding="utf-8")
    base = RedactedUrl("https://conda.anaconda.org/one")
    with pytest.raises(IntegrityError, match="one/linux-64"):
        fetch("a", repodata=[RepodataFile(Channel("one", None, base, base), "linux-64", path)])


@pytest.mark.parametrize(
    "wrong", [{"size": -5}, {"size": "100"}, {"sha256": "zz"}, {"version": "1\x1b[2J"}, {"depends": 5}]
)
def test_a_record_of_the_wrong_type_is_the_index_s_failure(made, wrong):
    """rattler reads a record when it is looked at; one that it cannot read is exit 4 and no defect of ours."""
    filename, fields = record("a", "1")
    with pytest.raises(IntegrityError, match="a record in the repodata of one cannot be read") as caught:
        made({"one": [(filename, {**fields, **wrong})]}, "a")
    assert caught.value.exit_code == 4


def test_no_secret_of_a_channel_is_shown(fetch, tmp_path):
    """A login in a channel's address is in no message and not in what a package cache will hold."""
    secret = RedactedUrl("https://user:hunter2@host.example/t/tk-123/one")
    path = records.write(
        tmp_path / "one.json", [record("a", "1", depends=["b >=2"]), record("b", "1"), record("c", "1")]
    )
    private = Channel("https://host.example/one", None, secret, secret)
    files = [RepodataFile(private, "linux-64", path)]
    (artifact,) = fetch("c", repodata=files).artifacts
    assert "hunter2" in artifact.url.reveal()
    assert artifact.client_channel == "https://host.example/one/linux-64"
    for specs in (("a",), ("nosuch",), ("https://user:hunter2@other.example/x::a",)):
        with pytest.raises((UnsatisfiableError, PackageNotFoundError, ConfigurationError)) as caught:
            fetch(*specs, repodata=files)
        assert "hunter2" not in caught.value.message + caught.value.hint
        assert "tk-123" not in caught.value.message + caught.value.hint


# --- an environment that exists


def install(prefix, *installed, history="", pinned=""):
    """A prefix whose conda-meta says that these are installed."""
    meta = prefix / "conda-meta"
    meta.mkdir(parents=True)
    for filename, fields in installed:
        place = "https://conda.anaconda.org/one/linux-64"
        whole = {
            **fields,
            "fn": filename,
            "url": f"{place}/{filename}",
            "channel": place,
            "files": [],
            "paths_data": {"paths": [], "paths_version": 1},
        }
        (meta / f"{filename.removesuffix('.tar.bz2')}.json").write_text(json.dumps(whole), encoding="utf-8")
    (meta / "history").write_text(history, encoding="utf-8")
    (meta / "pinned").write_text(pinned, encoding="utf-8")
    return read_installed(prefix)


def test_installed_packages_stay(made, tmp_path):
    """For -p: nothing that is installed changes without need, and what is there is not fetched again."""
    offered = [record("a", "1"), record("a", "2"), record("b", "1", depends=["a"]), record("c", "1", depends=["a >=2"])]
    installed = install(tmp_path / "env", record("a", "1"))
    solution = made({"one": offered}, "b", installed=installed)
    assert names(solution) == {"b": "b-1-0.tar.bz2"}
    assert solution.already_installed == ("a-1-0",)
    solution = made({"one": offered}, "c", installed=installed)
    assert names(solution) == {"a": "a-2-0.tar.bz2", "c": "c-1-0.tar.bz2"}


def test_python_keeps_its_minor_version(fetch, real, tmp_path):
    """An environment of python 3.7 gets the builds for 3.7, and its python is not replaced."""
    installed = install(tmp_path / "env", record("python", "3.7.9", "h7579374_1"))
    solution = fetch("pytorch=1.7", installed=installed)
    assert names(solution)["pytorch"] == "pytorch-1.7.1-py3.7_cuda11.0.221_cudnn8.0.5_0.tar.bz2"
    assert "python" not in names(solution)
    with pytest.raises(UnsatisfiableError):
        fetch("pytorch=1.7", installed=install(tmp_path / "new", record("python", "3.12.1", "h7579374_1")))


def test_installed_from_a_channel_that_is_gone(made, tmp_path):
    """What no channel offers any more stays too."""
    installed = install(tmp_path / "env", record("gone", "1"), record("a", "1"))
    solution = made({"one": [record("b", "1")]}, "b", installed=installed)
    assert solution.already_installed == ("a-1-0", "gone-1-0")


def test_history_pins_and_aggressive_updates(made, tmp_path):
    """Specs of earlier commands hold while they can, conda-meta/pinned always; aggressive updates go ahead unasked."""
    offered = [
        *(record("a", v) for v in "123"),
        *(record("openssl", v) for v in "12"),
        record("b", "1", depends=["a >=2"]),
    ]
    log = "==> 2021-01-01 00:00:00 <==\n# cmd: conda create a=1\n# update specs: ['a<3']\n"
    installed = install(tmp_path / "env", record("a", "1"), record("openssl", "1"), history=log)
    assert installed.history == ("a<3",)
    assert names(made({"one": offered}, "b", installed=installed)) == {"a": "a-2-0.tar.bz2", "b": "b-1-0.tar.bz2"}
    free = made({"one": offered}, "b", installed=installed, aggressive_updates=("openssl",))
    assert names(free)["openssl"] == "openssl-2-0.tar.bz2"
    pinned = install(tmp_path / "pinned", record("a", "1"), pinned="# mine\na 1.*\n")
    with pytest.raises(UnsatisfiableError):
        made({"one": offered}, "b", installed=pinned)


def test_a_folder_that_is_not_an_environment(tmp_path):
    """-p on a folder with something else in it is a usage error; one that is not there yet is an empty environment."""
    (tmp_path / "x").write_text("")
    with pytest.raises(ConfigurationError, match="not a conda environment"):
        read_installed(tmp_path)
    assert read_installed(tmp_path / "new").records == ()


# --- packages that are too new

DAY = 86_400_000
"""Milliseconds, as repodata has them."""
NOON = datetime(2021, 2, 1, 12, tzinfo=timezone.utc)
RELEASES = [
    record("a", "1", timestamp=1612137600000),  # midnight of that day
    record("a", "2", timestamp=1612137600000 + DAY),
    record("a", "3", timestamp=1612137600000 - DAY, indexed_timestamp=1612137600000 + 2 * DAY),
]


@pytest.fixture
def dated(made):
    """``made``; an old py-rattler refuses a date instead of ignoring it, and has nothing else to show."""
    if "RESUME_DL_TEST_RATTLER" in os.environ:
        with pytest.raises(ConfigurationError, match="cannot leave out packages by their date"):
            made({"one": RELEASES}, "a", exclude_newer=NOON)
        pytest.skip("the oldest py-rattler refuses exclude_newer")
    return made


def test_newer_packages_are_left_out(dated):
    """The date of the index counts before that of the build, both included; the note says what was left out."""
    solution = dated({"one": RELEASES}, "a", exclude_newer=NOON)
    assert names(solution) == {"a": "a-1-0.tar.bz2"}
    assert [note for note in solution.notes if "newer than 2021-02-01 12:00 UTC" in note]
    assert names(dated({"one": RELEASES}, "a", exclude_newer=NOON + timedelta(days=1))) == {"a": "a-2-0.tar.bz2"}
    assert names(dated({"one": RELEASES}, "a")) == {"a": "a-3-0.tar.bz2"}


def test_a_record_without_a_timestamp_stays(dated):
    """As with conda: nothing says that it is new."""
    undated = record("a", "9")
    del undated[1]["timestamp"]
    assert names(dated({"one": [*RELEASES[:2], undated]}, "a", exclude_newer=NOON)) == {"a": "a-9-0.tar.bz2"}


def test_only_newer_packages_are_no_missing_ones(dated):
    """The error says that the date is the cause, and which one would do."""
    with pytest.raises(PackageNotFoundError) as caught:
        dated({"one": RELEASES[1:3]}, "a >=2", exclude_newer=NOON)
    assert "newer than 2021-02-01 12:00 UTC" in caught.value.message
    assert "2021-02-02" in caught.value.hint
    assert "--exclude-newer" in caught.value.hint
