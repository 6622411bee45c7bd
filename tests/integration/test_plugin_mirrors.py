"""conda's own index where its server cannot be reached: from mirrors that agree, or from one that the user named."""

from __future__ import annotations

import json
import subprocess

import pytest

from faults.behaviours import Conditional, NeverAnswer, Status
from resume_dl.demo.channel import PackageSpec, build_channel
from support.plugin import our_lines

pytestmark = pytest.mark.conda

AUTHORITY, GOOD, FINE, EVIL = range(4)
SOON = {"RESUME_DL_GIVE_UP_AFTER": "5"}
"""Seconds for a server that does not answer: the default is 8."""


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """An honest channel, and one whose package of the same name brings something else."""
    root = tmp_path_factory.mktemp("lab")
    tool = {"name": "tool", "version": "1.0", "payload_size": 20_000, "subdir": "noarch"}
    build_channel(root / "honest" / "lab", [PackageSpec(**tool, files={"share/whose": b"honest"})])
    build_channel(root / "evil" / "lab", [PackageSpec(**tool, files={"share/whose": b"trojan"})])
    return root


@pytest.fixture
def server(lab, fault_server):
    server = fault_server(ports=4)
    server.mount(lab)
    server.always(AUTHORITY, Conditional())
    return server


@pytest.fixture
def conda(test_conda, server):
    """A conda of the channel, whose mirrors are two honest ones and a hostile one, in this order."""
    use(test_conda, server, good=GOOD, fine=FINE, evil=EVIL)
    return test_conda


def use(conda, server, **mirrors):
    origin = f"{server.base(AUTHORITY)}/honest/lab"
    lines = ["schema = 1", "[origins]", f'"conda:lab" = "{origin}"']
    for name, port in mirrors.items():
        place = "evil" if name == "evil" else "honest"
        lines += ["[[mirror]]", f'name = "{name}"', f'operator = "{name}"', "[mirror.carries]"]
        lines += [f'"conda:lab" = "{server.base(port)}/{place}/lab"']
    path = conda.folder / "mirrors.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    conda.configure(channels=[origin], plugins={"resume_dl_mirrors": str(path)})


def create(conda, name, *, expect=0, env=None):
    done = conda.run("create", "-p", conda.folder / name, "tool", env={**SOON, **(env or {})})
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def whose(conda, name):
    return (conda.folder / name / "share" / "whose").read_text()


def states(conda):
    return [json.loads(path.read_text()) for path in (conda.pkgs / "cache").glob("*.info.json")]


def index_statuses(server, since):
    return {one.status for one in server.requests(AUTHORITY, "*repodata*")[since:]}


def test_mirrors_that_agree_stand_in_for_a_silent_server(conda, server):
    """And no longer than it is silent: the next create asks it again, for the whole or by its own validator."""
    conda.configure(local_repodata_ttl=3600)  # conda then takes what is younger for fresh, whatever servers say
    server.always(AUTHORITY, NeverAnswer())
    done = create(conda, "silent")
    assert whose(conda, "silent") == "honest"
    host = server.base(AUTHORITY).removeprefix("http://")
    assert our_lines(done.stderr) == [
        f"resume-dl: index of lab: {host} cannot be reached; records on which good and fine agree"
    ]
    assert server.requests(EVIL) == []
    assert not [one for one in server.requests(AUTHORITY) if not one.headers["user-agent"].startswith("resume-dl/")]
    assert {(state["etag"], state["mod"], state["cache_control"]) for state in states(conda)} == {("", "", "")}

    server.always(AUTHORITY, Conditional())
    before = len(server.requests(AUTHORITY, "*repodata*"))
    assert our_lines(create(conda, "again").stderr) == []
    assert 200 in index_statuses(server, before)
    its_own = states(conda)
    conda.configure(local_repodata_ttl=None)

    server.always(AUTHORITY, Status(500))
    assert "good and fine agree" in create(conda, "broken").stderr
    assert states(conda) == its_own  # conda's copy and its validators are put back
    server.always(AUTHORITY, Conditional())
    before = len(server.requests(AUTHORITY, "*repodata*"))
    create(conda, "third")
    assert index_statuses(server, before) == {304}


@pytest.mark.parametrize("mirrors", [("evil", "good"), ("good", "evil"), ("good",)])
def test_mirrors_that_do_not_agree_are_not_trusted(conda, server, mirrors):
    """conda then ends as without us, or finds no such package."""
    ports = {"good": GOOD, "evil": EVIL}
    use(conda, server, **{name: ports[name] for name in mirrors})
    server.always(AUTHORITY, Status(500))
    done = create(conda, "env", expect=1, env={"RESUME_DL_GIVE_UP_AFTER": "1"})
    (said,) = our_lines(done.stderr)
    if len(mirrors) == 1:
        assert "conda continues on its own" in said
        assert server.requests(GOOD) == []
    else:
        assert said.endswith("; ignoring records on which they disagree: tool-1.0-0.conda")
        assert "PackagesNotFound" in done.stdout + done.stderr
    assert not (conda.folder / "env" / "share").exists()
    assert server.requests(EVIL, "*.conda") == []


def test_a_mirror_named_by_index_from_is_trusted(conda, server):
    """In config.toml, and said in one line; the channel's own server is not asked."""
    use(conda, server, evil=EVIL)
    folder = conda.folder / "config"
    folder.mkdir()
    (folder / "config.toml").write_text('[trust]\nindex_from = ["evil"]\n', encoding="utf-8")
    done = create(conda, "env", env={"RESUME_DL_CONFIG_DIR": str(folder)})
    assert whose(conda, "env") == "trojan"
    assert our_lines(done.stderr) == ["resume-dl: index of lab from evil, as index_from says"]
    assert server.requests(AUTHORITY, "*repodata*") == []


def test_with_the_rattler_solver(conda, server):
    """A solver that asks for shards first takes the whole index this once, and asks for shards the next time."""
    has = [str(conda.python), "-c", "import conda_rattler_solver"]
    if subprocess.run(has, capture_output=True, check=False).returncode != 0:
        pytest.skip("this conda has no conda-rattler-solver; name one that has by RESUME_DL_TEST_CONDA")
    conda.configure(solver="rattler")
    server.always(AUTHORITY, Status(500))
    done = create(conda, "silent")
    assert whose(conda, "silent") == "honest"
    assert [line for line in our_lines(done.stderr) if "good and fine agree" in line]
    assert not [state for state in states(conda) if "has_shards" in state]
    server.always(AUTHORITY, Conditional())
    before = len(server.requests(AUTHORITY, "*repodata*"))
    assert our_lines(create(conda, "again").stderr) == []
    asked = {one.path.rpartition("/")[2] for one in server.requests(AUTHORITY, "*repodata*")[before:]}
    assert {"repodata_shards.msgpack.zst", "repodata.json.zst"} <= asked
