"""The tool for bad lines arrives over one: `pip install resume-dl` downloads little, and the rest is an extra."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from resume_dl.bundle_creation import refusals
from resume_dl.bundle_creation.create_request import CreateRequest
from resume_dl.cli.run import as_error
from resume_dl.errors import ConfigurationError
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.resolve import worker
from resume_dl.resolve.uv_program import OLDEST
from support.conda_env import PROJECT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST = 28_000_000
"""Bytes that pip downloads for a plain installation, ours included; docs/install.md says it."""
LARGE = {"uv", "zstandard", "pyyaml", "cyclonedx-python-lib", "conda", "cryptography", "pyspnego", "numpy"}
"""What is too large for everyone: found where it is, or an extra."""


def project() -> dict:
    return tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in requirements}


def test_a_plain_installation_has_none_of_the_large_libraries():
    """py-rattler alone is 25 MB of the 28: it is what resolves and unpacks."""
    assert names(project()["dependencies"]) == {
        "httpx", "httpcore", "backports-zstd", "msgspec", "click", "tqdm", "colorama", "platformdirs", "py-rattler",
        "packaging", "ruamel-yaml", "tomli",
    }  # fmt: skip
    assert not names(project()["dependencies"]) & LARGE


def test_extras_are_those_that_messages_name():
    """``missing_library(..., extra=...)`` leads to an extra that exists and has the library."""
    extras = {name: names(each) for name, each in project()["optional-dependencies"].items()}
    said = {}
    for path in (PROJECT / "src").rglob("*.py"):
        for name, extra in re.findall(
            r"missing_library\(\s*\"([^\"]+)\".*?extra=\"([\w-]+)\"", path.read_text(encoding="utf-8"), re.DOTALL
        ):
            said[extra] = {canonicalize_name(name)}
    assert extras.pop("rattler_solver") == {"conda-rattler-solver"}  # no library of ours: a range for pip to keep
    assert said == {name: each for name, each in extras.items() if name != "all"}
    (uv,) = project()["optional-dependencies"]["pip"]
    assert Requirement(uv).specifier == f">={OLDEST[0]}.{OLDEST[1]}"


def test_a_missing_library_is_no_internal_error(monkeypatch):
    """Whatever needs it says what is missing and how to get it, with exit code 2."""
    found = as_error(ModuleNotFoundError("No module named 'msgspec.json'", name="msgspec.json"))
    assert (found.exit_code, found.hint) == (2, "install it: python -m pip install msgspec")
    assert as_error(ModuleNotFoundError("No module named 'resume_dl.x'", name="resume_dl.x")).exit_code == 70
    monkeypatch.setattr(worker, "find_spec", lambda _: None)
    with worker.RattlerWorker() as rattler, pytest.raises(ConfigurationError, match="py-rattler, which resolves"):
        rattler.request("versions", {})


def test_a_bundle_is_refused_before_the_download(monkeypatch, tmp_path):
    """Not at its end, after gigabytes."""
    monkeypatch.setattr(refusals, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError) as caught:
        refusals.check_request(CreateRequest(fetch=FetchRequest(), output=tmp_path / "bundle"), {})
    assert caught.value.hint == 'install it: python -m pip install "resume-dl[bundle]"'


def test_the_documentation_says_it():
    text = (PROJECT / "docs" / "install.md").read_text(encoding="utf-8")
    assert f"{MOST // 10**6} MB" in text
    named = set(re.findall(r"resume-dl\[([\w-]+)\]", text))
    assert set(project()["optional-dependencies"]) <= named


@pytest.mark.slow
@pytest.mark.skipif("RESUME_DL_TEST_INDEX" not in os.environ, reason="asks a package index: make test-long")
def test_what_pip_downloads(tmp_path: Path):
    """A wheel of this checkout and all that it needs, by a real pip, into an empty folder."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--only-binary", ":all:", "--dest", str(tmp_path / "wheels")]
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=PROJECT, check=True)
    (ours,) = tmp_path.glob("*.whl")
    subprocess.run([*command, str(ours)], check=True, timeout=600)
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "wheels").iterdir()}
    assert any(name.startswith("py_rattler-") for name in sizes)
    print(sum(sizes.values()), sizes)
    assert sum(sizes.values()) <= MOST, sizes
