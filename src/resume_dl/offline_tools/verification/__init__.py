"""Verification of a bundle, before any of it is used.

A bundle is ``manifest.json``, which names every file with its size and SHA-256, ``SHA256SUMS``, whose every byte
follows from the manifest, and those files (docs/offline.md). Sizes are in bytes, digests SHA-256 in lower-case hex,
paths below the bundle with ``/``. A bundle is untrusted: whatever is wrong with it
ends in ``Report.problems`` and never in an exception.
"""
