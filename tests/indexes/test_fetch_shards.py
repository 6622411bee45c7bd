"""``fetch`` by shards: the same packages as from whole indexes, whatever of the shards is missing."""

from __future__ import annotations

import json

import pytest

from resume_dl.indexes.shards import FILENAME
from support.shard_mirrors import LINUX
from support.shard_user import ShardUser
from support.shards import archives_of, record_of, write_shards, write_whole

pytestmark = pytest.mark.nginx
WHOLE = {"repodata.json.zst", "repodata.json"}
CHOSEN = {"app", "lib", "python", "data", "base", "pip"}


def names(chosen: dict[str, str]) -> set[str]:
    return {filename.partition("-")[0] for filename in chosen}


def test_shards_and_whole_indexes_choose_the_same(shard_user: ShardUser) -> None:
    by_shards = shard_user.fetch("app")
    assert by_shards.code == 0, by_shards.err
    assert FILENAME in shard_user.asked()
    assert not WHOLE & shard_user.asked()
    shard_user.of.nginx.reset_log()
    by_whole = shard_user.fetch("app", "--no-shards")
    assert shard_user.asked() == {"repodata.json.zst"}
    assert shard_user.chosen(by_shards) == shard_user.chosen(by_whole)
    assert names(shard_user.chosen(by_shards)) == CHOSEN
    assert by_shards.report["notes"] == by_whole.report["notes"]


def test_config_toml_may_leave_shards_out(shard_user: ShardUser) -> None:
    shard_user.own["config"].mkdir(parents=True)
    (shard_user.own["config"] / "config.toml").write_text("no-shards = true\n")
    assert shard_user.fetch("app").code == 0
    assert shard_user.asked() == {"repodata.json.zst"}


def test_temporary_files_for_the_solver_are_removed(shard_user: ShardUser) -> None:
    assert shard_user.fetch("app").code == 0
    kept = shard_user.own["cache"] / "repodata" / "shards"
    assert {path.suffix for path in kept.iterdir()} == {".zst", ".index"}


def test_a_channel_without_shards_may_depend_on_one_that_has_them(shard_user: ShardUser) -> None:
    folder = shard_user.of.root(0) / "plain"
    tool = record_of("tool", "1.0", ("other >=5",))
    write_whole(folder / "linux-64", archives_of(tool, record_of("far9", "9.0")))
    write_whole(folder / "noarch", {})
    plain = f"{shard_user.of.nginx.base(0)}/forge/plain"
    by_shards = shard_user.fetch("tool", "-c", plain)
    assert by_shards.code == 0, by_shards.err
    assert any(name.endswith(".msgpack.zst") and name != FILENAME for name in shard_user.asked())
    chosen = shard_user.chosen(by_shards)
    assert chosen == shard_user.chosen(shard_user.fetch("tool", "-c", plain, "--no-shards"))
    assert names(chosen) == {"tool", "other", "far39"}


def test_a_mistyped_name_is_compared_with_all_names(shard_user: ShardUser) -> None:
    done = shard_user.fetch("noise12x")
    assert done.code == 3
    assert "noise12" in done.report["error"]["hint"]
    assert not WHOLE & shard_user.asked()


def test_a_new_package_is_found_in_an_index_that_was_fresh(shard_user: ShardUser) -> None:
    assert shard_user.fetch("app", "--index-max-age", "1h").code == 0
    write_shards(shard_user.of.root(0) / "linux-64", {**LINUX, **archives_of(record_of("newcomer", "1.0"))})
    shard_user.of.nginx.reset_log()
    done = shard_user.fetch("newcomer", "--index-max-age", "1h")
    assert done.code == 0, done.err
    assert names(shard_user.chosen(done)) == {"newcomer"}
    assert not WHOLE & shard_user.asked()


def test_offline_solves_with_kept_shards(shard_user: ShardUser) -> None:
    online = shard_user.fetch("app")
    shard_user.of.nginx.reset_log()
    offline = shard_user.fetch("app", "--offline")
    assert shard_user.chosen(offline) == shard_user.chosen(online)
    missing = shard_user.fetch("other", "--offline")
    assert missing.code != 0
    assert "lack packages" in missing.report["error"]["message"]
    assert shard_user.of.nginx.requests() == []


def test_an_existing_environment(shard_user: ShardUser) -> None:
    """What is installed is followed too, and what it depends on, though nobody asks for it."""
    meta = shard_user.folder / "env" / "conda-meta"
    meta.mkdir(parents=True)
    for record in (record_of("tool", "1.0", ("far7 <1",)), record_of("far7", "0.9"), record_of("lib", "1.0")):
        stem = f"{record['name']}-{record['version']}-{record['build']}"
        place = "https://gone.example/linux-64"
        more = {"fn": f"{stem}.conda", "url": f"{place}/{stem}.conda", "channel": place, "files": []}
        whole = {**record, **more, "paths_data": {"paths": [], "paths_version": 1}}
        (meta / f"{stem}.json").write_text(json.dumps(whole))
    done = shard_user.fetch("app", "-p", shard_user.folder / "env")
    assert done.code == 0, done.err
    assert len(shard_user.asked()) == 1 + len({"app", "lib", "python", "far7", "data", "base", "pip"})
    chosen = shard_user.chosen(done)
    assert names(chosen) == {"app", "python", "pip"}, "lib and far7 stay as they are"
    assert chosen == shard_user.chosen(shard_user.fetch("app", "-p", shard_user.folder / "env", "--no-shards"))
