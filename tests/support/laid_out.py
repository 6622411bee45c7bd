"""A bundle's folder made of packages at hand by the writers of ``resume_dl.bundle`` alone, without a fetch.

    bundle = lay_out(
        tmp_path / "my bundle",
        conda={"linux-64": [PackageSpec(name="a", version="1.0")], "win-64": []},
        wheels={"linux-64": [build_wheel(tmp_path / "built", "demo.app", "1.0")]},
    )
    bundle.folder / "explicit" / "linux-64.txt"

There is everything but ``manifest.json``'s signature, the SBOM and the scripts; ``missing_md5`` makes packages as
channels have them that give a sha256 only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from resume_dl.bundle.channel_files import subdirs, write_repodata
from resume_dl.bundle.environment import write_environment
from resume_dl.bundle.lists import write_explicit, write_requirements
from resume_dl.bundle.manifest import write_manifest
from resume_dl.bundle.pages import projects, write_page, write_root
from resume_dl.bundle.pylock_text import write_pylock
from resume_dl.bundle.readme import write_readme
from resume_dl.bundle.sums import write_sums
from resume_dl.demo.channel import PackageSpec, build_channel
from resume_dl.model.bundle import BundleFile, BundlePackage, BundlePlatform, Manifest
from support.pip_index import BuiltFile, put


@dataclass(frozen=True)
class LaidOut:
    """The folder, what its manifest says, and each conda package's record by path."""

    folder: Path
    manifest: Manifest
    records: Mapping[str, Mapping[str, Any]]

    def text(self, path: str) -> str:
        return (self.folder / path).read_text(encoding="utf-8")


def lay_out(
    folder: Path,
    *,
    conda: Mapping[str, Sequence[PackageSpec]] | None = None,
    wheels: Mapping[str, Sequence[BuiltFile]] | None = None,
    python: Mapping[str, str] | None = None,
    virtual_packages: tuple[str, ...] = (),
    requested: Collection[str] = (),
    missing_md5: bool = False,
) -> LaidOut:
    """Platform -> its conda packages (noarch ones among them) and its wheels; ``python``: ``3.11`` where not said."""
    conda, wheels, python = conda or {}, wheels or {}, python or {}
    packages: dict[str, BundlePackage] = {}
    records: dict[str, Mapping[str, Any]] = {}
    wanted = {(spec.subdir, spec.filename): spec for each in conda.values() for spec in each}
    built_packages = build_channel(folder / "channel", wanted.values()).packages if wanted else ()
    for index in (folder / "channel").glob("*/*repodata*"):
        index.unlink()
    for built in built_packages:
        path = f"channel/{built.url_path}"
        records[path] = built.record
        packages[path] = BundlePackage(
            path=path,
            kind="conda",
            name=built.spec.name,
            version=built.spec.version,
            build=built.spec.build,
            subdir=built.spec.subdir,
            url=f"https://c.example/{built.url_path}",
            size=built.size,
            sha256=built.sha256,
            md5=None if missing_md5 else built.md5,
        )
    for wheel in {file.filename: file for each in wheels.values() for file in each}.values():
        path = f"wheels/{wheel.filename}"
        put(folder / path, wheel)
        packages[path] = BundlePackage(
            path=path,
            kind="wheel" if wheel.filename.endswith(".whl") else "sdist",
            name=wheel.name,
            version=wheel.version,
            url=f"https://w.example/{wheel.filename}",
            size=wheel.size,
            sha256=wheel.sha256,
        )
    manifest = Manifest(
        created_by="a test",
        request={"specs": sorted(requested)},
        platforms=tuple(
            BundlePlatform(
                platform=platform,
                python=python.get(platform, "3.11"),
                virtual_packages=virtual_packages,
                conda=tuple(sorted(f"channel/{spec.subdir}/{spec.filename}" for spec in conda.get(platform, ()))),
                pip=tuple(sorted(f"wheels/{file.filename}" for file in wheels.get(platform, ()))),
                explicit=f"explicit/{platform}.txt" if conda.get(platform) else "",
                requirements=f"requirements/{platform}.txt" if wheels.get(platform) else "",
            )
            for platform in sorted({*conda, *wheels})
        ),
        packages=tuple(packages[path] for path in sorted(packages)),
    )
    limits = {f"wheels/{file.filename}": file.requires_python or "" for each in wheels.values() for file in each}
    texts = dict(_texts(manifest, records, limits, requested))
    files = []
    for path in sorted(texts):
        data = b"".join(texts[path])
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
        files.append(BundleFile(path, len(data), hashlib.sha256(data).hexdigest()))
    manifest = replace(manifest, files=tuple(files))
    data = b"".join(write_manifest(manifest))
    (folder / "manifest.json").write_bytes(data)
    sums = write_sums(manifest, manifest_sha256=hashlib.sha256(data).hexdigest())
    (folder / "SHA256SUMS").write_bytes(b"".join(sums))
    return LaidOut(folder, manifest, records)


def _texts(
    manifest: Manifest,
    records: Mapping[str, Mapping[str, Any]],
    limits: Mapping[str, str],
    requested: Collection[str],
) -> Iterable[tuple[str, Iterable[bytes]]]:
    yield "README.txt", write_readme(manifest)
    for subdir in subdirs(manifest):
        yield f"channel/{subdir}/repodata.json", write_repodata(manifest, subdir, records)
    if any(each.conda for each in manifest.platforms):
        yield "environment.yml", write_environment(manifest, name="demo", requested=requested)
    if pages := projects(manifest):
        yield "pylock.toml", write_pylock(manifest)
        yield "simple/index.html", write_root([*pages])
        for name, files in pages.items():
            yield f"simple/{name}/index.html", write_page(name, files, requires_python=limits)
    for platform in manifest.platforms:
        if platform.explicit:
            yield platform.explicit, write_explicit(manifest, platform)
        if platform.requirements:
            yield platform.requirements, write_requirements(manifest, platform)
