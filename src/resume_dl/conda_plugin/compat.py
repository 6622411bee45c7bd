"""The parts of conda's internals that the plugin uses (24.7 to 26.7), and the differences between its versions.

Used: ``context`` (documented), ``PackageCacheData`` with ``first_writable``, ``is_writable``, ``get`` and ``reload``,
and the two record classes. One private name: ``_package_cache_records``, because the public ``insert`` ends the command
if a cache cannot be written, and writes a record in place, which another process may be reading. Logins come from
conda's session (``conda_session``) and, because not every solver leaves them in its records, from the indexes that it
has read (``SubdirData._cache_``). Nothing is patched.

``solver`` and ``index_cache`` hold what is needed before every solve, because this module takes too long to load there.
``shard_database`` holds the private names of conda's database of shards.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import replace as changed
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from conda import misc
from conda.base.context import context
from conda.common.path import expand, url_to_path
from conda.common.url import is_url, join_url, path_to_url
from conda.core.package_cache_data import PackageCacheData
from conda.core.subdir_data import SubdirData
from conda.exceptions import CondaError
from conda.models.channel import Channel
from conda.models.records import PackageCacheRecord, PackageRecord

from resume_dl.caches.conda.record import RECORD, channel_of, client_url, read_info, without_credentials, write_record
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.explicit import MARK

_ENV_UPDATE = "env_update"


def is_dry_run() -> bool:
    """Whether conda only shows what it would do."""
    return bool(context.dry_run)


def is_offline() -> bool:
    """Whether conda may send no request."""
    return bool(context.offline)


def may_ask(records: Iterable[Any]) -> bool:
    """Whether conda itself will prompt about these packages, on a terminal, without an answer given in advance.

    It prompts after a solve (not for lists and URLs), and never in ``conda env``.
    """
    said = context.always_yes or context.json or context.download_only
    command = str(dict(context._argparse_args or {}).get("func", ""))  # as in listed_packages
    solved = all(isinstance(record, PackageRecord) for record in records)
    if said or not solved or ".main_env" in command or sys.stdin is None or sys.stderr is None:
        return False
    return sys.stdin.isatty() and sys.stderr.isatty()


def target_prefix() -> Path:
    """The environment that this command works on."""
    return Path(context.target_prefix)


def plugin_setting(name: str) -> Any:
    """A setting of condarc's ``plugins:`` (or ``CONDA_PLUGINS_*``). Raises ValueError where conda cannot read it.

    conda checks a setting when it is read, and ends in a CondaError, or in an AttributeError for a list.
    """
    try:
        return getattr(context.plugins, name)
    except (CondaError, AttributeError) as error:
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from error


def is_talkative() -> bool:
    """Whether to print more than results (no ``--quiet``, no ``--json``)."""
    return not (context.quiet or context.json)


def is_verbose() -> bool:
    """Whether to print details (``conda -v``)."""
    return is_talkative() and bool(context.verbosity)


def package_caches() -> list[Path]:
    """Conda's package caches in its order, including those that do not exist."""
    return [Path(folder) for folder in context.pkgs_dirs]


def is_writable(pkgs_dir: Path) -> bool:
    """Whether conda would write to this cache; False if it does not exist."""
    return PackageCacheData(str(pkgs_dir)).is_writable is True


def first_writable() -> Path:
    """The cache that conda downloads to, created if it is missing. Raises CondaError if no cache can be written."""
    return Path(PackageCacheData.first_writable().pkgs_dir)


def artifacts(records: Iterable[Any]) -> tuple[list[Artifact], dict[str, Any]]:
    """The packages that conda would download, and their records by ``client_url``.

    Records are skipped if their URL is not http(s) (conda copies file: itself; s3: and ftp: are not supported) or their
    name is not a plain file name.
    """
    found, by_url = [], {}
    for record in records:
        url = (record.get("url") or "").partition("#")[0]  # conda too sends no fragment
        if not url.startswith(("http://", "https://")):
            continue
        try:
            artifact = Artifact(
                kind="conda",
                filename=_file_name(record.fn, url),
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
            _ = artifact.digest  # a malformed digest raises here, not later
        except ValueError:
            continue
        found.append(artifact)
        by_url[client_url(artifact)] = record
    return found, by_url


def _file_name(filename: str, url: str) -> str:
    """The name under which conda downloads a package.

    rattler gives the record of a wheel a name like a conda package's, so conda 26 takes the name in the URL.
    """
    in_url = url.rpartition("/")[2]
    return in_url if in_url.endswith(".whl") else filename


def in_full(artifact: Artifact, record: Any) -> Artifact:
    """``artifact`` with its channel and whole record; slow, so only for what is fetched."""
    if not isinstance(record, PackageRecord):
        return artifact
    return changed(artifact, channel=str(record.channel.name or ""), record=record.dump())


def extract_packed(pkgs_dir: Path, extracted: Path) -> None:
    """Have conda extract an archive that lies in its cache: it extracts all of them when it loads the cache.

    It would load the cache a moment later anyway. If it has already done so (``--offline``), it is made to reload it.
    """
    cache = PackageCacheData(str(pkgs_dir))
    cache.iter_records()
    if not extracted.exists():
        cache.reload()


def insert(pkgs_dir: Path, record: Any, index: Mapping[str, Any], *, archive: Path, extracted: Path) -> None:
    """Register ``extracted`` as this record's package: in memory, and on disk if the cache is writable.

    The record is composed as conda composes it after an extraction (``ExtractPackageAction``), less the login. Unlike
    conda's ``insert``, which writes into the file, it replaces it at once, and only if it says something else: another
    conda that reads half of a record extracts the package anew while this one links it.
    """
    composed = PackageRecord.from_objects(record, dict(index), url=without_credentials(record.url))
    entry = PackageCacheRecord.from_objects(
        composed, package_tarball_full_path=str(archive), extracted_package_dir=str(extracted)
    )
    cache = PackageCacheData(str(pkgs_dir))
    written = PackageRecord.from_objects(entry).dump()
    if cache.is_writable and read_info(extracted, RECORD) != written:
        write_record(extracted, written, sync=False)
    cache._package_cache_records[entry] = entry


@dataclass(frozen=True, slots=True)
class Listed:
    """A package that a command names by URL, with the attributes that conda's record functions read.

    conda takes whatever is None or missing from the archive's ``info/index.json``.
    """

    url: str
    """As conda requests it: with the login, if the user's line has one."""
    md5: str | None = None
    sha256: str | None = None

    @property
    def digest(self) -> str | None:
        """The stronger digest that the line states; None if it states no digest."""
        return self.sha256 or self.md5

    @property
    def fn(self) -> str:
        """The file's name."""
        return self.url.rpartition("/")[2]

    @property
    def channel(self) -> str:
        """The address of its folder, without a login."""
        return channel_of(self.url)


def files_of(command: str) -> list[Path]:
    """The files that ``--file`` names; empty if this command does not read lists (``env update`` before 26)."""
    files = context._argparse_args.get("file") or ()  # the only place that has them in all versions
    if command == _ENV_UPDATE and find_spec("conda.env.specs.explicit") is None:
        return []
    return [Path(file) for file in ((files,) if isinstance(files, str) else files)]


def listed_packages(files: Iterable[Path]) -> list[Listed]:
    """The packages that a command installs without a solve: lines of ``@EXPLICIT`` files, and URLs as arguments.

    Empty if conda itself will refuse them (an invalid line, names mixed with URLs). Lists that conda would have to
    download first are skipped.
    """
    lines = [line for file in files for line in _lines(file)]
    named = [text.strip("\"'") for text in context._argparse_args.get("packages") or ()]
    try:
        found = _listed(line for line in lines if line != MARK) if MARK in lines else []
        return found + (_listed(named) if all(map(_is_address, named)) else [])
    except ValueError:
        return []


def lock_reader(lock: Path) -> str:
    """The name of conda's reader of this lock file (``conda-lock-v1`` of conda-lockfiles); empty if it has none."""
    choose = getattr(context.plugin_manager, "get_environment_specifier", None)  # since 26
    if choose is None:
        return ""
    try:
        return str(choose(source=str(lock), name=context.environment_specifier).name)
    except (CondaError, ValueError):  # conda will report it
        return ""


def subdir() -> str:
    """The platform that conda installs for."""
    return str(context.subdir)


def remember_with_login(listed: Listed) -> None:
    """Let conda find a cached package by a URL with a login; kept in memory, the login is not written.

    conda compares the URL of a line, including the login, with that of an entry.
    """
    plain = without_credentials(listed.url)
    for pkgs_dir in package_caches():
        cache = PackageCacheData(str(pkgs_dir))
        for entry in [entry for entry in cache.iter_records() if entry.get("url") == plain]:
            known = PackageCacheRecord.from_objects(entry, url=listed.url)
            cache._package_cache_records[entry] = known


def local_path(url: str) -> Path:
    """The path that a file: URL names."""
    return Path(url_to_path(url))


def _lines(file: Path) -> list[str]:
    """A list's lines as conda counts them; empty if the file cannot be read, which conda reports itself.

    Only a regular file is opened: a pipe (``<(...)``, ``/dev/stdin``) can be read once, and conda needs to read it. A
    regular file below ``/dev/fd`` is skipped too: to open it would move the offset at which conda starts to read.
    """
    try:
        file = file.resolve(strict=True)
        if not file.is_file() or file.parent == Path("/dev/fd"):
            return []
        lines = [line.strip() for line in file.read_text(encoding="utf-8", errors="replace").splitlines()]
    except (OSError, ValueError, RuntimeError):  # RuntimeError: a loop of symbolic links, before Python 3.13
        return []
    return [line for line in lines if line and not line.startswith("#")]


def _is_address(text: str) -> bool:
    return _pattern().match(text) is not None


def _listed(lines: Iterable[str]) -> list[Listed]:
    """Parse each line as conda's ``misc.explicit`` does. Raises ValueError for a line that conda would refuse."""
    found = []
    for line in lines:
        parts = _pattern().match(line if is_url(line) else path_to_url(expand(line)))
        if parts is None:
            raise ValueError(line)
        digests = parts.groupdict()
        url = join_url(parts["url_p"], parts["fn"])
        found.append(Listed(url, md5=digests.get("md5"), sha256=digests.get("sha256")))
    return found


def _pattern() -> re.Pattern[str]:
    """Conda's pattern for a line, with the groups url_p, fn, md5 and (newer versions) sha256."""
    make = getattr(misc, "_get_url_pattern", None)  # since 26, where the constant is deprecated
    pattern: re.Pattern[str] = make() if make is not None else misc.url_pat
    return pattern


def channels_with_login() -> dict[str, str]:
    """URL without the login -> URL with it, of every channel subdir whose index conda has read."""
    read = (key[0] for key in getattr(SubdirData, "_cache_", {}) if isinstance(key, tuple) and key[0])
    named = (url for channel in context.channels for url in Channel(channel).urls(with_credentials=True))
    found = ((without_credentials(url), url) for url in (*named, *read))
    return {plain: url for plain, url in found if plain != url}
