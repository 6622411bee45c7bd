"""``bundle create`` for a machine that is known: its profile, what it has already, and whose bundle it trusts."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess

import pytest

from support.bundles import (
    BOTH,
    COMMON,
    FAST,
    LINUX,
    WINDOWS,
    Maker,
    archives_of,
    build_world,
    by_path,
    files_of,
    manifest,
    sums_hold,
)
from support.pip_index import build_wheel, write_index

pytestmark = pytest.mark.nginx
LINUX_64 = ("--platform", "linux-64")
CPU = {path for path in LINUX if "cuda" not in path} | {"channel/linux-64/pytorch-1.7.1-py3.8_cpu.conda"}
MB = 1_000_000


def held(package):
    return {"filename": package.path.name, "size": package.size, "sha256": package.sha256}


def profile(maker, name, platform, *, cuda="", packages=(), wheels=(), channels=()):
    """A target.json; ``packages`` and ``wheels`` are what the machine has."""
    virtual = {"__glibc": "2.17", "__linux": "5.10"} if platform == "linux-64" else {"__win": "10.0"}
    said = {
        "schema": 1,
        "kind": "resume-dl target",
        "created_by": "resume-dl 0.0",
        "platform": platform,
        "virtual_packages": virtual | ({"__cuda": cuda} if cuda else {}),
        "python": "3.8.5",
        "conda": {"version": "23.1.0", "channels": list(channels), "solver": "classic", "channel_priority": "flexible"},
        "clients": ["conda"],
        "pip": "24.0",
        "inventory": {
            "packages": [{**held(each), "md5": each.md5} for each in packages],
            "wheels": [held(each) for each in wheels],
            "unpacked": [],
        },
    }
    path = maker.folder / name
    path.write_text(json.dumps(said), encoding="utf-8")
    return path


@pytest.mark.parametrize(("cuda", "paths"), [("11.0", LINUX), ("", CPU)])
def test_its_profile(maker, cuda, paths):
    """Its platform, its driver, its C library and its Python; nothing that this machine has."""
    target = profile(maker, "target.json", "linux-64", cuda=cuda)
    done = maker.create("pytorch", "--pip", "fast", "--target", target)
    assert done.code == 0, done.err
    assert archives_of(maker.out) == {*paths, FAST["linux-64"]}
    said = manifest(maker.out)["platforms"]
    assert {*said} == {"linux-64"}
    assert "__glibc=2.17=0" in said["linux-64"]["virtual_packages"]
    assert any(each.startswith("__cuda") for each in said["linux-64"]["virtual_packages"]) is bool(cuda)
    assert ("no CUDA driver" in done.err) is not bool(cuda)


def test_options_win(maker):
    """--cuda says otherwise: a driver is to be installed."""
    target = profile(maker, "target.json", "linux-64")
    done = maker.create("pytorch", "--target", target, "--cuda", "11.0")
    assert done.code == 0, done.err
    assert archives_of(maker.out) == LINUX


@pytest.mark.parametrize("how", ["target", "option", "both", "neither"])
def test_its_glibc_holds_for_wheels(nginx_mirrors, tmp_path, how):
    """As it holds for conda's packages; an option wins over the profile."""
    world = build_world(tmp_path / "world")
    newer = build_wheel(tmp_path / "built", "fast", "3.0", tag="cp38-cp38-manylinux_2_28_x86_64")
    write_index(world.root, [*world.wheels, newer])
    maker = Maker(tmp_path / "maker", nginx_mirrors([world.root]))
    target = profile(maker, "target.json", "linux-64")
    options = {
        "target": ("--target", target),
        "option": ("--platform", "linux-64", "--virtual-package", "__glibc=2.17"),
        "both": ("--target", target, "--virtual-package", "__glibc=2.31"),
        "neither": ("--platform", "linux-64"),
    }
    done = maker.create("mkl", "--pip", "fast", "--python", "3.8", *options[how])
    assert done.code == 0, done.err
    old = how in {"target", "option"}
    assert (FAST["linux-64"] in archives_of(maker.out)) is old
    glibc = {"both": "2.31", "neither": "2.28"}.get(how, "2.17")
    assert f"__glibc={glibc}=0" in manifest(maker.out)["platforms"]["linux-64"]["virtual_packages"]


def test_its_channels(maker):
    """Those that its conda has take the place of ours."""
    target = profile(maker, "target.json", "linux-64", channels=["https://repo.anaconda.com/pkgs/main"])
    done = maker.create("pytorch", "--target", target)
    assert done.code == 3, done.err
    assert "using the target's channels" in done.err
    named = maker.create("pytorch", "--target", target, "-c", "pytorch", "-c", "pkgs/main")
    assert named.code == 0, named.err


def test_two_machines(maker):
    """One of each platform in one bundle; two of one platform are refused."""
    linux = profile(maker, "linux.json", "linux-64", cuda="11.0")
    windows = profile(maker, "windows.json", "win-64")
    done = maker.create("pytorch", "--target", linux, "--target", windows)
    assert done.code == 0, done.err
    assert archives_of(maker.out) == LINUX | WINDOWS
    other = profile(maker, "other.json", "linux-64")
    refused = maker.create("pytorch", "--target", linux, "--target", other, out=maker.folder / "two")
    assert refused.code == 2, refused.err
    assert "linux-64" in refused.err
    assert not (maker.folder / "two").exists()


def test_packages_of_the_target_are_left_out(world, maker):
    """Four fifths of the packages are there: the bundle is as large as the rest, and says what it relies on."""
    missing = {"channel/linux-64/pytorch-1.7.1-py3.8_cuda11.0.conda", "channel/linux-64/cudatoolkit-11.0.221-0.conda"}
    packages = [world.packages[path] for path in LINUX - missing]
    wheels = [wheel for wheel in world.wheels if wheel.name in {"tqdm", "demo-app"}]
    inventory = profile(maker, "inventory.json", "linux-64", packages=packages, wheels=wheels)
    wanted = ("pytorch", "--platform", "linux-64", "--cuda", "11.0", "--pip", "demo-app")
    done = maker.create(*wanted, "--since", inventory, "--json")
    assert done.code == 0, done.err
    assert archives_of(maker.out) == {*missing, FAST["linux-64"]}
    assert maker.nginx.body_bytes() == world.size(archives_of(maker.out))
    assert done.report["bundle"]["size"] <= world.size(archives_of(maker.out)) + MB
    assert done.report["bundle"]["left_out"] == len(packages) + len(wheels)
    found = by_path(maker.out)
    assert {path for path, each in found.items() if not each["included"]} == (LINUX - missing) | COMMON
    for path, each in found.items():
        assert each["size"] == len(world.bytes[path])
    assert sums_hold(maker.out)
    assert done.artifact("numpy")["status"] == "left-out"
    checked = maker.run("bundle", "verify", maker.out)
    assert checked.code == 0, checked.err
    told = maker.create(*wanted, "--since", inventory)
    assert f"{len(packages) + len(wheels)} of them are left out" in told.out

    whole = maker.folder / "whole"
    assert maker.create(*wanted, out=whole).code == 0
    assert archives_of(whole) == LINUX | COMMON | {FAST["linux-64"]}
    assert maker.create(*wanted, "--since", inventory, out=whole).code == 0
    assert files_of(whole) == files_of(maker.out)


def test_lists_too(world, maker):
    """What a list names by sha256 and the target has needs no archive here; an md5 without a size is not enough."""
    package = world.packages["channel/linux-64/mkl-2020.2-256.conda"]
    listed = maker.folder / "list.txt"
    addresses = [f"https://repo.anaconda.com/pkgs/main/{package.url_path}#sha256:{package.sha256}"]
    blas = world.packages["channel/linux-64/blas-1.0-mkl.tar.bz2"]
    addresses.append(f"https://repo.anaconda.com/pkgs/main/{blas.url_path}#{blas.md5}")
    listed.write_text("@EXPLICIT\n" + "\n".join(addresses) + "\n")
    inventory = profile(maker, "inventory.json", "linux-64", packages=[package, blas])
    done = maker.create("--file", listed, "--since", inventory)
    assert done.code == 0, done.err
    assert archives_of(maker.out) == {"channel/linux-64/blas-1.0-mkl.tar.bz2"}
    assert by_path(maker.out)["channel/linux-64/mkl-2020.2-256.conda"]["sha256"] == package.sha256
    assert maker.run("bundle", "verify", maker.out).code == 0


def test_a_package_with_other_bytes_is_not_left_out(world, maker):
    """The same name and size with other bytes: on the target it would be another package."""
    windows = [world.packages[path] for path in WINDOWS if "mkl" in path]
    inventory = profile(maker, "inventory.json", "linux-64", packages=windows)
    done = maker.create("mkl", *BOTH, "--since", inventory)
    assert done.code == 0, done.err
    assert archives_of(maker.out) == {"channel/linux-64/mkl-2020.2-256.conda"}


def test_signed(maker):
    """By a real key; ``bundle verify`` checks it by the line that create told, and takes no other key's."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("there is no ssh-keygen")
    for name in ("key", "other"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me@secret-host", "-f", maker.folder / name]
        subprocess.run(command, check=True, timeout=120)
    done = maker.create("mkl", "--platform", "linux-64", "--sign", maker.folder / "key")
    assert done.code == 0, done.err
    assert sums_hold(maker.out)
    line = next(line.strip() for line in done.out.splitlines() if line.strip().startswith("NAME "))
    signers = maker.folder / "allowed signers"
    signers.write_text(line.replace("NAME", "me@lab", 1) + "\n")
    check = ("bundle", "verify", maker.out, "--signer", "me@lab", "--allowed-signers")
    good = maker.run(*check, signers)
    assert good.code == 0, good.err
    assert "signed by me@lab" in good.out
    public = (maker.folder / "other.pub").read_text().split()
    signers.write_text(f"me@lab {public[0]} {public[1]}\n")
    assert maker.run(*check, signers).code == 4
    assert b"secret-host" not in b"".join(files_of(maker.out).values())

    report = maker.create("mkl", "--platform", "linux-64", "--sign", maker.folder / "key", "--json").report
    assert report["bundle"]["signed_by"].startswith("SHA256:")
    unsigned = maker.create("mkl", "--platform", "linux-64", "--json")
    assert unsigned.report["bundle"]["signed_by"] is None
    assert "manifest.json.sig" not in files_of(maker.out)
    assert sums_hold(maker.out)


def test_a_key_that_cannot_sign(maker):
    """There is no bundle, and nothing is fetched again for one without a signature."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("there is no ssh-keygen")
    (maker.folder / "key").write_text("nothing like a key")
    done = maker.create("mkl", "--platform", "linux-64", "--sign", maker.folder / "key")
    assert done.code == 2, done.err
    assert "key" in done.err
    assert not (maker.out / "SHA256SUMS").exists()
    assert maker.run("bundle", "verify", maker.out).code == 4
    maker.nginx.reset_log()
    assert maker.create("mkl", "--platform", "linux-64").code == 0
    assert maker.nginx.body_bytes() == 0
    assert sums_hold(maker.out)


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


def test_the_readme_of_a_delta_names_only_possible_ways(maker, world):
    """Plain conda, pip and a web server need all files: its README.txt does not offer them, and create says so."""
    mkl = world.bytes["channel/linux-64/mkl-2020.2-256.conda"]
    held = {"filename": "mkl-2020.2-256.conda", "size": len(mkl), "sha256": hashlib.sha256(mkl).hexdigest()}
    since = maker.folder / "inventory.json"
    inventory = {"packages": [held], "wheels": []}
    since.write_text(json.dumps({"schema": 1, "kind": "resume-dl inventory", "inventory": inventory}))
    done = maker.create("mkl", "blas", "--pip", "tqdm", "--python", "3.8", "--since", since, *LINUX_64)
    assert done.code == 0, done.err
    assert "It is for that target only" in done.out
    told = (maker.out / "README.txt").read_text()
    for title in ("By plain conda", "By plain pip", "For many machines"):
        assert title not in told
    assert "What is not in it" in told
    done = maker.create("mkl", "--pip", "tqdm", "--python", "3.8", *LINUX_64)
    assert done.code == 0, done.err
    assert "It is for that target only" not in done.out
    told = (maker.out / "README.txt").read_text()
    for title in ("By plain conda", "By plain pip", "For many machines"):
        assert title in told
