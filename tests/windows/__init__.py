"""A Windows Python under Wine, and the tests that run in it (docs/windows.md)."""
