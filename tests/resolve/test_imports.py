"""Resolving loads neither py-rattler nor the HTTP client into this process."""

from __future__ import annotations

import subprocess
import sys


def test_resolve_loads_nothing_heavy():
    """All of resolve, imported: py-rattler, httpx, asyncio, yaml and the worker's own modules stay out."""
    program = (
        "import sys\n"
        "from resume_dl.resolve import conda_solver, environment_file, explicit, installed, repodata, solve, worker\n"
        "print([name for name in sys.modules if name.split('.')[0] in {'rattler', 'httpx', 'asyncio', 'tqdm', 'ruamel'}"
        " or name.startswith('resume_dl.rattler_worker')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
