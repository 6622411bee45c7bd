"""Readers of lock files: which files they name, with digests. Nothing is resolved, and no index is read."""
