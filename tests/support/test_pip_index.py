"""The made indexes are real: pip and uv install from them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from support.nginx import _DIRECT
from support.pip_index import big_wheel, build_sdist, build_wheel, write_find_links, write_index

JSON = "application/vnd.pypi.simple.v1+json"


def pip(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``pip install --target folder/site`` that reads no settings of this machine."""
    env = {name: value for name, value in os.environ.items() if not name.upper().startswith(("PIP_", "UV_"))}
    env |= {"PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "127.0.0.1"}
    target = ["--target", str(folder / "site"), "--no-cache-dir", "--disable-pip-version-check", "--no-deps"]
    return subprocess.run(
        [sys.executable, "-m", "pip", "install", *target, *arguments],
        check=False,
        env=env,
        capture_output=True,
        text=True,
    )


def installed_version(folder: Path, module: str) -> str:
    program = f"import {module}; print({module}.VERSION)"
    env = {**os.environ, "PYTHONPATH": str(folder / "site")}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, check=False, env=env, capture_output=True, text=True).stdout.strip()


def page(url: str, accept: str = "text/html") -> tuple[str, str]:
    """Content type and text."""
    with _DIRECT.open(urllib.request.Request(url, headers={"Accept": accept}), timeout=60) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


@pytest.mark.parametrize(
    "options", [{}, {"html": False}, {"json": False}, {"hashes": False, "core_metadata": False}, {"prefix": "own/"}]
)
def test_pip_installs_from_an_index(tmp_path, nginx_mirrors, options):
    """Whatever form the pages have."""
    wheel = build_wheel(tmp_path / "built", "demo.app", "1.0", files={"demo_app/data.txt": b"x"})
    write_index(tmp_path / "root", [wheel], **options)
    nginx = nginx_mirrors([tmp_path / "root"])
    done = pip(tmp_path, "--index-url", f"{nginx.base()}/{options.get('prefix', '')}simple/", "demo-app")
    assert done.returncode == 0, done.stderr
    assert installed_version(tmp_path, "demo_app") == "1.0"
    assert sum(request.bytes for request in nginx.archive_requests()) == wheel.size


def test_the_form_of_a_page_is_what_was_asked_for(tmp_path, nginx_mirrors):
    wheel = build_wheel(tmp_path / "built", "app", "1.0", requires_python=">=3.8", yanked="broken")
    write_index(tmp_path / "root", [wheel])
    url = nginx_mirrors([tmp_path / "root"]).base() + "/simple/app/"
    kind, text = page(url)
    assert kind == "text/html"
    assert f"#sha256={wheel.sha256}" in text
    assert 'data-requires-python="&gt;=3.8"' in text
    kind, text = page(url, f"{JSON}, text/html;q=0.1")
    assert kind == JSON
    (row,) = json.loads(text)["files"]
    assert (row["size"], row["hashes"], row["yanked"]) == (wheel.size, {"sha256": wheel.sha256}, "broken")


def test_pip_installs_from_a_flat_page(tmp_path, nginx_mirrors):
    """As download.pytorch.org has one: a local version, no hash."""
    torch = big_wheel(tmp_path / "built", size=2_000_000)
    write_find_links(tmp_path / "root", [torch])
    base = nginx_mirrors([tmp_path / "root"]).base()
    assert "sha256" not in page(f"{base}/whl/torch_stable.html")[1]
    done = pip(tmp_path, "--no-index", "--find-links", f"{base}/whl/torch_stable.html", "torch==1.6.0+cu101")
    assert done.returncode == 0, done.stderr
    assert installed_version(tmp_path, "torch") == "1.6.0+cu101"


def test_pip_builds_an_sdist(tmp_path, nginx_mirrors):
    trap = tmp_path / "trap"
    write_index(tmp_path / "root", [build_sdist(tmp_path / "built", "old", "0.1", trap=trap)])
    done = pip(tmp_path, "--index-url", nginx_mirrors([tmp_path / "root"]).base() + "/simple/", "old")
    assert done.returncode == 0, done.stderr
    assert installed_version(tmp_path, "old") == "0.1"
    assert trap.exists()


def test_a_login_is_asked_for(tmp_path, nginx_mirrors):
    write_index(tmp_path / "root", [build_wheel(tmp_path / "built", "app", "1.0")])
    nginx = nginx_mirrors([tmp_path / "root"])
    nginx.change(0, login="user:secret")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        page(nginx.base() + "/simple/app/")
    url = nginx.base().replace("//", "//user:secret@") + "/simple/"
    assert pip(tmp_path, "--index-url", url, "app").returncode == 0
