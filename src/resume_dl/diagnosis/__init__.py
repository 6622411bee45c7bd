"""What ``doctor`` checks: facts about this machine, gathered by ``*_probe``, and pure functions that judge them."""
