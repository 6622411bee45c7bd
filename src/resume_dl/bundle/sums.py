"""``SHA256SUMS``: every file of a bundle, in the format of ``sha256sum -c``.

It follows from the manifest, its digest and its signature's. So with a trusted manifest this file can be compared
byte by byte, and damage in either is found.
"""

from __future__ import annotations

from collections.abc import Iterator

from resume_dl.model.bundle import MANIFEST, SIGNATURE, Manifest


def write_sums(manifest: Manifest, *, manifest_sha256: str, signature_sha256: str = "") -> Iterator[bytes]:
    """The lines ``<hex>  <path>``, sorted by path; digests in lower-case hex, empty for a bundle without a signature.

    Files that a delta leaves out are not listed. A path of a Manifest has no line break or backslash, which
    ``sha256sum`` would escape.
    """
    digests = {each.path: each.sha256 for each in manifest.packages if each.included}
    digests |= {each.path: each.sha256 for each in manifest.files} | {MANIFEST: manifest_sha256}
    if signature_sha256:
        digests[SIGNATURE] = signature_sha256
    for path in sorted(digests):
        yield f"{digests[path]}  {path}\n".encode()
