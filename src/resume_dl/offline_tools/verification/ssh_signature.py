"""Signatures are OpenSSH's (ssh-keygen(1), ``-Y``; PROTOCOL.sshsig)."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from resume_dl.offline_tools.console import shown
from resume_dl.offline_tools.verification.findings import Report
from resume_dl.offline_tools.verification.layout import COPY_AGAIN, MANIFEST, NAMESPACE, SIGNATURE
from resume_dl.offline_tools.verification.wanted import Wanted

_SECONDS_FOR_SSH = 60.0


def check_signature(manifest: bytes, signature: bytes, wanted: Wanted, report: Report) -> bool:
    """Whether an allowed signer signed it. Without a list of signers only the signature itself is checked."""
    program = _find_ssh_keygen(wanted.folder)
    if program is None:
        if wanted.allowed_signers is None:
            report.warn(SIGNATURE, "cannot be checked: ssh-keygen was not found")
        else:
            report.add(
                SIGNATURE,
                "machine",
                "cannot be checked: ssh-keygen was not found",
                "install OpenSSH (on Windows an optional feature), or use --manifest-sha256 instead",
            )
        return False
    with tempfile.TemporaryDirectory(prefix="resume-dl-") as folder:
        file = Path(folder, "signature")
        file.write_bytes(signature)
        ssh = _SSH(program, file, manifest)
        if wanted.allowed_signers is None:
            return _hold_against(ssh, report)
        allowed = shown(str(wanted.allowed_signers))
        if wanted.signer:
            principals, said = [wanted.signer], ""
            wrong = f"was not made by {shown(wanted.signer)}, as {allowed} has it"
        else:
            code, said = ssh.run("find-principals", "-f", str(wanted.allowed_signers))
            principals = said.splitlines() if code == 0 else []
            wrong = f"does not match {MANIFEST}" if principals else f"was made by a key that {allowed} does not allow"
        for principal in principals:
            code, said = ssh.run("verify", "-f", str(wanted.allowed_signers), "-I", principal, "-n", NAMESPACE)
            if code == 0:
                report.signer = principal
                return True
    if ssh.too_old:
        hint = "install OpenSSH 8.2 or newer, or use --manifest-sha256 instead"
        report.add(SIGNATURE, "machine", "cannot be checked: this ssh-keygen is older than signatures", hint)
    else:
        hint = f"copy {MANIFEST} and {SIGNATURE} again; if that does not help, do not use this bundle"
        report.add(SIGNATURE, "untrusted", wrong + _because(said), hint)
    return False


def _because(said: str) -> str:
    last = said.strip().splitlines()[-1:]
    return f" (ssh-keygen: {shown(last[0])})" if last else ""


def _hold_against(ssh: _SSH, report: Report) -> bool:
    """Check that the signature matches, and name its key; no signers were given."""
    code, said = ssh.run("check-novalidate", "-n", NAMESPACE)
    if code == 0:
        key = re.search(r"SHA256:[A-Za-z0-9+/=]+", said)
        made = f" by the key {key.group()}" if key else ""
        report.warn(SIGNATURE, f"was made{made}; without --allowed-signers the key's owner is unknown")
    elif ssh.too_old:
        report.warn(SIGNATURE, "cannot be checked: this ssh-keygen is older than signatures")
    else:
        report.add(SIGNATURE, "damaged", f"does not match {MANIFEST}{_because(said)}", COPY_AGAIN)
    return False


_NO_SUCH_OPTION = re.compile(r"(unknown|illegal|invalid) option|Unsupported operation")


class _SSH:
    """``ssh-keygen -Y``, run in an otherwise empty folder."""

    def __init__(self, program: str, signature: Path, manifest: bytes) -> None:
        self._program = program
        self._signature = signature
        self._manifest = manifest
        self.too_old = False

    def run(self, *words: str) -> tuple[int, str]:
        """The exit code and the output: stdout on success, else stderr."""
        try:
            done = subprocess.run(
                [self._program, "-Y", *words, "-s", str(self._signature)],
                input=self._manifest,
                capture_output=True,
                timeout=_SECONDS_FOR_SSH,
                check=False,
                cwd=str(self._signature.parent),
            )
        except (OSError, subprocess.SubprocessError) as error:
            return -1, str(error)
        said = (done.stderr if done.returncode else done.stdout).decode("utf-8", "replace")
        self.too_old = self.too_old or _NO_SUCH_OPTION.search(said) is not None
        return done.returncode, said


def _find_ssh_keygen(folder: Path | None) -> str | None:
    """The first ssh-keygen on PATH; never in the current folder, where Windows looks first, nor in the bundle."""
    name = "ssh-keygen.exe" if os.name == "nt" else "ssh-keygen"
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        place = Path(entry.strip('"'))
        if not place.is_absolute():
            continue
        found = place / name
        try:
            inside = folder is not None and folder in found.resolve().parents
        except OSError:
            continue
        if not inside and found.is_file() and os.access(str(found), os.X_OK):
            return str(found)
    return None
