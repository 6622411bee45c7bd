"""Outdated records: which results point to one, and which of them a newer index explains. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from resume_dl.core.failures import FailureKind
from resume_dl.engine.job import SourceReport
from resume_dl.errors import DigestMismatchError, IntegrityError
from resume_dl.model.artifact import Artifact
from resume_dl.transfer.report import ArtifactResult

_AGREED = frozenset({"disputed", "record"})
"""Reasons of failures where the sources agree with each other against the record: in a sample, or on every byte.

The downloaded bytes are kept.
"""


def is_stale(result: ArtifactResult) -> bool:
    """Whether an outdated index would explain this failure: no source has the file, or its digest is wrong."""
    if isinstance(result.error, IntegrityError):
        return True
    return (
        result.error is not None
        and bool(result.sources)
        and all(FailureKind.LACKS.value in source.failures for source in result.sources)
    )


def disputes(results: Iterable[ArtifactResult]) -> dict[str, str]:
    """Map digests in the index to those of the bytes on which the sources agree."""
    found = {}
    for result in results:
        error = result.error
        if result.reason in _AGREED and isinstance(error, DigestMismatchError) and error.expected and error.actual:
            found[error.expected] = error.actual
    return found


def renamed(results: Iterable[ArtifactResult], newer: Iterable[Artifact]) -> list[tuple[Artifact, Artifact]]:
    """Pair old and new artifact of each file whose disputed bytes match the newer index."""
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
    """Merge the results of two passes of one run: bytes of the first pass count as downloaded, not as resumed."""
    before = {_name(result.artifact): result for result in first}
    return [_merged(before.get(_name(result.artifact)), result) for result in second]


def _name(artifact: Artifact) -> tuple[str, str]:
    """Return what identifies the file in any version of the index; a file name may occur on several platforms."""
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
    """Add up the reports by mirror, in order of first appearance."""
    bytes_of: Counter[str] = Counter()
    failures: dict[str, Counter[str]] = {}
    for report in (*first, *second):
        bytes_of[report.mirror] += report.bytes
        failures.setdefault(report.mirror, Counter()).update(report.failures)
    return tuple(SourceReport(name, bytes_of[name], dict(counts)) for name, counts in failures.items())
