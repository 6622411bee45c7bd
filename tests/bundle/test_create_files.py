"""``bundle create --file``: every kind of file that names packages, for two platforms, and without a net."""

from __future__ import annotations

import json

import pytest

from support.bundles import (
    BOTH,
    COLORAMA,
    COMMON,
    FAST,
    LINUX,
    WINDOWS,
    archives_of,
    by_path,
    files_of,
    has_no_secret,
    manifest,
    sums_hold,
)

pytestmark = pytest.mark.nginx
SECRET = "S3CRETinQUERY"
LINUX_64 = ("--platform", "linux-64")
MKL = {"channel/linux-64/mkl-2020.2-256.conda", "channel/win-64/mkl-2020.2-256.conda"}


def write(maker, name, text):
    path = maker.folder / "asked for" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def explicit(world, platform, paths, *, said=True):
    """An @EXPLICIT list as conda writes it; ``said``: with the platform."""
    lines = [f"# platform: {platform}"] * said + ["@EXPLICIT"]
    for path in sorted(paths):
        package = world.packages[path]
        channel = "https://conda.anaconda.org/pytorch" if "pytorch" in path else "https://repo.anaconda.com/pkgs/main"
        lines.append(f"{channel}/{package.url_path}#{package.md5}")
    return "\n".join(lines) + "\n"


def test_environment_yml(maker):
    """Its specs, its part for pip, its channels and its name."""
    text = "name: lab\nchannels: [pytorch, pkgs/main]\n"
    text += "dependencies:\n  - pytorch=1.7\n  - pip\n  - pip:\n      - demo-app\n"
    file = write(maker, "environment.yml", text)
    done = maker.create("--file", file, *BOTH, "--cuda", "11.0")
    assert done.code == 0, done.err
    assert archives_of(maker.out) == LINUX | WINDOWS | COMMON | {*FAST.values(), COLORAMA}
    assert sums_hold(maker.out)
    said = manifest(maker.out)
    assert said["request"]["files"] == ["environment.yml"]
    assert said["request"]["specs"] == ["pytorch=1.7", "pip"]
    assert by_path(maker.out)[COLORAMA]["requested_by"] == ["environment.yml"]
    assert 'name: "lab"' in (maker.out / "environment.yml").read_text()


def test_requirements_txt(maker):
    """pip alone: no channel, no list for conda, and the Python that was named."""
    file = write(maker, "requirements.txt", "demo-app==1.0\n")
    done = maker.create("--file", file, *BOTH, "--python", "3.8")
    assert done.code == 0, done.err
    assert archives_of(maker.out) == COMMON | {*FAST.values(), COLORAMA}
    assert sums_hold(maker.out)
    files = files_of(maker.out)
    assert not [path for path in files if path.startswith(("channel/linux", "channel/win", "explicit"))]
    assert {each["python"] for each in manifest(maker.out)["platforms"].values()} == {"3.8"}
    assert by_path(maker.out)[COLORAMA]["requested_by"] == ["requirements.txt"]
    assert maker.run("bundle", "verify", maker.out).code == 0


@pytest.mark.parametrize("said", [True, False])
def test_explicit_lists(world, maker, said):
    """Two of them are two platforms; nothing is solved, and the records are the archives' own."""
    files = [
        write(maker, f"{platform}.txt", explicit(world, platform, paths, said=said))
        for platform, paths in (("linux-64", LINUX), ("win-64", WINDOWS))
    ]
    done = maker.create("--file", files[0], "--file", files[1])
    assert done.code == 0, done.err
    assert archives_of(maker.out) == LINUX | WINDOWS
    assert sums_hold(maker.out)
    platforms = manifest(maker.out)["platforms"]
    assert {*platforms["linux-64"]["conda"]} == LINUX
    assert {*platforms["win-64"]["conda"]} == WINDOWS
    assert platforms["win-64"]["python"] == "3.8.5"
    rows = json.loads((maker.out / "channel" / "win-64" / "repodata.json").read_text())
    numpy = rows["packages"]["numpy-1.19.2-py38.tar.bz2"]
    built = world.packages["channel/win-64/numpy-1.19.2-py38.tar.bz2"]
    assert (numpy["depends"], numpy["sha256"]) == (built.record["depends"], built.sha256)
    both = {"linux-64.txt", "win-64.txt"}
    assert {*by_path(maker.out)["channel/noarch/typing_extensions-3.7.4.3-py_0.tar.bz2"]["requested_by"]} == both
    assert maker.run("bundle", "verify", maker.out).code == 0


def test_a_list_for_another_platform(world, maker):
    """Named platforms are all there are."""
    file = write(maker, "win.txt", explicit(world, "win-64", WINDOWS))
    done = maker.create("--file", file, "--platform", "linux-64")
    assert done.code == 2, done.err
    assert "win.txt is a list for win-64" in done.err
    assert not maker.out.exists()


def test_pylock_toml(maker):
    """A lock that ``fetch`` wrote, for the platform that it is for."""
    lock = maker.folder / "pylock.toml"
    wanted = ("--pip", "demo-app", "--platform", "win-64", "--python", "3.8", "--index-url", maker.index)
    locked = maker.fetch(*wanted, "--lock", lock, "--wheel-dir", maker.folder / "elsewhere")
    assert locked.code == 0, locked.err
    maker.options.remove("--no-upstream")  # the lock's addresses are no mirror's
    done = maker.create("--file", lock, "--platform", "win-64", "--python", "3.8")
    assert done.code == 0, done.err
    assert archives_of(maker.out) == COMMON | {FAST["win-64"], COLORAMA}
    assert by_path(maker.out)[COLORAMA]["requested_by"] == ["pylock.toml"]
    assert maker.run("bundle", "verify", maker.out).code == 0


def test_no_deps(maker):
    """Only what is named."""
    done = maker.create("mkl", "--pip", "demo-app", *BOTH, "--no-deps", "--python", "3.8")
    assert done.code == 0, done.err
    assert archives_of(maker.out) == {*MKL, "wheels/demo_app-1.0-py3-none-any.whl"}
    assert sums_hold(maker.out)
    assert maker.run("bundle", "verify", maker.out).code == 0


def test_only_deps(maker):
    """What the named one needs, without it; the environment has the name that was given."""
    done = maker.create("numpy", "--only-deps", "--platform", "linux-64", "--env-name", "needs of numpy")
    assert done.code == 0, done.err
    names = {each["name"] for each in manifest(maker.out)["packages"]}
    assert names == {"blas", "mkl", "python", "pip"}
    assert 'name: "needs of numpy"' in (maker.out / "environment.yml").read_text()
    assert maker.run("bundle", "verify", maker.out).code == 0


def test_a_channel_of_its_own(maker):
    """-c by name before the configured ones, and alone with --override-channels."""
    done = maker.create("mkl", "--platform", "win-64", "-c", "pkgs/main", "--override-channels")
    assert done.code == 0, done.err
    assert manifest(maker.out)["request"]["channels"] == ["pkgs/main"]
    none = maker.create("mkl", "--platform", "win-64", "-c", "pytorch", "--override-channels")
    assert none.code == 3, none.err


def test_offline(maker):
    """From kept indexes and what the caches hold; what they do not is named."""
    wanted = ("pytorch", "--platform", "linux-64", "--cuda", "11.0", "--pip", "demo-app")
    assert maker.create(*wanted).code == 0
    cached = maker.fetch(*wanted, "--index-url", maker.index, "--python", "3.8")
    assert cached.code == 0, cached.err
    again = maker.folder / "again"
    maker.nginx.reset_log()
    done = maker.create(*wanted, "--offline", out=again)
    assert done.code == 0, done.err
    assert maker.nginx.requests() == []
    assert files_of(again) == files_of(maker.out)
    (maker.pkgs / "mkl-2020.2-256.conda").unlink()
    lacking = maker.create(*wanted, "--offline", out=maker.folder / "lacking")
    assert lacking.code == 1, lacking.err
    assert "mkl-2020.2-256.conda" in lacking.err
    assert maker.nginx.requests() == []


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
    assert "not included, because only pip itself can handle it: git+https://***@h.example/r.git@v1" in again.out
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
    assert "only packages of an index or a URL are fetched" in done.err
    assert "not these lines: -e .; git+https://***@h.example/r.git" in done.err
    assert "pa55w0rd" not in done.err
    assert not (maker.out / "manifest.json").exists()
