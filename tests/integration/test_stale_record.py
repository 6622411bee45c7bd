"""Sources that agree on bytes which the index denies: the record is asked for anew, and the bytes are kept."""

from __future__ import annotations

import json
import shutil

import pytest

from resume_dl.demo.channel import PackageSpec, build_channel
from resume_dl.store.part import FOLDER
from support.fetching import User, index_from

MIB = 1 << 20
SPEC = PackageSpec(name="replaced", version="1.0", payload_size=3 * MIB, seed=1)
WANTED = ("replaced", "--no-deps", "--json")


@pytest.fixture(scope="module")
def replaced(tmp_path_factory):
    """A package that was replaced under its name: ``stale`` has the old record beside the new archive."""
    root = tmp_path_factory.mktemp("replaced")
    new = build_channel(root / "fresh" / "pytorch", [SPEC]).packages[0]
    old = build_channel(root / "old" / "pytorch", [PackageSpec(**{**fields(SPEC), "seed": 2})]).packages[0]
    assert old.size == new.size
    assert old.sha256 != new.sha256
    shutil.copytree(root / "old", root / "stale")
    shutil.copyfile(new.path, root / "stale" / "pytorch" / new.url_path)
    for name in ("fresh", "stale"):
        build_channel(root / name / "pkgs" / "main", [])
    return root, old, new


def fields(spec):
    return {name: getattr(spec, name) for name in PackageSpec.__dataclass_fields__}


@pytest.fixture
def user(tmp_path):
    user = User(tmp_path / "user")
    user.condarc["channels"] = ["pytorch"]  # two indexes, and two mirrors: nobody asks the origin for one at first
    return user


def serve(user, served, *, mirrors, origin=None):
    """``mirrors``: name -> number of the server; ``origin`` likewise, None for no origin."""
    channels = ("pytorch", "pkgs/main")
    carries = {name: {f"conda:{c}": f"{served.base(at)}/{c}" for c in channels} for name, at in mirrors.items()}
    origins = {} if origin is None else {f"conda:{c}": f"{served.base(origin)}/{c}" for c in channels}
    path = user.write_mirrors(carries, origins=origins)
    trusted = [] if origin is not None else ["--no-upstream", *index_from(mirrors)]
    user.options += ["--mirrors", str(path), *trusted]


def is_index(request):
    return "repodata.json" in request.uri and "/pytorch/linux-64/" in request.uri


@pytest.mark.parametrize("fresh", ["origin", "mirror"])
@pytest.mark.parametrize("place", ["cache", "dest"])
def test_a_replaced_package_is_kept(user, replaced, nginx_mirrors, place, fresh):
    """Stale index at two mirrors, fresh elsewhere: exit 0, and after the fresh index not one archive byte.

    The next run begins with the fresh one, and asks for no archive.
    """
    root, _, new = replaced
    served = nginx_mirrors([root / "stale", root / "stale", root / "fresh"])
    if fresh == "origin":
        serve(user, served, mirrors={"one": 0, "two": 1}, origin=2)
    else:
        serve(user, served, mirrors={"one": 0, "two": 1, "three": 2})
    where = user.folder / "files"
    done = user.fetch(*WANTED, *(["--dest", where] if place == "dest" else []))
    assert done.code == 0, done.err
    asked = [request.began for request in served.requests() if is_index(request) and request.mirror == 2]
    assert asked
    if fresh == "mirror":  # an origin is asked before anything is downloaded
        assert all(request.began <= min(asked) for request in served.archive_requests())
    # once, and once to compare; what of it nginx had given to the kernel as we left depends on how busy the machine is
    assert done.report["totals"]["wasted"] <= new.size + MIB
    artifact = done.artifact("replaced")
    assert (artifact["sha256"], artifact["status"]) == (new.sha256, "downloaded")
    assert done.report["totals"]["downloaded"] == new.size
    folder = where if place == "dest" else user.pkgs
    assert (folder / new.filename).read_bytes() == new.path.read_bytes()
    if place == "dest" or fresh == "mirror":  # the first mirror that was named is believed first in the next run too
        return
    record = json.loads((user.pkgs / new.spec.stem / "info" / "repodata_record.json").read_text())
    assert (record["sha256"], record["md5"], record["size"]) == (new.sha256, new.md5, new.size)
    assert list((user.pkgs / FOLDER).iterdir()) == []
    served.reset_log()
    again = user.fetch(*WANTED)
    assert again.code == 0, again.err
    assert again.statuses == {new.filename: "cached"}
    assert served.archive_requests() == []


def test_the_origin_is_requested_past_caches(user, replaced, fault_server):
    """The fresh index is asked for of all that are believed, with no-cache."""
    root, _, new = replaced
    server = fault_server(ports=2)
    server.mount(root / "stale")
    fresh = root / "fresh" / "pytorch" / "linux-64"
    serve(user, server, mirrors={"one": 0, "two": 1})
    first = user.fetch(*WANTED)
    assert first.code == 4
    for name in ("repodata.json", "repodata.json.zst"):
        server.put(f"/pytorch/linux-64/{name}", (fresh / name).read_bytes())
    # once, and once to compare; what the server had given to the kernel beyond that says how busy the machine is
    assert first.report["totals"]["downloaded"] + first.report["totals"]["wasted"] <= 2 * new.size + MIB
    # the first run's index is kept, and asked for conditionally in the second run's first pass
    before = len(server.requests())
    done = user.fetch(*WANTED)
    assert done.code == 0, done.err
    earlier = [r for r in server.requests(path="/pytorch/linux-64/*.zst")[:before] if "cache-control" in r.headers]
    assert {r.port for r in earlier} == {0, 1}
    assert all(r.headers["cache-control"] == r.headers["pragma"] == "no-cache" for r in earlier)
    assert done.report["totals"]["downloaded"] + done.report["totals"]["wasted"] <= new.size + MIB


def test_another_record_is_fetched(user, replaced, nginx_mirrors, tmp_path):
    """The fresh index knows neither digest but a newer build: that one is fetched."""
    root, _, _ = replaced
    newer = PackageSpec(**{**fields(SPEC), "build": "1", "build_number": 1, "timestamp": SPEC.timestamp + 10_000})
    channel = build_channel(tmp_path / "newer" / "pytorch", [newer])
    build_channel(tmp_path / "newer" / "pkgs" / "main", [])
    served = nginx_mirrors([root / "stale", root / "stale", tmp_path / "newer"])
    serve(user, served, mirrors={"one": 0, "two": 1}, origin=2)
    done = user.fetch(*WANTED)
    assert done.code == 0, done.err
    assert done.statuses == {channel.packages[0].filename: "downloaded"}


def test_the_record_is_wrong_everywhere(user, replaced, nginx_mirrors):
    """No fresher index anywhere: exit 4 with both digests and the names of those that agree; nothing published."""
    root, old, new = replaced
    served = nginx_mirrors([root / "stale", root / "stale"])
    serve(user, served, mirrors={"one": 0, "two": 1})
    done = user.fetch(*WANTED)
    assert done.code == 4, done.err
    message = done.artifact("replaced")["error"]["message"]
    for word in (old.sha256, new.sha256, "one", "two"):
        assert word in message
    assert user.archives() == set()


def test_a_source_of_wrong_bytes_is_not_a_wrong_record(user, replaced, nginx_mirrors):
    """One mirror with other bytes than the record's, one with the right ones: no index is asked for again."""
    root, _, new = replaced
    old_bytes = root / "liar"
    shutil.copytree(root / "fresh", old_bytes, dirs_exist_ok=True)
    shutil.copyfile(root / "old" / "pytorch" / new.url_path, old_bytes / "pytorch" / new.url_path)
    served = nginx_mirrors([old_bytes, root / "fresh"])
    serve(user, served, mirrors={"liar": 0, "good": 1})
    done = user.fetch(*WANTED)
    assert done.code == 0, done.err
    assert done.artifact("replaced")["sha256"] == new.sha256
    asked = ["/repodata" in request.uri for request in served.requests()]
    assert asked == sorted(asked, reverse=True), "indexes first, and none after an archive"


def test_packages_of_a_list_are_compared_on_every_byte(user, replaced, nginx_mirrors):
    """An @EXPLICIT list has no index: no repodata is asked for, and exit 4 names both digests and the sources."""
    root, old, new = replaced
    served = nginx_mirrors([root / "fresh", root / "fresh"])
    serve(user, served, mirrors={"one": 0, "two": 1})
    listed = user.folder / "list.txt"
    listed.write_text(f"@EXPLICIT\n{served.base(0)}/pytorch/{new.url_path}#sha256:{old.sha256}\n")
    done = user.fetch("--json", "--file", listed)
    assert done.code == 4, done.err
    message = done.report["artifacts"][0]["error"]["message"]
    for word in (old.sha256, new.sha256, "one", "two"):
        assert word in message
    assert not any("repodata" in request.uri for request in served.requests())


def test_get_names_the_sources_that_agree(user, replaced, nginx_mirrors):
    """`get --sha256` with a wrong digest and two places that agree: exit 4, both digests, no file."""
    root, old, new = replaced
    served = nginx_mirrors([root / "fresh", root / "fresh"])
    urls = [f"{served.base(at)}/pytorch/{new.url_path}" for at in (0, 1)]
    done = user.run("get", urls[0], "--mirror-url", urls[1], "--sha256", old.sha256, "--json")
    assert done.code == 4, done.err
    message = done.report["artifacts"][0]["error"]["message"]
    assert old.sha256 in message
    assert new.sha256 in message
    hint = done.report["artifacts"][0]["error"]["hint"]
    assert "--mirror-url" in hint
    assert "what is on disk is kept" in hint
    assert not (user.folder / new.filename).exists()


def test_get_without_a_digest_is_not_verified(user, replaced, nginx_mirrors):
    """Where nothing vouches for a file the result says so, to people and in the notes of --json, with its sha256."""
    root, _, new = replaced
    served = nginx_mirrors([root / "fresh"])
    url = f"{served.base(0)}/pytorch/{new.url_path}"
    done = user.run("get", url, "--json")
    assert done.code == 0, done.err
    (note,) = done.report["notes"]
    for said in (note, done.err):
        assert f"{new.filename} is not verified" in said
        assert new.sha256 in said
    other = user.run("get", url, "--sha256", new.sha256, "--json", "-o", "verified.conda")
    assert other.report["notes"] == []
    assert "not verified" not in other.err
