"""``exclude_newer``: the packages that fetch, the plugin and a bundle take are those that conda itself chooses.

They run with a conda that has the setting (26.9), named by RESUME_DL_TEST_CONDA.
"""

from __future__ import annotations

import json
import subprocess
from datetime import datetime, timezone

import pytest

from resume_dl.demo.channel import PackageSpec, build_channel, write_repodata
from resume_dl.model.exclude_newer import cutoff_of
from support.fetching import User
from support.plugin import records, use_mirrors

pytestmark = pytest.mark.conda

DAY = 86_400_000
OLD = 1_577_880_000_000  # noon of 2020-01-01, in UTC and milliseconds, as all of these
DATED = 1_609_502_400_000  # noon of 2021-01-01
LATE = 1_612_180_800_000  # noon of 2021-02-01
FUTURE = 4_102_488_000_000  # noon of 2100-01-01

NEWER = {
    "aged": {"timestamp": DATED + DAY},
    "indexed-late": {"timestamp": OLD, "indexed_timestamp": LATE},
    "indexed-early": {"timestamp": LATE, "indexed_timestamp": OLD},
    "in-seconds": {"timestamp": LATE // 1000},
    "future": {"timestamp": FUTURE},
    "undated": {},
}
"""Name -> what the record of version 2.0 says of its time; 1.0 is of DATED."""


@pytest.fixture(scope="module")
def offer(tmp_path_factory):
    """Two versions of each of these packages, and in the second channel a newer one of one more."""
    root = tmp_path_factory.mktemp("dated")
    specs = [
        PackageSpec(name=name, version=f"{number}.0", payload_size=1_000, timestamp=DATED)
        for name in NEWER
        for number in (1, 2)
    ]
    channel = build_channel(root / "pytorch", specs)
    for package in channel.packages:
        if package.spec.version == "2.0":
            del package.record["timestamp"]
            package.record.update(NEWER[package.spec.name])
    write_repodata(channel.root, "linux-64", channel.packages)
    other = [
        PackageSpec(name="elsewhere", version=f"{number}.0", payload_size=1_000, timestamp=time)
        for number, time in ((1, DATED), (2, DATED + 2 * DAY))
    ]
    build_channel(root / "pkgs" / "main", other)

    class Offer:
        pass

    Offer.root = root
    return Offer


@pytest.fixture
def conda(test_conda, server):
    """A conda that has the setting, with both channels at ``server`` and a mirror of them."""
    shown = json.loads(test_conda.run("config", "--show", "--json", plugin=False).stdout)
    if "exclude_newer" not in shown:
        pytest.skip("this conda has no exclude_newer; name a conda of 26.9 or later by RESUME_DL_TEST_CONDA")
    use_mirrors(test_conda, server.base(0), [server.base(1)])
    return test_conda


@pytest.fixture
def user(conda, tmp_path):
    """A user of the same settings, which conda itself is asked for."""
    env = {**conda.environment(), "RESUME_DL_CONDA": str(conda.python)}
    user = User(tmp_path / "user", env=env, pkgs=conda.pkgs)
    user.options = ["--give-up-after", "20s", "--mirrors", str(conda.folder / "mirrors.toml")]
    return user


NAMES = [*NEWER, "elsewhere"]


def condas_choice(conda):
    """Name -> version that conda installs without us."""
    done = conda.run("create", "-p", conda.folder / "theirs", "--dry-run", "--json", *NAMES, plugin=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {each["name"]: each["version"] for each in json.loads(done.stdout)["actions"]["LINK"]}


def through_the_plugin(conda, server):
    """Name -> version that conda installs with the plugin, which fetches all archives."""
    done = conda.run("create", "-p", conda.folder / "ours", "--json", *NAMES)
    assert done.returncode == 0, done.stdout + done.stderr
    agents = [each.headers.get("user-agent", "") for each in server.requests(path="*.conda")]
    assert agents
    assert all(agent.startswith("resume-dl/") for agent in agents)
    return {each["name"]: each["version"] for each in records(conda.folder / "ours").values()}


def fetched(user, *options):
    """Name -> version that ``fetch`` takes."""
    done = user.fetch("--json", "--dry-run", *options, *NAMES)
    assert done.code == 0, done.err
    return {each["name"]: each["version"] for each in done.report["artifacts"]}


@pytest.mark.parametrize(
    ("value", "held_back"),
    [
        ("", set()),
        ("0", {"future"}),
        ("2021-01-02T12:00:00Z", {"future", "indexed-late", "in-seconds", "elsewhere"}),
        ("2021-01-02T11:59:59Z", {"future", "indexed-late", "in-seconds", "elsewhere", "aged"}),
    ],
)
def test_fetch_and_the_plugin_choose_what_conda_chooses(conda, user, server, value, held_back):
    """``indexed_timestamp`` goes before ``timestamp``, which may be in seconds; a package without one stays."""
    conda.configure(exclude_newer=value)
    conda.environment()
    theirs = condas_choice(conda)
    assert {name for name, version in theirs.items() if version == "1.0"} == held_back
    assert through_the_plugin(conda, server) == theirs
    assert fetched(user) == theirs


def test_a_bundle_holds_what_conda_chooses(conda, user):
    """A date counts to its end, in UTC."""
    conda.configure(exclude_newer="2021-01-02")
    conda.environment()
    theirs = condas_choice(conda)
    assert (theirs["aged"], theirs["elsewhere"], theirs["undated"]) == ("2.0", "1.0", "2.0")
    folder = user.folder / "made"
    done = user.run("bundle", "create", *NAMES, *user.options, "-o", folder)
    assert done.code == 0, done.err
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert {each["name"]: each["version"] for each in manifest["packages"]} == theirs


@pytest.mark.parametrize("which", ["package", "channel"])
def test_values_of_one_package_or_channel(conda, user, server, which):
    """conda, with and without the plugin, and ``--solver conda`` follow them; our solver refuses them."""
    own = {"exclude_newer_package": {"aged": False, "undated": "0", "future": False}}
    if which == "channel":
        own = {"channel_settings": [{"channel": f"{server.base(0)}/pkgs/main", "exclude_newer": False}]}
    conda.configure(exclude_newer="2021-01-01", **own)
    conda.environment()
    theirs = condas_choice(conda)
    assert {name for name, version in theirs.items() if version == "1.0"} == (
        {"indexed-late", "in-seconds", "elsewhere"}
        if which == "package"
        else {"indexed-late", "in-seconds", "aged", "future"}
    )
    assert through_the_plugin(conda, server) == theirs
    assert fetched(user, "--solver", "conda") == theirs
    refused = user.fetch("--json", "--dry-run", *NAMES)
    assert (refused.code, f"an exclude_newer for the {which}" in refused.err) == (2, True), refused.err


def test_every_form_of_a_value_means_what_it_means_to_conda(conda):
    """conda's own functions, in its own process, at a fixed time."""
    code = """
import json, sys
from conda.core.exclude_newer import ExcludeNewerPolicy
found = []
for text in json.load(sys.stdin):
    try:
        found.append(ExcludeNewerPolicy.from_values(text, {}, now=1795435200.0).global_cutoff)
    except Exception:
        found.append(None)
print(json.dumps(found))
"""
    texts = [
        *("7d", " 1w 2D 3h4m5s ", "1d1d", "3d12h", "P7D", "p2wT36h", "PT5M", "P1W2DT3H4M5S", "86400", "0", "007"),
        *("2026-04-01", "2026-04-01T12:00:00Z", "2026-04-01 12:00:00", "2026-04-01T12:00:00+02:00"),
        *("2026-04-01T12:00:00.5Z", "2026-04-01T12:00", "2026-02-29", "20260401T120000"),
        *("soon", "7y", "-7d", "P", "PT", "7d soon", "2026-13-01", "2026-4-1"),
    ]
    done = subprocess.run(
        [conda.python, "-c", code],
        input=json.dumps(texts),
        env=conda.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    now = datetime.fromtimestamp(1795435200, tz=timezone.utc)

    def ours(text):
        try:
            return cutoff_of(text, now).timestamp()
        except ValueError:
            return None

    assert {text: ours(text) for text in texts} == dict(zip(texts, json.loads(done.stdout), strict=True))
