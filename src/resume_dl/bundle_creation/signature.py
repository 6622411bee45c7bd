"""Signature of a bundle's manifest by the user's SSH key, with ``ssh-keygen -Y sign`` (OpenSSH 8.1 or newer).

ssh-keygen reads the key, asks for its passphrase on the terminal by itself, and talks to the agent and to security
keys: nothing secret passes through here. Format: PROTOCOL.sshsig of OpenSSH; ``allowed_signers`` as in ssh-keygen(1).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from resume_dl.errors import ConfigurationError, NotWritableError, StoreError
from resume_dl.model.bundle import NAMESPACE
from resume_dl.model.url import scrub

_SUFFIX = ".sig"
_ARMOR = re.compile(r"-----BEGIN SSH SIGNATURE-----(?P<body>[\sA-Za-z0-9+/=]+)-----END SSH SIGNATURE-----\s*")
_MAGIC = b"SSHSIG"
_CERTIFICATE = "-cert-v01@openssh.com"
_IDENTITY = re.compile(r"[A-Za-z0-9_.+@-]+")
_NEW_ENOUGH = "8.1"
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature and its public key."""

    path: Path
    key: str
    """The public key in OpenSSH's format, without a comment: ``ssh-ed25519 AAAA…``."""

    @property
    def fingerprint(self) -> str:
        """``SHA256:…``, as ``ssh-keygen -l`` shows it: short enough to be compared by telephone."""
        digest = hashlib.sha256(base64.b64decode(self.key.partition(" ")[2])).digest()
        return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")

    def allowed_signer(self, identity: str) -> str:
        """The line of an ``allowed_signers`` file that makes the target trust this key, for bundles alone.

        ``identity`` is the name for ``--signer`` there, usually an e-mail address. The line must reach the target
        another way than the bundle. Raises ConfigurationError for an identity that could match several names.
        """
        if not _IDENTITY.fullmatch(identity):
            raise ConfigurationError(
                f"{identity!r} cannot name a signer",
                hint="use one word of letters, digits and . _ + - @, such as an e-mail address",
            )
        return f'{identity} namespaces="{NAMESPACE}" {self.key}'


def sign(
    manifest: Path,
    key: Path,
    *,
    env: Mapping[str, str] = os.environ,
    windows: bool = os.name == "nt",
    log: Callable[[str], None] = lambda _: None,
) -> Signature:
    """Sign ``manifest`` into ``<manifest>.sig``, replacing an existing file.

    ``key``: a private key, or a public one (``.pub``) whose other half the agent holds. ``log`` gets ssh-keygen's
    requests to the user other than for a passphrase (to touch a security key). Raises ConfigurationError for an
    unusable key or ssh-keygen, NotWritableError, and StoreError for other failures. No signature is left then.
    """
    target = manifest.with_name(manifest.name + _SUFFIX)
    try:
        target.unlink(missing_ok=True)  # ssh-keygen would ask whether to overwrite it
    except OSError as error:
        raise NotWritableError(
            f"cannot replace {target}: {error.strerror or error}", hint="check the folder's permissions"
        ) from error
    program = check_key(key, env, windows=windows)
    command = [program, "-Y", "sign", "-f", str(key.absolute()), "-n", NAMESPACE, str(manifest.absolute())]
    code, said = _run(command, env, log)
    if code != 0 or not target.is_file():
        target.unlink(missing_ok=True)
        raise _failure(key, program, code, said)
    try:
        public = _public_key(target.read_text(encoding="ascii", errors="replace"), key)
    except ConfigurationError:
        target.unlink(missing_ok=True)
        raise
    return Signature(target, public)


def check_key(key: Path, env: Mapping[str, str], *, windows: bool = os.name == "nt") -> str:
    """Check that the key is readable, and return the path of ssh-keygen; raises ConfigurationError."""
    try:
        with key.open("rb"):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the key {key}: {error.strerror or error}",
            hint="--sign takes the file of a private SSH key, or of a public one whose private key the agent holds; "
            "ssh-keygen -t ed25519 makes a pair",
        ) from error
    return _ssh_keygen(env, windows=windows)


def _ssh_keygen(env: Mapping[str, str], *, windows: bool) -> str:
    places = [env.get("PATH", "")]
    if windows:  # part of the system, but its folder is not always in PATH
        places.append(str(Path(env.get("SystemRoot", r"C:\Windows"), "System32", "OpenSSH")))
    found = shutil.which("ssh-keygen", path=os.pathsep.join(places))
    if found is None:
        more = " (an optional feature of Windows: OpenSSH client)" if windows else ""
        raise ConfigurationError(
            "cannot sign: ssh-keygen was not found",
            hint=f"install OpenSSH {_NEW_ENOUGH} or newer{more}, or make the bundle without --sign and tell the target "
            "the manifest's digest",
        )
    return found


def _run(command: list[str], env: Mapping[str, str], log: Callable[[str], None]) -> tuple[int, list[str]]:
    """The exit code and output lines. ssh-keygen asks on the terminal; without one it must not wait for input."""
    try:
        with subprocess.Popen(
            command,
            env=dict(env),
            stdin=None if sys.stdin is not None and sys.stdin.isatty() else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        ) as process:
            said: list[str] = []
            for line in process.stderr or ():
                said.append(line.strip())
                if "user presence" in line:
                    log(line.strip())
        return process.returncode, said
    except OSError as error:
        raise StoreError(
            f"cannot run {command[0]}: {error.strerror or error}", hint="check this machine's OpenSSH"
        ) from error


def _failure(key: Path, program: str, code: int, said: list[str]) -> ConfigurationError | StoreError:
    text = "\n".join(said)
    if re.search(r"(?:unknown|illegal|invalid) option", text):
        return ConfigurationError(
            f"cannot sign: {program} is too old",
            hint=f"signing came with OpenSSH {_NEW_ENOUGH}; put a newer one into PATH",
        )
    if "UNPROTECTED PRIVATE KEY" in text or "bad permissions" in text:
        return ConfigurationError(
            f"the key {key} is readable by others, so ssh-keygen refuses it",
            hint="remove the others' permissions (chmod 600; on Windows: Properties, Security), and consider a new key",
        )
    if "incorrect passphrase" in text:
        return ConfigurationError(
            f"the key {key} was not unlocked: wrong passphrase, or no terminal to ask for it",
            hint="run it in a terminal, or add the key to the agent first (ssh-add)",
        )
    if "No private key found" in text:
        return ConfigurationError(
            f"the private key for {key} is neither beside it nor in the agent",
            hint="start the agent and run ssh-add, or name the private key's file",
        )
    if re.search(r"Couldn't load public key|invalid format|error in libcrypto", text):
        return ConfigurationError(
            f"ssh-keygen cannot read {key} as a key",
            hint="name the file of an SSH key, as ssh-keygen -t ed25519 makes it; older formats need their .pub",
        )
    last = next((line for line in reversed(said) if line), "no output")
    return StoreError(
        f"ssh-keygen could not sign with {key} (exit code {code}): {scrub(last)[:_SHOWN]}",
        hint="run ssh-keygen -Y sign by hand, and correct what it reports",
    )


def _public_key(text: str, key: Path) -> str:
    """The public key in a signature: after magic and version, a string of RFC 4251."""
    armor = _ARMOR.fullmatch(text)
    try:
        blob = base64.b64decode("".join(armor["body"].split()) if armor else "", validate=True)
        public = _string(blob, len(_MAGIC) + 4)
        kind = _string(public, 0).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        kind = ""
    if not kind or not blob.startswith(_MAGIC):
        raise ConfigurationError(
            f"the output of ssh-keygen with {key} is not a signature", hint="check this machine's OpenSSH"
        )
    if kind.endswith(_CERTIFICATE):
        raise ConfigurationError(
            f"{key} is a certificate, which a target cannot check with a list of keys", hint="sign with the key itself"
        )
    return f"{kind} {base64.b64encode(public).decode('ascii')}"


def _string(data: bytes, at: int) -> bytes:
    length = int.from_bytes(data[at : at + 4], "big")
    return data[at + 4 : at + 4 + length]
