"""What a killed process had half unpacked is removed by the next one; what is in use is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from resume_dl.caches.conda.extraction_folders import claim_extraction, extraction_folder, sweep

UNPACK = """
import sys
from pathlib import Path
from resume_dl.caches.conda.extraction_folders import claim_extraction, extraction_folder
from store.parts import artifact
claim = claim_extraction(Path(sys.argv[1]))
folder = extraction_folder(Path(sys.argv[1]), claim)
(folder / "half").write_text("x")
print(folder.name, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("killed", [True, False])
def test_folders_of_killed_processes_are_swept(tmp_path, killed):
    """A folder to extract into stays while its process lives, and goes with the first sweep after a kill."""
    with subprocess.Popen(
        [sys.executable, "-c", UNPACK, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    ) as process:
        name = process.stdout.readline().strip()
        if killed:
            process.kill()
            process.wait()
        sweep(tmp_path)
        left = {path.name for path in (tmp_path / ".resume-dl").iterdir()}
        assert (name in left) is not killed
        assert bool(left) is not killed
        process.kill()


def test_our_own_folders_survive_our_own_sweep(tmp_path):
    """A sweep in the same process leaves alone what that process unpacks; an orderly end leaves no lock."""
    claim = claim_extraction(tmp_path)
    folder = extraction_folder(tmp_path, claim)
    sweep(tmp_path)
    assert folder.is_dir()
    folder.rmdir()
    claim.release(remove=True)
    assert list((tmp_path / ".resume-dl").iterdir()) == []
