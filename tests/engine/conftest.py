from __future__ import annotations

import pytest

from engine.running import Place


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)
