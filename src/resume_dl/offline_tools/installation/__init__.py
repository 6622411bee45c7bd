"""Install a bundle with this machine's own conda, mamba or micromamba and pip, after every file was verified.

Why conda gets a separate package cache, filled by us, and a list of the canonical URLs with their MD5
(measured with conda 24.7.1, 25.11.1 and 26.7.1; which package was installed, or that conda refused):

| | ``-c file:`` and a solve | ``@EXPLICIT file:...#digest`` | the same cache, filled by us | a cache of its own |
| --- | --- | --- | --- | --- |
| archive replaced after we had verified it | **the wrong one** | **the wrong one** | refused | refused |
| a bit flipped after we had verified it | refused (CRC) | refused (CRC) | refused | refused |
| other package of that name in the user's cache | right | right | refused | right |
| unpacked entry in that cache was altered | **the wrong one** | **the wrong one** | **the wrong one** | right |
| unpacked entry there is half | refused | refused | refused | right |

conda copies the archive of a ``file:`` address and compares nothing, whatever digest stands behind it; an archive that
lies in its cache is compared with the MD5 of its line. So each archive is hashed once more while it is copied into
that cache (the copy that conda reads is the one that was hashed), nothing of the user's cache is read, ``--offline``
has nothing left to ask for, and the environment names the channels that its packages came from. What conda has unpacked
is then moved into the user's cache: the next delta builds on it. ``--download-only`` closes no gap: since conda 25.7 it
installs explicit lists all the same.
"""
