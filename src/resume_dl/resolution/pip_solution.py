"""Solution of a pip request: the chosen files as artifacts, notes for the user, and the lock file's text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from resume_dl.errors import DigestMismatchError, ResolutionError
from resume_dl.model.artifact import Artifact
from resume_dl.model.channel import without_credentials
from resume_dl.model.exclude_newer import UploadCutoff
from resume_dl.model.pip import PipSolution
from resume_dl.model.pylock import FileInLock, PackageInLock, write_lock
from resume_dl.model.url import RedactedUrl
from resume_dl.resolution.pip_request import ExpandedRequest
from resume_dl.resolve.index_page import ListedFile, placeholder
from resume_dl.resolve.uv import LockedFile

_STRONG = ("sha256", "sha384", "sha512")
_WEAK = ("sha224", "sha1", "md5")
"""Weaker digests, used if there is no sha256."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A chosen file: as the resolver names it, as its page lists it, and its size in bytes if known."""

    locked: LockedFile
    file: ListedFile
    size: int | None


def solution_of(
    chosen: Sequence[Chosen],
    request: ExpandedRequest,
    *,
    platform: str,
    python: str,
    read_whole: Collection[str],
    target_note: str,
    cutoff: UploadCutoff,
) -> PipSolution:
    """Return the solution of one platform; ``read_whole`` are file names, ``target_note`` describes the machine.

    Raises DigestMismatchError if a requested hash contradicts the index's, ResolutionError if --require-hashes is set
    and a hash is missing.
    """
    artifacts = tuple(_artifact(each, request.wanted.hashes.get(each.locked.name, frozenset())) for each in chosen)
    return PipSolution(
        platform=platform,
        python=python,
        artifacts=artifacts,
        notes=(
            *filter(None, [target_note, _of_cutoff(cutoff)]),
            *_of_hashes(artifacts, request),
            *_of_files(artifacts, read_whole),
        ),
        lock_text=pylock_of(artifacts, python),
        exclude_newer=cutoff.text,
    )


def _of_cutoff(cutoff: UploadCutoff) -> str:
    if cutoff.time is None:
        return ""
    return f"pip packages uploaded after {cutoff.time:%Y-%m-%d %H:%M} UTC are left out, as {cutoff.origin} says"


def joined(parts: Sequence[PipSolution]) -> PipSolution:
    """Merge solutions for the same platform; a merged solution has no lock text of its own."""
    if len(parts) == 1:
        return parts[0]
    artifacts = {artifact.key: artifact for part in parts for artifact in part.artifacts}
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return replace(parts[-1], artifacts=tuple(artifacts.values()), notes=notes, lock_text="")


def with_digests(solution: PipSolution, sha256: Mapping[str, str]) -> str:
    """Return ``solution.lock_text`` with the digests of files for which the index had none.

    ``sha256``: file name -> hex. PEP 751 requires a hash for each file, so the text has a placeholder until the file is
    downloaded.
    """
    text = solution.lock_text
    for artifact in solution.artifacts:
        if artifact.filename in sha256:
            text = text.replace(placeholder(artifact.url.fingerprint), sha256[artifact.filename])
    return text


def _artifact(chosen: Chosen, allowed: frozenset[str]) -> Artifact:
    locked, file = chosen.locked, chosen.file
    hashes = _agreed(file, allowed)
    return Artifact(
        kind="wheel" if file.is_wheel else "sdist",
        filename=file.filename,
        url=RedactedUrl(file.url),
        size=chosen.size,
        sha256=hashes.get("sha256"),
        md5=hashes.get("md5"),
        name=locked.name,
        version=locked.version,
        record={"hashes": dict(hashes), "allowed": sorted(allowed)},
    )


def _agreed(file: ListedFile, allowed: frozenset[str]) -> dict[str, str]:
    """Return the hashes that the file must have: the index's, or the requested one if the index has none.

    Raises DigestMismatchError if both are known and differ.
    """
    requested = [tuple(each.partition(":")[::2]) for each in sorted(allowed)]
    common = {kind for kind, _ in requested} & set(file.hashes)
    if allowed and common and not any((kind, file.hashes[kind]) in requested for kind in common):
        kind = min(common)
        expected = " or ".join(value for each, value in requested if each == kind)
        raise DigestMismatchError(
            f"{file.filename}: the index states {kind} {file.hashes[kind]}, --hash requires {expected}",
            expected=expected,
            actual=file.hashes[kind],
            hint="if the release was replaced on purpose, correct the --hash; else do not trust it",
        )
    if common or len(requested) != 1:
        return dict(file.hashes)
    return {**file.hashes, requested[0][0]: requested[0][1]}


def pylock_of(artifacts: Sequence[Artifact], python: str) -> str:
    """Return a pylock.toml (PEP 751) of exactly these files, at canonical URLs without logins.

    See ``with_digests`` for files without a digest. Any Python of the same minor version may use it.
    """
    minor = ".".join(python.split(".")[:2])
    return "".join(write_lock((_in_lock(each) for each in artifacts), requires_python=f">={minor}"))


def _in_lock(artifact: Artifact) -> PackageInLock:
    file = FileInLock(
        name=artifact.filename,
        url=without_credentials(artifact.url).reveal(),
        size=artifact.size,
        hashes=_locked_hashes(artifact),
    )
    if artifact.kind == "wheel":
        return PackageInLock(name=artifact.name, version=artifact.version, wheels=(file,))
    return PackageInLock(name=artifact.name, version=artifact.version, sdist=file)


def _locked_hashes(artifact: Artifact) -> Mapping[str, str]:
    known = artifact.record["hashes"]
    for kinds in (_STRONG, _WEAK):
        if found := {kind: str(known[kind]) for kind in kinds if kind in known}:
            return found
    return {"sha256": placeholder(artifact.url.fingerprint)}


def _of_hashes(artifacts: Sequence[Artifact], request: ExpandedRequest) -> list[str]:
    notes = []
    unhashed = [each.filename for each in artifacts if each.digest is None]
    if unhashed:
        notes.append(f"the index has no digest for {', '.join(unhashed)}: that of the first download is kept")
    unproven = [each.name for each in artifacts if not each.record["allowed"]]
    if unproven and (request.require_hashes or request.wanted.hashes):
        text = f"there is no --hash for {', '.join(unproven)}"
        if request.require_hashes:
            raise ResolutionError(f"{text}, but --require-hashes is set", hint="add the hashes to the file")
        notes.append(f"{text}: pip would refuse to install from this file")
    return notes


def _of_files(artifacts: Sequence[Artifact], read_whole: Collection[str]) -> list[str]:
    notes = []
    sdists = [each.filename for each in artifacts if each.kind == "sdist"]
    if sdists:
        notes.append(f"source archives, built on the installing machine: {', '.join(sdists)}")
    whole = sorted(each.filename for each in artifacts if each.filename in read_whole)
    if whole:
        notes.append(f"already read once for their metadata, as the server does not support ranges: {', '.join(whole)}")
    return notes
