"""The digest and signers that a manifest is compared with, as the caller gave them."""

from __future__ import annotations

from pathlib import Path

from resume_dl.offline_tools.console import shown
from resume_dl.offline_tools.verification.findings import UsageError
from resume_dl.offline_tools.verification.layout import SHA256_HEX


class Wanted:
    """By what the manifest is to be trusted. Raises UsageError where the options do not go together."""

    def __init__(
        self, sha256: str | None, allowed_signers: Path | None, signer: str | None, folder: Path | None
    ) -> None:
        given = (sha256 or "").strip().lower()
        self.sha256 = given[7:] if given.startswith("sha256:") else given
        if given and not SHA256_HEX.fullmatch(self.sha256):
            raise UsageError("--manifest-sha256 takes 64 hex digits, as `bundle create` printed them")
        if signer and allowed_signers is None:
            raise UsageError("--signer needs --allowed-signers, the file that says whose key is whose")
        self.signer = signer or ""
        self.folder = None if folder is None else folder.resolve()
        self.allowed_signers: Path | None = None
        if allowed_signers is not None:
            self.allowed_signers = Path(allowed_signers).resolve()
            if not self.allowed_signers.is_file():
                raise UsageError(f"{shown(str(allowed_signers))}: no such file of allowed signers")
            if self.folder is not None and self.folder in self.allowed_signers.parents:
                raise UsageError(
                    f"{shown(str(allowed_signers))} lies in the bundle: who can change the one can change the "
                    "other. Name a file that came another way"
                )
