"""Addresses without a digest, as in ``@EXPLICIT`` lists: what their channels' indexes say of them.

Nothing goes unverified into a package cache. A line that has no digest gets that of its channel's repodata, which is
kept, and asked for again only where it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from resume_dl.app.repodata import RepodataFetcher
from resume_dl.app.setup import Setup, engine_for
from resume_dl.errors import Interrupted, ResumeDLError
from resume_dl.model.artifact import Artifact
from resume_dl.ports import Reporter
from resume_dl.resolve.repodata import find_record
from resume_dl.settings.channels import expand_channels


def look_up(
    artifacts: Sequence[Artifact],
    setup: Setup,
    reporter: Reporter,
    *,
    offline: bool,
    cancelled: Callable[[], bool],
) -> list[Artifact]:
    """The same artifacts in their order; those without a digest with size and digests, where their channel has them.

    ``offline``: only indexes that were kept. Raises Interrupted.
    """
    folders = dict.fromkeys(_folder(artifact) for artifact in artifacts if artifact.digest is None)
    if not folders:
        return list(artifacts)
    known: dict[str, Artifact] = {}
    with engine_for(setup, reporter, cancelled) as engine:
        indexes = RepodataFetcher(engine, setup.places, setup.paths.cache / "repodata", reporter, offline=offline)
        for folder in folders:
            base, _, subdir = folder.rpartition("/")
            wanted = [each for each in artifacts if each.digest is None and _folder(each) == folder]
            try:
                (channel,) = expand_channels((base,), setup.conda, setup.table, subdirs=(subdir,))
                (index,) = indexes.fetch([(channel, subdir)])
                records = [(each, find_record(index.path, each.filename)) for each in wanted]
            except Interrupted:
                raise
            except ResumeDLError as error:
                reporter.message(f"no index for {wanted[0].filename}: {error.message}", level="debug")
                continue
            known |= {_address(each): _completed(each, record) for each, record in records if record is not None}
    return [artifact if artifact.digest else known.get(_address(artifact), artifact) for artifact in artifacts]


def _address(artifact: Artifact) -> str:
    return (artifact.client_url or artifact.url).reveal()


def _folder(artifact: Artifact) -> str:
    """The address of its channel and subdir."""
    return _address(artifact).rpartition("/")[0]


def _completed(artifact: Artifact, record: Mapping[str, Any]) -> Artifact:
    """With the record's digests; unchanged where they are malformed. Its dependencies stay the archive's own."""
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
