"""The files of tests that take longest, which start first: a run of several workers ends with short ones."""

from __future__ import annotations

from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parents[1]

SLOWEST = [
    "pip/test_pip_install.py",
    "docs/test_tutorial.py",
    "bundle/test_offline_damage.py",
    "bundle/test_offline.py",
    "bundle/test_install.py",
    "integration/test_fetch_then_conda.py",
    "integration/test_fetch_installed.py",
    "integration/test_screen.py",
    "integration/test_plugin_prefetch.py",
    "integration/test_plugin_explicit.py",
    "bundle/test_lab.py",
    "integration/test_plugin_index.py",
    "bundle/test_offline_delta.py",
    "integration/test_plugin_bad_lines.py",
    "integration/test_plugin_commands.py",
    "demo/test_demo.py",
    "hostile/test_index_trust.py",
    "integration/test_fault_table.py",
    "integration/test_fetch_cache.py",
    "bundle/test_install_venv.py",
    "bundle/test_install_again.py",
    "bundle/test_offline_parts.py",
    "bundle/test_install_command.py",
    "pip/test_hostile_wheels.py",
    "hostile/test_install_stage.py",
    "bundle/test_parts.py",
    "crash/test_kill.py",
    "integration/test_no_network.py",
    "integration/test_get_and_leftovers.py",
    "integration/test_stopped_process.py",
    "pip/test_fetch_pip.py",
    "bundle/test_sbom.py",
    "integration/test_fetch_options.py",
    "bundle/test_hostile_tar.py",
    "integration/test_fetch_output.py",
    "pip/test_hostile_pages.py",
    "integration/test_kept_indexes.py",
    "recipe/test_recipe.py",
    "pip/test_pip_config.py",
    "pip/test_resolve.py",
    "engine/test_runs.py",
    "indexes/test_shard_files.py",
    "bundle/test_formats_conda.py",
    "settings/test_odd_files.py",
    "store/test_archive_damage.py",
]
"""Each takes more than ten seconds, the slowest first: sums of what ``pytest --durations=0`` says. A file that is
missing here costs some seconds at the end, and nothing else."""

_PLACES = {str(_TESTS / name): number for number, name in enumerate(SLOWEST)}


def slowest_first(items: list[pytest.Item]) -> None:
    """Put the tests of these files first; within a file, and among all other files, the order stays."""
    items.sort(key=lambda item: _PLACES.get(str(item.path), len(_PLACES)))
