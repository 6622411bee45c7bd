"""Digest lookup for URLs without one, as in ``@EXPLICIT`` lists, in the index on the URL's own host.

Nothing enters a package cache unverified. A line without a digest gets the digest in the repodata of the channel at its
own URL. Mirrors' indexes are not used: a user who names a URL trusts its host, and without a digest nothing else ties a
mirror's bytes to it. Once the digest is known, every mirror may supply the bytes.

The index is kept and fetched again only if it has changed. conda would download the package without an index, so the
lookup must not delay it: a large index is never fetched, and others have a short time limit; a kept copy is then used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from resume_dl.engine.clock import AwakeClock
from resume_dl.errors import Interrupted, ResumeDLError
from resume_dl.indexes.conda_indexes import CondaIndexes
from resume_dl.indexes.copies import Freshness, KeptCopies
from resume_dl.indexes.index_sizes import index_sizes
from resume_dl.indexes.whole import Wanted
from resume_dl.model.artifact import Artifact
from resume_dl.model.mirror import MirrorTable
from resume_dl.ports import Reporter
from resume_dl.settings.channels import expand_channels
from resume_dl.transfer.setup import Setup, engine_for

LARGEST = 8_000_000
"""Largest index, in transferred bytes, to fetch for the digest of a few packages: a lab's own channel has less than a
million, conda-forge's linux-64 forty million."""
ANSWER_WITHIN = 10.0
"""Time limit in seconds for servers to state the size of their indexes, and for a transfer without progress."""
IN_ALL = 30.0
"""Time limit in seconds for all indexes of a command; a line too slow for 8 MB needs longer for the package itself."""


def look_up(
    artifacts: Sequence[Artifact],
    setup: Setup,
    reporter: Reporter,
    *,
    offline: bool,
    cancelled: Callable[[], bool],
) -> list[Artifact]:
    """Return the artifacts in order, with size and digests added where their own host's index has them.

    ``offline``: only kept indexes are used. Raises Interrupted.
    """
    setup = _without_mirrors(setup)
    wanted = _wanted(artifacts, setup, reporter)
    if not wanted:
        return list(artifacts)
    clock = AwakeClock()
    deadline = clock.now() + IN_ALL
    known: dict[str, Artifact] = {}
    folder, options = setup.paths.listed_indexes, setup.options
    freshness, sizes = Freshness(options.refresh, options.index_max_age), dict[Wanted, int]()
    if not offline:
        copies = KeptCopies(folder)
        sizes = index_sizes([*wanted], setup, reporter, copies, freshness, within=ANSWER_WITHIN, cancelled=cancelled)
    with engine_for(_with_short_limits(setup), reporter, lambda: cancelled() or clock.now() >= deadline) as engine:
        fresh, kept = (
            CondaIndexes(
                engine,
                setup.places,
                folder,
                reporter,
                offline=each,
                largest=options.max_index_size,
                freshness=freshness,
                alone=True,
            )
            for each in (False, True)
        )
        for index, those in wanted.items():
            for indexes in (fresh, kept) if index in sizes and sizes[index] <= LARGEST else (kept,):
                try:
                    known |= _found(indexes, index, those)
                    break
                except ResumeDLError as error:
                    if isinstance(error, Interrupted) and cancelled():
                        raise
                    reporter.message(f"no index for {those[0].filename}: {error.message}", level="debug")
    return [artifact if artifact.digest else known.get(_address(artifact), artifact) for artifact in artifacts]


def _wanted(artifacts: Sequence[Artifact], setup: Setup, reporter: Reporter) -> dict[Wanted, list[Artifact]]:
    """Return the indexes that may list the artifacts without a digest, each with its artifacts."""
    wanted: dict[Wanted, list[Artifact]] = {}
    for artifact in artifacts:
        if artifact.digest is None:
            base, _, subdir = _address(artifact).rpartition("/")[0].rpartition("/")
            try:
                (channel,) = expand_channels((base,), setup.conda, setup.table, subdirs=(subdir,))
            except ResumeDLError as error:
                reporter.message(f"no index for {artifact.filename}: {error.message}", level="debug")
                continue
            wanted.setdefault((channel, subdir), []).append(artifact)
    return wanted


def _without_mirrors(setup: Setup) -> Setup:
    """Return the setup with each URL as its own only source."""
    options = replace(setup.options, mirrors=(), upstream=True)
    return replace(setup, table=MirrorTable({}), options=options)


def _with_short_limits(setup: Setup) -> Setup:
    """Return the setup with short time limits."""
    patience = min(ANSWER_WITHIN, setup.options.give_up_after or ANSWER_WITHIN)
    return replace(setup, options=replace(setup.options, give_up_after=patience))


def _found(indexes: CondaIndexes, index: Wanted, artifacts: Sequence[Artifact]) -> dict[str, Artifact]:
    """Return URL -> artifact with digests, of those that the index has. Raises what ``fetch`` and ``record`` raise."""
    (file,) = indexes.fetch([index])
    records = [(artifact, indexes.record(file, artifact.filename)) for artifact in artifacts]
    return {_address(each): _completed(each, record) for each, record in records if record is not None}


def _address(artifact: Artifact) -> str:
    return (artifact.client_url or artifact.url).reveal()


def _completed(artifact: Artifact, record: Mapping[str, Any]) -> Artifact:
    """Return the artifact with the record's digests; unchanged if they are malformed. Dependencies are not copied."""
    size = record.get("size")
    texts = {name: value for name in ("sha256", "md5") if isinstance(value := record.get(name), str)}
    found = replace(
        artifact,
        sha256=texts.get("sha256"),
        md5=texts.get("md5"),
        size=size if isinstance(size, int) else None,
    )
    try:
        return artifact if found.digest is None else found
    except ValueError:
        return artifact
