"""``exclude_newer``: what conda would hold back is not fetched, and a rule that cannot be followed is an error."""

from __future__ import annotations

import json

import pytest

from faults.server import FaultServer
from resume_dl.demo.channel import PackageSpec, build_channel
from support.fetching import User

DAY = 86_400_000
DATED = 1_609_502_400_000  # noon of 2021-01-01, in UTC
PACKAGES = [
    PackageSpec(name="aged", version=f"{number}.0", payload_size=2_000, timestamp=DATED + number * DAY)
    for number in (1, 2, 3)
]


@pytest.fixture(scope="module")
def offer(tmp_path_factory):
    """Three versions of one package, a day apart."""
    root = tmp_path_factory.mktemp("dated")
    build_channel(root / "pytorch", PACKAGES)
    build_channel(root / "pkgs" / "main", [])

    class Offer:
        pass

    Offer.root = root
    return Offer


def version(done):
    assert done.code == 0, done.err
    return done.artifact("aged")["filename"]


@pytest.mark.parametrize(
    ("settings", "options", "expected"),
    [
        ({}, [], "aged-3.0"),
        ({"exclude_newer": "2021-01-03"}, [], "aged-2.0"),
        ({"exclude_newer": "2021-01-03"}, ["--exclude-newer", "2021-01-02"], "aged-1.0"),
        ({"exclude_newer": "2021-01-03"}, ["--exclude-newer", "none"], "aged-3.0"),
        ({}, ["--exclude-newer", "1d"], "aged-3.0"),
    ],
)
def test_the_newest_that_is_old_enough(faulty: tuple[FaultServer, User], settings, options, expected):
    """The option precedes condarc; whatever was left out is said in one line."""
    _, user = faulty
    user.condarc |= settings
    done = user.fetch("aged", "--json", "--dry-run", *options)
    assert version(done).startswith(expected)
    assert ("newer than" in done.err) is ("3.0" not in expected or options == ["--exclude-newer", "1d"])


def test_0_is_the_present_time(faulty: tuple[FaultServer, User]):
    """As conda's own option has it: only what is of the future is left out, and the cutoff is said."""
    done = faulty[1].fetch("aged", "--json", "--dry-run", "--exclude-newer", "0")
    assert version(done).startswith("aged-3.0")
    assert "newer than" in done.err


def test_a_bundle_says_the_date(faulty: tuple[FaultServer, User]):
    """It stands in the manifest and in README.txt, of each platform."""
    _, user = faulty
    user.condarc["exclude_newer"] = "2021-01-03"
    folder = user.folder / "made"
    done = user.run("bundle", "create", "aged", *user.options, "-o", folder)
    assert done.code == 0, done.err
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["platforms"]["linux-64"]["exclude_newer"] == "2021-01-04T00:00:00Z"
    assert [package["version"] for package in manifest["packages"]] == ["2.0"]
    assert "without conda packages newer than 2021-01-04T00:00:00Z" in (folder / "README.txt").read_text("utf-8")


@pytest.mark.parametrize(
    ("settings", "options", "said"),
    [
        ({"exclude_newer": "soon"}, [], "not a date or duration: 'soon'"),
        ({}, ["--exclude-newer", "7y"], "not a date or duration: '7y'"),
        ({"exclude_newer": "7d", "exclude_newer_package": {"aged": False}}, [], "the package aged"),
        ({"channel_settings": [{"channel": "pytorch", "exclude_newer": "7d"}]}, [], "the channel pytorch"),
        ({}, ["--exclude-newer", "7d", "--solver", "conda"], "does not hold for --solver conda"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_an_error(faulty: tuple[FaultServer, User], settings, options, said):
    """Nothing is fetched against it."""
    server, user = faulty
    user.condarc |= settings
    done = user.fetch("aged", *options)
    assert done.code == 2
    assert said in done.err
    assert not [request for request in server.requests() if request.path.endswith(".conda")]
