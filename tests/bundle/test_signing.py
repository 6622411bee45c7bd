"""Signatures by the real ssh-keygen, checked by it as a target would; and what is said where it cannot sign."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from resume_dl.bundle_creation.signature import Signature, sign
from resume_dl.errors import ConfigurationError, NotWritableError
from resume_dl.model.bundle import NAMESPACE

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen (OpenSSH) is not installed")
PASSPHRASE = "correct horse"

ON_A_TERMINAL = """
import fcntl, sys, termios
from pathlib import Path
from resume_dl.bundle_creation.signature import sign
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
print(sign(Path(sys.argv[1]), Path(sys.argv[2])).fingerprint)
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """In a folder whose name is not easy."""
    folder = tmp_path / "bundle für 自由"
    folder.mkdir()
    path = folder / "manifest.json"
    path.write_text('{"schema":1}\n', encoding="utf-8")
    return path


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Without the agent and the settings of whoever runs the tests, and without a program that asks in a window."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SSH_", "DISPLAY", "WAYLAND"))}
    return {**kept, "HOME": str(tmp_path)}


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    """The address of an agent of the test's own."""
    address = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(address)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it says where it listens when it does
        yield str(address)
        process.terminate()


def new_key(folder: Path, name: str = "key", passphrase: str = "", kind: str = "ed25519") -> Path:
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "alice@laptop", "-f", str(folder / name)]
    subprocess.run(command, check=True, timeout=60)
    return folder / name


def verify(manifest: Path, signature: Signature, folder: Path, *, namespace: str = NAMESPACE) -> int:
    """The exit code of what docs/offline.md has the target do."""
    allowed = folder / "allowed_signers"
    allowed.write_text(signature.allowed_signer("alice@example.org") + "\n", encoding="utf-8")
    command = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", "alice@example.org", "-n", namespace]
    with manifest.open("rb") as data:
        command += ["-s", str(signature.path)]
        return subprocess.run(command, check=False, stdin=data, capture_output=True, timeout=60).returncode


def refused(manifest: Path, key: Path, env: Mapping[str, str]) -> ConfigurationError:
    """What is said; nothing may be left that looks like a signature."""
    with pytest.raises(ConfigurationError) as caught:
        sign(manifest, key, env=env)
    assert not manifest.with_name("manifest.json.sig").exists()
    assert "PRIVATE KEY-----" not in caught.value.message + caught.value.hint
    return caught.value


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_the_target_verifies_it(tmp_path, manifest, env, kind):
    """By the line that is given to the user, and for bundles alone; a changed manifest is refused."""
    signature = sign(manifest, new_key(tmp_path, kind=kind), env=env)
    assert signature.path == manifest.with_name("manifest.json.sig")
    assert verify(manifest, signature, tmp_path) == 0
    assert verify(manifest, signature, tmp_path, namespace="file") != 0
    manifest.write_text('{"schema":2}\n', encoding="utf-8")
    assert verify(manifest, signature, tmp_path) != 0


def test_the_key_is_named_as_openssh_names_it(tmp_path, manifest, env):
    """Fingerprint and public key are the key's; its comment, which often names a person and a machine, is not told."""
    key = new_key(tmp_path)
    signature = sign(manifest, key, env=env)
    public = key.with_suffix(".pub").read_text(encoding="ascii")
    assert public.startswith(signature.key + " alice@laptop")
    shown = subprocess.run(["ssh-keygen", "-l", "-f", str(key)], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.split()[1] == signature.fingerprint
    assert signature.allowed_signer("a@b.c") == f'a@b.c namespaces="resume-dl-bundle" {signature.key}'


def test_an_earlier_signature_is_replaced(tmp_path, manifest, env):
    """ssh-keygen would ask, and without an answer end with 0 and leave the old one."""
    sign(manifest, new_key(tmp_path, "first"), env=env)
    second = sign(manifest, new_key(tmp_path, "second"), env=env)
    assert second.key in (tmp_path / "second.pub").read_text(encoding="ascii")
    assert verify(manifest, second, tmp_path) == 0


def test_a_private_key_alone_is_enough(tmp_path, manifest, env):
    """Its public half is in it."""
    key = new_key(tmp_path)
    key.with_suffix(".pub").unlink()
    assert verify(manifest, sign(manifest, key, env=env), tmp_path) == 0


def test_the_agent_signs_for_a_public_key(tmp_path, manifest, env, agent):
    """The private half may be nowhere on the disk."""
    key = new_key(tmp_path)
    env["SSH_AUTH_SOCK"] = agent
    subprocess.run(["ssh-add", "-q", str(key)], env=env, check=True, timeout=60)
    key.unlink()
    assert verify(manifest, sign(manifest, key.with_suffix(".pub"), env=env), tmp_path) == 0


@pytest.mark.skipif(os.name == "nt", reason="a terminal of its own is made with POSIX means")
@pytest.mark.parametrize(("answer", "code"), [(PASSPHRASE, 0), ("wrong", 1)])
def test_the_passphrase_is_asked_for_on_the_terminal(tmp_path, manifest, env, answer, code):
    """By ssh-keygen itself, and it is not shown."""
    import pty

    key = new_key(tmp_path, passphrase=PASSPHRASE)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", ON_A_TERMINAL, str(manifest), str(key)]
    shown = b""
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
    ) as process:
        os.close(theirs)
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
                if b"passphrase" in shown and answer:
                    os.write(ours, answer.encode() + b"\n")
                    answer = ""
        except OSError:  # the other end is closed: it has ended
            pass
    os.close(ours)
    assert answer == "", shown
    assert process.returncode == code, shown
    assert (b"SHA256:" in shown) == (code == 0)
    assert (b"was not unlocked" in shown) == (code == 1)
    assert PASSPHRASE.encode() not in shown
    assert manifest.with_name("manifest.json.sig").exists() == (code == 0)


def test_without_a_terminal_a_passphrase_is_an_error_and_no_wait(tmp_path, manifest, env):
    """In a process without one, as in a CI job."""
    key = new_key(tmp_path, passphrase=PASSPHRASE)
    code = "import sys; from pathlib import Path; from resume_dl.bundle_creation.signature import sign; "
    code += "sign(Path(sys.argv[1]), Path(sys.argv[2]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(manifest), str(key)],
        check=False,
        env=env,
        stdin=subprocess.PIPE,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=60,
    )
    assert "was not unlocked" in done.stderr
    assert not manifest.with_name("manifest.json.sig").exists()


def test_a_public_key_without_its_private_key(tmp_path, manifest, env):
    """Neither beside it nor in an agent."""
    key = new_key(tmp_path)
    key.unlink()
    error = refused(manifest, key.with_suffix(".pub"), env)
    assert "neither beside it nor in the agent" in error.message
    assert "ssh-add" in error.hint


def test_a_missing_or_invalid_key(tmp_path, manifest, env):
    """A missing file, a folder, a file with something else in it."""
    assert "No such file" in refused(manifest, tmp_path / "nokey", env).message
    assert "cannot read the key" in refused(manifest, tmp_path, env).message
    other = tmp_path / "other"
    other.write_text("no key\n", encoding="ascii")
    other.chmod(0o600)
    assert "cannot read" in refused(manifest, other, env).message


@pytest.mark.skipif(os.name == "nt", reason="modes of files are POSIX's")
def test_a_key_that_others_may_read(tmp_path, manifest, env):
    """ssh-keygen refuses it, and what to do is said."""
    key = new_key(tmp_path)
    key.chmod(0o644)
    error = refused(manifest, key, env)
    assert "is readable by others" in error.message
    assert "chmod 600" in error.hint


def test_a_certificate_is_refused(tmp_path, manifest, env):
    """A list of keys on the target says nothing of it."""
    authority, key = new_key(tmp_path, "ca"), new_key(tmp_path)
    command = ["ssh-keygen", "-q", "-s", str(authority), "-I", "alice", "-n", "alice", str(key.with_suffix(".pub"))]
    subprocess.run(command, check=True, timeout=60)
    assert "is a certificate" in refused(manifest, tmp_path / "key-cert.pub", env).message


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_the_user_is_asked_to_touch_a_security_key(tmp_path, manifest, env):
    """While it waits, and nothing else of what it says. No such key is here: its line comes from a script."""
    place = tmp_path / "program" / "ssh-keygen"
    place.parent.mkdir()
    line = "Confirm user presence for key ED25519-SK SHA256:abc"
    place.write_text(f'#!/bin/sh\necho "{line}" >&2\nexec {shutil.which("ssh-keygen")} "$@"\n', encoding="ascii")
    place.chmod(0o755)
    told: list[str] = []
    sign(manifest, new_key(tmp_path), env={**env, "PATH": str(place.parent)}, log=told.append)
    assert told == [line]


def test_no_ssh_keygen(tmp_path, manifest, env):
    """What to install, and what to do without it."""
    key = new_key(tmp_path)
    error = refused(manifest, key, {**env, "PATH": str(tmp_path)})
    assert "ssh-keygen was not found" in error.message
    assert "digest" in error.hint


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_windows_own_openssh_is_found_without_path(tmp_path, manifest, env):
    """It is looked for where the system has it."""
    place = tmp_path / "Windows" / "System32" / "OpenSSH"
    place.mkdir(parents=True)
    (place / "ssh-keygen").symlink_to(shutil.which("ssh-keygen") or "")
    there = {**env, "PATH": str(tmp_path), "SystemRoot": str(tmp_path / "Windows")}
    key = new_key(tmp_path)
    assert sign(manifest, key, env=there, windows=True).path.is_file()
    assert "ssh-keygen was not found" in refused(manifest, key, there).message


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_an_ssh_keygen_that_cannot_sign_yet(tmp_path, manifest, env):
    """One before 8.1 does not know -Y: the real one with an option that it does not know says the same."""
    old = tmp_path / "old" / "ssh-keygen"
    old.parent.mkdir()
    old.write_text(f"#!/bin/sh\nexec {shutil.which('ssh-keygen')} -J\n", encoding="ascii")
    old.chmod(0o755)
    error = refused(manifest, new_key(tmp_path), {**env, "PATH": str(old.parent)})
    assert "too old" in error.message
    assert "8.1" in error.hint


@pytest.mark.parametrize("name", ["", "a b", "a,b", "*", "!a", 'a"b', "#a", "a\nb", "ä"])
def test_a_signer_that_could_mean_more_than_one(name):
    """Names in such a file are patterns, separated by commas."""
    with pytest.raises(ConfigurationError, match="cannot name a signer"):
        Signature(Path("x"), "ssh-ed25519 AAAA").allowed_signer(name)


def test_a_file_that_cannot_be_replaced(tmp_path, manifest, env):
    """Nothing is signed where the signature cannot go."""
    key = new_key(tmp_path)
    manifest.with_name("manifest.json.sig").mkdir()
    with pytest.raises(NotWritableError, match="cannot replace"):
        sign(manifest, key, env=env)
