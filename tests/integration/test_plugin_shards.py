"""What conda's solver reads of a channel with shards comes by our engine: the index, and the shards into its database.

They run with a conda that reads shards, named by RESUME_DL_TEST_CONDA; the last one with any.
"""

from __future__ import annotations

import json
import subprocess
import time

import pytest
import zstandard

from faults.behaviours import Conditional, Drop, Headers, Quota, Status
from support.plugin import our_lines
from support.real_channel import closure_of
from support.shards import INDEX, archives_of, record_of, shard_of, write_shards, write_whole

pytestmark = pytest.mark.conda

DROP = 40_000
"""Bytes of every answer after which the connection ends: less than the shard index, more than any shard."""
LINE = [f"link{number}" for number in range(12)]
"""Each depends on the next one."""
READ = """
import json, sys
from pathlib import Path
from conda._private.shards.cache import ShardCache
with ShardCache(Path(sys.argv[1]), create=False) as cache:
    urls = [url for (url,) in cache.conn.execute("SELECT url FROM shards")]
    shards = cache.retrieve_multiple(urls)
print(json.dumps({url: sorted(shard["packages.conda"]) for url, shard in shards.items()}))
"""


def chain():
    """Subdir -> archives: a line of dependencies that changes between the subdirs, and many names that none needs."""
    records = [
        record_of(name, "1.0", (LINE[number + 1],) if LINE[number + 1 :] else ()) for number, name in enumerate(LINE)
    ]
    here = archives_of(*records[::2], *(record_of(f"other{number}", "1.0") for number in range(2000)))
    anywhere = archives_of(*({**record, "subdir": "noarch", "noarch": "generic"} for record in records[1::2]))
    return {"linux-64": here, "noarch": anywhere}


CHANNEL = chain()


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """The channel, also as a mirror has it that lacks the index."""
    root = tmp_path_factory.mktemp("sharded")
    for subdir, archives in CHANNEL.items():
        write_whole(root / "lab" / subdir, archives)
        write_shards(root / "lab" / subdir, archives)
        write_shards(root / "mirror" / subdir, archives)
        (root / "mirror" / subdir / INDEX).unlink()
    return root


@pytest.fixture
def server(lab, fault_server):
    server = fault_server(ports=2)
    server.mount(lab)
    server.always(0, Conditional(), Drop(after=DROP))
    return server


@pytest.fixture
def conda(test_conda, server):
    test_conda.configure(channels=[f"{server.base()}/lab"])
    return test_conda


@pytest.fixture
def rattler(conda):
    """A conda whose solver reads shards."""
    has = [str(conda.python), "-c", "import conda_rattler_solver, conda.gateways.shards"]
    if subprocess.run(has, capture_output=True, check=False).returncode != 0:
        pytest.skip("this conda has no solver that reads shards; name one that has by RESUME_DL_TEST_CONDA")
    conda.configure(solver="rattler")
    return conda


def create(conda, *arguments, expect=0, wanted=LINE[0], **options):
    done = conda.run("create", "-p", conda.folder / "env", wanted, "--dry-run", *arguments, **options)
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def asked(server, *, ours, path="*.msgpack.zst", since=0):
    """The files of shards, indexes among them, that were asked for by us, or by conda."""
    found = server.requests(path=path)[since:]
    return [one.path for one in found if one.headers["user-agent"].startswith("resume-dl/") is ours]


def database(conda):
    """conda's database, as conda's own class reads it: address -> archives."""
    command = [str(conda.python), "-c", READ, str(conda.pkgs / "cache")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=conda.environment())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_conda_requests_no_shard(rattler, server):
    """On a line that breaks every answer off: the index goes on, the closure is ours, and the next create has all."""
    create(rattler, plugin=False, expect=1)
    before = len(server.requests(path="*.msgpack.zst"))
    done = create(rattler)
    assert all(name in done.stdout for name in LINE)
    assert our_lines(done.stderr) == []
    assert asked(server, ours=False, since=before) == []
    kept = database(rattler)
    assert {archive.partition("-")[0] for archives in kept.values() for archive in archives} == closure_of(
        CHANNEL, LINE[:1]
    )
    assert all(url.startswith(f"{server.base()}/lab/") for url in kept)

    before = len(server.requests(path="*.msgpack.zst"))
    create(rattler)
    assert {path.rpartition("/")[2] for path in asked(server, ours=True, since=before)} <= {INDEX}
    assert asked(server, ours=False, since=before) == []
    without = len(server.requests(path="*.msgpack.zst"))
    create(rattler, plugin=False)  # what was written is conda's own: it needs nothing but a 304 of its indexes
    assert {path.rpartition("/")[2] for path in asked(server, ours=False, since=without)} == {INDEX}


def test_a_fresh_index_leads_to_other_shards(rattler, server):
    """Nothing but the shards of what is new is asked for while conda takes its indexes for fresh."""
    server.always(0, Conditional(), Drop(after=DROP), Headers({"Cache-Control": "public, max-age=1200"}))
    create(rattler, wanted=LINE[6])
    assert len(database(rattler)) == len(LINE[6:])
    before = len(server.requests(path="*.msgpack.zst"))
    assert our_lines(create(rattler).stderr) == []
    assert asked(server, ours=False) == []
    new = asked(server, ours=True, since=before)
    assert {path.rpartition("/")[2] for path in new} & {INDEX} == set()
    assert len(set(new)) == len(LINE[:6])
    kept = len(server.requests())
    create(rattler)
    found = rattler.run("search", LINE[0])
    assert f"{LINE[0]} " in found.stdout
    assert len(server.requests()) == kept


def test_search_reads_the_shard_of_its_name_alone(rattler, server):
    """``conda search`` follows no dependency, so nor do we."""
    done = rattler.run("search", LINE[0])
    assert done.returncode == 0, done.stdout + done.stderr
    assert asked(server, ours=False) == []
    assert [*database(rattler).values()] == [[f"{LINE[0]}-1.0-h0_0.conda"]]


def test_the_index_decides_and_mirrors_have_the_shards(rattler, server, lab):
    """While the channel's server gives no shard, they come from a mirror by their hashes; a wrong one is not taken."""
    path = rattler.folder / "mirrors.toml"
    path.write_text(
        f'schema = 1\n[origins]\n"conda:lab" = "{server.base()}/lab"\n'
        f'[[mirror]]\nname = "m"\n[mirror.carries]\n"conda:lab" = "{server.base(1)}/mirror"\n',
        encoding="utf-8",
    )
    rattler.configure(plugins={"resume_dl_mirrors": str(path)})
    server.always(0, Status(503), path="/lab/*/[0-9a-f]*.msgpack.zst")
    create(rattler)
    assert asked(server, ours=False) == []
    assert len(database(rattler)) == len(LINE)
    assert all(url.startswith(f"{server.base()}/lab/") for url in database(rattler))


def test_refused_shards_are_left_to_conda(rattler, server, lab):
    """Bytes of another hash get into no database by us; conda, which compares none, goes on, and ``-v`` says so."""
    subdir, number = ("noarch", 11)
    (address,) = [
        f"/lab/{subdir}/{path.name}"
        for path in (lab / "lab" / subdir).glob("*.msgpack.zst")
        if path.name != INDEX and LINE[number].encode() + b"-" in zstandard.decompress(path.read_bytes())
    ]
    record = record_of(LINE[number], "2.0", subdir="noarch", noarch="generic")
    server.put(address, shard_of(archives_of(record)))
    server.always(0, Conditional())
    done = create(rattler, "-v")
    assert set(asked(server, ours=False)) == {address}
    (said,) = our_lines(done.stderr)
    assert "shards are left to conda" in said
    assert LINE[number] in said


OTHER_CONDA = {
    "class": "del cache.AnnotatedRawShard",
    "arguments": "real = cache.AnnotatedRawShard; cache.AnnotatedRawShard = lambda *, address, data: None",
}
"""What a conda might do otherwise, in a plugin that stands in for it."""


@pytest.mark.parametrize("part", OTHER_CONDA)
def test_an_unknown_conda_is_left_to_itself(rattler, server, part):
    """One that keeps shards in another way is given none: no error, one line with ``-v``, and conda's own requests."""
    load = "import conda.gateways.shards\nfrom conda._private.shards import cache\n"
    rattler.add_plugin("other", entry="other = other", source=f"{load}{OTHER_CONDA[part]}\n")
    server.always(0, Conditional())
    done = create(rattler, "-v")
    (said,) = our_lines(done.stderr)
    assert "shards are left to conda" in said
    assert asked(server, ours=False)


@pytest.mark.parametrize("setting", ["resume_dl_index", "resume_dl_prefetch"])
def test_the_plugin_is_switched_off(rattler, server, setting):
    """``never`` leaves shards to conda, and offline none is asked for."""
    server.always(0, Conditional())
    rattler.configure(plugins={setting: "never"})
    create(rattler)
    assert asked(server, ours=True) == []
    before = len(server.requests())
    rattler.configure(plugins={})
    create(rattler, "--offline")
    assert len(server.requests()) == before


def test_a_killed_run_keeps_its_shards(rattler, server):
    """kill -9 between two shards: the next run asks for the others, and conda for none."""
    create(rattler, wanted=LINE[11])
    quota = Quota(2000)
    server.always(0, Conditional(), quota, path="/lab/*/[0-9a-f]*.msgpack.zst")
    process = rattler.start("create", "-p", rattler.folder / "env", LINE[0], "--dry-run")
    shards = rattler.home / ".cache" / "resume-dl" / "repodata" / "shards"
    deadline = time.monotonic() + 60
    while len(kept := {path.name for path in shards.glob("*.msgpack.zst")}) < 3:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.communicate(timeout=60)
    quota.lift()
    assert len(database(rattler)) == 1
    before = len(server.requests(path="*.msgpack.zst"))
    create(rattler)
    assert asked(server, ours=False) == []
    assert not kept & {path.rpartition("/")[2] for path in asked(server, ours=True, since=before)}
    assert len(database(rattler)) == len(LINE)


def test_two_conda_processes_at_once(rattler, server):
    """Both bring the closure into one database."""
    both = [rattler.start("create", "-p", rattler.folder / name, LINE[0], "--dry-run") for name in ("one", "two")]
    for process in both:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, out + err
        assert our_lines(err) == []
    assert asked(server, ours=False) == []
    assert len(database(rattler)) == len(LINE)


def test_no_shards_are_fetched_for_a_solver_without_shards(conda, server):
    """Any conda, with its classic solver: no shard and no line."""
    server.always(0, Conditional())
    done = create(conda)
    assert our_lines(done.stderr) == []
    assert server.requests(path="*.msgpack.zst") == []


BRING = """
from types import SimpleNamespace as Any
from conda.base.context import context
from resume_dl.conda_plugin import compat, solver_shards
from resume_dl.conda_plugin.solver import Closure
try:
    import conda.gateways.shards
except ImportError:
    compat.is_verbose = lambda: True
    index = Any(key=("https://example.org", "repodata.json"), has_shards=lambda: True)
    closure = Closure(lambda: {"a"}, follow=True)
    solver_shards.fetch_solver_shards([index], closure, None, None, Any(cancelled=lambda: False))
"""


def test_a_conda_without_a_database_of_shards(conda):
    """What would write one finds none before conda 26.7, and says so in a line of ``-v``."""
    done = subprocess.run(
        [str(conda.python), "-c", BRING], capture_output=True, text=True, check=False, env=conda.environment()
    )
    assert done.returncode == 0, done.stderr
    if conda.conda.python is None:
        (said,) = our_lines(done.stderr)
        assert "shards are left to conda (ModuleNotFoundError" in said


SYNCED = """
import json, os, sys
from pathlib import Path
from conda.base.context import context, reset_context
reset_context((os.environ["CONDARC"],))
from resume_dl.conda_plugin.index_cache import SHARDS_FN, CondaIndex
from resume_dl.model.http import CacheHeaders
from resume_dl.store import platform
synced = set()
platform.sync_fd = lambda fd: synced.add(os.fstat(fd).st_ino)
sharded = sys.argv[2] == "sharded"
index = CondaIndex("https://example.org/lab/linux-64", "repodata.json", sharded=sharded)
index.take(SHARDS_FN if sharded else "repodata.json", Path(sys.argv[1]), CacheHeaders(etag="v1"), None)
cache = index._fetch.repo_cache
kept = cache.cache_path_shards if sharded else cache.cache_path_json
assert kept.read_bytes() == Path(sys.argv[1]).read_bytes()
assert kept.stat().st_ino in synced, "a power cut leaves conda's validator of bytes that are not there"
assert "v1" in cache.cache_path_state.read_text()
assert not [*kept.parent.glob("*.tmp")]
"""


@pytest.mark.parametrize("form", ["whole", "sharded"])
def test_an_index_is_synced_before_conda_notes_its_validator(conda, lab, form):
    """conda's own rename follows the sync: no power cut leaves an ETag of bytes that were lost."""
    if form == "sharded" and conda.conda.python is None:
        pytest.skip("this conda has no index of shards; name one that has by RESUME_DL_TEST_CONDA")
    index = lab / "lab" / "linux-64" / (INDEX if form == "sharded" else "repodata.json")
    command = [str(conda.python), "-c", SYNCED, str(index), form]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=conda.environment())
    assert done.returncode == 0, done.stderr


def test_the_same_shards_at_another_address(rattler, server, lab):
    """The database knows the bytes under the first channel's address; conda looks below the second's."""
    server.always(0, Conditional())
    create(rattler)
    for path in (lab / "lab").rglob("*"):
        if path.is_file():
            server.put(f"/twin/{path.relative_to(lab / 'lab').as_posix()}", path.read_bytes())
    rattler.configure(channels=[f"{server.base()}/twin"])
    before = len(server.requests(path="*.msgpack.zst"))
    create(rattler)
    assert asked(server, ours=False, since=before) == []
    assert len(database(rattler)) == 2 * len(LINE)
    assert {path.rpartition("/")[2] for path in asked(server, ours=True, since=before)} == {INDEX}


POISON = """
import sqlite3, sys
from conda._private.shards.cache import SHARD_CACHE_NAME
with sqlite3.connect(f"{sys.argv[1]}/{SHARD_CACHE_NAME}") as connection:
    connection.execute("UPDATE shards SET shard = ? WHERE package = ?", (open(sys.argv[2], "rb").read(), sys.argv[3]))
"""


def test_a_poisoned_row_is_replaced(rattler, server):
    """A shard of another hash, as a conda alone, which compares none, was given it: it would solve on it for ever."""
    server.always(0, Conditional())
    create(rattler)
    forged = rattler.folder / "forged"
    record = record_of(LINE[11], "9.9", subdir="noarch", noarch="generic")
    forged.write_bytes(shard_of(archives_of(record)))
    command = [str(rattler.python), "-c", POISON, str(rattler.pkgs / "cache"), str(forged), LINE[11]]
    assert subprocess.run(command, check=False, env=rattler.environment()).returncode == 0
    assert [f"{LINE[11]}-9.9-h0_0.conda"] in database(rattler).values()
    done = create(rattler)
    assert "9.9" not in done.stdout
    assert [f"{LINE[11]}-9.9-h0_0.conda"] not in database(rattler).values()
