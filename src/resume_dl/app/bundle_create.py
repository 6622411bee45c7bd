"""``bundle create``: fetch into a channel and a wheel dir, and describe both so that they can be verified offline.

Packages take the path of ``app.pipeline``, as in ``fetch``, to destinations in the bundle's folder. The bundle's own
steps follow: contents, generated files, manifest, signature, sums, tar.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resume_dl.app.fetch import fetch
from resume_dl.bundle.tar import mtime_of
from resume_dl.bundle_creation.bundle_files import BundleFiles
from resume_dl.bundle_creation.create_request import CreateRequest, CreateResult
from resume_dl.bundle_creation.delta import Delta
from resume_dl.bundle_creation.folder import BundleFolder
from resume_dl.bundle_creation.public_text import public
from resume_dl.bundle_creation.refusals import check_request, platforms_of
from resume_dl.bundle_creation.request_files import public_request_of
from resume_dl.fs.removal import remove
from resume_dl.model.bundle import WHEELS, BundleFile
from resume_dl.model.pip import PipRequest
from resume_dl.model.target import TargetMachine
from resume_dl.model.units import show_bytes
from resume_dl.ports import Reporter
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.settings.condarc import native_subdir
from resume_dl.transfer.setup import Setup

if TYPE_CHECKING:
    from resume_dl.bundle_creation.contents import Contents
    from resume_dl.resolution.pip_request import ExpandedRequest

__all__ = ["CreateRequest", "CreateResult", "create"]

_GLIBC = "__glibc="
_NAMED = 5
"""Number of removed files that are listed by name."""
_STAGING_SUFFIX = ".workshop"
"""Suffix of the folder beside a tar in which its files are staged; files from the cache are hard links there."""


def create(
    request: CreateRequest,
    setup: Setup,
    reporter: Reporter,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    worker: RattlerWorker,
) -> CreateResult:
    """Fetch packages and write the bundle. If an artifact fails, its error is in the result and no bundle is written.

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
        """Why the index of each channel was trusted."""
        self.output = request.output.absolute()
        mtime_of(setup.env)  # refuses a SOURCE_DATE_EPOCH outside the range of tar
        check_request(request, setup.env)
        root = self.output.with_name(self.output.name + _STAGING_SUFFIX) if request.as_tar else self.output
        self.folder = BundleFolder(root, private=request.as_tar)
        native = setup.conda.subdir or native_subdir()
        self.requested = public_request_of(
            request.fetch,
            native=native,
            platforms=(*request.fetch.platforms, *(each.machine.platform for each in request.targets)),
            canonical=setup.table.canonical,
            read_pip=self._requirements,
        )
        self.platforms = platforms_of(request, self.requested.lists, native)

    def run(self) -> CreateResult:
        if self.request.fetch.dry_run:
            return self._fetch()
        with self.folder.working():
            result = self._fetch()
            if result.exit_code != 0:
                return result
            self.folder.begin()
            for each in result.artifacts:  # 50,000 packages with seven sources each take 100 MB
                each.artifact = changed(each.artifact, sources=())
            self._publish(result)
            self.folder.finish()
        if self.request.as_tar:
            with suppress(OSError):
                remove(self.folder.root)
            for each in result.artifacts:
                each.path = None  # the files are in the tar
        return result

    def _publish(self, result: CreateResult) -> None:
        """Write the bundle around the fetched packages, and describe it in ``result``."""
        from resume_dl.bundle_creation.contents import path_of

        contents = self._contents(result)
        around = BundleFiles(self.folder, self.request, self.requested, self.setup.env, indexes=self.indexes)
        files = [*around.describe(contents)]
        manifest = around.manifest(contents, files)
        sha256 = {each.path: each.sha256 for each in contents.packages}  # also for records that state an md5 only
        for each in result.artifacts:
            each.artifact = changed(each.artifact, sha256=sha256[path_of(each.artifact)])
        sealed = around.seal(manifest)
        result.manifest_sha256, result.signature = sealed.manifest_sha256, sealed.signature
        packages = [each for each in contents.packages if each.included]
        kept = [*(BundleFile(each.path, each.size, each.sha256) for each in packages), *files, *sealed.files]
        self._report_removed(self.folder.tidy({each.path for each in kept}))
        result.size = sum(each.size for each in kept)
        result.left_out = len(contents.packages) - len(packages)
        result.passed_over = self.requested.passed_over
        result.platforms = tuple(each.platform for each in contents.platforms)
        if self.request.as_tar:
            self.reporter.message(f"writing {self.output}: {show_bytes(result.size)}", level="info")
            result.parts = around.pack(kept, self.output, self.cancelled)
        result.output = self.output

    def _report_removed(self, paths: Sequence[str]) -> None:
        """List the first foreign files that were removed from the earlier bundle's folder."""
        for path in paths[:_NAMED]:
            self.reporter.message(f"removed: {path}, which was not part of the previous bundle", level="warning")
        if len(paths) > _NAMED:
            self.reporter.message(f"removed: {len(paths) - _NAMED} more such files", level="warning")

    def _requirements(self, path: Path) -> ExpandedRequest:
        from resume_dl.resolution.pip_request_files import read_request

        return read_request(PipRequest(files=(path,)), self.setup, self.reporter, self.cancelled)

    # ------------------------------------------------------------------ the fetch

    def _fetch(self) -> CreateResult:
        asked = self.request.fetch
        targets = {each.machine.platform: each.machine for each in self.request.targets}
        for target in self.request.targets:
            for note in target.notes:
                self.reporter.message(note, level="info")
        channels = next((each.channels for each in targets.values() if each.channels), ())
        if channels and not asked.channels:
            self.reporter.message(f"using the target's channels: {', '.join(channels)}", level="info")
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
                self.requested,
                platforms=self.platforms,
                held=self.delta.find,
                record_of=record_of,
                add_pip=self.setup.conda.add_pip_as_python_dependency,
                cancelled=self.cancelled,
            )


def _with_glibc(machine: TargetMachine, named: Sequence[str]) -> TargetMachine:
    """Apply the glibc version that ``--virtual-package`` names to wheels too, not to conda packages only."""
    glibc = tuple(each for each in named if each.startswith(_GLIBC))
    if not glibc or not machine.platform.startswith("linux-"):
        return machine
    others = (each for each in machine.virtual_packages if not each.startswith(_GLIBC))
    return changed(machine, virtual_packages=(*others, *glibc))
