"""The main job whole: ``resume-dl fetch``, then a real conda that downloads nothing. nginx counts."""

from __future__ import annotations

import json
import shlex

import pytest

from support.conda_cache import SPEC
from support.fetching import user_of

pytestmark = pytest.mark.conda


@pytest.fixture
def served(offer, nginx_mirrors):
    """The same channels at two mirrors."""
    return nginx_mirrors([offer.root, offer.root])


@pytest.fixture
def user(test_conda, served, tmp_path):
    """A user whose resume-dl asks the very conda that installs afterwards, with its condarc."""
    use_mirror(test_conda, served, 0)
    return user_of(test_conda, served, tmp_path)


def use_mirror(conda, served, number):
    """A condarc whose channels are this mirror's addresses."""
    conda.configure(channels=[f"{served.base(number)}/pytorch", f"{served.base(number)}/pkgs/main"])
    conda.environment()


def use_mirror_by_names(conda, served, number):
    """A condarc as the mirrors' help pages have it: channels by name, and where this mirror has them."""
    base = served.base(number)
    conda.configure(
        channels=["pytorch", "defaults"],
        custom_channels={"pytorch": base},
        default_channels=[f"{base}/pkgs/main"],
    )
    conda.environment()


def create(conda, *arguments, expect=0, env="env", **options):
    done = conda.run("create", "-p", conda.folder / env, *SPEC, *arguments, **options)
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def linked(conda, env="env"):
    """File names of what is installed."""
    metas = (conda.folder / env / "conda-meta").glob("*.json")
    return {json.loads(path.read_text())["fn"] for path in metas}


def fetched(done):
    assert done.code == 0, done.out + done.err
    return {artifact["filename"] for artifact in done.report["artifacts"]}


def expected(offer):
    return {package.filename for package in offer.wanted.values()}


@pytest.mark.parametrize("plugin", [True, False])
def test_same_url(test_conda, user, served, offer, plugin):
    """Fetched as condarc says: conda links exactly these files and asks for no archive, even without the plugin."""
    files = fetched(user.fetch("pytorch=1.7", "--json"))
    assert files == expected(offer)
    user.assert_complete(offer.wanted)
    served.reset_log()
    create(test_conda, plugin=plugin)
    assert served.archive_requests() == []
    assert linked(test_conda) == files


def test_another_mirror(test_conda, user, served, offer):
    """The condarc names another mirror the next day: the plugin makes conda reuse all; without it all is downloaded."""
    files = fetched(user.fetch("pytorch=1.7", "--json"))
    use_mirror(test_conda, served, 1)
    served.reset_log()
    create(test_conda)
    assert served.archive_requests() == []
    assert linked(test_conda) == files


def test_another_mirror_without_the_plugin(test_conda, user, served, offer):
    """The same without the plugin: every archive is asked for."""
    fetched(user.fetch("pytorch=1.7", "--json"))
    use_mirror(test_conda, served, 1)
    served.reset_log()
    create(test_conda, plugin=False)
    assert len(served.archive_requests()) == len(offer.wanted)


@pytest.mark.parametrize("plugin", [True, False])
def test_channels_by_name(test_conda, user, served, offer, plugin):
    """With channels by name and the mirror in custom_channels conda itself knows the packages again."""
    use_mirror_by_names(test_conda, served, 0)
    files = fetched(user.fetch("pytorch=1.7", "--json"))
    use_mirror_by_names(test_conda, served, 1)
    served.reset_log()
    create(test_conda, plugin=plugin)
    assert served.archive_requests() == []
    assert linked(test_conda) == files


@pytest.mark.parametrize("plugin", [True, False])
def test_hand_placed(test_conda, user, served, offer, plugin):
    """Plain files by --dest, copied into the cache by hand without urls.txt: the plugin spares their download."""
    files = fetched(user.fetch("pytorch=1.7", "--json", "--dest", user.folder / "plain"))
    test_conda.pkgs.mkdir(exist_ok=True)
    for name in files:
        (user.folder / "plain" / name).rename(test_conda.pkgs / name)
    served.reset_log()
    create(test_conda, plugin=plugin)
    assert len(served.archive_requests()) == (0 if plugin else len(files))
    assert linked(test_conda) == files


def test_offline(test_conda, user, served, offer):
    """With --offline conda installs all of it and asks nobody (it needs its own index of an earlier run)."""
    create(test_conda, "--dry-run")
    files = fetched(user.fetch("pytorch=1.7", "--json"))
    served.reset_log()
    create(test_conda, "--offline")
    assert served.requests() == []
    assert linked(test_conda) == files


def test_the_command_that_fetch_names(test_conda, user, served, offer):
    """What fetch prints at its end (conda create --file LOCK) links exactly these files and asks for no archive."""
    done = user.fetch("pytorch=1.7", "--json")
    files = fetched(done)
    assert f"--name NAME --file {user.own['state']}" in done.report["next_command"]
    served.reset_log()
    words = shlex.split(done.report["next_command"].replace("NAME", "made"))
    assert words.pop(0) == "conda"
    ran = test_conda.run(*words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert served.archive_requests() == []
    assert linked(test_conda, "envs/made") == files


def test_solver_conda_chooses_the_same(test_conda, user, served):
    """``--solver conda`` asks the user's conda, and gives the very artifacts that rattler gives."""
    rattler = user.fetch("pytorch=1.7", "--json", "--dry-run")
    conda = user.fetch("pytorch=1.7", "--json", "--dry-run", "--solver", "conda")
    assert fetched(rattler) == fetched(conda)

    def key(done):
        names = ("filename", "url", "size", "sha256", "md5", "subdir", "channel", "name", "version", "build", "kind")
        return sorted(tuple(str(each[name]) for name in names) for each in done.report["artifacts"])

    assert key(rattler) == key(conda)
    assert served.archive_requests() == []
    done = user.fetch("pytorch=1.7", "--json", "--solver", "conda")
    assert set(done.statuses.values()) == {"downloaded"}
    again = user.fetch("pytorch=1.7", "--json", "--solver", "conda", "--dry-run")
    assert fetched(again) == fetched(rattler)
    assert set(again.statuses.values()) == {"cached"}
