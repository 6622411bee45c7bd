"""How-tos: their commands that can run here run, their files for other services are read by what reads them."""

from __future__ import annotations

import os
import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from support.conda_cache import build_offer
from support.installable import is_linux
from support.typed_page import Shell, commands, program

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
SPECS = "pytorch=1.7"
"""What is typed for the word SPECS of a page."""


@pytest.fixture(scope="module")
def offer(tmp_path_factory):
    return build_offer(tmp_path_factory.mktemp("offer"))


@pytest.fixture
def shell(test_conda, nginx_mirrors, offer, tmp_path):
    """A user with resume-dl and conda; nginx stands for the channels' server and for the mirror that pages name."""
    served = nginx_mirrors([offer.root, offer.root])
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
@pytest.mark.parametrize("name", ["hpc", "ci-cache", "campus", "browser-download"])
def test_what_a_how_to_says_is_typed(name, shell, test_conda):
    """conda installs what was fetched without a download; Chinese pages have the same commands (test_translations)."""
    for line in commands(HOW_TO / f"{name}.md"):
        if line.startswith("conda "):
            shell.served.reset_log()
        shell.type(line.replace("SPECS", SPECS))
        if line.startswith("conda "):
            assert shell.served.archive_requests() == []


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
