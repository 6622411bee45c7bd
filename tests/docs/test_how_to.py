"""How-tos: their commands that can run here run, their files for other services are read by what reads them."""

from __future__ import annotations

import os
import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from support.conda_cache import build_large_offer, build_offer
from support.installable import is_linux
from support.typed_page import Shell, commands, program

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
SPECS = "pytorch=1.7"
"""What is typed for the word SPECS of a page."""
MIB = 1 << 20


@pytest.fixture(scope="module")
def offer(tmp_path_factory):
    return build_offer(tmp_path_factory.mktemp("offer"))


@pytest.fixture
def shell(test_conda, nginx_mirrors, offer, tmp_path):
    return user_shell(test_conda, nginx_mirrors([offer.root, offer.root]), tmp_path)


def user_shell(test_conda, served, tmp_path):
    """A user with resume-dl and conda; nginx stands for the channels' server and for the mirror that pages name."""
    base = served.base(0)
    test_conda.configure(
        channels=["pytorch", "defaults"], custom_channels={"pytorch": base}, default_channels=[f"{base}/pkgs/main"]
    )
    names = ("pytorch", "pkgs/main")
    table = "schema = 1\n[origins]\n" + "".join(f'"conda:{name}" = "{base}/{name}"\n' for name in names)
    table += '[[mirror]]\nname = "tuna"\n[mirror.carries]\n'
    table += "".join(f'"conda:{name}" = "{served.base(1)}/{name}"\n' for name in names)
    (tmp_path / "mirrors.toml").write_text(table, encoding="utf-8")
    environment = test_conda.environment()
    bin_dir = test_conda.root / "bin"
    bin_dir.mkdir()
    program(bin_dir / "conda", f"export PYTHONPATH={environment.pop('PYTHONPATH')}", test_conda.python, "-m", "conda")
    program(bin_dir / "resume-dl", ":", sys.executable, "-m", "resume_dl")
    environment |= {
        "PATH": f"{bin_dir}{os.pathsep}{os.defpath}",
        "RESUME_DL_MIRRORS": str(tmp_path / "mirrors.toml"),
        "HTTP_PROXY": "http://127.0.0.1:9",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1",
    }
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "environment.yml").write_text("name: work\ndependencies: [pytorch=1.7, python, pip]\n", encoding="utf-8")
    shell = Shell(folder, environment)
    shell.served = served
    return shell


@pytest.mark.conda
@pytest.mark.nginx
@pytest.mark.skipif(not is_linux(), reason="the commands are for a POSIX shell")
@pytest.mark.parametrize("name", ["hpc", "ci-cache", "campus"])
def test_what_a_how_to_says_is_typed(name, shell, test_conda):
    """conda installs what was fetched without a download; Chinese pages have the same commands (test_translations)."""
    for line in commands(HOW_TO / f"{name}.md"):
        if line.startswith("conda "):
            shell.served.reset_log()
        shell.type(line.replace("SPECS", SPECS))
        if line.startswith("conda "):
            assert shell.served.archive_requests() == []


@pytest.fixture(scope="module")
def large_offer(tmp_path_factory):
    return build_large_offer(tmp_path_factory.mktemp("large"), large=12 * MIB)


@pytest.mark.conda
@pytest.mark.nginx
@pytest.mark.skipif(not is_linux(), reason="the commands are for a POSIX shell")
@pytest.mark.parametrize("name", ["browser-download.md", "browser-download.zh-CN.md"])
def test_of_a_browser_download_only_what_is_missing_is_fetched(name, test_conda, nginx_mirrors, large_offer, tmp_path):
    """In an empty home but for the downloads: 90 % of the large package, and a whole one under the name of a copy."""
    served = nginx_mirrors([large_offer.root, large_offer.root])
    shell = user_shell(test_conda, served, tmp_path)
    assert [*test_conda.home.iterdir()] == []
    unfinished, whole = large_offer.package("pytorch"), large_offer.package("mkl")
    downloads = {
        f"{unfinished.filename}.crdownload": unfinished.path.read_bytes()[: unfinished.size * 9 // 10],
        whole.filename.replace(".conda", " (1).conda"): whole.path.read_bytes(),
    }
    folder = test_conda.home / "Downloads"
    folder.mkdir()
    for each, data in downloads.items():
        (folder / each).write_bytes(data)

    dry, adopt, fetch, create = (line.replace("SPECS", SPECS) for line in commands(HOW_TO / name))
    screen = shell.type(dry)
    assert all(package.filename in screen for package in (unfinished, whole))
    assert not test_conda.pkgs.exists() or [*test_conda.pkgs.iterdir()] == []
    shell.type(adopt)
    assert (test_conda.pkgs / whole.filename).read_bytes() == whole.path.read_bytes()
    assert served.archive_requests() == []

    shell.type(fetch)
    requests = served.archive_requests()
    assert {Path(request.uri).name for request in requests} == {
        package.filename for package in large_offer.wanted.values() if package is not whole
    }
    of_unfinished = sum(request.bytes for request in requests if request.uri.endswith(unfinished.filename))
    missing = unfinished.size - unfinished.size * 9 // 10
    assert missing <= of_unfinished <= missing + MIB

    served.reset_log()
    assert create.startswith("conda create ")
    shell.type(create)
    assert served.archive_requests() == []
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == downloads


@pytest.mark.parametrize("name", ["ci-cache.md", "ci-cache.zh-CN.md"])
def test_files_of_ci_services_are_yaml(name):
    """Both keep the folder of the two variables, after a failed job too."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", (HOW_TO / name).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    github, gitlab = (YAML(typ="safe").load(StringIO(block)) for block in blocks)
    job = github["jobs"]["test"]
    restore, save = (step for step in job["steps"] if step.get("uses", "").startswith("actions/cache/"))
    assert restore["with"]["key"] == save["with"]["key"]
    assert restore["with"]["key"].startswith(restore["with"]["restore-keys"])
    assert save["if"] == "always()"
    assert {each["with"]["path"] for each in (restore, save)} == {".cache"}
    assert all("/.cache/" in job["env"][each] for each in ("CONDA_PKGS_DIRS", "RESUME_DL_CACHE_DIR"))
    cached = gitlab["test"]["cache"]
    assert (cached["paths"], cached["when"]) == ([".cache/"], "always")
    assert gitlab["test"]["variables"].keys() == job["env"].keys()
