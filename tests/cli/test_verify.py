"""``resume-dl verify``: what is damaged, half extracted or unknown in package caches and folders of wheels."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import zipfile

import pytest

from resume_dl.cli.main import main

FILES = {"bin/tool": b"a tool", "lib/data": b"0123456789"}


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch, tmp_path):
    for kind in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"RESUME_DL_{kind}_DIR", str(tmp_path / kind.lower()))


def entry(pkgs, name="tool-1.0-0", **changes):
    """An entry of a package cache: archive, extracted folder, list with digests, record."""
    folder, archive = pkgs / name, pkgs / f"{name}.conda"
    (folder / "info").mkdir(parents=True)
    archive.write_bytes(f"the archive of {name}".encode())
    rows = []
    for path, content in FILES.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        rows.append({"_path": path, "path_type": "hardlink", "sha256": digest, "size_in_bytes": len(content)})
    rows += changes.get("rows", [])
    (folder / "info" / "index.json").write_text("{}")
    (folder / "info" / "paths.json").write_text(json.dumps({"paths": rows, "paths_version": 1}))
    data = archive.read_bytes()
    record = {"fn": archive.name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "info" / "repodata_record.json").write_text(json.dumps(record))
    return folder


def wheel(path, content=b"x = 1\n"):
    """A wheel whose RECORD lists ``x = 1``."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"x = 1\n").digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.py", content)
        archive.writestr("a-1.dist-info/RECORD", f"a.py,sha256={digest},6\na-1.dist-info/RECORD,,\n")


def verified(capsys, *arguments):
    """The exit code and the JSON object."""
    code = main(["verify", *map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_whole_cache_is_verified(tmp_path, capsys):
    """Nothing is damaged: 0; a missing folder counts as empty."""
    entry(tmp_path / "pkgs")
    wheel(tmp_path / "a-1-py3-none-any.whl")
    code, found = verified(
        capsys, "--pkgs-dir", tmp_path / "pkgs", "--pkgs-dir", tmp_path / "no", "--wheel-dir", tmp_path
    )
    assert (code, found["ok"], found["exit_code"], found["schema"]) == (0, True, 0, 1)
    assert (found["checked"], found["damaged"], found["unknown"]) == (2, [], [])


def test_damage_of_every_kind_is_named(tmp_path, capsys):
    """A file altered at its length, a missing one, no record, archives of another digest and size, a wrong wheel: 4."""
    pkgs = tmp_path / "pkgs"
    (entry(pkgs, "altered-1-0") / "lib" / "data").write_bytes(b"012345678X")
    lost = entry(pkgs, "half-1-0")
    (lost / "bin" / "tool").unlink()
    (lost / "info" / "repodata_record.json").unlink()
    entry(pkgs, "digest-1-0")
    archive = pkgs / "digest-1-0.conda"
    archive.write_bytes(archive.read_bytes()[:-1] + b"?")
    entry(pkgs, "size-1-0")
    (pkgs / "size-1-0.conda").write_bytes(b"short")
    entry(pkgs, "whole-1-0")
    wheel(tmp_path / "a-1-py3-none-any.whl", b"x = 2\n")
    code, found = verified(capsys, "--pkgs-dir", pkgs, "--wheel-dir", tmp_path)
    assert (code, found["exit_code"], found["error"]["type"], found["checked"]) == (4, 4, "IntegrityError", 6)
    named = {row["path"].replace("\\", "/").rpartition("/")[2]: (row["what"], row["files"]) for row in found["damaged"]}
    assert named == {
        "altered-1-0": ("damaged", ["lib/data"]),
        "half-1-0": ("half extracted", ["bin/tool"]),
        "digest-1-0.conda": ("wrong digest", []),
        "size-1-0.conda": ("wrong size", []),
        "a-1-py3-none-any.whl": ("damaged", []),
    }
    assert [row["path"] for row in found["unknown"]] == [str(pkgs / "half-1-0.conda")]


def test_a_file_without_a_known_digest_is_not_called_damaged(tmp_path, capsys):
    """An archive alone, and an old package whose list has no digests: said, and 0."""
    pkgs = tmp_path / "pkgs"
    old = entry(pkgs, "old-1-0")
    (old / "info" / "paths.json").unlink()
    (old / "info" / "files").write_text("bin/tool\nlib/data\n")
    (pkgs / "alone-1-0.tar.bz2").write_bytes(b"nothing is known of it")
    code, found = verified(capsys, "--pkgs-dir", pkgs)
    assert (code, found["damaged"]) == (0, [])
    assert {(row["path"], row["what"]) for row in found["unknown"]} == {
        (str(old), "no digest"),
        (str(pkgs / "alone-1-0.tar.bz2"), "no digest"),
    }


def test_a_hostile_list_leads_nowhere_else(tmp_path, capsys):
    """Paths that leave the package are not read: they are damage, whatever is there."""
    outside = tmp_path / "secret"
    outside.write_bytes(b"secret")
    digest = hashlib.sha256(b"secret").hexdigest()
    names = ["../../secret", str(outside), "lib/../../../secret"]
    if sys.platform != "win32":
        names.append("bin/link")
    rows = [{"_path": name, "path_type": "hardlink", "sha256": digest} for name in names]
    rows += [{"_path": 7, "sha256": digest}, {"_path": "a\0b", "sha256": digest}, {"_path": "a", "sha256": 3}]
    folder = entry(tmp_path / "pkgs", rows=rows)
    if sys.platform != "win32":
        (folder / "bin" / "link").symlink_to(outside)
    code, found = verified(capsys, "--pkgs-dir", tmp_path / "pkgs")
    assert code == 4
    assert found["damaged"][0]["files"] == names


@pytest.mark.skipif(sys.platform == "win32", reason="making links takes a privilege there")
@pytest.mark.parametrize("options", [(), ("--repair", "--offline")])
def test_a_link_in_place_of_a_package_is_not_followed(tmp_path, capsys, options):
    """It is foreign, whatever it leads to: no digest is taken from there, nothing is judged or changed there."""
    pkgs, outside = tmp_path / "pkgs", entry(tmp_path / "elsewhere")
    (outside / "lib" / "data").write_bytes(b"damaged, if it were a package here")
    pkgs.mkdir()
    archive, link = pkgs / "tool-1.0-0.conda", pkgs / "tool-1.0-0"
    archive.write_bytes(b"not what the record outside describes")
    link.symlink_to(outside, target_is_directory=True)
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.glob("elsewhere/**/*")}
    code, found = verified(capsys, "--pkgs-dir", pkgs, *options)
    assert (code, found["checked"], found["damaged"]) == (0, 1, [])
    rows = {row["path"]: (row["what"], row["files"]) for row in found["unknown"]}
    assert rows == {str(link): ("foreign", []), str(archive): ("no digest", [])}
    assert link.is_symlink()
    assert archive.read_bytes() == b"not what the record outside describes"
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.glob("elsewhere/**/*")} == before


def test_the_lines_name_the_path_and_what_is_wrong(tmp_path, capsys):
    """Without --json: a line for each flaw on stdout, the error and what to do on stderr."""
    folder = entry(tmp_path / "pkgs")
    (folder / "lib" / "data").write_bytes(b"012345678X")
    assert main(["verify", "--pkgs-dir", str(tmp_path / "pkgs")]) == 4
    shown = capsys.readouterr()
    assert str(folder) in shown.out
    assert "lib/data" in shown.out
    assert "error: damaged: 1 (of 1" in shown.err
