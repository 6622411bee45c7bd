"""The downloader's decisions, sans I/O: events in, actions out; clock and jitter are given.

The invariants stand in ARCHITECTURE.md; ``download.Download`` holds those of one file, ``session.Session``
those of a run. Nothing here opens, reads, waits or prints.
"""
