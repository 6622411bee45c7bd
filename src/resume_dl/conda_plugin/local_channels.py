"""Archives of file: channels are compared with their channel's index, or their line, before conda links them.

conda copies such an archive into its cache and checks neither size nor digest (``CacheUrlAction._execute_local``, 24.7
and 26.7). What it takes from a package cache instead is not read again. Where a file is missing or cannot be read,
conda says so itself.
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
from resume_dl.conda_plugin.saying import say
from resume_dl.model.artifact import Artifact
from resume_dl.model.digest import Digest
from resume_dl.model.url import RedactedUrl
from resume_dl.progress.console import presentable
from resume_dl.store.part import hash_file


@dataclass(frozen=True, slots=True)
class Difference:
    """One archive that is not its record's: ``what`` is ``size`` (in bytes), ``sha256`` or ``md5`` (lower-case hex)."""

    path: str
    what: str
    expected: str
    actual: str


class LocalArchiveMismatchError(CondaError):
    """Archives of file: channels are not what is said of them; conda ends with exit code 1 and links nothing.

    ``said_in``: the ``index`` of their channel, or the ``line`` of a list or a command.
    """

    def __init__(self, differences: Sequence[Difference], said_in: str = "index") -> None:
        self.differences = [asdict(each) for each in differences]
        """For ``--json``: conda puts an error's public attributes into its object."""
        whose = "index of its channel" if said_in == "index" else f"{said_in} that names it"
        files = [
            f"{each.path} is not what the {whose} says:\n"
            f"  {each.what} in the {said_in}: {each.expected}\n"
            f"  {each.what} of the file:  {each.actual}"
            for each in differences
        ]
        advice = (
            f"A file was changed after its {said_in} was made, so nothing is installed. Put the right file there, or,\n"
            f"if this one is right, make the {said_in} anew; then run the same command again."
        )
        super().__init__(presentable("\n".join([*files, advice])))


def check_local(records: Iterable[Any], *, said_in: str = "index") -> None:
    """Raise LocalArchiveMismatchError where an archive that conda is about to copy is not its record's.

    ``records`` are conda's (asked for ``url``, ``size``, ``sha256``, ``md5``); those of other channels are passed over.
    Archives without a digest in their index are told in one line. Not for a dry run, which copies nothing.
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
            continue  # conda comes to this file in a moment, and has its own words for it
        if difference is not None:
            differences.append(difference)
        elif digest is None:
            unverified.append(url.rpartition("/")[2])
    if differences:
        raise LocalArchiveMismatchError(differences, said_in)
    if unverified:
        say(f"not verified, because the index of their channel has no digest: {', '.join(unverified)}")


def _digest(record: Any) -> Digest | None:
    """The stronger of a record's digests; one that is malformed is none."""
    for algorithm in ("sha256", "md5"):
        value = record.get(algorithm)
        if value:
            try:
                return Digest(algorithm, str(value).lower())
            except ValueError:
                continue
    return None


def _is_cached(record: Any, url: str, caches: Iterable[Path]) -> bool:
    """Whether conda takes an extracted entry of this very URL, and never looks at the channel's archive."""
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
    except ValueError:  # a name that is no conda package's
        return False
    return any(
        entry.extracted is not None and entry.is_for(artifact) and (entry.extracted / INDEX).is_file()
        for entry in entries
    )


def _compare(path: Path, size: int | None, digest: Digest | None) -> Difference | None:
    """The first difference between a file and its record, None where there is none. Raises OSError."""
    if not path.is_file():
        raise FileNotFoundError(path)  # from a pipe conda could not read again what we had read
    found = path.stat().st_size
    if size not in {None, found}:
        return Difference(str(path), "size", str(size), str(found))
    if digest is None:
        return None
    actual = hash_file(path, digest.algorithm)
    return None if actual == digest.hex else Difference(str(path), digest.algorithm, digest.hex, actual)
