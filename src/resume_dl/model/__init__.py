"""Frozen values that every layer may use; no I/O."""
