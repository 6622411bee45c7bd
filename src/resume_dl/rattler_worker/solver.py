"""The operation ``solve``, which reads repodata from disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from resume_dl.errors import IntegrityError
from resume_dl.model.repodata_forms import READ
from resume_dl.rattler_worker import adapter
from resume_dl.rattler_worker.adapter import SolverError, match_spec
from resume_dl.rattler_worker.cuda import Choice, choose
from resume_dl.rattler_worker.explanation import check_candidates, unsatisfiable
from resume_dl.rattler_worker.problem import LoadedFile, Problem, channel_base, load


def solve(args: Mapping[str, Any]) -> dict[str, Any]:
    """Solve one request; return the records, the constraints that were applied, and notes for the user.

    ``args``: ``specs`` (each ``text``, ``shown``, ``channels`` (indexes or None), ``subdir``), ``channels`` (``name``,
    ``group``), ``files`` (``channel`` index, ``subdir``, ``path``, ``names``) in order of priority, ``priority``,
    ``virtual_packages``, ``cuda``, ``pins``, ``installed`` (paths of conda-meta records), ``history``, ``free``,
    ``add_pip``, ``only_tar_bz2``, ``exclude_newer`` (ISO 8601, or None).
    Raises InvalidSpecError, PackageNotFoundError, UnsatisfiableError, or IntegrityError for damaged or malicious
    repodata.
    """
    try:
        with load(args) as problem:
            return _solve(problem, args["cuda"])
    except BaseException as error:  # rattler parses each record on access
        if not isinstance(error, OSError | ValueError) and type(error).__name__ != "PanicException":
            raise  # a panic of rattler, as for an invalid URL, is not an Exception
        names = ", ".join(dict.fromkeys(channel["name"] for channel in args["channels"]))
        raise IntegrityError(
            f"a record in the repodata of {names} cannot be read: {error}",
            hint="run it again with --mirror NAME, to use another mirror's copy, or without a channel",
        ) from error


def _solve(problem: Problem, cuda: str | None) -> dict[str, Any]:
    check_candidates(problem)
    try:
        choice = _solve_existing(problem) if problem.installed else _solve_new(problem, cuda)
    except SolverError as error:
        raise unsatisfiable(problem, error) from error
    return {
        "records": _results(problem, choice.records),
        "constraints": list(choice.constraints),
        "notes": [*choice.notes, *_unread(problem)],
    }


_UNKNOWN = "which is not known: left out"


def _unread(problem: Problem) -> list[str]:
    """A note for each index with revisions that this version cannot read; as CEP 48 says, they are left out."""
    notes = []
    for file in problem.files:
        for revision, count in file.unread().items():
            packages = "packages" if count is None else f"{count} package{'' if count == 1 else 's'}"
            where = f"{problem.names[file.channel]}/{file.subdir}"
            known = "whose extras and flags need a newer py-rattler" if revision == READ else _UNKNOWN
            notes.append(f"{where} has {packages} of repodata revision {revision}, {known}")
    return notes


def _solve_new(problem: Problem, cuda: str | None) -> Choice:
    """Solve the specs for a new environment."""
    specs = [spec.match for spec in problem.specs]
    free: list[Any] | SolverError
    try:
        free = problem.solve(specs)
    except SolverError as error:
        free = error
    if cuda is not None:
        choice = choose(problem, specs, free, cuda)
        if choice is not None:
            return choice
    if isinstance(free, SolverError):
        raise free
    return Choice(free)


def _solve_existing(problem: Problem) -> Choice:
    """Solve for an existing environment; as in conda, installed packages stay unchanged if possible.

    Attempts in order: all installed packages frozen except requested ones; all preferred but free to change; the same
    without the specs of earlier commands (conda's history). python keeps its minor version unless requested.
    """
    asked = {spec.name for spec in problem.specs}
    history = [spec for spec in problem.history if spec.name in problem.installed and spec.name not in asked]
    in_history = {spec.name for spec in history}
    loose = asked | problem.free
    names = [match_spec(name) for name in problem.installed if name not in asked and name not in in_history]
    wanted = [spec.match for spec in problem.specs]
    earlier = [spec.match for spec in history]
    by_name = [match_spec(name) for name in in_history]
    constraints = []
    python = problem.installed.get("python")
    if python is not None and "python" not in asked:
        constraints.append(match_spec(f"python {'.'.join(str(python.version).split('.')[:2])}.*"))
    kept = [record for name, record in problem.installed.items() if name not in loose]
    own = [record for name, record in problem.installed.items() if name in asked]
    attempts: tuple[dict[str, Any], ...] = (
        {"specs": [*wanted, *earlier, *names], "pinned": kept, "locked": own},
        {"specs": [*wanted, *earlier, *names], "locked": [*kept, *own]},
        {"specs": [*wanted, *by_name, *names], "locked": [*kept, *own]},
    )
    for number, attempt in enumerate(attempts):
        try:
            records = problem.solve(attempt.pop("specs"), constraints=constraints, **attempt)
        except SolverError:
            if number + 1 == len(attempts):
                raise
            continue
        return Choice(records)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _results(problem: Problem, records: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the chosen records for the parent, each with its channel and original record."""
    chosen = [(record, _identity(record), _origin(problem, record)) for record in records]
    raw = {
        id(file): file.raw.records({record.file_name: identity for record, identity, own in chosen if own is file})
        for file in problem.files
    }
    return [
        _result(problem, record, identity, file, {} if file is None else raw[id(file)])
        for record, identity, file in chosen
    ]


def _identity(record: Any) -> dict[str, Any]:
    """Return the values that distinguish records of the same file name."""
    return {
        "name": record.name.normalized,
        "version": str(record.version),
        "build": str(record.build),
        "sha256": None if record.sha256 is None else record.sha256.hex(),
        "md5": None if record.md5 is None else record.md5.hex(),
    }


def _result(
    problem: Problem,
    record: Any,
    identity: Mapping[str, Any],
    file: LoadedFile | None,
    raw: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return one record for the parent; ``raw`` has the index's records by file name."""
    filename = record.file_name
    if file is None:
        return {**identity, "installed": True, "filename": filename, "subdir": record.subdir}
    return {
        **identity,
        "installed": _is_installed(problem, record),
        "filename": filename,
        "channel": file.channel,
        "subdir": file.subdir,
        "base": _base(record.url, file, filename),
        "size": record.size,
        "record": raw[filename] if filename in raw else adapter.describe(record),
    }


def _origin(problem: Problem, record: Any) -> LoadedFile | None:
    """Return the repodata that has a record; None if only the environment has it."""
    for file in problem.files:
        if record.channel == channel_base(file.channel) and record.subdir == file.subdir:
            return file
    for file in problem.files:  # the record states another subdir than its repodata
        if record.channel == channel_base(file.channel) and f"/{file.subdir}/" in record.url:
            return file
    return None


def _is_installed(problem: Problem, record: Any) -> bool:
    """Whether the environment already has this build, from any channel."""
    installed = problem.installed.get(record.name.normalized)
    return installed is not None and all(
        str(getattr(installed, part)) == str(getattr(record, part)) for part in ("version", "build", "subdir")
    )


def _base(url: str, file: LoadedFile, filename: str) -> str | None:
    """Return the repodata's ``info.base_url`` (CEP 15); None for the default location.

    A location below the channel is returned as ``/path``, any other unchanged.
    """
    folder, _, last = url.rpartition("/")
    if unquote(last) != filename:
        return url  # the parent refuses this
    own = channel_base(file.channel)
    if folder == own + file.subdir:
        return None
    return urlsplit(folder).path if folder.startswith(own) else folder
