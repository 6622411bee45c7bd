"""``bundle create``: a fetch into a channel and a wheel dir, described so that it can be verified without a net."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resume_dl import __version__, fs
from resume_dl.app.fetch import fetch
from resume_dl.bundle.manifest import write_manifest
from resume_dl.bundle.sums import write_sums
from resume_dl.bundle.tar import Member, in_order, mtime_of, write_tar
from resume_dl.bundle_creation.delta import Delta
from resume_dl.bundle_creation.folder import BundleFolder, is_bundle, is_bundle_tar
from resume_dl.bundle_creation.public_text import public
from resume_dl.bundle_creation.request_files import asking_of
from resume_dl.bundle_creation.signature import Signature, check_key, sign
from resume_dl.bundle_creation.target_description import Inventory, Target
from resume_dl.errors import ConfigurationError, NotWritableError
from resume_dl.model.bundle import MANIFEST, SIGNATURE, SUMS, WHEELS, BundleFile, Manifest
from resume_dl.model.channel import SUBDIR
from resume_dl.model.pip import PipRequest
from resume_dl.model.target import TargetMachine
from resume_dl.model.units import show_bytes
from resume_dl.ports import Reporter
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.settings.condarc import native_subdir
from resume_dl.store.part import hash_file
from resume_dl.transfer.destination import can_make
from resume_dl.transfer.report import RunResult
from resume_dl.transfer.setup import Setup

if TYPE_CHECKING:
    from resume_dl.bundle_creation.contents import Contents
    from resume_dl.resolution.pip_request import Asked

_PACKED = (".gz", ".bz2", ".xz", ".zst", ".tgz", ".zip", ".7z")
_GLIBC = "__glibc="
_NAMED = 5
"""Removed files that are told by name."""
_WORKSHOP = ".workshop"
"""Of a tar: the folder beside it in which it is put together; files from the cache are links there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """What ``resume-dl bundle create`` was asked for; names as its options'."""

    fetch: FetchRequest
    output: Path
    """A folder, or a ``.tar``."""
    targets: tuple[Target, ...] = ()
    since: tuple[Inventory, ...] = ()
    split: int | None = None
    """Most bytes of a part; None for one tar."""
    sign: Path | None = None
    name: str = ""
    """The environment's, in environment.yml; empty for that of a file that was asked for."""

    @property
    def as_tar(self) -> bool:
        """Whether one file, or its parts, come out of it."""
        return self.output.suffix.lower() == ".tar"


@dataclass(slots=True)
class CreateResult(RunResult):
    """The fetch's result, and the bundle."""

    output: Path | None = None
    """None where no bundle was made."""
    manifest_sha256: str = ""
    size: int = 0
    """Bytes of all its files."""
    left_out: int = 0
    """Packages that the target has."""
    parts: tuple[Path, ...] = ()
    signature: Signature | None = None
    passed_over: tuple[str, ...] = ()
    """Lines of the files that name what is not in it: only pip itself can take it."""
    platforms: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """The fetch's object with ``bundle``, which is null where none was made."""
        bundle = {
            "path": str(self.output),
            "manifest_sha256": self.manifest_sha256,
            "size": self.size,
            "platforms": list(self.platforms),
            "left_out": self.left_out,
            "passed_over": list(self.passed_over),
            "parts": [str(part) for part in self.parts],
            "signed_by": None if self.signature is None else self.signature.fingerprint,
        }
        return {**super(CreateResult, self).as_json(), "bundle": None if self.output is None else bundle}


def create(
    request: CreateRequest,
    setup: Setup,
    reporter: Reporter,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    worker: RattlerWorker,
) -> CreateResult:
    """Fetch and write the bundle. Errors of single artifacts stand in the result, and then there is no bundle.

    Raises what ``fetch`` does, and ConfigurationError, StoreError and IntegrityError.
    """
    started = time.monotonic()
    job = _Create(request, setup, reporter, cancelled, worker)
    result = job.run()
    result.elapsed = time.monotonic() - started
    return result


class _Create:
    def __init__(
        self,
        request: CreateRequest,
        setup: Setup,
        reporter: Reporter,
        cancelled: Callable[[], bool],
        worker: RattlerWorker,
    ) -> None:
        self.request = request
        self.setup = setup
        self.reporter = reporter
        self.cancelled = cancelled
        self.worker = worker
        self.delta = Delta(request.since)
        self.indexes: tuple[Mapping[str, str], ...] = ()
        """Why the index of each channel was believed."""
        self.output = request.output.absolute()
        self.mtime = mtime_of(setup.env)
        self._check()
        root = self.output.with_name(self.output.name + _WORKSHOP) if request.as_tar else self.output
        self.folder = BundleFolder(root, private=request.as_tar)
        native = setup.conda.subdir or native_subdir()
        self.asking = asking_of(
            request.fetch, native=native, canonical=setup.table.canonical, read_pip=self._requirements
        )
        self.platforms = self._platforms(native)

    def run(self) -> CreateResult:
        if self.request.fetch.dry_run:
            return self._fetch()
        from resume_dl.bundle_creation.contents import path_of

        with self.folder.working():
            result = self._fetch()
            if result.exit_code != 0:
                return result
            self.folder.begin()
            for each in result.artifacts:  # of 50,000 packages, seven mirrors each, they are 100 MB
                each.artifact = changed(each.artifact, sources=())
            contents = self._contents(result)
            files = [*self._write_files(contents)]
            manifest = self._manifest(contents, files)
            sha256 = {each.path: each.sha256 for each in contents.packages}  # of old records, which have an md5, too
            for each in result.artifacts:
                each.artifact = changed(each.artifact, sha256=sha256[path_of(each.artifact)])
            result.manifest_sha256, last = self._seal(manifest, result)
            packages = [each for each in contents.packages if each.included]
            kept = [*(BundleFile(each.path, each.size, each.sha256) for each in packages), *files, *last]
            self._tell_removed(self.folder.tidy({each.path for each in kept}))
            result.size = sum(each.size for each in kept)
            result.left_out = len(contents.packages) - len(packages)
            result.passed_over = self.asking.passed_over
            result.platforms = tuple(each.platform for each in contents.platforms)
            if self.request.as_tar:
                result.parts = self._pack(kept)
            result.output = self.output
            self.folder.finish()
        if self.request.as_tar:
            with suppress(OSError):
                fs.remove(self.folder.root)
            for each in result.artifacts:
                each.path = None  # they lie in the tar
        return result

    def _tell_removed(self, paths: Sequence[str]) -> None:
        """Name the first files that somebody had put among those of the bundle that was here."""
        for path in paths[:_NAMED]:
            self.reporter.message(f"removed: {path}, which was not of the bundle that was here", level="warning")
        if len(paths) > _NAMED:
            self.reporter.message(f"removed: {len(paths) - _NAMED} more of them", level="warning")

    # ------------------------------------------------------------------ before anything is fetched

    def _check(self) -> None:
        """Refuse what would fail after everything was downloaded."""
        request = self.request
        if request.split is not None and not request.as_tar:
            raise ConfigurationError("--split cuts a tar, and -o names a folder", hint="write -o NAME.tar")
        if request.output.suffix.lower() in _PACKED and not request.output.is_dir():
            raise ConfigurationError(
                f"{request.output} would be a folder of that name: a bundle is a folder or a tar",
                hint="write -o NAME.tar: what is in it is compressed already",
            )
        if request.as_tar and (self.output.is_dir() or not can_make(self.output.parent)):
            why = "it is a folder" if self.output.is_dir() else "its folder cannot be written"
            raise NotWritableError(f"{self.output} cannot be written: {why}", hint="choose another file with -o")
        if request.as_tar and self.output.exists() and not is_bundle_tar(self.output):
            raise ConfigurationError(
                f"{self.output} is there, and no bundle", hint="choose another file with -o, or remove it"
            )
        if request.split is not None:
            from resume_dl.bundle.parts import check_parts

            check_parts(self.output.parent, self.output.name)
        for parent in self.output.resolve().parents:
            if is_bundle(parent):
                raise ConfigurationError(
                    f"{self.output} would be inside of the bundle {parent}, which has none but its own files",
                    hint="choose another place with -o",
                )
        if request.sign is not None:
            check_key(request.sign, self.setup.env)
        seen: set[str] = set()
        for each in request.targets:
            platform = each.machine.platform
            if platform in seen:
                raise ConfigurationError(
                    f"two --target files are for {platform}, and a bundle has one solution for a platform",
                    hint="make a bundle for each of them",
                )
            seen.add(platform)

    def _platforms(self, native: str) -> tuple[str, ...]:
        named = self.request.fetch.platforms
        targets = tuple(each.machine.platform for each in self.request.targets)
        listed = tuple(each.platform for each in self.asking.lists)
        found = tuple(dict.fromkeys((*named, *targets, *listed))) or (native,)
        for platform in found:
            if platform == "noarch" or not re.fullmatch(SUBDIR, platform):
                raise ConfigurationError(
                    f"{platform} is no platform that a machine can have", hint="name one, as linux-64 or win-64"
                )
        for each in self.asking.lists:
            if named and each.platform not in (*named, *targets):
                raise ConfigurationError(
                    f"{each.name} is a list for {each.platform}, which no --platform names",
                    hint=f"add --platform {each.platform}, or leave the list out",
                )
        return found

    def _requirements(self, path: Path) -> Asked:
        from resume_dl.resolution.pip_request_files import read_request

        return read_request(PipRequest(files=(path,)), self.setup, self.reporter)

    # ------------------------------------------------------------------ the fetch

    def _fetch(self) -> CreateResult:
        asked = self.request.fetch
        targets = {each.machine.platform: each.machine for each in self.request.targets}
        for target in self.request.targets:
            for note in target.notes:
                self.reporter.message(note, level="info")
        channels = next((each.channels for each in targets.values() if each.channels), ())
        if channels and not asked.channels:
            self.reporter.message(f"the channels are the target's: {', '.join(channels)}", level="info")
            asked = changed(asked, channels=channels, override_channels=True)
        machines = {
            name: _with_glibc(targets.get(name, TargetMachine(platform=name)), asked.virtual_packages)
            for name in self.platforms
        }
        request = changed(
            asked,
            bundle=self.folder.root,
            packs=self.request.as_tar,
            platforms=self.platforms,
            machines=machines,
            pip=changed(asked.pip, wheel_dir=self.folder.root / WHEELS),
        )
        done = fetch(
            request,
            self.setup,
            self.reporter,
            cancelled=self.cancelled,
            worker=self.worker,
            leave_out=lambda artifact: self.delta.find(artifact) is not None,
            begin=self.folder.begin,
        )
        vouched = ({**said, "channel": public(said["channel"])} for said in (i.as_vouched() for i in done.indexes))
        self.indexes = tuple(sorted(vouched, key=lambda said: tuple(said.values())))
        result = CreateResult("bundle create", done.artifacts, error=done.error, notes=done.notes)
        result.resolved, result.indexes = done.resolved, done.indexes
        return result

    def _contents(self, result: CreateResult) -> Contents:
        from resume_dl.bundle_creation.contents import contents_of

        with self.worker as worker:

            def record_of(path: Path) -> Mapping[str, Any]:
                record: dict[str, Any] = worker.request("read_index", {"archive": str(path)})
                return record

            return contents_of(
                result.artifacts,
                result.resolved,
                self.asking,
                platforms=self.platforms,
                held=self.delta.find,
                record_of=record_of,
                add_pip=self.setup.conda.add_pip_as_python_dependency,
            )

    # ------------------------------------------------------------------ the files

    def _manifest(self, contents: Contents, files: Iterable[BundleFile] = ()) -> Manifest:
        asked = self.request.fetch
        request: dict[str, Any] = {
            "specs": list(self.asking.specs),
            "pip": [public(text) for text in asked.pip.requirements],
            "files": [path.name for path in asked.files],
            "channels": [public(name) for name in asked.channels],
            "cuda": asked.cuda,
        }
        if self.asking.passed_over:
            request["passed_over"] = list(self.asking.passed_over)
        return Manifest(
            created_by=f"resume-dl {__version__}",
            request=request,
            platforms=contents.platforms,
            packages=contents.packages,
            files=tuple(sorted(files, key=lambda each: each.path)),
            indexes=self.indexes,
        )

    def _write_files(self, contents: Contents) -> Iterator[BundleFile]:
        from resume_dl.bundle_creation.generated import generated

        manifest = self._manifest(contents)
        epoch = self.mtime if self.setup.env.get("SOURCE_DATE_EPOCH") else None
        signed = self.request.sign is not None
        name = self.request.name or self.asking.name or "bundle"  # of the request alone: the same bytes in any place
        for path, chunks in generated(manifest, contents, self.asking, name=name, epoch=epoch, signed=signed):
            yield self.folder.write(path, chunks)

    def _seal(self, manifest: Manifest, result: CreateResult) -> tuple[str, list[BundleFile]]:
        """Manifest, signature, sums: in this order, the last of which says that all is there."""
        sealed = [self.folder.write(MANIFEST, write_manifest(manifest))]
        digest, signature = sealed[0].sha256, ""
        if self.request.sign is not None:
            result.signature = sign(self.folder.root / MANIFEST, self.request.sign, env=self.setup.env)
            path = self.folder.root / SIGNATURE
            signature = hash_file(path, "sha256")
            sealed.append(BundleFile(SIGNATURE, path.stat().st_size, signature))
        sums = write_sums(manifest, manifest_sha256=digest, signature_sha256=signature)
        return digest, [*sealed, self.folder.write(SUMS, sums)]

    def _pack(self, files: Sequence[BundleFile]) -> tuple[Path, ...]:
        size = show_bytes(sum(each.size for each in files))
        self.reporter.message(f"writing {self.output}: {size}", level="info")
        members = in_order(Member(each.path, self.folder.root / each.path, each.size, each.sha256) for each in files)
        if self.request.split is None:
            write_tar(members, self.output, mtime=self.mtime, cancelled=self.cancelled)
            return ()
        from resume_dl.bundle.parts import split_members

        parts = split_members(
            members,
            self.output.parent,
            self.output.name,
            size=self.request.split,
            mtime=self.mtime,
            cancelled=self.cancelled,
        )
        return tuple(self.output.parent / each.name for each in parts.parts)


def _with_glibc(machine: TargetMachine, named: Sequence[str]) -> TargetMachine:
    """With the C library that ``--virtual-package`` names: wheels must run on it too, not conda's packages alone."""
    glibc = tuple(each for each in named if each.startswith(_GLIBC))
    if not glibc or not machine.platform.startswith("linux-"):
        return machine
    others = (each for each in machine.virtual_packages if not each.startswith(_GLIBC))
    return changed(machine, virtual_packages=(*others, *glibc))
