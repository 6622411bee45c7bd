"""All that we touch of conda's inside, for 24.7 to 26.7: what differs between versions may differ here only.

Used: ``context`` (documented), ``PackageCacheData`` with ``first_writable``, ``is_writable``, ``get``, ``reload`` and
``insert``, and the two record classes. One private name: ``_package_cache_records``, for caches that cannot be written,
where ``insert`` would end the command. Nothing is patched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from conda.base.context import context
from conda.core.package_cache_data import PackageCacheData
from conda.models.records import PackageCacheRecord, PackageRecord

from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.store.cache_record import client_url, without_credentials


def is_dry_run() -> bool:
    """Whether conda only shows what it would do."""
    return bool(context.dry_run)


def is_talkative() -> bool:
    """Whether a user wants to read more than results."""
    return not (context.quiet or context.json)


def package_caches() -> list[Path]:
    """Conda's package caches in its order, the absent ones too."""
    return [Path(folder) for folder in context.pkgs_dirs]


def is_writable(pkgs_dir: Path) -> bool:
    """Whether conda would write to this cache; an absent one counts as not."""
    return PackageCacheData(str(pkgs_dir)).is_writable is True


def first_writable() -> Path:
    """The cache that conda downloads to; it is made where it is absent. Raises a CondaError where there is none."""
    return Path(PackageCacheData.first_writable().pkgs_dir)


def artifacts(records: Iterable[Any]) -> tuple[list[Artifact], dict[str, Any]]:
    """The packages that conda would fetch from a network, and their records by URL (``client_url``).

    Left out are records with a file: URL (conda copies those itself) and with a name that is no plain file name.
    """
    found, by_url = [], {}
    for record in records:
        url = record.get("url") or ""
        if url.startswith("file:") or "://" not in url:
            continue
        try:
            artifact = Artifact(
                kind="conda",
                filename=record.fn,
                url=RedactedUrl(url),
                client_url=RedactedUrl(url),
                size=record.get("size"),
                sha256=record.get("sha256") or None,
                md5=record.get("md5") or None,
                name=record.name,
                version=record.version,
                build=record.build,
                subdir=record.subdir,
            )
            artifact.digest  # noqa: B018 - a malformed digest raises here, not later
        except ValueError:
            continue
        found.append(artifact)
        by_url[client_url(artifact)] = record
    return found, by_url


def extract_packed(pkgs_dir: Path, record: Any, extracted: Path) -> None:
    """Let conda extract an archive that lies in its cache: it does so for all of them when it loads the cache.

    It would load it a moment later anyway. Where it has (``--offline``), it is made to look again.
    """
    cache = PackageCacheData(str(pkgs_dir))
    cache.get(record, None)
    if not extracted.exists():
        cache.reload()


def insert(pkgs_dir: Path, record: Any, index: Mapping[str, Any], *, archive: Path, extracted: Path) -> None:
    """Tell conda that ``extracted`` is this record's package: on disk where the cache can be written, else in memory.

    The record is composed as conda composes it after an extraction (``ExtractPackageAction``), less the login.
    """
    composed = PackageRecord.from_objects(record, dict(index), url=without_credentials(record.url))
    entry = PackageCacheRecord.from_objects(
        composed, package_tarball_full_path=str(archive), extracted_package_dir=str(extracted)
    )
    cache = PackageCacheData(str(pkgs_dir))
    if cache.is_writable:
        cache.insert(entry)
    else:
        cache._package_cache_records[entry] = entry  # noqa: SLF001 - the one way for a read-only cache (module docstring)
