"""Where uv is found: its Python package says it, or it lies beside the Python that runs us."""

from __future__ import annotations

import subprocess
import sys

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.resolve.uv import find_uv


@pytest.mark.parametrize("packaged", [True, False])
def test_uv_is_found(monkeypatch, packaged):
    """With the package from a Python index, and without it, as conda-forge has it: the program alone."""
    if not packaged:
        monkeypatch.setitem(sys.modules, "uv", None)
    said = subprocess.run([find_uv(), "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("uv ")


def test_a_uv_of_another_environment_is_not_used(monkeypatch, tmp_path):
    """Its version could be any: what PATH offers does not count."""
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", str(find_uv().parent))
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    with pytest.raises(ConfigurationError, match="uv, which resolves pip requirements, is not installed"):
        find_uv()
