"""What the resolver chose, as artifacts, with what people should know of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from resume_dl.errors import DigestMismatchError, ResolutionError
from resume_dl.model.artifact import Artifact
from resume_dl.model.channel import without_credentials
from resume_dl.model.pip import PipSolution
from resume_dl.model.pylock import FileInLock, PackageInLock, write_lock
from resume_dl.model.url import RedactedUrl
from resume_dl.resolution.pip_request import Asked
from resume_dl.resolve.index_page import ListedFile, placeholder
from resume_dl.resolve.uv import LockedFile

_STRONG = ("sha256", "sha384", "sha512")
_WEAK = ("sha224", "sha1", "md5")
"""Better than none."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One file: as the resolver names it, as its page lists it, and its size in bytes if anybody knows it."""

    locked: LockedFile
    file: ListedFile
    size: int | None


def solution_of(
    chosen: Sequence[Chosen],
    asked: Asked,
    *,
    platform: str,
    python: str,
    read_whole: Collection[str],
    told: str,
) -> PipSolution:
    """The solution of one platform; ``read_whole`` names files, ``told`` is what to say of the machine.

    Raises DigestMismatchError where a hash that was asked for contradicts the index's, ResolutionError where one of
    each was asked for and is not there.
    """
    artifacts = tuple(_artifact(each, asked.wanted.hashes.get(each.locked.name, frozenset())) for each in chosen)
    return PipSolution(
        platform=platform,
        python=python,
        artifacts=artifacts,
        notes=(*filter(None, [told]), *_of_hashes(artifacts, asked), *_of_files(artifacts, read_whole)),
        lock_text=_lock_text(artifacts, python),
    )


def joined(parts: Sequence[PipSolution]) -> PipSolution:
    """One solution of several files' for the same platform; a lock of more than one would fit none of them."""
    if len(parts) == 1:
        return parts[0]
    artifacts = {artifact.key: artifact for part in parts for artifact in part.artifacts}
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return replace(parts[-1], artifacts=tuple(artifacts.values()), notes=notes, lock_text="")


def with_digests(solution: PipSolution, sha256: Mapping[str, str]) -> str:
    """``solution.lock_text`` with the digests of files that the index had none for; ``sha256``: file name -> hex.

    PEP 751 wants a hash for each file: until the bytes are here, a made-up one stands in the text.
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
    """The hashes that the file must have: the index's, or the one that was asked for where the index has none.

    Raises DigestMismatchError where both are known and differ.
    """
    asked_for = [tuple(each.partition(":")[::2]) for each in sorted(allowed)]
    common = {kind for kind, _ in asked_for} & set(file.hashes)
    if allowed and common and not any((kind, file.hashes[kind]) in asked_for for kind in common):
        kind = min(common)
        expected = " or ".join(value for each, value in asked_for if each == kind)
        raise DigestMismatchError(
            f"{file.filename}: the index says {kind} {file.hashes[kind]}, --hash asks for {expected}",
            expected=expected,
            actual=file.hashes[kind],
            hint="if the release was not made anew on purpose, do not trust it; else correct the --hash",
        )
    if common or len(asked_for) != 1:
        return dict(file.hashes)
    return {**file.hashes, asked_for[0][0]: asked_for[0][1]}


def _lock_text(artifacts: Sequence[Artifact], python: str) -> str:
    """A pylock.toml (PEP 751) of just these files, at canonical addresses without logins.

    See ``with_digests`` for what has no digest. Any Python of the same minor version may use it.
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


def _of_hashes(artifacts: Sequence[Artifact], asked: Asked) -> list[str]:
    notes = []
    unhashed = [each.filename for each in artifacts if each.digest is None]
    if unhashed:
        notes.append(f"the index gives no digest for {', '.join(unhashed)}: the first that comes is kept in mind")
    unproven = [each.name for each in artifacts if not each.record["allowed"]]
    if unproven and (asked.require_hashes or asked.wanted.hashes):
        text = f"no --hash was given for {', '.join(unproven)}"
        if asked.require_hashes:
            raise ResolutionError(f"{text}, and --require-hashes asks for one of each", hint="add them to the file")
        notes.append(f"{text}: pip would refuse to install from this file")
    return notes


def _of_files(artifacts: Sequence[Artifact], read_whole: Collection[str]) -> list[str]:
    notes = []
    sdists = [each.filename for each in artifacts if each.kind == "sdist"]
    if sdists:
        notes.append(f"to be built on the machine that installs: {', '.join(sdists)}")
    whole = sorted(each.filename for each in artifacts if each.filename in read_whole)
    if whole:
        notes.append(f"read once already, because their server gives no parts of files: {', '.join(whole)}")
    return notes
