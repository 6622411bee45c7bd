"""The files that every bundle has, and the hints that several checks give."""

import re

MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
SIGNATURE = "manifest.json.sig"
NAMESPACE = "resume-dl-bundle"
UNFINISHED = ".resume-dl"
"""The folder that a bundle has as long as it is being made, or unpacked."""
SHA256_HEX = re.compile(r"[0-9a-f]{64}")
COPY_AGAIN = "copy it again from the machine or disk that the bundle came from"
REMOVE_IT = "remove it, or copy the bundle again"
TAR_WITHOUT_IT = (
    "make the tar again of the files that SHA256SUMS lists and it, or copy the tar that `bundle create` wrote"
)
LEFT_BY_SYSTEM = "was left by a file manager or file system; nothing of it will be used"
REMAKE = "do not use this bundle; ask whoever made it for another"
OWN_FILES = (MANIFEST, SUMS, SIGNATURE)
"""What a manifest cannot list."""
