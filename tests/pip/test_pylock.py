"""pylock.toml: the files for a platform, chosen as a real resolver and the real pip choose them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError, ResolutionError, ResumeDLError, UnsatisfiableError
from resume_dl.model.pip import PipSolution
from resume_dl.resolve.pylock import read_lock
from resume_dl.resolve.target import tags_for

HASH = "a" * 64
HEAD = 'lock-version = "1.0"\ncreated-by = "a test"\n'
WHEEL = "a-1.6.0-py3-none-any.whl"
TORCH = "torch-1.6.0-cp38-cp38-{}.whl"


def package(name: str, *files: str, extra: str = "", **tables: str) -> str:
    """One package with wheels of these names, or with other tables."""
    text = f'[[packages]]\nname = "{name}"\nversion = "1.6.0"\n{extra}\n'
    for kind, table in tables.items():
        text += f"[packages.{kind}]\n{table}\n"
    for file in files:
        text += (
            f'[[packages.wheels]]\nname = "{file}"\nurl = "https://h.example/w/{file.replace("+", "%2B")}"\nsize = 5\n'
        )
        text += f'hashes = {{sha256 = "{HASH}"}}\n'
    return text


def lock(
    folder: Path, *packages: str, platform: str = "linux-64", python: str = "3.8", **options: object
) -> PipSolution:
    path = folder / "pylock.toml"
    path.write_text(HEAD + "".join(packages), encoding="utf-8")
    return read_lock(path, platform=platform, python=python, **options)


def names(solution: PipSolution) -> list[str]:
    return [artifact.filename for artifact in solution.artifacts]


@pytest.mark.parametrize(
    ("platform", "wheel"),
    [
        ("linux-64", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
        ("linux-aarch64", "manylinux2014_aarch64"),
        ("osx-64", "macosx_10_9_x86_64"),
        ("osx-arm64", "macosx_11_0_arm64"),
        ("win-64", "win_amd64"),
        ("win-32", "win32"),
    ],
)
def test_each_platform_gets_its_wheel(tmp_path: Path, platform: str, wheel: str) -> None:
    """By conda's name for it; the file's address, size and digest are the lock's."""
    tags = ("win32", "win_amd64", "macosx_10_9_x86_64", "macosx_11_0_arm64", "manylinux2014_aarch64")
    files = [TORCH.format(tag) for tag in (*tags, "manylinux_2_17_x86_64.manylinux2014_x86_64")]
    solution = lock(tmp_path, package("torch", *files), platform=platform)
    assert names(solution) == [TORCH.format(wheel)]
    found = solution.artifacts[0]
    assert (found.kind, found.size, found.sha256, found.version) == ("wheel", 5, HASH, "1.6.0")
    assert found.record == {"hashes": {"sha256": HASH}, "allowed": [f"sha256:{HASH}"]}
    assert found.url.reveal() == f"https://h.example/w/{TORCH.format(wheel)}"
    assert (solution.platform, solution.python) == (platform, "3.8")


def test_markers_are_those_of_the_target(tmp_path: Path) -> None:
    """colorama for Windows alone, wherever this runs."""
    packages = [
        package("tqdm", "tqdm-1.6.0-py3-none-any.whl"),
        package("colorama", "colorama-1.6.0-py2.py3-none-any.whl", extra="marker = \"sys_platform == 'win32'\""),
        package(
            "mac", "mac-1.6.0-py3-none-any.whl", extra="marker = \"platform_machine == 'arm64' and os_name == 'posix'\""
        ),
        package("old", "old-1.6.0-py3-none-any.whl", extra="marker = \"python_full_version < '3.8'\""),
    ]
    for platform, more in (("win-64", "colorama"), ("osx-arm64", "mac"), ("linux-64", None)):
        found = [artifact.name for artifact in lock(tmp_path, *packages, platform=platform).artifacts]
        assert found == ["tqdm", *([more] if more else [])]


def test_the_best_wheel_and_a_local_version(tmp_path: Path) -> None:
    """The newest manylinux that fits before an older one and before a pure one; ``+cu101`` is decoded."""
    tags = ("py3-none-any", "cp38-cp38-manylinux2014_x86_64", "cp38-abi3-manylinux_2_40_x86_64")
    files = [f"a-1.6.0+cu101-{tag}.whl" for tag in tags]
    torch = package("a", *files).replace('"1.6.0"', '"1.6.0+cu101"')
    assert names(lock(tmp_path, torch)) == [files[1]]
    assert names(lock(tmp_path, torch, python="3.9")) == [files[0]]
    abi3 = "a-1.6.0-cp36-abi3-win_amd64.whl"
    assert names(lock(tmp_path, package("a", abi3), platform="win-64")) == [abi3]


def test_without_a_compatible_file_the_error_names_the_existing_ones(tmp_path: Path) -> None:
    """Exit code 3."""
    with pytest.raises(UnsatisfiableError, match="'torch'") as caught:
        lock(tmp_path, package("torch", TORCH.format("win_amd64")))
    assert TORCH.format("win_amd64") in caught.value.hint
    with pytest.raises(UnsatisfiableError, match=r"3\.9"):
        lock(tmp_path, 'requires-python = ">=3.9"\n', package("a", "a-1.6.0-py3-none-any.whl"))


ARCHIVE = f'url = "https://me:hush@h.example/a-1.6.0-py3-none-any.whl"\nhashes = {{sha256 = "{HASH}"}}'
SDIST = f'name = "a-1.6.0.tar.gz"\nurl = "https://h.example/a-1.6.0.tar.gz"\nhashes = {{sha256 = "{HASH}"}}'


def test_a_source_archive_needs_allow_sdist(tmp_path: Path) -> None:
    """Exit code 3 otherwise."""
    with pytest.raises(ResolutionError, match=r"a-1\.6\.0\.tar\.gz") as caught:
        lock(tmp_path, package("a", sdist=SDIST))
    assert "--allow-sdist" in caught.value.hint
    solution = lock(tmp_path, package("a", sdist=SDIST), allow_sdist=True)
    assert [(artifact.kind, artifact.filename) for artifact in solution.artifacts] == [("sdist", "a-1.6.0.tar.gz")]


def test_archives_are_used_and_other_sources_reported(tmp_path: Path) -> None:
    """A wheel by its address is a file like any other; version control and folders are pip's own matter."""
    solution = lock(
        tmp_path,
        package("a", archive=ARCHIVE),
        package("b", vcs='type = "git"\nurl = "https://h.example/b.git"\ncommit-id = "1"'),
        package("c", directory='path = "./c"'),
    )
    assert names(solution) == ["a-1.6.0-py3-none-any.whl"]
    assert [note.split(" locks ")[1].split()[0] for note in solution.notes] == ["b", "c"]
    assert "hush" not in repr(solution.artifacts)


def test_canonical_addresses(tmp_path: Path) -> None:
    """A mirror's address becomes the origin's."""
    solution = lock(tmp_path, package("a", "a-1.6.0-py3-none-any.whl"), canonical=lambda url: url.replace("h.", "up."))
    assert solution.artifacts[0].url.reveal() == "https://up.example/w/a-1.6.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "not valid TOML"),
        ("lock-version = '2.0'\ncreated-by = 'x'\npackages = []\n", "not a valid lock file"),
        ("[project]\n", "not a valid lock file"),
        (HEAD + package("a", "../a-1.6.0-py3-none-any.whl"), "a"),
        (HEAD + package("a", WHEEL).replace("https://", "ftp://"), "a, url: the URL's scheme is 'ftp'"),
        (HEAD + package("a", WHEEL).replace("/w/", "/w/../"), "a, url: the URL leads to another place"),
        (HEAD + package("a", WHEEL).replace("/w/", "/w/%2e%2e/"), "a, url: the URL leads to another place"),
        (HEAD + package("a", WHEEL).replace("https://", "file://"), "a, url: the URL leads to another place"),
    ],
)
def test_an_invalid_lock_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """Exit code 2, and what is wrong; a name that leads elsewhere is refused."""
    (tmp_path / "pylock.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ResumeDLError, match=said) as caught:
        read_lock(tmp_path / "pylock.toml", platform="linux-64", python="3.8")
    assert caught.value.exit_code == 2


def test_a_platform_without_wheels(tmp_path: Path) -> None:
    """The hint names those that there are."""
    with pytest.raises(ConfigurationError, match="zos-z") as caught:
        lock(tmp_path, platform="zos-z")
    assert "linux-64" in caught.value.hint


def test_pip_selects_the_same_wheels_on_this_machine() -> None:
    """``pip debug`` lists its tags, for this Python and another; ours are those, in that order."""
    pytest.importorskip("pip")
    for version in ("3.10", ".".join(map(str, sys.version_info[:2]))):
        line = [sys.executable, "-m", "pip", "--isolated", "debug", "--verbose", "--python-version", version]
        shown = subprocess.run(line, check=True, capture_output=True, text=True).stdout
        theirs = [line.strip() for line in shown.partition("Compatible tags")[2].splitlines()[1:] if line.strip()]
        assert [str(tag) for tag in tags_for(version, None)] == theirs
