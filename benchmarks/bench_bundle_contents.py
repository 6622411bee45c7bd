"""How much memory `bundle create` needs after the download, for 50,000 packages from seven mirrors: at most 500 MB.

    python benchmarks/bench_bundle_contents.py [--packages N] [--mirrors N]

A new process holds what a fetch leaves (a result with all its sources, a solution with all its records, for each
package), drops the sources as create does, makes the bundle's contents of it (who brought what, licences, platforms)
and generates every file, a chunk at a time, into nothing. The kernel's own high-water mark of the process (ru_maxrss).
"""

from __future__ import annotations

import hashlib
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from kit.runs import Bounds, arguments, conclude, say_where

from resume_dl.bundle_creation.contents import contents_of
from resume_dl.bundle_creation.generated import generated
from resume_dl.bundle_creation.request_files import Asking
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.bundle import Manifest
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.request import Solution
from resume_dl.transfer.report import ArtifactResult, Resolved

PACKAGES = 50_000
MIRRORS = 7
PLATFORMS = ("linux-64", "win-64")
BOUND = 500.0
FIRST = "package-of-some-length-0"


def package(number: int, count: int) -> Artifact:
    name, version = f"package-of-some-length-{number}", f"{number % 7}.{number % 11}.{number % 13}"
    build, subdir = f"py311h{hashlib.sha256(name.encode()).hexdigest()[:7]}_0", (*PLATFORMS, "noarch")[number % 3]
    filename = f"{name}-{version}-{build}.conda"
    digest = hashlib.sha256(filename.encode()).hexdigest()
    needs = [f"package-of-some-length-{(number * 7 + each) % count} >={each}.0,<{each + 1}.0a0" for each in range(8)]
    record = {
        "arch": "x86_64", "build": build, "build_number": 0, "constrains": needs[:1], "depends": needs,
        "license": "BSD-3-Clause", "license_family": "BSD", "md5": digest[:32], "name": name, "platform": "linux",
        "sha256": digest, "size": 1, "subdir": subdir, "timestamp": 1_600_000_000_000 + number, "version": version,
    }  # fmt: skip
    return Artifact(
        kind="conda",
        filename=filename,
        url=RedactedUrl(f"https://channels.example/conda-forge/{subdir}/{filename}"),
        size=1,
        sha256=digest,
        md5=digest[:32],
        name=name,
        version=version,
        build=build,
        subdir=subdir,
        channel="conda-forge",
        record=record,
    )


def sources(artifact: Artifact, mirrors: int) -> tuple[Source, ...]:
    below = f"anaconda/cloud/conda-forge/{artifact.subdir}/{artifact.filename}"
    return tuple(
        Source(f"mirror-{number}", RedactedUrl(f"https://mirror-{number}.example/{below}"), 2)
        for number in range(mirrors)
    )


def peak() -> float:
    """The most memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def child(file: Path, count: int, mirrors: int) -> None:
    artifacts = [package(number, count) for number in range(count)]
    results = [ArtifactResult(replace(each, sources=sources(each, mirrors)), "downloaded", file) for each in artifacts]
    solved = tuple(
        (name, Solution(artifacts=tuple(each for each in artifacts if each.subdir in {name, "noarch"})))
        for name in PLATFORMS
    )
    print(f"  {'results of the fetch':24} most memory {peak():6.1f} MB")
    for each in results:
        each.artifact = replace(each.artifact, sources=())
    start, asking = time.perf_counter(), Asking(conda={FIRST: (FIRST,)}, specs=(FIRST,))
    contents = contents_of(
        results,
        Resolved(solved),
        asking,
        platforms=PLATFORMS,
        held=lambda _: None,
        record_of=lambda _: {},
        add_pip=True,
    )
    print(f"  {'contents':24} most memory {peak():6.1f} MB, {time.perf_counter() - start:5.1f} s")
    start, size = time.perf_counter(), 0
    manifest = Manifest(created_by="a benchmark", platforms=contents.platforms, packages=contents.packages)
    for _, chunks in generated(manifest, contents, asking, name="all", epoch=None, signed=False):
        size += sum(map(len, chunks))
    print(f"  {f'files, {size / 1e6:.0f} MB':24} most memory {peak():6.1f} MB, {time.perf_counter() - start:5.1f} s")
    print(peak())


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--packages", type=int, default=PACKAGES)
    parser.add_argument("--mirrors", type=int, default=MIRRORS)
    parser.add_argument("--child", type=Path)
    asked = parser.parse_args()
    if asked.child:
        child(asked.child, asked.packages, asked.mirrors)
        return 0
    bounds = Bounds()
    say_where(f"bundle's contents: {asked.packages} packages, {asked.mirrors} mirrors, {len(PLATFORMS)} platforms")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "package")
        file.write_bytes(b"x")
        counts = ["--packages", str(asked.packages), "--mirrors", str(asked.mirrors)]
        command = [sys.executable, __file__, *counts, "--child", str(file)]
        lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    print("\n".join(lines[:-1]))
    bounds.check("most memory", float(lines[-1]), BOUND, " MB")
    return conclude(bounds)


if __name__ == "__main__":
    sys.exit(main())
