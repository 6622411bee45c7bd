"""How much memory the CycloneDX list of a bundle of 50,000 packages takes.

    python benchmarks/bench_bundle_sbom.py [--rounds N] [--packages N]

A child process makes the packages, finds out which request brought each and what each needs (ten others), and writes
the document; beside it one that makes the packages alone. The kernel's high-water mark of each. Bound: 500 MB.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from kit.runs import MB, Bounds, Run, arguments, conclude, interleaved, machine, median, say_where, spread

from resume_dl.model.bundle import BundlePackage

PACKAGES = 50_000
NEEDS = 10
BOUND = 500.0
LICENSES = ("BSD-3-Clause", "MIT", "Apache-2.0 OR MIT", "LicenseRef-Proprietary", "GPL 2, with an exception", "")


def package(number: int) -> BundlePackage:
    """With texts as long as conda-forge's, none of them shared with another package."""
    name, build = f"some-library-{number}", f"py310h{number:08x}_0"
    filename = f"{name}-1.{number}.0-{build}.conda"
    return BundlePackage(
        path=f"channel/linux-64/{filename}",
        kind="conda",
        name=name,
        version=f"1.{number}.0",
        url=f"https://conda.anaconda.org/conda-forge/linux-64/{filename}",
        size=1_000_000 + number,
        sha256=hashlib.sha256(filename.encode()).hexdigest(),
        md5=hashlib.md5(filename.encode()).hexdigest(),
        build=build,
        subdir="linux-64",
        channel="conda-forge",
        license=LICENSES[number % len(LICENSES)],
        requested_by=("environment.yml",),
    )


def write(count: int, out: Path) -> None:
    """What ``bundle create`` does with them; nothing of it is loaded where only the packages are measured."""
    from resume_dl.bundle.requested import conda_reasons  # in the child alone: its memory is what counts
    from resume_dl.bundle.sbom import write_sbom  # as above

    packages = [package(number) for number in range(count)]
    records = {
        each.path: {"depends": [f"some-library-{(number + step) % count} >=1.0,<2.0a0" for step in range(1, NEEDS + 1)]}
        for number, each in enumerate(packages)
    }
    reasons = conda_reasons(packages, records, asked={"environment.yml": ["some-library-0"]})
    with out.open("wb") as file:
        file.writelines(write_sbom(packages, created_by="resume-dl 0", depends=reasons.depends))


def main() -> int:
    parser = arguments(__doc__, rounds=1)
    parser.add_argument("--packages", type=int, default=PACKAGES, help=f"how many (default {PACKAGES})")
    parser.add_argument("--child", choices=["sbom", "packages"], help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child == "sbom":
        write(asked.packages, asked.out)
        return 0
    if asked.child == "packages":
        packages = [package(number) for number in range(asked.packages)]
        return int(len(packages) != asked.packages)
    return measure(asked.rounds, asked.packages)


def measure(rounds: int, count: int) -> int:
    bounds = Bounds()
    say_where(f"bundle sbom: {count} packages, {NEEDS} dependencies each")
    with machine() as here:
        out = here.folder / "sbom.cdx.json"

        def child(kind: str) -> Run:
            command = [sys.executable, __file__, "--child", kind, "--packages", str(count), "--out", out]
            return here.run(command, here.place())

        runs = interleaved(rounds, {kind: lambda kind=kind: child(kind) for kind in ("packages", "sbom")})
        written = out.stat().st_size
    most = {kind: [run.rss / MB for run in each] for kind, each in runs.items()}
    print(f"  packages alone {spread(most['packages'], 1)} MB; with the document {spread(most['sbom'], 1)} MB")
    print(f"  a document of {written / MB:.1f} MB in {spread([run.cpu for run in runs['sbom']])} s of CPU")
    bounds.check("most memory", median(most["sbom"]), BOUND, " MB")
    return conclude(bounds)


if __name__ == "__main__":
    sys.exit(main())
