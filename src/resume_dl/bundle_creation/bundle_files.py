"""The files around a bundle's packages: generated files, manifest, signature, sums, and the tar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resume_dl import __version__
from resume_dl.bundle.manifest import write_manifest
from resume_dl.bundle.sums import write_sums
from resume_dl.bundle.tar import Member, in_order, mtime_of, write_tar
from resume_dl.bundle_creation.create_request import CreateRequest
from resume_dl.bundle_creation.folder import BundleFolder
from resume_dl.bundle_creation.public_text import public
from resume_dl.bundle_creation.request_files import PublicRequest
from resume_dl.bundle_creation.signature import Signature, sign
from resume_dl.model.bundle import MANIFEST, SIGNATURE, SUMS, BundleFile, Manifest
from resume_dl.store.part import hash_file

if TYPE_CHECKING:
    from resume_dl.bundle_creation.contents import Contents


@dataclass(frozen=True, slots=True)
class Sealed:
    """The last files of a bundle; each covers those written before it."""

    manifest_sha256: str
    files: tuple[BundleFile, ...]
    signature: Signature | None


class BundleFiles:
    """Writes them into one bundle's folder. Call the methods in their order."""

    def __init__(
        self,
        folder: BundleFolder,
        request: CreateRequest,
        requested: PublicRequest,
        env: Mapping[str, str],
        *,
        indexes: tuple[Mapping[str, str], ...],
    ) -> None:
        """``indexes``: why the index of each channel was trusted."""
        self._folder = folder
        self._request = request
        self._requested = requested
        self._env = env
        self._indexes = indexes

    def describe(self, contents: Contents) -> Iterator[BundleFile]:
        """Write the files generated from ``contents``: repodata, lists, pages, lock files, README."""
        from resume_dl.bundle_creation.generated import generated

        manifest = self.manifest(contents)
        epoch = mtime_of(self._env) if self._env.get("SOURCE_DATE_EPOCH") else None
        signed = self._request.sign is not None
        name = (
            self._request.name or self._requested.name or "bundle"
        )  # not of the output path: the bytes must not differ
        for path, chunks in generated(manifest, contents, self._requested, name=name, epoch=epoch, signed=signed):
            yield self._folder.write(path, chunks)

    def manifest(self, contents: Contents, files: Iterable[BundleFile] = ()) -> Manifest:
        """The manifest of the bundle's contents and request."""
        asked = self._request.fetch
        request: dict[str, Any] = {
            "specs": list(self._requested.specs),
            "pip": [public(text) for text in asked.pip.requirements],
            "files": [path.name for path in asked.files],
            "channels": [public(name) for name in asked.channels],
            "cuda": asked.cuda,
        }
        if self._requested.passed_over:
            request["passed_over"] = list(self._requested.passed_over)
        return Manifest(
            created_by=f"resume-dl {__version__}",
            request=request,
            platforms=contents.platforms,
            packages=contents.packages,
            files=tuple(sorted(files, key=lambda each: each.path)),
            indexes=self._indexes,
        )

    def seal(self, manifest: Manifest) -> Sealed:
        """Write manifest, signature and sums, in this order: the sums mark the bundle as complete."""
        sealed = [self._folder.write(MANIFEST, write_manifest(manifest))]
        digest, signature, signature_sha256 = sealed[0].sha256, None, ""
        if self._request.sign is not None:
            signature = sign(self._folder.root / MANIFEST, self._request.sign, env=self._env)
            path = self._folder.root / SIGNATURE
            signature_sha256 = hash_file(path, "sha256")
            sealed.append(BundleFile(SIGNATURE, path.stat().st_size, signature_sha256))
        sums = write_sums(manifest, manifest_sha256=digest, signature_sha256=signature_sha256)
        return Sealed(digest, (*sealed, self._folder.write(SUMS, sums)), signature)

    def pack(self, files: Sequence[BundleFile], output: Path, cancelled: Callable[[], bool]) -> tuple[Path, ...]:
        """Write ``files`` as a tar, or its parts, which are returned. Raises StoreError or Interrupted."""
        mtime, root = mtime_of(self._env), self._folder.root
        members = in_order(Member(each.path, root / each.path, each.size, each.sha256) for each in files)
        if self._request.split is None:
            write_tar(members, output, mtime=mtime, cancelled=cancelled)
            return ()
        from resume_dl.bundle.parts import split_members

        parts = split_members(
            members, output.parent, output.name, size=self._request.split, mtime=mtime, cancelled=cancelled
        )
        return tuple(output.parent / each.name for each in parts.parts)
