"""``verify --repair``: damaged packages are fetched again as far as they are wrong, and nothing else is touched."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from pathlib import Path

import pytest

from faults.behaviours import Status
from resume_dl.demo.channel import PackageSpec, build_channel
from support.conda_cache import Offer, build_large_offer, extract_all

MIB = 1 << 20
LARGE = 3 * MIB


@pytest.fixture(scope="module")
def offer(tmp_path_factory):
    """The channels with a pytorch that is large enough for a journal."""
    root = tmp_path_factory.mktemp("offer")
    made = build_large_offer(root / "channels", large=LARGE)
    extract_all((package.path for package in made.wanted.values()), root / "extracted")
    return Offer(made.root, made.wanted, root / "extracted")


@pytest.fixture
def cache(offer, server, user):
    """The user's package cache, all of it right, as fetched from the first mirror."""
    offer.publish_all(user.pkgs, server.base(0))
    return user.pkgs


def flip(path, *offsets):
    """Invert bytes at their place."""
    data = bytearray(path.read_bytes())
    for offset in offsets:
        data[offset] ^= 0xFF
    path.write_bytes(data)


def damage(folder):
    """Alter a byte of a file of an extracted package, at its length; returns the file."""
    rows = json.loads((folder / "info" / "paths.json").read_text())["paths"]
    file = folder / next(row["_path"] for row in rows if row["path_type"] == "hardlink" and row["size_in_bytes"])
    flip(file, 0)
    return file


def repaired(user, *options):
    return user.run("verify", "--repair", "--json", "--pkgs-dir", user.pkgs, *user.options[2:], *options)


def tree(folder):
    """Everything in a folder with content."""
    return {path.relative_to(folder): path.is_file() and path.read_bytes() for path in sorted(folder.rglob("*"))}


def test_each_kind_of_damage_is_repaired_by_what_it_needs(offer, server, user, cache):
    """Unpacked again from a right archive; bad pieces of a wrong one; all of a missing one; without a record by its
    own index. What is no package stays, and what was right is not written again."""
    keys = sorted(offer.wanted, key=lambda key: offer.wanted[key].size)
    altered, gone, recordless = (offer.wanted[key] for key in keys[:3])
    large, right = offer.package("pytorch"), offer.wanted[keys[3]]
    before = {each.filename: tree(cache / each.spec.stem) for each in offer.wanted.values()}
    damage(cache / altered.spec.stem)
    damage(cache / gone.spec.stem)
    (cache / gone.filename).unlink()
    flip(cache / large.filename, large.size // 2)
    (cache / recordless.spec.stem / "info" / "repodata_record.json").unlink()
    (cache / recordless.spec.stem / "info" / "index.json").unlink()
    (cache / "notes.txt").write_text("mine")
    (cache / "my-own-folder").mkdir()
    (cache / "my-own-folder" / "file").write_text("mine")
    kept = (cache / right.spec.stem / "info" / "index.json").stat().st_ino
    found = user.run("verify", "--json", "--pkgs-dir", cache)
    assert (found.code, len(found.report["damaged"])) == (4, 4)
    done = repaired(user)
    report = done.report
    assert (done.code, report["error"], report["unrepaired"]) == (0, None, []), done.err
    assert len(report["repaired"]) == 4
    whole = user.run("verify", "--json", "--pkgs-dir", cache).report
    assert (whole["damaged"], whole["unknown"]) == ([], [])
    for package in (altered, gone, large, recordless):
        assert (cache / package.filename).read_bytes() == package.path.read_bytes()
        now = tree(cache / package.spec.stem)
        assert now == before[package.filename]
    assert (cache / "notes.txt").read_text() == "mine"
    assert (cache / "my-own-folder" / "file").read_text() == "mine"
    assert (cache / right.spec.stem / "info" / "index.json").stat().st_ino == kept
    assert server.body_bytes(path=f"*/{altered.filename}") == 0
    assert server.body_bytes(path=f"*/{recordless.filename}") == 0
    assert server.body_bytes(path=f"*/{gone.filename}") >= gone.size
    row = next(each for each in report["artifacts"] if each["filename"] == large.filename)
    assert row["status"] == "resumed"
    assert not list((cache / ".resume-dl").glob("*.part"))


def test_only_what_is_wrong_of_an_archive_is_fetched(server, user, tmp_path):
    """By a .conda's checksums its bad member; of one that was cut off the rest; without proof all of it, once."""
    specs = [
        PackageSpec(name="member", version="1", payload_size=3 * MIB),
        PackageSpec(name="cut", version="1", format="tar.bz2", payload_size=3 * MIB),
        PackageSpec(name="blocks", version="1", format="tar.bz2", payload_size=3 * MIB),
    ]
    packages = build_channel(tmp_path / "more" / "pkgs" / "main", specs).packages
    extract_all([package.path for package in packages], tmp_path / "extracted")
    wanted = {f"pkgs/main/{package.filename}": package for package in packages}
    made = Offer(tmp_path / "more", wanted, tmp_path / "extracted")
    server.mount(made.root)
    made.publish_all(user.pkgs, server.base(0))
    member, cut, blocks = packages
    with zipfile.ZipFile(member.path) as archive:
        info = next(each for each in archive.infolist() if each.filename.startswith("info-"))
    flip(user.pkgs / member.filename, info.header_offset + 60)
    os.truncate(user.pkgs / cut.filename, cut.size * 3 // 4)
    flip(user.pkgs / blocks.filename, blocks.size // 2)
    done = repaired(user, "--connections", "1")  # of several, one may leave an answer of which more is on its way
    assert (done.code, len(done.report["repaired"])) == (0, 3), done.err
    for package in packages:
        assert (user.pkgs / package.filename).read_bytes() == package.path.read_bytes()
    came = {package.spec.name: server.body_bytes(path=f"*/{package.filename}") / package.size for package in packages}
    assert came["member"] < 0.1
    assert came["cut"] < 0.35
    assert came["blocks"] <= 1.0


def test_what_cannot_be_repaired_is_said(offer, server, user, cache):
    """No source has one, nothing is known of another: each with reason and next step, and all of it stays as it is."""
    lost, unknown = (offer.wanted[key] for key in sorted(offer.wanted)[:2])
    server.always(None, Status(404), path=f"*/{lost.filename}")
    damage(cache / lost.spec.stem)
    (cache / lost.filename).unlink()
    (cache / unknown.spec.stem / "info" / "repodata_record.json").unlink()
    (cache / unknown.spec.stem / "info" / "index.json").unlink()
    (cache / "urls.txt").write_text("")
    before = [tree(cache / each.spec.stem) for each in (lost, unknown)]
    done = repaired(user)
    assert done.code == 1  # the mirrors may have it again
    rows = {Path(row["path"]).name: row for row in done.report["unrepaired"]}
    assert {*rows} == {lost.spec.stem, unknown.spec.stem}
    assert "no source has it" in rows[lost.spec.stem]["message"]
    assert "no record" in rows[unknown.spec.stem]["message"]
    assert all(row["hint"] for row in rows.values())
    assert [tree(cache / each.spec.stem) for each in (lost, unknown)] == before
    (cache / lost.spec.stem).rename(user.folder / "away")
    done = repaired(user)
    assert (done.code, done.report["error"]["type"]) == (4, "IntegrityError")
    said = user.run("verify", "--repair", "--pkgs-dir", cache, *user.options[2:])
    assert "not repaired" in said.out
    assert "remove it" in said.out


@pytest.mark.skipif(sys.platform == "win32", reason="making links takes a privilege there")
def test_a_hostile_record_leads_nowhere(offer, server, user, cache):
    """A record that names another file, another package's address, or a link in place of a folder changes nothing."""
    names = sorted(offer.wanted)
    other, linked = offer.wanted[names[0]], offer.wanted[names[1]]
    record_path = cache / other.spec.stem / "info" / "repodata_record.json"
    damage(cache / other.spec.stem)
    (cache / other.filename).unlink()
    record = json.loads(record_path.read_text())
    for changes in (
        {"fn": "../../../evil-1-0.conda", "url": f"{server.base(0)}/pkgs/main/noarch/../../evil-1-0.conda"},
        {"url": f"{server.base(0)}/pkgs/main/noarch/{offer.wanted[names[2]].filename}"},
        {"sha256": "z" * 64, "md5": None},
        {"sha256": ["a"], "size": -1},
        {"url": "\\\\server\\share\\x-1-0.conda"},
    ):
        record_path.write_text(json.dumps({**record, **changes}))
        outside = tree(user.folder.parent / "nothing")
        done = repaired(user)
        assert done.code == 4, changes
        assert [Path(row["path"]).name for row in done.report["unrepaired"]] == [other.spec.stem]
        assert outside == {}
    away = user.folder / "elsewhere"
    (cache / linked.spec.stem).rename(away)
    (cache / linked.spec.stem).symlink_to(away)
    damage(away)
    before = tree(away)
    report = repaired(user).report
    assert linked.spec.stem not in {Path(row["path"]).name for row in report["unrepaired"]}
    rows = {Path(row["path"]).name: (row["what"], row["message"]) for row in report["unknown"]}
    assert rows[linked.spec.stem][0] == "foreign"
    assert "link" in rows[linked.spec.stem][1]
    assert tree(away) == before
    assert (cache / linked.spec.stem).is_symlink()


@pytest.mark.conda
def test_a_real_conda_installs_from_a_repaired_cache(offer, server, user, test_conda):
    """conda itself fills its cache; damaged by hand and repaired, it is what conda links, offline, without a word."""
    pkgs = test_conda.pkgs
    lines = [f"{server.base(0)}/{key.rpartition('/')[0]}/{each.url_path}" for key, each in offer.wanted.items()]
    digests = [each.record["md5"] for each in offer.wanted.values()]
    listed = user.folder / "list.txt"
    listed.write_text("@EXPLICIT\n" + "".join(f"{line}#{md5}\n" for line, md5 in zip(lines, digests, strict=True)))
    filled = test_conda.run("create", "-y", "-p", user.folder / "first", "--file", listed, plugin=False)
    assert filled.returncode == 0, filled.stderr
    whole = user.run("verify", "--json", "--pkgs-dir", pkgs)
    assert (whole.code, whole.report["checked"], whole.report["unknown"]) == (0, len(offer.wanted), [])
    for package in offer.wanted.values():
        damage(pkgs / package.spec.stem)
    flip(pkgs / offer.package("pytorch").filename, LARGE // 2)
    done = user.run("verify", "--repair", "--json", "--pkgs-dir", pkgs, *user.options[2:])
    assert (done.code, done.report["unrepaired"]) == (0, []), done.err
    assert len(done.report["repaired"]) == len(offer.wanted) + 1
    made = test_conda.run("create", "-y", "--offline", "-p", user.folder / "env", "--file", listed)
    assert made.returncode == 0, made.stderr
    package = offer.package("pytorch")
    rows = json.loads((offer.extracted / package.filename / "info" / "paths.json").read_text())["paths"]
    for row in rows:
        if row["path_type"] == "hardlink" and not row.get("prefix_placeholder"):
            there = (user.folder / "env" / row["_path"]).read_bytes()
            assert there == (offer.extracted / package.filename / row["_path"]).read_bytes()
