"""When the record is what is wrong: which results say so, and what a fresher index makes of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from resume_dl.core.failures import FailureKind
from resume_dl.engine.job import SourceReport
from resume_dl.errors import DigestMismatchError, IntegrityError
from resume_dl.model.artifact import Artifact
from resume_dl.transfer.report import ArtifactResult

_AGREED = frozenset({"disputed", "record"})
"""How a download ends whose sources agree against the record, after a short look or on every byte; all is kept."""


def is_stale(result: ArtifactResult) -> bool:
    """Whether an index that is behind would explain it: no source has the file, or its bytes are not what it says."""
    if isinstance(result.error, IntegrityError):
        return True
    return (
        result.error is not None
        and bool(result.sources)
        and all(FailureKind.LACKS.value in source.failures for source in result.sources)
    )


def disputes(results: Iterable[ArtifactResult]) -> dict[str, str]:
    """The digest in the index -> the digest of the bytes that sources agree on."""
    found = {}
    for result in results:
        error = result.error
        if result.reason in _AGREED and isinstance(error, DigestMismatchError) and error.expected and error.actual:
            found[error.expected] = error.actual
    return found


def renamed(results: Iterable[ArtifactResult], newer: Iterable[Artifact]) -> list[tuple[Artifact, Artifact]]:
    """Old and new artifact of each file whose disputed bytes are what the newer index says."""
    by_name = {_name(artifact): artifact for artifact in newer}
    pairs = []
    for result in results:
        old, new, error = result.artifact, by_name.get(_name(result.artifact)), result.error
        if result.reason not in _AGREED or not isinstance(error, DigestMismatchError) or old.digest is None:
            continue
        if new is not None and new.key != old.key and getattr(new, old.digest.algorithm) == error.actual:
            pairs.append((old, new))
    return pairs


def merged(first: Sequence[ArtifactResult], second: Sequence[ArtifactResult]) -> list[ArtifactResult]:
    """Two passes of one run told as one: what came in the first pass was not there before."""
    before = {_name(result.artifact): result for result in first}
    return [_merged(before.get(_name(result.artifact)), result) for result in second]


def _name(artifact: Artifact) -> tuple[str, str]:
    """What stays the same in a newer index; platforms may have files of one name."""
    return artifact.subdir, artifact.filename


def _merged(first: ArtifactResult | None, second: ArtifactResult) -> ArtifactResult:
    if first is None:
        return second
    if first.error is None and first.artifact.key == second.artifact.key:
        return first
    came = min(first.downloaded, second.resumed)
    second.downloaded += came
    second.resumed -= came
    second.wasted += first.wasted + first.downloaded - came
    if second.status == "resumed" and not second.resumed:
        second.status = "downloaded"
    second.sources = _joined(first.sources, second.sources)
    return second


def _joined(first: Sequence[SourceReport], second: Sequence[SourceReport]) -> tuple[SourceReport, ...]:
    """Each mirror once, in the order in which they were first heard of."""
    bytes_of: Counter[str] = Counter()
    failures: dict[str, Counter[str]] = {}
    for report in (*first, *second):
        bytes_of[report.mirror] += report.bytes
        failures.setdefault(report.mirror, Counter()).update(report.failures)
    return tuple(SourceReport(name, bytes_of[name], dict(counts)) for name, counts in failures.items())
