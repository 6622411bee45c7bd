"""Package caches of other clients: conda's and rattler's; and wheels."""
