"""Files of every bundle, and hints shared by several checks."""

import re

MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
SIGNATURE = "manifest.json.sig"
NAMESPACE = "resume-dl-bundle"
UNFINISHED = ".resume-dl"
"""The folder in a bundle while it is being made or unpacked."""
SHA256_HEX = re.compile(r"[0-9a-f]{64}")
COPY_AGAIN = "copy it again from the machine or disk that the bundle came from"
REMOVE_IT = "remove it, or copy the bundle again"
TAR_WITHOUT_IT = "make the tar again from SHA256SUMS and the files it lists, or copy the tar that `bundle create` wrote"
LEFT_BY_SYSTEM = "was left by a file manager or file system and will not be used"
REMAKE = "do not use this bundle; ask its maker for another"
OWN_FILES = (MANIFEST, SUMS, SIGNATURE)
"""Files that a manifest cannot list."""
