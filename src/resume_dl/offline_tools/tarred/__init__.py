"""A bundle in a tar: verified in place, or unpacked without writing outside the folder or unverified bytes.

The tar is read as POSIX's ustar with pax headers or GNU's long names (pax(1), tar(5)), by a reader of our own:
``tarfile`` has had endless loops and accepts links, sparse files and devices, none of which a bundle has. A header
that GNU tar, bsdtar and ``tarfile`` may read in different ways is refused: what is verified is what they unpack.
"""
