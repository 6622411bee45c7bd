"""Which of several files of a version is taken, for which Python; and the lock that names just that one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.tags import platform_tags, sys_tags

from resume_dl.errors import UnsatisfiableError
from resume_dl.resolve.target import accepts_python, best_wheel, tags_for, tags_of
from resume_dl.resolve.uv_program import find_uv
from support.fetching import User
from support.pip_index import build_sdist, build_wheel, write_find_links, write_index
from support.pip_resolving import Resolving, by_name, names

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.nginx
MAJOR, MINOR = sys.version_info[:2]
HERE = f"cp{MAJOR}{MINOR}"


@pytest.fixture
def user(tmp_path):
    return Resolving(tmp_path)


@pytest.fixture
def many(tmp_path):
    """Projects with several files of a version, and with files for other Pythons."""
    built = tmp_path / "built"
    best, *others = platform_tags()
    worst = others[-1] if others else best  # Windows has one
    tags = [
        "py3-none-any",
        f"{HERE}-abi3-{best}",
        f"{HERE}-{HERE}-{worst}",
        f"{HERE}-{HERE}-{best}",
        "cp27-cp27m-win32",
    ]
    files = [build_wheel(built, "tagged", "1.0", tag=tag) for tag in dict.fromkeys(tags)]
    files += [build_wheel(built, "stable", "1.0", tag=tag) for tag in (tags[0], tags[1], f"cp38-abi3-{best}")]
    files += [build_wheel(built, "rebuilt", "1.0", tag=f"{number}-py3-none-any") for number in ("9", "10", "2b")]
    files += [build_wheel(built, "rebuilt", "1.0"), build_sdist(built, "rebuilt", "1.0")]
    files += [build_wheel(built, "both", "1.0", tag=tag) for tag in (f"7-{tags[0]}", tags[1])]
    for name, limit in (("capped", f">=3.6,<{MAJOR}.{MINOR}"), ("excluded", f"!={MAJOR}.{MINOR}.*")):
        files += [build_wheel(built, name, "1.0"), build_wheel(built, name, "2.0", requires_python=limit)]
    return files


def pips_choice(folder, index, *wanted):
    """Names of the files that the real pip would install."""
    line = [sys.executable, "-m", "pip", "--isolated", "install", "--dry-run", "--ignore-installed", "--quiet"]
    line += ["--only-binary", ":all:", "--report", str(folder / "report.json"), "--index-url", index, *wanted]
    subprocess.run(line, check=True, capture_output=True, timeout=120)
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return {each["download_info"]["url"].rpartition("/")[2] for each in report["install"]}


@pytest.mark.parametrize("form", [{"html": False}, {"json": False}])
def test_the_files_that_pip_takes(tmp_path, nginx_mirrors, user, many, form):
    """Tags by their order, then the build number, as numbers; no file whose Requires-Python refuses this Python."""
    pytest.importorskip("pip")
    write_index(tmp_path / "root", many, **form)
    index = f"{nginx_mirrors([tmp_path / 'root']).base()}/simple"
    wanted = sorted({file.name for file in many})
    found = names(user.resolve(*wanted, index=index))
    assert found == pips_choice(tmp_path, index, *wanted)
    assert f"tagged-1.0-{HERE}-{HERE}-{next(platform_tags())}.whl" in found
    assert {"rebuilt-1.0-10-py3-none-any.whl", "capped-1.0-py3-none-any.whl", "excluded-1.0-py3-none-any.whl"} <= found


def test_a_wheel_before_the_source_archive(tmp_path, nginx_mirrors, user):
    """Also where source archives are allowed; these are taken where no wheel fits."""
    built = tmp_path / "built"
    wheel = build_wheel(built, "demo", "1.0")
    other = build_sdist(built, "other", "1.0")
    files = [
        build_sdist(built, "demo", "1.0"),
        wheel,
        other,
        build_wheel(built, "other", "1.0", tag="cp27-cp27m-win32"),
    ]
    write_index(tmp_path / "root", files)
    index = f"{nginx_mirrors([tmp_path / 'root']).base()}/simple"
    assert names(user.resolve("demo", "other", index=index, allow_sdist=True)) == {wheel.filename, other.filename}


def test_files_for_another_machine(tmp_path, nginx_mirrors, user):
    """Each platform has its best; the Python that counts is the target's; a page is read once for all."""
    built = tmp_path / "built"
    tags = ["py3-none-any", "cp38-abi3-win_amd64", "cp310-cp310-win_amd64", "cp310-cp310-manylinux1_x86_64"]
    files = [build_wheel(built, "demo", "1.0", tag=tag) for tag in (*tags, "cp310-cp310-manylinux_2_28_x86_64")]
    limits = (None, ">=3.6,<3.11", "!=3.10.*")
    files += [build_wheel(built, "limited", f"{n}.0", requires_python=limit) for n, limit in enumerate(limits)]
    write_index(tmp_path / "root", files)
    nginx = nginx_mirrors([tmp_path / "root"])
    solutions = user.solutions(
        "demo", "limited", index=f"{nginx.base()}/simple", platforms=("win-64", "linux-64"), python="3.10"
    )
    chosen = [{name: each.filename for name, each in by_name(solution).items()} for solution in solutions]
    assert chosen == [
        {"demo": f"demo-1.0-{tag}.whl", "limited": "limited-1.0-py3-none-any.whl"}
        for tag in ("cp310-cp310-win_amd64", "cp310-cp310-manylinux_2_28_x86_64")
    ]
    assert len([request for request in nginx.requests() if request.uri == "/simple/demo/"]) == 1
    for solution in solutions:
        locked = tomllib.loads(solution.lock_text)
        assert {each["url"] for package in locked["packages"] for each in package["wheels"]} == {
            artifact.url.reveal() for artifact in solution.artifacts
        }
        assert locked["requires-python"] == ">=3.10"


def test_what_only_metadata_says(tmp_path, nginx_mirrors, user):
    """A page of plain links has no Requires-Python: the wheel's own word counts, for each of its versions."""
    built = tmp_path / "built"
    files = [build_wheel(built, "demo", "1.0")]
    files += [build_wheel(built, "demo", f"{n}.0", requires_python=f"<{MAJOR}.{MINOR}") for n in (2, 3)]
    alone = build_wheel(built, "alone", "1.0", requires_python=f"!={MAJOR}.{MINOR}.*")
    write_find_links(tmp_path / "root", [replace(file, requires_python=None) for file in (*files, alone)])
    page = f"{nginx_mirrors([tmp_path / 'root']).base()}/whl/torch_stable.html"
    assert names(user.resolve("demo", find_links=(page,), no_index=True)) == {files[0].filename}
    assert f"demo 3.0 requires Python <{MAJOR}.{MINOR}" in user.told.text
    for wanted in ("alone", f"alone @ {page.rpartition('/')[0]}/{alone.filename}"):
        with pytest.raises(UnsatisfiableError, match="alone") as caught:
            user.resolve(wanted, find_links=(page,), no_index=True)
        assert f"1.0 (for Python !={MAJOR}.{MINOR}.*)" in caught.value.hint


def test_nothing_for_this_python(tmp_path, nginx_mirrors, user):
    """The hint says which Python each version is for."""
    wheel = build_wheel(tmp_path / "built", "demo", "1.0", requires_python=f"<{MAJOR}.{MINOR}")
    write_index(tmp_path / "root", [wheel])
    with pytest.raises(UnsatisfiableError) as caught:
        user.resolve("demo", index=f"{nginx_mirrors([tmp_path / 'root']).base()}/simple")
    assert f"1.0 (for Python <{MAJOR}.{MINOR})" in caught.value.hint


# --- the lock ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hashes", [True, False])
def test_a_lock_names_the_file_that_was_taken(tmp_path, nginx_mirrors, many, hashes):
    """One file a package, with its own address and hash: offline it is all there, and the real uv and pip take it."""
    pytest.importorskip("pip")
    write_index(tmp_path / "root", many, hashes=hashes)
    nginx = nginx_mirrors([tmp_path / "root"])
    user = User(tmp_path / "user")
    user.options = ["--mirrors", str(user.write_mirrors({}))]
    wanted = ["--pip", "tagged", "--pip", "rebuilt", "--pip", "capped", "--allow-sdist", "--index-url"]
    done = user.fetch(*wanted, f"{nginx.base()}/simple", "--dest", "d", "--lock", "pylock.toml", "--json")
    assert done.code == 0, done.err
    locked = tomllib.loads((user.folder / "pylock.toml").read_text(encoding="utf-8"))
    taken = [file for file in many if file.filename in done.statuses]
    wheels = [wheel for package in locked["packages"] for wheel in package["wheels"]]
    assert sorted(wheels, key=lambda each: each["name"]) == [
        {"name": f.filename, "url": f"{nginx.base()}/{f.url_path}", "size": f.size, "hashes": {"sha256": f.sha256}}
        for f in sorted(taken, key=lambda file: file.filename)
    ]
    assert len(taken) == len(locked["packages"]) == 3
    assert locked["requires-python"] == f">={MAJOR}.{MINOR}"
    nginx.reset_log()
    again = user.fetch("--file", "pylock.toml", "--dest", "d", "--offline", "--json")
    assert (again.code, set(again.statuses), nginx.requests()) == (0, set(done.statuses), [])
    older = user.fetch("--file", "pylock.toml", "--python", f"{MAJOR}.{MINOR}", "--dest", "d", "--offline")
    assert older.code == 0, older.err
    environment = {**user.environment(), "UV_CACHE_DIR": str(tmp_path / "uv-cache")}
    target = ["--target", "by-uv", "--python", sys.executable, "--no-config"]
    for command in (
        [find_uv(), "pip", "install", *target, "-r", "pylock.toml"],
        [sys.executable, "-m", "pip", "--isolated", "install", "--target", "by-pip", "-r", "pylock.toml"],
    ):
        line = [str(part) for part in command]
        run = subprocess.run(
            line, env=environment, cwd=user.folder, check=False, capture_output=True, text=True, timeout=120
        )
        assert run.returncode == 0, run.stderr
    for folder in ("by-uv", "by-pip"):
        assert {path.name for path in (user.folder / folder).glob("*.dist-info")} == {
            f"{name}-1.0.dist-info" for name in ("tagged", "rebuilt", "capped")
        }


# --- what a Python takes ----------------------------------------------------------------------------------------------


def test_a_python_lists_its_tags(tmp_path):
    """Another one than ours is asked; one that does not run says nothing."""
    venv.create(tmp_path / "venv", symlinks=os.name != "nt")
    python = tmp_path / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    assert tags_of(python, os.environ) == tags_of(Path(sys.executable), os.environ) == [*sys_tags()]
    assert tags_of(tmp_path / "no python", os.environ) == []


@pytest.mark.parametrize(
    ("requires", "python", "fits"),
    [
        ("", "3.11.7", True),
        (">=3.6,<3.11", "3.10", True),
        (">=3.6,<3.11", "3.11", False),
        ("!=3.11.*", "3.11.7", False),
        ("<=3.11", "3.11.7", False),
        ("<=3.11", "3.11", True),
        ("no such thing", "3.11", True),
    ],
)
def test_requires_python(requires, python, fits):
    assert accepts_python(requires, python) is fits


def test_best_wheel_of_an_empty_list():
    """A name that cannot be read is passed over."""
    tags = tags_for("3.10", "linux-64")
    assert best_wheel(["a-1.0-py3-none-win32.whl", "a.whl"], tags) is None
    assert best_wheel(["a.whl", "a-1.0-py3-none-any.whl"], tags) == "a-1.0-py3-none-any.whl"
