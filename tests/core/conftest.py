"""One Hypothesis profile: the same examples at every run, no time limit for one of them."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "core", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", settings.get_profile("core"), derandomize=False, max_examples=2000)
settings.load_profile("explore" if os.environ.get("RESUME_DL_EXPLORE") else "core")
