"""Verify archives of file: channels against their channel's index, or their line of a list, before conda links them.

conda copies such an archive into its cache without a check of size or digest (``CacheUrlAction._execute_local``, 24.7
and 26.7). A package that conda uses from a cache is not read again. conda itself reports files that are missing or
unreadable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from conda.common.path import url_to_path
from conda.exceptions import CondaError

from resume_dl.caches.conda.lookup import look
from resume_dl.caches.conda.record import INDEX
from resume_dl.conda_plugin import compat
from resume_dl.conda_plugin.messages import say
from resume_dl.model.artifact import Artifact
from resume_dl.model.digest import Digest
from resume_dl.model.url import RedactedUrl
from resume_dl.progress.console import presentable
from resume_dl.store.part import hash_file


@dataclass(frozen=True, slots=True)
class Difference:
    """An archive that differs from its record in ``what``: ``size`` (bytes), ``sha256`` or ``md5`` (lower-case hex)."""

    path: str
    what: str
    expected: str
    actual: str


class LocalArchiveMismatchError(CondaError):
    """Archives of file: channels do not match their record; conda exits with code 1 and links nothing.

    ``said_in``: ``index`` (of their channel) or ``line`` (of a list or a command), which holds the record.
    """

    def __init__(self, differences: Sequence[Difference], said_in: str = "index") -> None:
        self.differences = [asdict(each) for each in differences]
        """For ``--json``: conda puts an error's public attributes into its object."""
        whose = "index of its channel" if said_in == "index" else f"{said_in} that names it"
        files = [
            f"{each.path} does not match the {whose}:\n"
            f"  {each.what} in the {said_in}: {each.expected}\n"
            f"  {each.what} of the file:  {each.actual}"
            for each in differences
        ]
        advice = (
            f"The file or its {said_in} was changed later, so nothing is installed. Restore the file or, if the file\n"
            f"is right, update the {said_in}; then run the same command again."
        )
        super().__init__(presentable("\n".join([*files, advice])))


def check_local(records: Iterable[Any], *, said_in: str = "index") -> None:
    """Raise LocalArchiveMismatchError if an archive that conda is about to copy does not match its record.

    ``records`` are conda's (``url``, ``size``, ``sha256`` and ``md5`` are read); those of other channels are skipped.
    Archives without a digest in their index are reported in one line. Not for a dry run, which copies nothing.
    """
    caches = compat.package_caches()
    differences: list[Difference] = []
    unverified: list[str] = []
    for record in records:
        url = record.get("url") or ""
        if not url.startswith("file:") or _is_cached(record, url, caches):
            continue
        digest = _digest(record)
        try:
            difference = _compare(Path(url_to_path(url)), record.get("size"), digest)
        except (OSError, CondaError):
            continue  # conda will read this file and report the error itself
        if difference is not None:
            differences.append(difference)
        elif digest is None:
            unverified.append(url.rpartition("/")[2])
    if differences:
        raise LocalArchiveMismatchError(differences, said_in)
    if unverified:
        say(f"not verified, because the index of their channel has no digest: {', '.join(unverified)}")


def _digest(record: Any) -> Digest | None:
    """The strongest well-formed digest of a record; None if there is none."""
    for algorithm in ("sha256", "md5"):
        value = record.get(algorithm)
        if value:
            try:
                return Digest(algorithm, str(value).lower())
            except ValueError:
                continue
    return None


def _is_cached(record: Any, url: str, caches: Iterable[Path]) -> bool:
    """Whether conda uses an extracted entry of the same URL and does not read the channel's archive."""
    try:
        artifact = Artifact(
            kind="conda",
            filename=url.rpartition("/")[2],
            url=RedactedUrl(url),
            size=record.get("size"),
            sha256=record.get("sha256"),
            md5=record.get("md5"),
        )
        entries = [entry for entry in (look(cache, artifact) for cache in caches) if entry is not None]
    except ValueError:  # not a conda package's file name
        return False
    return any(
        entry.extracted is not None and entry.is_for(artifact) and (entry.extracted / INDEX).is_file()
        for entry in entries
    )


def _compare(path: Path, size: int | None, digest: Digest | None) -> Difference | None:
    """The first difference between a file and its record; None if they match. Raises OSError."""
    if not path.is_file():
        raise FileNotFoundError(path)  # a pipe could not be read a second time by conda
    found = path.stat().st_size
    if size not in {None, found}:
        return Difference(str(path), "size", str(size), str(found))
    if digest is None:
        return None
    actual = hash_file(path, digest.algorithm)
    return None if actual == digest.hex else Difference(str(path), digest.algorithm, digest.hex, actual)
