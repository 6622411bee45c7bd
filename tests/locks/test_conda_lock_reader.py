"""conda-lock.yml as text: what is taken of it, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.resolution.lock_files import is_conda_lock, read_conda_locks
from resume_dl.resolve.requirements import read_requirements
from support.fetching import User

MD5, SHA = "a" * 32, "b" * 64
HEAD = "version: 1\nmetadata:\n  content_hash: {}\n  channels: []\n  platforms: [linux-64, win-64]\npackage:\n"
CONDA = "https://conda.anaconda.org/conda-forge"


def entry(
    name: str,
    *,
    url: str = "",
    manager: str = "conda",
    platform: str = "linux-64",
    hashes: str = "",
    category: str = "main",
) -> str:
    url = url or f"{CONDA}/{platform}/{name}-1.0-0.conda"
    hashes = hashes or f"{{md5: {MD5}, sha256: {SHA}}}"
    text = f"- name: {name}\n  version: '1.0'\n  manager: {manager}\n  platform: {platform}\n  dependencies: {{}}\n"
    return text + f"  url: {url}\n  hash: {hashes}\n  category: {category}\n  optional: false\n"


def take(folder: Path, *entries: str, platforms: tuple[str, ...] = ("linux-64",), environments: tuple[str, ...] = ()):
    path = folder / "conda-lock.yml"
    path.write_text(HEAD + "".join(entries), encoding="utf-8")
    return read_conda_locks(path, platforms=platforms, environments=environments, canonical=lambda url: url)


WHEEL = "https://files.example/packages/demo_app-1.0-py3-none-any.whl"


def test_platforms_categories_and_the_pip_part(tmp_path: Path) -> None:
    """main and dev as conda-lock installs them, others when named; one line says what is taken and what is not."""
    entries = [
        entry("a"),
        entry("a", platform="win-64"),
        entry("b", category="dev"),
        entry("c", category="docs"),
        entry("a", category="docs"),
        entry("n", url=f"{CONDA}/noarch/n-1.0-0.tar.bz2", hashes=f"{{md5: {MD5[1:]}c}}"),
        entry("demo-app", url=WHEEL, manager="pip", hashes=f"{{sha256: {SHA[1:]}c}}"),
        entry("vcs", url="git+https://example/vcs.git", manager="pip"),
    ]
    entries = [each.replace(SHA, f"{number % 4:063x}f") for number, each in enumerate(entries)]  # a of docs is a
    linux, windows = take(tmp_path, *entries, platforms=("linux-64", "win-64"))
    assert [each.filename for each in linux.conda] == ["a-1.0-0.conda", "b-1.0-0.conda", "n-1.0-0.tar.bz2"]
    assert [each.subdir for each in linux.conda] == ["linux-64", "linux-64", "noarch"]
    assert [(each.kind, each.filename) for each in linux.pip] == [("wheel", "demo_app-1.0-py3-none-any.whl")]
    assert linux.note == (
        "conda-lock.yml: 3 conda packages and 1 pip package for linux-64, category dev, main; "
        "ignored: category docs, platform win-64, vcs (version control or local paths)"
    )
    assert [each.subdir for each in windows.conda] == ["win-64"]
    (named,) = take(tmp_path, *entries, environments=("docs",))
    assert {each.name for each in named.conda} == {"a", "c", "n"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + entry("a")[:-60] + "  - [", "line"),
        ("[]\n", "is a list, not a table"),
        (HEAD.replace("version: 1", "version: 2") + entry("a"), "version: is '2'; only 1"),
        (HEAD.replace("version: 1\n", "") + entry("a"), "version"),
        (HEAD + entry("a", hashes="{}"), r"package 1 \(a\), url: has no digest"),
        (HEAD + entry("a", hashes="{sha256: xyz}"), r"package 1 \(a\), url: not a sha256 digest"),
        (HEAD + entry("a", hashes="[]"), r"package 1 \(a\), hash: is a list"),
        (HEAD + entry("a") + "- text\n", "package 2: is a text, not a table"),
        (HEAD + entry("a", url=f"{CONDA}/linux-64/..%2Fa-1.0-0.conda"), r"package 1 \(a\), url"),
        (HEAD + entry("a", url=f"{CONDA}/../a-1.0-0.conda"), "another place"),
        (HEAD + entry("a", url="ftp://host/linux-64/a-1.0-0.conda"), "scheme is 'ftp'"),
        (HEAD + entry("a", url="file://host/linux-64/a-1.0-0.conda"), "another place"),
        (HEAD + entry("a", url="https://me:hush@host/linux-64/a-1.0-0.conda"), "has a login"),
        (HEAD + entry("a", url="https://host/t/hush/linux-64/a-1.0-0.conda"), "has a login"),
        (HEAD + entry("a", url=f"{CONDA}/linux-64/b-1.0-0.conda"), "is not 'a'"),
        (HEAD + entry("a", platform="'../x'"), "platform: is '../x'"),
        (HEAD + entry("a", url=f"{CONDA}/win-64/a-1.0-0.conda"), "leads to 'win-64', not to linux-64 or noarch"),
        (HEAD + entry("a") + entry("a", hashes=f"{{sha256: {SHA[1:]}c}}"), "two digests of a-1.0-0.conda"),
        (HEAD + entry("a", manager="brew"), "manager: is 'brew'"),
        (HEAD + entry("a", url=WHEEL, manager="pip"), "is not 'a'"),
        (HEAD + entry("a", url=f"{CONDA}/x.exe", manager="pip"), "neither a wheel nor"),
        (HEAD + entry("a", url='"https://h\\n/linux-64/a-1.0-0.conda"'), "another place"),
        (HEAD + entry("a", url='"https://h/linux-64/a-1.0-0.conda\\t"'), "another place"),
        (HEAD + entry("a", url='"https://h/linux-64/a-1.0-0.conda\\0"'), "another place"),
        (HEAD + entry("a", url="file:////server/linux-64/a-1.0-0.conda"), "another place"),
        (HEAD + entry("a", url="'file:\\\\server\\linux-64\\a-1.0-0.conda'"), "another place"),
        (HEAD + entry("a", url="https://h:x/linux-64/a-1.0-0.conda"), "is not a URL"),
        (HEAD + entry("a", url=f"https://h/{'x' * 9000}/linux-64/a-1.0-0.conda"), "more than servers accept"),
        (HEAD + entry("a", hashes=f"{{sha256: {'a' * 500_000}}}"), r"not a sha256 digest.*500,0\d\d characters"),
        (HEAD + entry("'https://me:hush@h/x'"), r"package 1 \(https://\*\*\*@h/x\), url"),
        (HEAD + entry(f"'https://me:hush{'x' * 90}@h/x'"), "package 1"),
        (HEAD.replace("version: 1", f"version: 0x{'9' * 50_000}") + entry("a"), "version: is a long number"),
        (HEAD.replace("version: 1", f"version: {'9' * 5000}") + entry("a"), "not valid YAML"),
        (HEAD + entry("a") + "  url: https://evil.example/linux-64/a-1.0-0.conda\n", 'duplicate key "url"'),
        (HEAD + entry("a").replace("'1.0'", "'1.0'\n  x: " + "[" * 3000), "not valid YAML"),
        (HEAD, "locks no package"),
        (HEAD + "- &a [*a, *a]\n", "package 1"),
    ],
)
def test_a_broken_one_is_refused_with_its_line_or_key(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "conda-lock.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=said) as caught:
        read_conda_locks(path, platforms=("linux-64",), environments=(), canonical=lambda url: url)
    assert caught.value.exit_code == 2
    assert "hush" not in str(caught.value)


def test_a_missing_platform_or_category_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no packages for osx-64, but for linux-64, win-64"):
        take(tmp_path, entry("a"), platforms=("osx-64",))
    with pytest.raises(ConfigurationError, match="no category 'docs', but main"):
        take(tmp_path, entry("a"), environments=("docs",))


POETRY = '[[package]]\nname = "a"\n\n[metadata]\nlock-version = "2.1"\n'


@pytest.mark.parametrize(
    ("name", "text", "said", "instead"),
    [
        ("other.lock", POETRY, "has no URLs", "poetry export"),
        ("poetry.lock", "", "has no URLs", "poetry export"),
    ],
)
def test_a_format_that_is_not_read_is_refused_with_what_to_do(
    tmp_path: Path, name: str, text: str, said: str, instead: str
) -> None:
    """By its name or its content."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=said) as caught:
        read_requirements(path, env={})
    assert caught.value.exit_code == 2
    assert not is_conda_lock(path)
    assert instead in caught.value.hint


def test_a_refused_file_leaves_nothing_behind(tmp_path: Path) -> None:
    """Exit code 2, in fetch and in bundle create, as for a format that is not read."""
    user = User(tmp_path / "user")
    lock = tmp_path / "my.yaml"  # known by its content
    lock.write_text(HEAD + entry("a", hashes="{}"), encoding="utf-8")
    poetry = tmp_path / "poetry.lock"
    poetry.write_text(POETRY, encoding="utf-8")
    for path, said in ((lock, "has no digest"), (poetry, "Poetry")):
        for words in (["fetch"], ["bundle", "create", "-o", str(tmp_path / "out")]):
            done = user.run(*words, "--platform", "linux-64", "--file", path)
            assert (done.code, said in done.err) == (2, True), done.err
            assert user.archives() == set()
            assert not (tmp_path / "out").exists()


def test_what_is_kept_of_an_entry(tmp_path: Path) -> None:
    """Both digests in lower case, the URL without its fragment, once for all categories; without a category: main."""
    hashes = f"{{md5: {MD5.upper()}, sha256: {SHA.upper()}}}"
    first = entry("a", url=f"{CONDA}/linux-64/a-1.0-0.conda#{MD5}", hashes=hashes).replace("  category: main\n", "")
    (taken,) = take(
        tmp_path, first, entry("a", category="dev"), entry("w-x", category="dev").replace("b" * 64, "c" * 64)
    )
    one, other = taken.conda
    assert (one.sha256, one.md5, str(one.url)) == (SHA, MD5, f"{CONDA}/linux-64/a-1.0-0.conda")
    assert other.name == "w-x"


def test_a_file_larger_than_any_lock_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "conda-lock.yml"
    path.write_bytes(b"")
    os.truncate(path, (64 << 20) + 1)
    with pytest.raises(ConfigurationError, match="cannot read"):
        read_conda_locks(path, platforms=("linux-64",), environments=(), canonical=lambda url: url)


ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)
)
"""Lists of aliases of lists: 10^30 texts, if all were written."""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ALIASES + HEAD.replace("version: 1", "version: *a29") + entry("a"), "version: is a list; only 1"),
        (ALIASES + HEAD.replace("version: 1", "version: {a: *a29}") + entry("a"), "version: is a table; only 1"),
        (ALIASES + HEAD + entry("a").replace("name: a", "name: *a29"), "name: is a list, not a text"),
        (f"? {{? [a] : 1}}\n: 1\n{HEAD}{entry('a')}", "is not valid YAML"),
        (f"a: &a [x]\n? [*a]\n: 1\n{HEAD}{entry('a')}", "is not valid YAML"),
    ],
)
def test_aliases_of_aliases_and_keys_that_are_lists(tmp_path: Path, text: str, said: str) -> None:
    """A message about a value does not write it out, and no key ends in an internal error."""
    path = tmp_path / "conda-lock.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        read_conda_locks(path, platforms=("linux-64",), environments=(), canonical=lambda url: url)
    assert said in str(caught.value)
