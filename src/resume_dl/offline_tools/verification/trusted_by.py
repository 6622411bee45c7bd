"""Trust in a manifest: a digest, a signature, or neither, which detects only accidents."""

from resume_dl.offline_tools.verification.bundle_source import Source, read_whole
from resume_dl.offline_tools.verification.findings import Report
from resume_dl.offline_tools.verification.layout import MANIFEST, SIGNATURE
from resume_dl.offline_tools.verification.ssh_signature import check_signature
from resume_dl.offline_tools.verification.wanted import Wanted

_LONGEST_SIGNATURE = 1 << 16


def settle_trust(source: Source, manifest: bytes, wanted: Wanted, report: Report, *, sound: bool) -> None:
    """Compare the digest and check the signature; ``Report.trust`` says what held of a sound manifest."""
    held = ""
    if wanted.sha256:
        if wanted.sha256 == report.manifest_sha256:
            held = "digest"
        else:
            report.add(
                MANIFEST,
                "untrusted",
                f"has the digest {report.manifest_sha256}, not the given one",
                "compare all 64 digits with those that `bundle create` printed; if they differ, do not use this bundle",
            )
    if SIGNATURE in source.entries:
        signature = read_whole(source, SIGNATURE, _LONGEST_SIGNATURE, report)
        if signature is not None and check_signature(manifest, signature, wanted, report):
            held = "signature"
    elif wanted.allowed_signers is not None:
        report.add(
            SIGNATURE,
            "untrusted",
            "is missing: this bundle has no signature, and --allowed-signers needs one",
            "ask for a bundle made with --sign, or verify it with --manifest-sha256 instead of --allowed-signers",
        )
    if sound and held:
        report.trust = held
