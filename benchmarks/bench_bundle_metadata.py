"""How much memory the texts of a bundle of 50,000 packages take, the packages' records included: at most 500 MB.

    python benchmarks/bench_bundle_metadata.py [--packages N]

A new process makes 45,000 conda packages with records such as a large channel has, and 5,000 wheels, for two platforms;
then it writes every text of the bundle into a folder, a chunk at a time, and reads the manifest back. The kernel's own
high-water mark of the process (ru_maxrss), seconds and sizes after each. Fails above the bound.
"""

from __future__ import annotations

import hashlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kit.runs import Bounds, arguments, conclude, say_where

from resume_dl.bundle.channel_files import subdirs, write_repodata
from resume_dl.bundle.environment import write_environment
from resume_dl.bundle.lists import write_explicit, write_requirements
from resume_dl.bundle.manifest import read_manifest, write_manifest
from resume_dl.bundle.pages import projects, write_page, write_root
from resume_dl.bundle.pylock_text import write_pylock
from resume_dl.bundle.readme import write_readme
from resume_dl.bundle.sbom import write_sbom
from resume_dl.bundle.sums import write_sums
from resume_dl.model.bundle import BundleFile, BundlePackage, BundlePlatform, Manifest

PACKAGES = 50_000
WHEELS = 10
"""One of so many is a wheel."""
PLATFORMS = ("linux-64", "win-64")
BOUND = 500.0


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def make(count: int) -> tuple[Manifest, dict[str, dict[str, Any]]]:
    packages, records = [], {}
    for number in range(count):
        name, version = f"package-of-some-length-{number}", f"{number % 7}.{number % 11}.{number % 13}"
        wheel, subdir = number % WHEELS == 0, (*PLATFORMS, "noarch")[number % 3]
        build = f"py311h{digest(name)[:7]}_0"
        filename = (
            f"{name.replace('-', '_')}-{version}-py3-none-any.whl" if wheel else f"{name}-{version}-{build}.conda"
        )
        path = f"wheels/{filename}" if wheel else f"channel/{subdir}/{filename}"
        package = BundlePackage(
            path=path,
            kind="wheel" if wheel else "conda",
            name=name,
            version=version,
            build="" if wheel else build,
            subdir="" if wheel else subdir,
            channel="" if wheel else "conda-forge",
            url=f"https://packages.example/some/where/{path}",
            size=10**6 + number,
            sha256=digest(path),
            md5=None if wheel else digest(path)[:32],
            license="BSD-3-Clause AND MIT",
            requested_by=("environment.yml",),
        )
        packages.append(package)
        if not wheel:
            depends = [
                f"package-of-some-length-{(number * 7 + each) % count} >={each}.0,<{each + 1}.0a0" for each in range(8)
            ]
            records[path] = {
                "arch": "x86_64", "build": build, "build_number": 0, "constrains": depends[:1], "depends": depends,
                "license": package.license, "license_family": "BSD", "md5": package.md5, "name": name,
                "platform": "linux", "sha256": package.sha256, "size": package.size, "subdir": subdir,
                "timestamp": 1_600_000_000_000 + number, "version": version,
            }  # fmt: skip
    packages.sort(key=lambda each: each.path)
    platforms = tuple(
        BundlePlatform(
            platform=platform,
            python="3.11",
            virtual_packages=("__cuda=11.0=0",),
            conda=tuple(each.path for each in packages if each.subdir in {platform, "noarch"}),
            pip=tuple(each.path for each in packages if each.kind == "wheel"),
            explicit=f"explicit/{platform}.txt",
            requirements=f"requirements/{platform}.txt",
        )
        for platform in PLATFORMS
    )
    return Manifest(created_by="a benchmark", platforms=platforms, packages=tuple(packages)), records


def peak() -> float:
    """The most memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def child(folder: Path, count: int) -> None:
    manifest, records = make(count)
    print(f"  {'values and records':20} {'':26}most memory {peak():6.1f} MB")
    files: list[BundleFile] = []

    def write(path: str, chunks: Iterable[bytes]) -> int:
        size, sums = 0, hashlib.sha256()
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with (folder / path).open("wb") as file:
            for chunk in chunks:
                size += file.write(chunk)
                sums.update(chunk)
        files.append(BundleFile(path, size, sums.hexdigest()))
        return size

    def report(title: str, texts: Iterable[tuple[str, Iterable[bytes]]]) -> None:
        start = time.perf_counter()
        size = sum(write(path, chunks) for path, chunks in texts)
        print(
            f"  {title:20} {size / 1e6:7.1f} MB in {time.perf_counter() - start:5.2f} s, most memory {peak():6.1f} MB"
        )

    report(
        "channel",
        ((f"channel/{each}/repodata.json", write_repodata(manifest, each, records)) for each in subdirs(manifest)),
    )
    report("explicit", ((each.explicit, write_explicit(manifest, each)) for each in manifest.platforms))
    report("requirements", ((each.requirements, write_requirements(manifest, each)) for each in manifest.platforms))
    pages = projects(manifest)
    report("simple/index.html", [("simple/index.html", write_root([*pages]))])
    report("simple/*/index.html", ((f"simple/{name}/index.html", write_page(name, pages[name])) for name in pages))
    report("pylock.toml", [("pylock.toml", write_pylock(manifest))])
    report("environment.yml", [("environment.yml", write_environment(manifest, name="all"))])
    report("README.txt", [("README.txt", write_readme(manifest))])
    report("sbom.cdx.json", [("sbom.cdx.json", write_sbom(manifest.packages, created_by="resume-dl 0"))])
    whole = Manifest(
        created_by=manifest.created_by,
        platforms=manifest.platforms,
        packages=manifest.packages,
        files=tuple(sorted(files, key=lambda each: each.path)),
    )
    report("manifest.json", [("manifest.json", write_manifest(whole))])
    report("SHA256SUMS", [("SHA256SUMS", write_sums(whole, manifest_sha256=files[-1].sha256))])
    start = time.perf_counter()
    same = read_manifest((folder / "manifest.json").read_bytes()) == whole
    print(f"  {'read back':20} {'':10} in {time.perf_counter() - start:5.2f} s, most memory {peak():6.1f} MB")
    print(peak() if same else "the manifest that was read is another")


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--packages", type=int, default=PACKAGES)
    parser.add_argument("--child", type=Path)
    asked = parser.parse_args()
    if asked.child:
        child(asked.child, asked.packages)
        return 0
    bounds = Bounds()
    say_where(f"bundle's texts: {asked.packages} packages, {len(PLATFORMS)} platforms")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--packages", str(asked.packages), "--child", folder]
        lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    print("\n".join(lines[:-1]))
    bounds.check("most memory", float(lines[-1]), BOUND, " MB")
    return conclude(bounds)


if __name__ == "__main__":
    sys.exit(main())
