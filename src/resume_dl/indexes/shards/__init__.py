"""Sharded channel indexes (CEP 16): a small index of hashes, and one file for each package name."""
