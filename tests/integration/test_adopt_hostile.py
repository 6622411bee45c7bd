"""``adopt`` of a shared folder for downloads: one hostile or useless file costs the others nothing."""

from __future__ import annotations

import io
import os
import sys
import tarfile

import pytest

from resume_dl.store.part import FOLDER
from support.adopting import MIB


def tar_with_a_length_of_40_digits() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:bz2", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("info/index.json")
        member.size, member.pax_headers = 2, {"size": "1" + "0" * 40}
        archive.addfile(member, io.BytesIO(b"{}"))
    return made.getvalue()


@pytest.mark.nginx
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every file name is Unicode")
def test_hostile_files_beside_good_ones(place):
    """Each bad one has its own error; a name in no encoding is no obstacle; two starts and a whole are one package."""
    hostile = place.put("hostile.conda", tar_with_a_length_of_40_digits())
    named = place.put("%2e%2e-1.0-py3-none-any.whl", b"PK\3\4")
    starts = [f"old-2.1-py37_0 ({number}).tar.bz2.crdownload" for number in (1, 2)]
    place.put(starts[0], place.whole("old")[: 6 * MIB])
    place.put(starts[1], place.whole("old")[: 8 * MIB])
    whole = place.put(place.name("old"), place.whole("old"))
    place.put(os.fsdecode(b"big\xff.crdownload"), place.whole("big")[: 6 * MIB])
    place.put(place.name("tiny"), place.whole("tiny"))
    done = place.adopt(place.folder, whole)
    assert done.code == 3, done.err
    found = {each["path"].rpartition("/")[2]: each for each in done.report["files"]}
    failed = {str(hostile.name), str(named.name)}
    assert {name for name, each in found.items() if each["status"] == "failed"} == failed, done.err
    assert all(str(place.folder) in each["error"]["message"] for each in found.values() if each["error"])
    statuses = [found[name]["status"] for name in (*starts, place.name("old"), place.name("tiny"))]
    assert statuses == ["here", "here", "adopted", "adopted"]
    (started,) = [each for name, each in found.items() if name.startswith("big")]
    assert (started["status"], started["bytes"]) == ("started", 6 * MIB)
    assert done.report["next_command"].endswith("--no-deps big=1.0=h1_0")
    assert not any("2e" in each.uri for each in place.nginx.requests())
    (left,) = place.user.run("status", "--json").report["unfinished"]
    assert (left["filename"], left["done"]) == (place.name("big"), 6 * MIB)
    (part,) = (place.user.pkgs / FOLDER).glob("*.part")
    again = place.adopt(part)
    assert again.code == 2, again.err
    assert "own unfinished download" in again.err
    assert place.user.run("status", "--json").report["unfinished"][0]["done"] == 6 * MIB


@pytest.mark.nginx
def test_an_unreachable_package_index_costs_only_the_wheels(place):
    """Packages are adopted, wheels have the index's error, which is told once; conda's index likewise."""
    paths = [place.put(place.name(name), place.whole(name)) for name in ("tiny", "wide")]
    place.options[1] = "http://127.0.0.1:9/simple"
    done = place.adopt("--give-up-after", "1s", *paths)
    assert done.code == 6, done.err
    assert [each["status"] for each in done.report["files"]] == ["adopted", "failed"]
    assert done.err.count("127.0.0.1:9") == 1
    assert (place.user.pkgs / place.name("tiny")).is_file()
