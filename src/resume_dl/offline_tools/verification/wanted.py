"""The digest and signers that the caller expects of a manifest."""

from __future__ import annotations

from pathlib import Path

from resume_dl.offline_tools.console import shown
from resume_dl.offline_tools.verification.findings import UsageError
from resume_dl.offline_tools.verification.layout import SHA256_HEX


class Wanted:
    """Expected digest and signers of a manifest. Raises UsageError for conflicting options."""

    def __init__(
        self, sha256: str | None, allowed_signers: Path | None, signer: str | None, folder: Path | None
    ) -> None:
        given = (sha256 or "").strip().lower()
        self.sha256 = given[7:] if given.startswith("sha256:") else given
        if given and not SHA256_HEX.fullmatch(self.sha256):
            raise UsageError("--manifest-sha256 takes 64 hex digits, as `bundle create` printed them")
        if signer and allowed_signers is None:
            raise UsageError("--signer needs --allowed-signers, the file of signers and keys")
        self.signer = signer or ""
        self.folder = None if folder is None else folder.resolve()
        self.allowed_signers: Path | None = None
        if allowed_signers is not None:
            self.allowed_signers = Path(allowed_signers).resolve()
            if not self.allowed_signers.is_file():
                raise UsageError(f"{shown(str(allowed_signers))}: no such file of allowed signers")
            if self.folder is not None and self.folder in self.allowed_signers.parents:
                raise UsageError(
                    f"{shown(str(allowed_signers))} is in the bundle: a changed bundle can bring its own "
                    "list. Name a file that came another way"
                )
