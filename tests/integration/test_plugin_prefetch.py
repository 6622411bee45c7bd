"""A real conda with the plugin fetches through our engine: from every mirror, resumable, and never worse off."""

from __future__ import annotations

import json
import shutil

import pytest

from support.conda_cache import SPEC

pytestmark = pytest.mark.conda


@pytest.fixture
def served(offer, nginx_mirrors):
    """The same channels at three places: the one that conda asks, and two mirrors of it."""
    return nginx_mirrors([offer.root, offer.root, offer.root])


def mirrors_file(folder, served, *, bad=""):
    """A mirrors.toml that says so."""
    lines = ["schema = 1", "[origins]"]
    origins = {"conda:test-pytorch": "pytorch", "conda:test-main": "pkgs/main"}
    lines += [f'"{name}" = "{served.base(0)}/{place}"' for name, place in origins.items()]
    for number in (1, 2):
        lines += ["[[mirror]]", f'name = "m{number}"', "[mirror.carries]"]
        lines += [f'"{name}" = "{served.base(number)}/{place}"' for name, place in origins.items()]
    path = folder / "mirrors.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + bad, encoding="utf-8")
    return path


def create(conda, *arguments, expect=0, name="env", **options):
    done = conda.run("create", "-p", conda.folder / name, *SPEC, *arguments, **options)
    assert done.returncode == expect, done.stdout + done.stderr
    assert "resume-dl: " not in done.stdout
    return done


def records(conda, name="env"):
    """What conda remembers of each linked package, less what differs between any two runs."""
    found = {}
    for path in (conda.folder / name / "conda-meta").glob("*.json"):
        record = json.loads(path.read_text())
        found[path.name] = {key: value for key, value in record.items() if key != "link"}
    return found


def test_every_archive_is_fetched_by_us_from_every_mirror_and_the_result_is_condas_own(test_conda, offer, served):
    """No archive is asked for by conda; its records are those that it writes without us."""
    test_conda.configure(
        channels=offer.urls(served.base(0)),
        plugins={"resume_dl_mirrors": str(mirrors_file(test_conda.folder, served))},
    )
    create(test_conda, plugin=False)
    expected = records(test_conda)
    shutil.rmtree(test_conda.pkgs)
    served.reset_log()
    create(test_conda, name="second")
    asked = served.archive_requests()
    assert len(asked) == len(offer.wanted)
    assert all(request.is_ours for request in asked)
    assert {request.mirror for request in asked} > {1}
    found = records(test_conda, "second")
    assert found == expected
    again = create(test_conda, name="third", plugin=False)
    assert len(served.archive_requests()) == len(asked), again.stdout
