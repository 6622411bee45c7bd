"""A real conda downloads nothing that is verified and at hand; nginx counts."""

from __future__ import annotations

import json
import os

import pytest

from support.conda_cache import SPEC

pytestmark = pytest.mark.conda


@pytest.fixture
def served(offer, nginx_mirrors):
    """The same channels at two mirrors."""
    return nginx_mirrors([offer.root, offer.root])


def create(conda, *arguments, expect=0, **options):
    """``conda create`` of the whole spec; a failure shows what conda said."""
    prefix = conda.folder / "env"
    done = conda.run("create", "-p", prefix, *SPEC, *arguments, **options)
    assert done.returncode == expect, done.stdout + done.stderr
    assert "resume-dl: " not in done.stdout
    return done


def installed(conda):
    return {path.name: json.loads(path.read_text()) for path in (conda.folder / "env" / "conda-meta").glob("*.json")}


def assert_installed(conda, offer, base):
    """Every package is linked, its files are there, and conda remembers the client's own URL."""
    records = installed(conda)
    assert {record["url"] for record in records.values()} == {
        offer.artifact(key, base).url.reveal() for key in offer.wanted
    }
    for record in records.values():
        assert all((conda.folder / "env" / name).exists() for name in record["files"])


@pytest.mark.parametrize("plugin", [True, False])
def test_same_url_downloads_nothing(test_conda, offer, served, plugin):
    """Entries that we publish under the client's URL are conda's own: no archive is asked for, with or without us."""
    test_conda.configure(channels=offer.urls(served.base(0)))
    offer.publish_all(test_conda.pkgs, served.base(0))
    done = create(test_conda, plugin=plugin)
    assert served.archive_requests() == []
    assert "resume-dl" not in done.stderr
    assert_installed(test_conda, offer, served.base(0))


def test_another_mirrors_url_downloads_nothing(test_conda, offer, served):
    """Fetched from one mirror, asked for at another: no archive is asked for, and conda remembers the second URL.

    Its records are replaced at once, not written into: the old content is still there under another name. Another conda
    that reads half of a record extracts the package anew, under the hands of all that use it.
    """
    test_conda.configure(channels=offer.urls(served.base(1)))
    offer.publish_all(test_conda.pkgs, served.base(0))
    before = {path: path.read_bytes() for path in test_conda.pkgs.glob("*/info/repodata_record.json")}
    for path in before:
        os.link(path, path.with_name("old.json"))
    done = create(test_conda)
    assert {path: path.with_name("old.json").read_bytes() for path in before} == before
    assert all(served.base(1).encode() in path.read_bytes() for path in before)
    assert served.archive_requests() == []
    assert f"{len(offer.wanted)} packages: verified and at hand" in done.stderr
    assert_installed(test_conda, offer, served.base(1))


def test_another_mirrors_url_stays_known_without_the_plugin(test_conda, offer, served):
    """What the plugin told conda once lies in conda's own records: the next create needs no plugin."""
    test_conda.configure(channels=offer.urls(served.base(1)))
    offer.publish_all(test_conda.pkgs, served.base(0))
    create(test_conda)
    done = test_conda.run("create", "-p", test_conda.folder / "second", *SPEC, plugin=False)
    assert done.returncode == 0, done.stderr
    assert served.archive_requests() == []


def test_hand_placed_archives_download_nothing(test_conda, offer, served):
    """Archives that a person copied into the cache, without urls.txt, are verified and used."""
    test_conda.configure(channels=offer.urls(served.base(0)))
    offer.put_by_hand(test_conda.pkgs)
    create(test_conda)
    assert served.archive_requests() == []
    assert_installed(test_conda, offer, served.base(0))
    assert not list(test_conda.pkgs.glob("*.partial"))
    create_again = test_conda.run("create", "-p", test_conda.folder / "second", *SPEC, plugin=False)
    assert create_again.returncode == 0
    assert served.archive_requests() == []


@pytest.mark.parametrize("case", ["another mirror", "by hand"])
def test_without_the_plugin_conda_downloads_all_again(test_conda, offer, served, case):
    """The same two states without the plugin: every archive is asked for, so it is the plugin that spares them."""
    test_conda.configure(channels=offer.urls(served.base(1)))
    if case == "by hand":
        offer.put_by_hand(test_conda.pkgs)
    else:
        offer.publish_all(test_conda.pkgs, served.base(0))
    create(test_conda, plugin=False)
    assert len(served.archive_requests()) == len(offer.wanted)


@pytest.mark.parametrize("state", ["same URL", "another mirror", "by hand"])
def test_offline(test_conda, offer, served, state):
    """With --offline (conda has the channels' index from before) what is at hand is enough, and nobody is asked.

    conda 24 solves offline from its cache alone: it keeps the entries' own URLs, and an archive without one ends it
    in an error, with and without the plugin.
    """
    old = test_conda.version() < (25, 0)
    test_conda.configure(channels=offer.urls(served.base(0)))
    create(test_conda, "--dry-run")
    served.reset_log()
    if state == "by hand":
        offer.put_by_hand(test_conda.pkgs)
    else:
        offer.publish_all(test_conda.pkgs, served.base(0 if state == "same URL" else 1))
    refused = old and state == "by hand"
    create(test_conda, "--offline", expect=int(refused))
    assert served.requests() == []
    if refused:
        create(test_conda, "--offline", expect=1, plugin=False)
    else:
        assert_installed(test_conda, offer, served.base(1 if old and state == "another mirror" else 0))


def test_offline_without_any_index(test_conda, offer, served):
    """conda 24 solves from complete entries alone; newer ones need the channels' index and say so."""
    test_conda.configure(channels=offer.urls(served.base(0)))
    offer.publish_all(test_conda.pkgs, served.base(0))
    old = test_conda.version() < (25, 0)
    create(test_conda, "--offline", expect=0 if old else 1)
    assert served.requests() == []
    assert bool(installed(test_conda)) is old
