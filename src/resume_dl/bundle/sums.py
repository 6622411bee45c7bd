"""``SHA256SUMS``: every file that lies in a bundle, as ``sha256sum -c`` reads it.

It follows from the manifest alone, its digest and its signature's. So whoever has a manifest to trust can compare this
file byte by byte, and a flip in either is found.
"""

from __future__ import annotations

from collections.abc import Iterator

from resume_dl.model.bundle import MANIFEST, SIGNATURE, Manifest


def write_sums(manifest: Manifest, *, manifest_sha256: str, signature_sha256: str = "") -> Iterator[bytes]:
    """The lines ``<hex>  <path>``, sorted by path; digests in lower-case hex, empty for a bundle without a signature.

    What a delta leaves out is not in it. A path of a Manifest has no line break or backslash, which ``sha256sum``
    would write in a way of its own.
    """
    digests = {each.path: each.sha256 for each in manifest.packages if each.included}
    digests |= {each.path: each.sha256 for each in manifest.files} | {MANIFEST: manifest_sha256}
    if signature_sha256:
        digests[SIGNATURE] = signature_sha256
    for path in sorted(digests):
        yield f"{digests[path]}  {path}\n".encode()
