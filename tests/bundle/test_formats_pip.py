"""What a bundle's folder gives a real pip and a real uv: requirements, index pages and the lock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from packaging.version import Version

import pip
from conftest import StartMirrors
from resume_dl.bundle.pylock_text import write_pylock
from resume_dl.errors import ResumeDLError
from resume_dl.model.bundle import BundlePackage, BundlePlatform, Manifest
from resume_dl.resolve.index_page import parse_page
from resume_dl.resolve.pylock import read_lock
from resume_dl.resolve.uv_program import find_uv
from support.laid_out import LaidOut, lay_out
from support.nginx import NginxMirrors
from support.pip_index import BuiltFile, build_sdist, build_wheel

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
A = "a" * 64


@pytest.fixture
def built(tmp_path: Path) -> dict[str, BuiltFile]:
    """A project with another version and another file for each platform, and pure ones with odd names."""
    folder = tmp_path / "built"
    return {
        "demo": build_wheel(folder, "demo.App_x", "1!2.0+cu101"),
        "needs": build_wheel(folder, "needs", "1.0", requires=["demo.App_x"], requires_python=">=3.8,<4 , != 3.9.0"),
        "demo-win": build_wheel(folder, "demo.App_x", "1!1.9"),
        "fast-win": build_wheel(folder, "fast", "1.0", tag="cp39-cp39-win_amd64"),
        "fast-mac": build_wheel(folder, "fast", "1.0", tag="cp39-cp39-macosx_11_0_arm64"),
        "fast-any": build_wheel(folder, "fast", "1.0", tag="py3-none-any"),
    }


@pytest.fixture
def bundle(tmp_path: Path, built: dict[str, BuiltFile]) -> LaidOut:
    """In a folder with a blank and letters beyond ASCII in its path; linux-64 is this machine, whatever it is."""
    return lay_out(
        tmp_path / "my é bundle",
        wheels={
            "linux-64": [built["demo"], built["needs"], built["fast-any"]],
            "win-64": [built["demo-win"], built["needs"], built["fast-win"]],
            "osx-arm64": [built["needs"], built["fast-mac"]],
        },
        python={"linux-64": HERE, "win-64": "3.9.1", "osx-arm64": "3.9"},
    )


def pip_install(folder: Path, target: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run pip in ``folder`` with nothing of this machine's settings."""
    options = ("--disable-pip-version-check", "--no-cache-dir", "--target", str(target))
    command = [sys.executable, "-m", "pip", "--isolated", "install", *options, *map(str, words)]
    env = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TMPDIR") if name in os.environ}
    env |= {"HOME": str(target.parent), "NO_PROXY": "127.0.0.1", "PYTHONUTF8": "1"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, encoding="utf-8", timeout=120, check=False)


def installed(target: Path) -> set[str]:
    return {path.name.removesuffix(".dist-info") for path in target.glob("*.dist-info")}


def index_at(mirrors: NginxMirrors, bundle: LaidOut) -> str:
    return f"{mirrors.base()}/{quote(bundle.folder.name)}/simple/"


WANTED = {"demo_app_x-1!2.0+cu101", "needs-1.0", "fast-1.0"}
REQUIRED = ("--require-hashes", "-r", "requirements/linux-64.txt")


def test_pip_installs_from_the_folder(bundle: LaidOut, tmp_path: Path) -> None:
    done = pip_install(bundle.folder, tmp_path / "there", "--no-index", "--find-links", "wheels", *REQUIRED)
    assert done.returncode == 0, done.stderr
    assert installed(tmp_path / "there") == WANTED


def test_pip_refuses_a_wheel_that_is_another(bundle: LaidOut, tmp_path: Path) -> None:
    wheel = next((bundle.folder / "wheels").glob("fast-*-any.whl"))
    data = wheel.read_bytes()
    wheel.unlink()
    wheel.write_bytes(data + b"\0")
    done = pip_install(bundle.folder, tmp_path / "there", "--no-index", "--find-links", "wheels", *REQUIRED)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_pip_installs_from_the_index_that_a_web_server_makes_of_it(
    bundle: LaidOut, tmp_path: Path, nginx_mirrors: StartMirrors
) -> None:
    """``!``, ``+`` and ``_`` in addresses; a name that is not as indexes write it; every file from there."""
    mirrors = nginx_mirrors([bundle.folder.parent])
    index = index_at(mirrors, bundle)
    done = pip_install(bundle.folder, tmp_path / "there", "--index-url", index, *REQUIRED)
    assert done.returncode == 0, done.stderr
    assert installed(tmp_path / "there") == WANTED
    assert len(mirrors.archive_requests()) == 3
    plain = pip_install(tmp_path, tmp_path / "plain", "--index-url", index, "needs", "fast==1.0")
    assert plain.returncode == 0, plain.stderr
    assert installed(tmp_path / "plain") == WANTED


def test_pip_checks_the_digest_that_a_page_names(bundle: LaidOut, tmp_path: Path, nginx_mirrors: StartMirrors) -> None:
    """Without hashes in the request too."""
    wheel = next((bundle.folder / "wheels").glob("fast-*-any.whl"))
    data = wheel.read_bytes()
    wheel.unlink()
    wheel.write_bytes(data + b"\0")
    index = index_at(nginx_mirrors([bundle.folder.parent]), bundle)
    done = pip_install(tmp_path, tmp_path / "there", "--index-url", index, "fast==1.0")
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_pages_of_a_folder_are_an_index_too(bundle: LaidOut, tmp_path: Path) -> None:
    index = (bundle.folder / "simple").as_uri()
    done = pip_install(tmp_path, tmp_path / "there", "--index-url", index, "needs", "fast")
    assert done.returncode == 0, done.stderr
    assert installed(tmp_path / "there") == WANTED


def test_a_page_says_what_an_index_says(bundle: LaidOut, built: dict[str, BuiltFile]) -> None:
    """As our own reader takes it."""
    base = "https://lab.example/some where/simple/needs/"
    page = parse_page("text/html", (bundle.folder / "simple/needs/index.html").read_bytes(), base)
    assert page.is_index
    assert [(file.filename, dict(file.hashes), file.requires_python) for file in page.files] == [
        (built["needs"].filename, {"sha256": built["needs"].sha256}, ">=3.8,<4 , != 3.9.0")
    ]
    assert page.files[0].url == "https://lab.example/some%20where/wheels/needs-1.0-py3-none-any.whl"
    demo = (bundle.folder / "simple/demo-app-x/index.html").read_bytes()
    assert b"../../wheels/demo_app_x-1%212.0%2Bcu101-py3-none-any.whl#sha256=" in demo
    assert b">demo_app_x-1!2.0+cu101-py3-none-any.whl</a>" in demo
    assert b"data-requires-python" not in demo
    assert bundle.text("simple/index.html").count('<a href="') == 3


def test_uv_installs_from_the_lock(bundle: LaidOut, tmp_path: Path) -> None:
    """Offline: the addresses in it lead nowhere, and the paths beside them are taken."""
    command = [str(find_uv()), "pip", "install", "--offline", "--no-cache", "--no-config", "--python", sys.executable]
    command += ["--target", str(tmp_path / "there"), "-r", "pylock.toml"]
    done = subprocess.run(command, cwd=bundle.folder, capture_output=True, encoding="utf-8", timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert installed(tmp_path / "there") == WANTED


@pytest.mark.skipif(Version(pip.__version__) < Version("26.1"), reason="this pip does not read lock files")
def test_pip_installs_from_the_lock(bundle: LaidOut, tmp_path: Path) -> None:
    done = pip_install(bundle.folder, tmp_path / "there", "--no-index", "-r", "pylock.toml")
    assert done.returncode == 0, done.stderr
    assert installed(tmp_path / "there") == WANTED


def test_each_platform_gets_its_own_from_the_lock(bundle: LaidOut, built: dict[str, BuiltFile]) -> None:
    """Chosen as PEP 751 says it, by ``packaging``; a platform or a Python that it was not made for is refused."""
    lock = bundle.folder / "pylock.toml"

    def chosen(platform: str, python: str) -> set[str]:
        return {each.filename for each in read_lock(lock, platform=platform, python=python).artifacts}

    def names(*keys: str) -> set[str]:
        return {built[key].filename for key in keys}

    assert chosen("linux-64", HERE) == names("demo", "needs", "fast-any")
    assert chosen("win-64", "3.9.1") == names("demo-win", "needs", "fast-win")
    assert chosen("osx-arm64", "3.9") == names("needs", "fast-mac")
    for platform, python in (("win-64", "3.10"), ("win-32", "3.9"), ("linux-aarch64", HERE)):
        with pytest.raises(ResumeDLError, match="does not satisfy any of the environments"):
            read_lock(lock, platform=platform, python=python)


def test_a_source_archive_is_taken_where_no_wheel_fits(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path / "built", "fast", "1.0", tag="cp39-cp39-win_amd64")
    sdist = build_sdist(tmp_path / "built", "fast", "1.0")
    wheels, python = {"linux-64": [sdist], "win-64": [wheel]}, {"linux-64": "3.9", "win-64": "3.9"}
    bundle = lay_out(tmp_path / "bundle", wheels=wheels, python=python)
    lock = bundle.folder / "pylock.toml"
    for platform, file in (("linux-64", sdist), ("win-64", wheel)):
        (artifact,) = read_lock(lock, platform=platform, python="3.9", allow_sdist=True).artifacts
        assert (artifact.filename, artifact.sha256, artifact.size) == (file.filename, file.sha256, file.size)


def test_a_lock_file_can_be_empty() -> None:
    empty = b"".join(write_pylock(Manifest(created_by="a test", platforms=(), packages=())))
    assert empty == b'lock-version = "1.0"\ncreated-by = "resume-dl"\npackages = []\n'


def test_the_pythons_of_two_platforms_may_differ(tmp_path: Path) -> None:
    """3.10 is newer than 3.9, whatever letters say."""
    package = BundlePackage(
        path="wheels/a-1-py3-none-any.whl",
        kind="wheel",
        name="A",
        version="1",
        url="https://h/a",
        size=1,
        sha256=A,
    )
    platforms = tuple(
        BundlePlatform(platform=platform, python=python, pip=(package.path,))
        for platform, python in (("linux-64", "3.10.4"), ("win-64", "3.9"))
    )
    text = b"".join(write_pylock(Manifest(created_by="a test", platforms=platforms, packages=(package,)))).decode()
    assert 'requires-python = ">=3.9"' in text
    assert 'name = "a"' in text
    assert "python_version == '3.10'" in text
    assert "marker =" not in text
    (tmp_path / "pylock.toml").write_text(text, encoding="utf-8")
    assert read_lock(tmp_path / "pylock.toml", platform="linux-64", python="3.10").artifacts[0].sha256 == A
