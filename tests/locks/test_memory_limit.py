"""Locks whose markers need 2^n nodes in the parsers of uv and py-rattler: these end, not the machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.resolve.locks import uv_lock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")

PAIRS = " or ".join(f"(extra == 'a{n:02}' and extra == 'b{n:02}')" for n in range(21))
"""Some 1.4 GB in uv's parser and 8 GB in that of py-rattler; each further pair doubles that."""
LITTLE = 700 << 20
"""Less than that, and more than the stacks of the threads that uv starts on a machine of many processors."""
URL = "https://files.example/x-1.0-py3-none-any.whl"
UV = f"""version = 1
requires-python = ">=3.8"
resolution-markers = ["{{marker}}"]

[[package]]
name = "p"
version = "1"
source = {{{{ virtual = "." }}}}
dependencies = [{{{{ name = "x" }}}}]

[[package]]
name = "x"
version = "1.0"
source = {{{{ registry = "https://files.example/simple" }}}}
wheels = [{{{{ url = "{URL}", hash = "sha256:{"0" * 64}" }}}}]
"""
PIXI = f"""version: 6
environments:
  default:
    channels: []
    packages:
      linux-64:
      - pypi: {URL}
packages:
- pypi: {URL}
  name: x
  version: '1.0'
  sha256: {"0" * 64}
  requires_dist:
  - y ; {{marker}}
"""
READ = """
import json, sys
from resume_dl.rattler_worker import lock_file
lock_file.MOST_FOR_LOCKS = int(sys.argv[1])
print(json.dumps(lock_file.read_lock({"text": sys.stdin.read()})))
"""


def test_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uv_lock, "MOST_FOR_LOCKS", LITTLE)
    assert URL in uv_lock.export_uv_lock(UV.format(marker="extra == 'a'"), "uv.lock", env=os.environ)
    with pytest.raises(ConfigurationError, match=r"uv\.lock: uv does not read it: memory allocation") as caught:
        uv_lock.export_uv_lock(UV.format(marker=PAIRS), "uv.lock", env=os.environ)
    assert caught.value.exit_code == 2


def test_py_rattler() -> None:
    """Its process ends, which tests/resolve/test_pixi_lock.py holds to be a refusal."""

    def read(marker: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", READ, str(LITTLE)]
        return subprocess.run(command, input=PIXI.format(marker=marker), capture_output=True, text=True, check=False)

    assert json.loads(read("extra == 'a'").stdout)["packages"][0]["name"] == "x"
    assert read(PAIRS).returncode == -signal.SIGABRT
