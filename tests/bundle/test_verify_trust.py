"""Trust beyond accidents: the manifest's digest, and signatures by the real ssh-keygen."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from resume_dl.offline_tools.tarred.tar_check import check_any, check_tar
from resume_dl.offline_tools.verification.check import check
from resume_dl.offline_tools.verification.findings import Report, UsageError, lines
from support.fetching import User
from support.hand_bundle import bundle_tar, hand_bundle
from support.offline_scripts import scripts

SSH_KEYGEN = shutil.which("ssh-keygen")
signatures = pytest.mark.skipif(SSH_KEYGEN is None, reason="there is no ssh-keygen here")
ALICE = "alice@example.org"


def found(report: Report) -> list[tuple[str, str]]:
    return [(problem.path, problem.what) for problem in report.problems]


def make_key(folder: Path, name: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name], check=True)
    return folder / name


def allow(folder: Path, name: str, *lines: str) -> Path:
    file = folder / name
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def public(key: Path) -> str:
    return " ".join(key.with_suffix(".pub").read_text(encoding="utf-8").split()[:2])


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return make_key(tmp_path, "alice")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A bundle without a signature."""
    hand_bundle(tmp_path / "made")
    return tmp_path / "made"


@pytest.fixture
def signed(tmp_path: Path, key: Path) -> Path:
    hand_bundle(tmp_path / "bundle", key=key)
    return tmp_path / "bundle"


@pytest.fixture
def signers(tmp_path: Path, key: Path) -> Path:
    return allow(tmp_path, "allowed", f'{ALICE} namespaces="resume-dl-bundle" {public(key)}')


def test_the_manifests_digest(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    hand_bundle(bundle)
    digest = hashlib.sha256((bundle / "manifest.json").read_bytes()).hexdigest()
    for given in (digest, digest.upper(), f"sha256:{digest}", f" SHA256:{digest.upper()}\n"):
        report = check(bundle, manifest_sha256=given)
        assert (report.problems, report.trust, report.manifest_sha256) == ([], "digest", digest)
    report = check(bundle, manifest_sha256="0" * 64)
    assert (found(report), report.trust) == ([("manifest.json", "untrusted")], "accidents")
    assert digest in report.problems[0].text


def test_with_the_right_digest_it_is_sha256sums_that_is_damaged(tmp_path: Path) -> None:
    hand_bundle(tmp_path / "bundle")
    digest = hashlib.sha256((tmp_path / "bundle" / "manifest.json").read_bytes()).hexdigest()
    sums = tmp_path / "bundle" / "SHA256SUMS"
    sums.write_bytes(sums.read_bytes().replace(digest.encode(), b"0" * 64))
    assert found(check(tmp_path / "bundle")) == [("manifest.json", "damaged")]
    assert found(check(tmp_path / "bundle", manifest_sha256=digest)) == [("SHA256SUMS", "damaged")]


def test_a_bundle_made_by_an_attacker_has_another_digest(tmp_path: Path) -> None:
    hand_bundle(tmp_path / "honest")
    digest = hashlib.sha256((tmp_path / "honest" / "manifest.json").read_bytes()).hexdigest()
    hand_bundle(tmp_path / "evil", others={"requirements/linux-64.txt": b"", "explicit/linux-64.txt": b"evil"})
    assert check(tmp_path / "evil").problems == []
    assert check(tmp_path / "evil", manifest_sha256=digest).exit_code == 4


@pytest.mark.parametrize("given", ["1", "0" * 63, "g" * 64, "md5:" + "0" * 64])
def test_an_invalid_digest(tmp_path: Path, given: str) -> None:
    with pytest.raises(UsageError, match="64 hex digits"):
        check(tmp_path, manifest_sha256=given)


@signatures
@pytest.mark.parametrize("signer", ["", ALICE])
def test_a_signature_by_an_allowed_signer(signed: Path, signers: Path, tmp_path: Path, signer: str) -> None:
    for report in (
        check(signed, allowed_signers=signers, signer=signer),
        check_tar(bundle_tar(signed, tmp_path / "x.tar"), allowed_signers=signers, signer=signer),
    ):
        assert (report.problems, report.warnings, report.trust, report.signer) == ([], [], "signature", ALICE)
        assert f"trust: signed by {ALICE}" in lines(report)


@signatures
def test_several_names_of_one_key(signed: Path, key: Path, tmp_path: Path) -> None:
    signers = allow(tmp_path, "several", f"bob@x,carol@x {public(key)}")
    assert check(signed, allowed_signers=signers).signer == "bob@x"
    assert check(signed, allowed_signers=signers, signer="carol@x").signer == "carol@x"


@signatures
def test_a_signer_who_is_not_allowed(signed: Path, signers: Path, key: Path, tmp_path: Path) -> None:
    other = make_key(tmp_path, "mallory")
    cases = {
        "does not allow": (allow(tmp_path, "1", f"{ALICE} {public(other)}"), ""),
        "was not made by bob": (signers, "bob"),
        "was not made by alice": (allow(tmp_path, "2", f"{ALICE} {public(other)}"), ALICE),
        "does not match": (allow(tmp_path, "3", f'{ALICE} namespaces="git" {public(key)}'), ""),
        "allow": (allow(tmp_path, "4", f'{ALICE} valid-before="20200101" {public(key)}'), ""),
        "does not": (allow(tmp_path, "5", "this is no list"), ""),
    }
    for words, (file, signer) in cases.items():
        report = check(signed, allowed_signers=file, signer=signer)
        assert (found(report), report.trust, report.exit_code) == (
            [("manifest.json.sig", "untrusted")],
            "accidents",
            4,
        ), words
        assert words in report.problems[0].text or words == "allow"


@signatures
def test_a_signature_of_another_manifest_or_namespace(signed: Path, signers: Path, key: Path, tmp_path: Path) -> None:
    hand_bundle(tmp_path / "evil", others={"requirements/linux-64.txt": b"", "explicit/linux-64.txt": b"evil"}, key=key)
    signature = (signed / "manifest.json.sig").read_bytes()
    sums = (tmp_path / "evil" / "SHA256SUMS").read_bytes()
    own = hashlib.sha256((tmp_path / "evil" / "manifest.json.sig").read_bytes()).hexdigest()
    (tmp_path / "evil" / "manifest.json.sig").write_bytes(signature)
    (tmp_path / "evil" / "SHA256SUMS").write_bytes(
        sums.replace(own.encode(), hashlib.sha256(signature).hexdigest().encode())
    )
    for given in (signers, None):
        report = check(tmp_path / "evil", allowed_signers=given)
        assert [path for path, _ in found(report)] == ["manifest.json.sig"]
        assert "does not match manifest.json" in report.problems[0].text


@signatures
def test_an_unrequested_signature_must_match_too(signed: Path) -> None:
    report = check(signed)
    assert (report.problems, report.trust) == ([], "accidents")
    assert [warning.path for warning in report.warnings] == ["manifest.json.sig"]
    assert "by the key SHA256:" in report.warnings[0].text


@signatures
@pytest.mark.parametrize("where", [0.0, 0.3, 0.6, 0.999])
@pytest.mark.parametrize("listed", [True, False])
def test_a_damaged_signature(signed: Path, signers: Path, where: float, listed: bool) -> None:
    file = signed / "manifest.json.sig"
    data = bytearray(file.read_bytes())
    data[int(where * len(data))] ^= 1
    file.write_bytes(data)
    report = check(signed, allowed_signers=signers if listed else None)
    assert {path for path, _ in found(report)} == {"manifest.json.sig"}
    assert report.exit_code == 4


@signatures
def test_a_flip_in_the_signatures_line_or_a_lost_signature(signed: Path) -> None:
    sums = signed / "SHA256SUMS"
    good = sums.read_bytes()
    at = good.index(b"  manifest.json.sig") - 5
    for place in (at, at + 10):
        data = bytearray(good)
        data[place] ^= 1
        sums.write_bytes(data)
        assert found(check(signed)) == [("SHA256SUMS", "damaged")]
    sums.write_bytes(good)
    (signed / "manifest.json.sig").unlink()
    assert found(check(signed)) == [("manifest.json.sig", "missing")]


@signatures
def test_no_signature_where_one_is_asked_for(tmp_path: Path, signers: Path) -> None:
    hand_bundle(tmp_path / "plain")
    report = check(tmp_path / "plain", allowed_signers=signers)
    assert found(report) == [("manifest.json.sig", "untrusted")]
    assert "has no signature" in report.problems[0].text


@signatures
def test_a_signature_that_was_added(tmp_path: Path, signed: Path) -> None:
    hand_bundle(tmp_path / "plain")
    shutil.copy(signed / "manifest.json.sig", tmp_path / "plain")
    assert ("manifest.json.sig", "added") in found(check(tmp_path / "plain"))


def test_signers_from_the_bundle_itself_are_refused(tmp_path: Path) -> None:
    hand_bundle(tmp_path / "bundle")
    allow(tmp_path / "bundle", "allowed_signers", "mallory ssh-ed25519 AAAA")
    with pytest.raises(UsageError, match="is in the bundle"):
        check(tmp_path / "bundle", allowed_signers=tmp_path / "bundle" / "allowed_signers")
    with pytest.raises(UsageError, match="no such file"):
        check(tmp_path / "bundle", allowed_signers=tmp_path / "nobody")
    with pytest.raises(UsageError, match="--allowed-signers"):
        check(tmp_path / "bundle", signer="me")


@signatures
def test_without_ssh_keygen(signed: Path, signers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(signers.parent))
    report = check(signed)
    assert (report.problems, report.warnings[0].path) == ([], "manifest.json.sig")
    assert any("only accidental damage is detected" in line for line in lines(report))
    report = check(signed, allowed_signers=signers)
    assert (found(report), report.exit_code) == ([("manifest.json.sig", "machine")], 5)


@signatures
@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_programs_of_the_bundle_and_of_the_current_folder_are_not_run(
    signed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    for folder in (signed, tmp_path / "elsewhere"):
        evil = folder / "ssh-keygen"
        evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", encoding="utf-8")
        evil.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(["", ".", str(signed), os.environ["PATH"]]))
    for folder in (signed, tmp_path / "elsewhere"):
        monkeypatch.chdir(folder)
        report = check(signed)
        assert "by the key SHA256:" in report.warnings[0].text
        assert not (tmp_path / "ran").exists()


@signatures
@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_an_ssh_keygen_without_signatures(
    signed: Path, signers: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    old = tmp_path / "bin" / "ssh-keygen"
    old.write_text("#!/bin/sh\necho 'unknown option -- Y' >&2\nexit 1\n", encoding="utf-8")  # OpenSSH 7.4's words
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert "older than signatures" in check(signed).warnings[0].text
    report = check(signed, allowed_signers=signers)
    assert (found(report), report.exit_code) == ([("manifest.json.sig", "machine")], 5)


@pytest.mark.parametrize("value", ["", " "])
@pytest.mark.parametrize("option", ["--manifest-sha256", "--signer", "--allowed-signers"])
def test_an_empty_value_is_wrong_usage(plain: Path, tmp_path: Path, option: str, value: str) -> None:
    """As of a variable that is not set: without the option this bundle would pass."""
    tar = bundle_tar(plain, tmp_path / "x.tar")
    commands: list[list[str | Path]] = [
        [scripts() / "verify.py", plain],
        [scripts() / "unpack.py", tar, tmp_path / "out"],
        [scripts() / "install.py", plain, "--dry-run", "-p", tmp_path / "env"],
    ]
    for command in commands:
        done = subprocess.run(
            [sys.executable, *map(str, command), option, value], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert f"argument {option}: is empty" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--manifest-sha256", "--signer", "--allowed-signers"])
def test_an_empty_value_is_wrong_usage_of_the_commands_too(plain: Path, tmp_path: Path, option: str) -> None:
    user = User(tmp_path / "user")
    for words in (["verify"], ["install", "--dry-run", "-p", str(tmp_path / "env")]):
        done = user.run("bundle", words[0], str(plain), *words[1:], option, "")
        assert (done.code, done.out) == (2, "")
        assert "it is empty" in done.err


def test_trust_options_are_none_by_default(plain: Path, tmp_path: Path) -> None:
    tar = bundle_tar(plain, tmp_path / "x.tar")
    for report in (
        check(plain, manifest_sha256=None, signer=None),
        check_any(tar, manifest_sha256=None, allowed_signers=None, signer=None),
    ):
        assert (report.problems, report.trust) == ([], "accidents")
