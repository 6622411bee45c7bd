"""What testers found in bundles, and may not come again."""

from __future__ import annotations

import hashlib
import json

import pytest

from resume_dl.app.bundle.public import public, public_url
from resume_dl.model.url import RedactedUrl
from support.bundles import by_path, files_of, has_no_secret, manifest, sums_hold

SECRET = "S3CRETinQUERY"
LINUX_64 = ("--platform", "linux-64")


def test_a_secret_in_any_query(maker):
    """A query may hold a secret under any name: it stands in no file of the bundle, whatever asked for it."""
    place = maker.index.replace("/simple/", "/built/").replace("http://", "http://me:pa55w0rd@")
    asked = maker.folder / "requirements.txt"
    asked.write_text(f"colorama @ {place}colorama-0.4.6-py3-none-any.whl?x={SECRET}\n")
    wanted = f"tqdm @ {place}tqdm-4.66.0-py3-none-any.whl?x={SECRET}#egg={SECRET}"
    done = maker.create("mkl", "--pip", wanted, "--file", asked, "--python", "3.8", *LINUX_64)
    assert done.code == 0, done.err
    assert has_no_secret(maker.out, SECRET, "pa55w0rd") == []
    assert manifest(maker.out)["request"]["pip"] == [public(wanted)]
    found = by_path(maker.out)["wheels/tqdm-4.66.0-py3-none-any.whl"]
    assert found["url"].endswith("/built/tqdm-4.66.0-py3-none-any.whl")
    assert found["requested_by"] == [public(wanted)]
    assert sums_hold(maker.out)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"tqdm @ http://h.example/x.whl?x={SECRET}", "tqdm @ http://h.example/x.whl"),
        (f"a @ http://h.example/x.whl?x={SECRET} ; os_name == 'nt'", "a @ http://h.example/x.whl ; os_name == 'nt'"),
        (f"a @ https://h.example/x.whl?{SECRET}#sha256=0af&egg={SECRET}", "a @ https://h.example/x.whl#sha256=0af"),
        (f"a @ https://h.example/x.whl?x=1&sha256=0af#{SECRET}", "a @ https://h.example/x.whl"),
        (f"https://h.example/it's my/channel?x='{SECRET}", "https://h.example/it's my/channel"),
        (f"https://h.example/channel?x={SECRET}::mkl >=2", "https://h.example/channel::mkl >=2"),
        (f"git+https://h.example/r.git@v1?x={SECRET}", "git+https://h.example/r.git@v1"),
        (f"foo @ file:///home/me/foo.whl?x={SECRET}", "foo @ foo.whl"),
        ("mkl >=2  # why?", "mkl >=2  # why?"),
    ],
)
def test_texts_with_queries(text, shown):
    """The whole query goes, and of a fragment all but a digest."""
    assert public(text) == shown


def test_an_address_with_a_query():
    """It leads nowhere without its query, and nobody can tell whether that is a secret."""
    assert public_url(RedactedUrl(f"https://h.example/a.whl?x={SECRET}#{SECRET}")) == "https://h.example/a.whl"


@pytest.mark.parametrize(("conda", "glibc"), [(("mkl",), "2.28"), ((), "2.28"), (("mkl", "--target"), "2.31")])
def test_the_glibc_that_wheels_were_chosen_for(maker, conda, glibc):
    """It is newer than what is assumed for conda's packages: the target is to be measured by the newer of both."""
    target = maker.folder / "target.json"
    virtual = {"__glibc": glibc, "__linux": "5.10", "__archspec": "1=x86_64"}
    target.write_text(
        json.dumps({"schema": 1, "kind": "resume-dl target", "platform": "linux-64", "virtual_packages": virtual})
    )
    asked = (*conda, target) if conda[1:] else (*conda, *LINUX_64)
    done = maker.create(*asked, "--pip", "fast", "--python", "3.8")
    assert done.code == 0, done.err
    told = [each for each in manifest(maker.out)["platforms"]["linux-64"]["virtual_packages"] if "__glibc" in each]
    assert told == [f"__glibc={glibc}=0"]
    assert f"__glibc={glibc}=0" in (maker.out / "README.txt").read_text()


def test_wheels_for_any_machine_want_no_glibc(maker):
    """Neither does a bundle for Windows."""
    done = maker.create("mkl", "--pip", "tqdm", "--python", "3.8", "--platform", "win-64", *LINUX_64)
    assert done.code == 0, done.err
    said = manifest(maker.out)["platforms"]
    assert "__glibc=2.17=0" in said["linux-64"]["virtual_packages"]
    assert not any("__glibc" in each for each in said["win-64"]["virtual_packages"])


def test_lines_that_only_pip_can_take(maker):
    """They are told by the manifest, by README.txt and in the end; without logins, paths and variables' values."""
    asked = maker.folder / "requirements.txt"
    asked.write_text(
        f"tqdm\n-e {maker.folder}/mine\n--editable=. --config-settings token={SECRET}\n"
        f"git+https://me:pa55w0rd@h.example/r.git@v1?x={SECRET}\n${{PLACE}}/deep/down-1.0-py3-none-any.whl\n"
        f"git+file://{maker.folder}/repo\n"
    )
    env = {"PLACE": str(maker.folder)}
    done = maker.create("mkl", "--file", asked, "--python", "3.8", *LINUX_64, "--json", env=env)
    assert done.code == 0, done.err
    wanted = ["-e mine", "-e .", "git+https://***@h.example/r.git@v1", "${PLACE}/deep/down-1.0-py3-none-any.whl"]
    assert manifest(maker.out)["request"]["passed_over"] == [*wanted, "git+repo"]
    assert done.report["bundle"]["passed_over"] == [*wanted, "git+repo"]
    assert has_no_secret(maker.out, SECRET, "pa55w0rd", maker.folder) == []
    readme = (maker.out / "README.txt").read_text()
    assert "Not in it: what these lines" in readme
    assert all(f"    {line}\n" in readme for line in wanted)
    again = maker.create("mkl", "--file", asked, "--python", "3.8", *LINUX_64, env=env)
    assert "not in it, as only pip itself can take it: git+https://***@h.example/r.git@v1" in again.out
    asked.write_text("tqdm\n")
    assert maker.create("mkl", "--file", asked, "--python", "3.8", *LINUX_64).code == 0
    assert "passed_over" not in manifest(maker.out)["request"]
    assert "Not in it" not in (maker.out / "README.txt").read_text()


def test_only_lines_that_only_pip_can_take(maker):
    """There is no bundle, and the lines are named with the reason."""
    asked = maker.folder / "requirements.txt"
    asked.write_text("-e .\ngit+https://me:pa55w0rd@h.example/r.git\n")
    done = maker.create("--file", asked, "--python", "3.8", *LINUX_64)
    assert done.code == 2, done.err
    assert "only what an index or an address offers is fetched" in done.err
    assert "none of these lines: -e .; git+https://***@h.example/r.git" in done.err
    assert "pa55w0rd" not in done.err
    assert not (maker.out / "manifest.json").exists()


def test_a_delta_names_no_ways_that_it_has_not(maker, world):
    """Plain conda, pip and a web server need all files: its README.txt does not offer them, and create says so."""
    mkl = world.bytes["channel/linux-64/mkl-2020.2-256.conda"]
    held = {"filename": "mkl-2020.2-256.conda", "size": len(mkl), "sha256": hashlib.sha256(mkl).hexdigest()}
    since = maker.folder / "inventory.json"
    inventory = {"packages": [held], "wheels": []}
    since.write_text(json.dumps({"schema": 1, "kind": "resume-dl inventory", "inventory": inventory}))
    done = maker.create("mkl", "blas", "--pip", "tqdm", "--python", "3.8", "--since", since, *LINUX_64)
    assert done.code == 0, done.err
    assert "It serves that target alone" in done.out
    told = (maker.out / "README.txt").read_text()
    for title in ("By plain conda", "By plain pip", "For many machines"):
        assert title not in told
    assert "What is not in it" in told
    done = maker.create("mkl", "--pip", "tqdm", "--python", "3.8", *LINUX_64)
    assert done.code == 0, done.err
    assert "It serves that target alone" not in done.out
    told = (maker.out / "README.txt").read_text()
    for title in ("By plain conda", "By plain pip", "For many machines"):
        assert title in told


def test_two_files_of_one_name(maker):
    """What can be done names options that bundle create has."""
    base, lists = maker.index.replace("/simple/", ""), []
    for number, channel in enumerate(("pkgs/main", "other/main")):
        lists.append(maker.folder / f"list{number}.txt")
        address = f"{base}/{channel}/linux-64/mkl-2020.2-256.conda"
        lists[-1].write_text(f"# platform: linux-64\n@EXPLICIT\n{address}#{str(number) * 32}\n")
    done = maker.create("--file", lists[0], "--file", lists[1])
    assert done.code == 2, done.err
    assert "one folder cannot hold both" in done.err
    assert "make a bundle of each" in done.err
    assert "--dest" not in done.err


@pytest.mark.parametrize("name", ["t.tar.001", "t.tar.parts.json", "join.py"])
def test_parts_in_the_way(maker, name):
    """Files of somebody else are seen before anything is downloaded; parts of an earlier bundle are replaced."""
    tar = maker.folder / "own" / "t.tar"
    tar.parent.mkdir()
    (tar.parent / name).write_bytes(b"mine")
    done = maker.create("mkl", *LINUX_64, "--split", "1MB", out=tar)
    assert done.code == 5, done.err
    assert f"{name} is there already, and is not of an earlier split" in done.err
    assert files_of(tar.parent) == {name: b"mine"}
    assert maker.nginx.archive_requests() == []
    (tar.parent / name).unlink()
    for spec in ("mkl", "blas"):
        done = maker.create(spec, *LINUX_64, "--split", "1MB", out=tar)
        assert done.code == 0, done.err


def test_files_of_somebody_in_a_bundles_folders(maker):
    """They cannot stay, as a bundle with other files is refused; they are named, and what was the bundle's is not."""
    asked = ("mkl", "--pip", "tqdm", "--python", "3.8", *LINUX_64)
    assert maker.create(*asked).code == 0
    for number in range(7):
        (maker.out / "wheels" / f"mine{number}.txt").write_text("mine")
    done = maker.create("blas", *LINUX_64)
    assert done.code == 0, done.err
    told = [line for line in done.err.splitlines() if "removed: " in line]
    assert len(told) == 6
    assert all(f"wheels/mine{number}.txt, which was not of the bundle" in told[number] for number in range(5))
    assert "removed: 2 more of them" in told[5]
    assert not (maker.out / "wheels").exists()
    assert sums_hold(maker.out)
    done = maker.create(*asked)
    assert done.code == 0, done.err
    assert "removed: " not in done.err
    assert "unpacked" not in done.err


@pytest.mark.parametrize("name", ["inner", "wheels/inner", "inner.tar"])
def test_a_bundle_inside_of_a_bundle(maker, name):
    """Neither would be whole: the outer one has files then that are not its own."""
    assert maker.create("mkl", *LINUX_64).code == 0
    before = files_of(maker.out)
    done = maker.create("blas", *LINUX_64, out=maker.out / name)
    assert done.code == 2, done.err
    assert f"would be inside of the bundle {maker.out}" in done.err
    assert files_of(maker.out) == before


def test_the_report_has_every_digest(maker):
    """Of records with an md5 alone the sha256 is known once the file is here."""
    done = maker.create("python", *LINUX_64, "--json")
    assert done.code == 0, done.err
    packages = by_path(maker.out)
    for each in done.report["artifacts"]:
        path = f"channel/{each['subdir']}/{each['filename']}"
        assert each["sha256"] == packages[path]["sha256"]


def test_the_report_of_a_wrong_option(maker):
    """It has the keys of every other report of bundle create."""
    done = maker.create("mkl", "--splitt", "1MB", "--json")
    assert done.code == 2, done.err
    assert (done.report["command"], done.report["bundle"], done.report["ok"]) == ("bundle create", None, False)
