"""A solve request with its repodata loaded, as used by ``solver`` and ``cuda``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, final

from resume_dl.errors import IntegrityError, InvalidSpecError
from resume_dl.model.repodata_forms import READ
from resume_dl.rattler_worker import adapter
from resume_dl.rattler_worker.match_specs import Spec, parse_spec
from resume_dl.rattler_worker.raw_repodata import RawRepodata


def channel_base(index: int) -> str:
    """Return the URL of channel ``index`` for rattler: a made-up one, so that no error can show a login."""
    return f"https://channel-{index}.invalid/"


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The repodata of one channel and subdir, in rattler's form and as bytes."""

    channel: int
    group: str
    subdir: str
    sparse: Any
    raw: RawRepodata
    names: Path | None
    """A file with all package names of the index, one per line, if the repodata holds only some records."""

    def unread(self) -> dict[str, int | None]:
        """Revisions (CEP 48) that are not read, or in part -> how many packages they have, if that is known."""
        newer = self.raw.newer
        v3 = {name: len(rows) for name, rows in newer.records.items() if name.startswith(f"{READ}/")}
        return {**({} if adapter.HAS_REVISIONS or not v3 else {READ: sum(v3.values())}), **newer.unread}


@final
@dataclass(slots=True)
class Problem:
    """A solve request with open repodata files; a context manager."""

    specs: list[Spec]
    files: list[LoadedFile]
    names: list[str]
    """The channels' names, by index."""
    priority: str
    virtual_packages: list[tuple[str, str, str]]
    constraints: list[Spec]
    installed: dict[str, Any]
    """Name -> record of each installed package."""
    history: list[Spec]
    add_pip: bool
    only_tar_bz2: bool
    exclude_newer: datetime | None = None
    """See ``SolveRequest``."""
    free: frozenset[str] = frozenset()
    """Installed names that may change without a request (aggressive updates)."""
    _open: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Problem:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

    def keep(self, opened: ExitStack) -> None:
        """Close ``opened`` when this problem is closed."""
        self._open.enter_context(opened)

    def candidates(self, name: str, *, channel: str | None = None, newer: bool = False) -> list[Any]:
        """Return all records of a package name, of the channel with this base or of all channels.

        With ``newer`` also those that ``exclude_newer`` leaves out.
        """
        selection = adapter.selection(only_tar_bz2=self.only_tar_bz2)
        found: list[Any] = []
        for file in self.files:
            if channel is None or channel == channel_base(file.channel):
                found += file.sparse.load_records(name, selection)
        return found if newer else [record for record in found if not self._is_newer(record)]

    def _is_newer(self, record: Any) -> bool:
        if self.exclude_newer is None:
            return False
        since = adapter.appeared(record)
        return since is not None and since > self.exclude_newer

    def package_names(self) -> set[str]:
        """Return every package name of every repodata."""
        selection = adapter.selection(only_tar_bz2=self.only_tar_bz2)
        names = {name for file in self.files for name in file.sparse.package_names(selection)}
        for file in self.files:
            if file.names is not None:
                names.update(file.names.read_text(encoding="utf-8").splitlines())
        return names

    def solve(
        self,
        specs: Sequence[Any],
        *,
        constraints: Sequence[Any] = (),
        locked: Sequence[Any] = (),
        pinned: Sequence[Any] = (),
    ) -> list[Any]:
        """Run the solver once. Raises rattler's SolverError."""
        return adapter.solve(
            specs,
            [(file.group, file.sparse) for file in self.files],
            priority=self.priority,
            constraints=[*(spec.match for spec in self.constraints), *constraints],
            locked=locked,
            pinned=pinned,
            virtual_packages=self.virtual_packages,
            add_pip=self.add_pip,
            only_tar_bz2=self.only_tar_bz2,
            exclude_newer=self.exclude_newer,
        )


def load(args: Mapping[str, Any]) -> Problem:
    """Load the problem that ``args`` describe (see ``solver.solve``).

    Raises InvalidSpecError, IntegrityError for repodata that cannot be read or contains an unsafe file name, or
    ConfigurationError for an ``exclude_newer`` that this py-rattler cannot follow.
    """
    if args["exclude_newer"] is not None:
        adapter.check_cutoff()
    with ExitStack() as opened:
        names = [channel["name"] for channel in args["channels"]]
        files = [_load_file(file, args["channels"], opened) for file in args["files"]]
        problem = Problem(
            specs=[],
            files=files,
            names=names,
            priority=args["priority"],
            virtual_packages=[(name, version, build) for name, version, build in args["virtual_packages"]],
            constraints=[parse_spec(text) for text in args["pins"]],
            installed={record.name.normalized: record for record in map(_read_installed, args["installed"])},
            history=_valid_specs(args["history"]),
            add_pip=args["add_pip"],
            only_tar_bz2=args["only_tar_bz2"],
            exclude_newer=None if args["exclude_newer"] is None else datetime.fromisoformat(args["exclude_newer"]),
            free=frozenset(args["free"]),
        )
        problem.specs += [_spec(problem, spec) for spec in args["specs"]]
        problem.keep(opened.pop_all())  # only once everything is loaded
    return problem


def _load_file(file: Mapping[str, Any], channels: Sequence[Mapping[str, Any]], opened: ExitStack) -> LoadedFile:
    channel = channels[file["channel"]]
    index = channel["name"], file["subdir"]
    path = Path(file["path"])
    try:
        raw = opened.enter_context(RawRepodata(path, index))
        if file.get("names") is None:  # a subset is ours; its shards' file names were checked
            raw.check_filenames()
        sparse = adapter.load_repodata(channel_base(file["channel"]), file["subdir"], path)
    except (OSError, ValueError) as error:
        raise IntegrityError(
            f"the repodata of {'/'.join(index)} cannot be read: {error}",
            index=index,
            hint="it may be damaged: run it again, with --mirror NAME to use another copy",
        ) from error
    opened.callback(sparse.close)
    names = file.get("names")
    return LoadedFile(file["channel"], channel["group"], file["subdir"], sparse, raw, names and Path(names))


def _read_installed(path: str) -> Any:
    try:
        return adapter.read_prefix_record(Path(path))
    except Exception as error:
        raise IntegrityError(
            f"the record of an installed package cannot be read: {path}: {error}",
            hint="conda cannot read it either: repair that environment, or solve for a new one",
        ) from error


def _valid_specs(texts: Sequence[str]) -> list[Spec]:
    """Return the valid specs of an environment's history; old versions of conda wrote some that are now invalid."""
    found = []
    for text in texts:
        try:
            found.append(parse_spec(text))
        except InvalidSpecError:
            continue
    return found


def _spec(problem: Problem, given: Mapping[str, Any]) -> Spec:
    """Parse a user's spec; if it names a multichannel, it means the first member that has a candidate."""
    text, shown = given["text"], given["shown"]
    bases = [channel_base(index) for index in given["channels"] or ()]
    subdir = f"{given['subdir']}" if given["subdir"] else ""
    found = [parse_spec(text, base=base + subdir, shown=shown) for base in bases] or [parse_spec(text, shown=shown)]
    for spec in found:
        if any(spec.match.matches(record) for record in problem.candidates(spec.name, channel=spec.channel)):
            return spec
    return found[0]
