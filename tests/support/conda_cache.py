"""Fill a package cache in tests, by the same store code that ``fetch`` uses."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from resume_dl.caches.conda.extraction_folders import extraction_folder
from resume_dl.caches.conda.lookup import Entry
from resume_dl.caches.conda.publish import publish_entry
from resume_dl.demo.channel import BuiltPackage, ChannelInfo
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.store.part import FOLDER
from support.channels import build_pytorch_channels
from support.conda_env import bundled_python

SPEC = ("pytorch=1.7", "python", "pip")
"""What tests create: with python and pip in it, as facts say that a solve needs."""
_EXTRACT = """
import sys
from conda_package_handling.api import extract
for archive, folder in zip(sys.argv[1::2], sys.argv[2::2]):
    extract(archive, folder)
"""


@dataclass(frozen=True)
class Offer:
    """Two channels on disk, what a solve of ``SPEC`` takes from them, and each package extracted."""

    root: Path
    wanted: dict[str, BuiltPackage]
    """Channel and file name (``pytorch/x.conda``) -> package."""
    extracted: Path

    def package(self, name: str) -> BuiltPackage:
        """The wanted package of this name."""
        return next(package for package in self.wanted.values() if package.spec.name == name)

    def urls(self, base: str) -> list[str]:
        """The channels' addresses at a mirror, in order of priority."""
        return [f"{base}/pytorch", f"{base}/pkgs/main"]

    def artifact(self, key: str, base: str) -> Artifact:
        """The artifact as a resolver would make it, for a client whose mirror is ``base``."""
        package, channel = self.wanted[key], key.rpartition("/")[0]
        record = dict(package.record)
        if package.spec.name == "python":
            record["depends"] = [*record["depends"], "pip"]  # conda does, wherever it reads python's record
        url = RedactedUrl(f"{base}/{channel}/{package.url_path}")
        return Artifact(
            kind="conda",
            filename=package.filename,
            url=url,
            client_url=url,
            size=package.size,
            sha256=package.record.get("sha256"),
            md5=package.record.get("md5"),
            name=package.spec.name,
            version=package.spec.version,
            build=package.spec.build,
            subdir=package.spec.subdir,
            record=record,
        )

    def publish(self, pkgs: Path, key: str, base: str, *, extract: bool = True) -> Entry:
        """One package into a cache, as fetch would."""
        artifact = self.artifact(key, base)
        part = pkgs / FOLDER / f"{artifact.key}.part"
        part.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.wanted[key].path, part)
        folder = None
        if extract:
            folder = extraction_folder(pkgs)
            shutil.copytree(self.extracted / artifact.filename, folder, dirs_exist_ok=True)
        return publish_entry(pkgs, artifact, archive=part, extracted=folder)

    def publish_all(self, pkgs: Path, base: str, *, extract: bool = True) -> None:
        for key in self.wanted:
            self.publish(pkgs, key, base, extract=extract)

    def put_by_hand(self, pkgs: Path, keys: Iterable[str] | None = None) -> None:
        """Archives copied into a cache as a person does it, with nothing else."""
        pkgs.mkdir(parents=True, exist_ok=True)
        for key in self.wanted if keys is None else keys:
            shutil.copyfile(self.wanted[key].path, pkgs / self.wanted[key].filename)


def build_offer(folder: Path) -> Offer:
    """Build the channels and extract each archive once, by conda's own library."""
    root, extracted = folder / "channels", folder / "extracted"
    channels = build_pytorch_channels(root, large=300_000, medium=100_000)
    wanted = _wanted(channels)
    extract_all((package.path for package in wanted.values()), extracted)
    return Offer(root, wanted, extracted)


def build_large_offer(root: Path, *, large: int) -> Offer:
    """The same with a pytorch of ``large`` bytes; nothing is extracted."""
    return Offer(root, _wanted(build_pytorch_channels(root, large=large, medium=50_000)), root)


def _wanted(channels: Mapping[str, ChannelInfo]) -> dict[str, BuiltPackage]:
    return {
        f"{name}/{package.filename}": package
        for name, channel in channels.items()
        for package in channel.packages
        if package.spec.version != "1.7.0"
    }


def extract_all(archives: Iterable[Path], folder: Path) -> None:
    """Extract each archive to ``folder/<file name>``, as conda does."""
    arguments = [str(path) for archive in archives for path in (archive, folder / archive.name)]
    folder.mkdir()
    subprocess.run([str(bundled_python()), "-c", _EXTRACT, *arguments], check=True, capture_output=True)
