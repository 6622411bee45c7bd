"""A bundle in a tar: verified as it is, or unpacked so that nothing is written outside, or unverified.

The tar is read as POSIX's ustar with pax headers or GNU's long names (pax(1), tar(5)), by a reader of our own:
``tarfile`` has met its endless loops and takes links, sparse files and devices, none of which a bundle has. A header
that GNU tar, bsdtar and ``tarfile`` may read in different ways is refused: what is verified is what they unpack.
"""
