"""uv.lock made by uv itself: fetched without an index and a resolution, installed offline by uv."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from resume_dl.resolve.uv_program import find_uv
from support.bundles import Maker, archives_of, by_path, sums_hold
from support.fetching import CHANNELS
from support.nginx import NginxMirrors
from support.pip_index import BuiltFile, build_sdist, build_wheel, write_index

pytestmark = pytest.mark.nginx
PROJECT = """
[project]
name = "my-proj"
version = "0.1"
requires-python = ">=3.10"
dependencies = ["demo-app"]
[project.optional-dependencies]
pretty = ["rich"]
[dependency-groups]
dev = ["checker"]
docs = ["writer"]
[tool.uv]
package = true
[[tool.uv.index]]
url = "{index}"
default = true
"""
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
LINUX = ["--platform", "linux-64", "--python", HERE]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BuiltFile]:
    """Name -> wheel; demo-app needs tqdm, and that colorama on Windows."""
    folder = tmp_path_factory.mktemp("built")
    files = [
        build_wheel(folder, "demo-app", "1.0", requires=["tqdm>=4"], filler=100_000),
        build_wheel(folder, "tqdm", "4.66.0", requires=["colorama; sys_platform == 'win32'"]),
        *(build_wheel(folder, name, "1.0") for name in ("colorama", "rich", "checker", "writer")),
    ]
    return {file.normalized: file for file in files}


@pytest.fixture
def maker(built: dict[str, BuiltFile], nginx_mirrors: Callable[..., NginxMirrors], tmp_path: Path) -> Maker:
    """A user with two mirrors of the index."""
    root = tmp_path / "root"
    write_index(root, [*built.values(), build_sdist(tmp_path / "sdist", "only-source", "1.0")])
    nginx = nginx_mirrors([root, root])
    maker = Maker(tmp_path / "maker", nginx)
    maker.write_mirrors(
        {
            f"mirror{number}": {f"conda:{name}": f"{nginx.base(number)}/{name}" for name in CHANNELS}
            | {"pypi:files": f"{nginx.base(number)}/packages"}
            for number in range(2)
        }
    )
    return maker


def uv(folder: Path, *words: str | Path) -> str:
    """Run uv in a project, without anybody's settings and cache."""
    command = [str(find_uv()), *map(str, words), "--no-cache", "--no-progress", "--python", sys.executable]
    env = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lock_project(maker: Maker, text: str = PROJECT) -> Path:
    """The uv.lock of a project, whose files lie at the origin of the mirrors."""
    folder = maker.folder / "project"
    folder.mkdir()
    index = f"{maker.nginx.base()}/simple"
    (folder / "pyproject.toml").write_text(text.replace("{index}", index), encoding="utf-8")
    uv(folder, "lock")
    path = folder / "uv.lock"
    origin = path.read_text().replace(f"{maker.nginx.base()}/packages", "https://files.pythonhosted.org/packages")
    path.write_text(origin, encoding="utf-8")
    maker.nginx.reset_log()
    return path


def requested(maker: Maker) -> set[str]:
    """File names of all requests."""
    return {each.uri.rpartition("/")[2] for each in maker.nginx.requests()}


def names(built: dict[str, BuiltFile], *projects: str) -> set[str]:
    return {built[name].filename for name in projects}


def fetch(maker: Maker, lock: Path, *words: str | Path, env: dict[str, str] | None = None):
    return maker.run("fetch", *maker.options, "--file", lock, "--json", *words, env=env)


def test_what_uv_locked_is_fetched_and_installed_offline(maker: Maker, built: dict[str, BuiltFile]) -> None:
    """Project and group dev, from the mirrors; no index is read. The project is not touched, and not needed."""
    lock = lock_project(maker)
    alone = maker.folder / "alone" / "other.lock"  # known by its content
    alone.parent.mkdir()
    alone.write_bytes(lock.read_bytes())
    before = {path: path.read_bytes() for path in lock.parent.iterdir() if path.is_file()}
    wanted = names(built, "demo-app", "tqdm", "checker")
    dest = maker.folder / "dest"
    done = fetch(maker, alone, *LINUX, "--dest", dest)
    assert done.code == 0, done.err
    assert {each["filename"] for each in done.report["artifacts"]} == wanted == requested(maker)
    assert {each["verified_by"] for each in done.report["artifacts"]} == {"digest"}
    assert "skipped" not in done.err  # the project itself
    again = fetch(maker, lock, *LINUX, "--dest", dest)
    assert set(again.statuses.values()) == {"cached"}
    assert {path: path.read_bytes() for path in lock.parent.iterdir() if path.is_file()} == before
    assert [path.name for path in alone.parent.iterdir()] == ["other.lock"]

    maker.nginx.stop()
    exact, target = maker.folder / "requirements.txt", maker.folder / "target"
    exact.write_text(uv(lock.parent, "export", "--frozen", "--offline", "--no-emit-project"), encoding="utf-8")
    links = ["--offline", "--no-index", "--find-links", dest, "--target", target, "--require-hashes", "-r", exact]
    uv(maker.folder, "pip", "install", *links)
    assert {path.name.partition("-")[0] for path in target.glob("*.dist-info")} == {"demo_app", "tqdm", "checker"}


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ([], ["checker"]),
        (["--environment", "docs"], ["writer"]),
        (["--environment", "pretty", "--environment", "dev"], ["rich", "checker"]),
        (["--platform", "win-64"], ["checker", "colorama"]),
    ],
)
def test_groups_extras_and_platforms(
    maker: Maker, built: dict[str, BuiltFile], words: Sequence[str], more: Sequence[str]
) -> None:
    """dev unless others are named, the project always, and the markers of the platform decide."""
    lock = lock_project(maker)
    platform = [] if "--platform" in words else ["--platform", "linux-64"]
    done = fetch(maker, lock, *platform, *words, "--python", HERE, "--dest", maker.folder / "dest")
    assert done.code == 0, done.err
    assert {each["filename"] for each in done.report["artifacts"]} == names(built, "demo-app", "tqdm", *more)


def test_a_bundle_of_it(maker: Maker, built: dict[str, BuiltFile]) -> None:
    """For two platforms, complete by its own checksums."""
    lock = lock_project(maker)
    done = maker.create("--file", lock, "--platform", "linux-64", "--platform", "win-64", "--python", HERE)
    assert done.code == 0, done.err
    paths = {f"wheels/{name}" for name in names(built, "demo-app", "tqdm", "checker", "colorama")}
    assert archives_of(maker.out) == paths
    assert sums_hold(maker.out)
    assert by_path(maker.out)[f"wheels/{built['colorama'].filename}"]["requested_by"] == ["uv.lock"]
    assert not any("/simple/" in each.uri for each in maker.nginx.requests())


def test_a_workspace_without_a_project_of_its_own(maker: Maker, built: dict[str, BuiltFile]) -> None:
    """All of its members, as ``uv sync`` there installs them."""
    for name, needs in (("one", "tqdm"), ("two", "writer")):
        member = maker.folder / "project" / "members" / name
        member.mkdir(parents=True)
        (member / "pyproject.toml").write_text(
            f'[project]\nname = "{name}"\nversion = "0"\nrequires-python = ">=3.10"\ndependencies = ["{needs}"]\n'
        )
    (maker.folder / "project").rename(maker.folder / "workspace")
    head = '[tool.uv.workspace]\nmembers = ["members/*"]\n[[tool.uv.index]]\nurl = "{index}"\ndefault = true\n'
    workspace = maker.folder / "workspace"
    (workspace / "pyproject.toml").write_text(head.replace("{index}", f"{maker.nginx.base()}/simple"))
    uv(workspace, "lock")
    done = fetch(maker, workspace / "uv.lock", *LINUX, "--dest", maker.folder / "dest")
    assert done.code == 0, done.err
    assert {each["filename"] for each in done.report["artifacts"]} == names(built, "tqdm", "writer")


def test_a_project_in_the_folder_for_temporary_files_is_not_asked(maker: Maker, built: dict[str, BuiltFile]) -> None:
    """Everybody may write one there, and uv looks for a workspace in all folders above."""
    lock, shared = lock_project(maker), maker.folder / "shared"
    shared.mkdir()
    (shared / "pyproject.toml").write_text('[tool.uv.workspace]\nmembers = ["*"]\n[tool.uv]\nmalformed = 7\n')
    done = fetch(maker, lock, *LINUX, "--dest", maker.folder / "dest", env={"TMPDIR": str(shared)})
    assert done.code == 0, done.err
    assert {each["filename"] for each in done.report["artifacts"]} == names(built, "demo-app", "tqdm", "checker")


def test_source_archives_and_local_paths(maker: Maker) -> None:
    """An archive needs --allow-sdist; what lies at a local path is named and not fetched."""
    local = maker.folder / "local"
    local.mkdir()
    (local / "pyproject.toml").write_text('[project]\nname = "local"\nversion = "0"\n')
    text = PROJECT.replace('["demo-app"]', '["only-source", "local"]')
    lock = lock_project(maker, f'{text}[tool.uv.sources]\nlocal = {{ path = "../local" }}\n')
    dest = ["--dest", maker.folder / "dest"]
    refused = fetch(maker, lock, *LINUX, *dest)
    assert (refused.code, "only a source archive" in refused.err) == (3, True), refused.err
    done = fetch(maker, lock, *LINUX, *dest, "--allow-sdist", "--environment", "pretty")
    assert done.code == 0, done.err
    assert sorted(done.statuses) == ["only_source-1.0.tar.gz", "rich-1.0-py3-none-any.whl"]
    assert "locks local to version control or a local path" in done.err


TQDM = "/tqdm-4.66.0-py3-none-any.whl"


def test_a_broken_one_is_refused_with_its_line_or_key(maker: Maker, built: dict[str, BuiltFile]) -> None:
    """Exit code 2, before any request, and nothing is written."""
    lock, out = lock_project(maker), maker.folder / "nothing"
    sha256 = built["tqdm"].sha256
    text, path = lock.read_text(encoding="utf-8"), maker.folder / "uv.lock"
    for change, said in (
        (lambda text: text[: text.index(TQDM)], "line "),
        (lambda text: text.replace("version = 1", "version = 2", 1), "version: is '2'; only 1 is supported"),
        (lambda text: text.replace("version = 1\n", "", 1), "version: is 'None'"),
        (lambda text: text.replace(f', hash = "sha256:{sha256}"', ""), "(tqdm), wheels 1: has no digest"),
        (lambda text: text.replace(sha256, "xyz"), "line "),
        (lambda text: text.replace(f'"sha256:{sha256}"', "7"), "(tqdm), wheels 1, hash: is a number, not a text"),
        (lambda text: text.replace("wheels = [", "wheels = 7 #[", 1).replace("\n]\n", "\n#]\n", 1), "line "),
        (lambda text: text.replace('name = "tqdm"\nv', "name = 7\nv"), "name: is a number, not a text"),
        (lambda text: text.replace('name = "tqdm"\nv', 'name = "../tqdm"\nv'), "name: '../tqdm' is not a name"),
        (lambda text: text.replace('name = "my-proj"', 'name = "my\\"proj"'), "is not a name"),
        (lambda text: text.replace(TQDM, f"/..%2F{TQDM[1:]}"), "line "),
        (lambda text: text.replace(TQDM, "/evil.exe"), "line "),
        (lambda text: text.replace(TQDM, TQDM.replace("tqdm", "rich")), "not consistent with package name 'tqdm'"),
        (lambda text: text.replace(f"https://files.pythonhosted.org/{built['tqdm'].url_path}",
                                   f"ftp://files.example{TQDM}"), "scheme is 'ftp'"),
        (lambda text: text.replace('{ editable = "." }', '{ registry = "https://x.example" }'), "locks no project"),
        (lambda text: text.replace('{ name = "tqdm" }', '{ name = "nobody" }'), "nobody"),
    ):  # fmt: skip
        assert change(text) != text
        path.write_text(change(text), encoding="utf-8")
        commands = (["fetch", "--dest", out], ["bundle", "create", "-o", out])
        for command in commands if "digest" in said else commands[:1]:
            done = maker.run(*command, *maker.options, "--file", path, *LINUX)
            assert (done.code, said in done.err) == (2, True), (said, done.err)
            assert not out.exists()
    assert maker.nginx.requests() == []
    unknown = fetch(maker, lock, *LINUX, "--environment", "nope", "--dest", out)
    assert (unknown.code, "no extra or dependency group 'nope', but dev, docs, pretty" in unknown.err) == (2, True)
    assert json.loads(unknown.out)["exit_code"] == 2
