"""What it costs to put 50 small unpacked packages into a package cache: on the disk, then in their places.

    python benchmarks/publish_small.py [rounds] [--dirty]

One by one (``publish_entry``) and together (``UnpackedBatch``, as ``fetch`` does), medians of ``rounds`` (5), and how
often something was waited for. An older checkout (PYTHONPATH=<checkout>/src) has the first only, and calls ``sync``.
With ``--dirty`` 64 MB that another program has written wait for the disk in every round.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resume_dl.caches.conda.publish import publish_entry
from resume_dl.caches.package_caches import CondaCache
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.store import platform
from resume_dl.store.staged import staged_path

try:
    from resume_dl.transfer.unpacked_batch import MOST, Ready, UnpackedBatch
except ImportError:  # a checkout from before it
    UnpackedBatch = None

COUNT, FILES = 50, 20
DIRTY = 64 << 20

Package = tuple[Artifact, Path, Path]


def lay(pkgs: Path) -> list[Package]:
    packages = []
    for number in range(COUNT):
        name = f"p{number}-1-0.conda"
        what = Artifact(
            kind="conda",
            filename=name,
            url=RedactedUrl(f"https://example.org/c/linux-64/{name}"),
            size=1000,
            sha256=f"{number:064x}",
        )
        staged = staged_path(pkgs, what)
        staged.parent.mkdir(parents=True, exist_ok=True)
        staged.write_bytes(bytes(1000))
        packages.append((what, staged, staged.parent / f"extract-{number}" / "package"))
    os.sync()
    for number, (_, _, folder) in enumerate(packages):  # what an unpacker leaves: nothing of it is synced
        (folder / "info").mkdir(parents=True)
        index = {"name": f"p{number}", "version": "1", "build": "0", "build_number": 0, "subdir": "linux-64"}
        (folder / "info" / "index.json").write_text(json.dumps(index))
        (folder / "info" / "paths.json").write_text(json.dumps({"paths": []}))
        for file in range(FILES):
            (folder / f"f{file}").write_bytes(b"text" * 500)
    return packages


def one_by_one(pkgs: Path, packages: list[Package]) -> None:
    for what, staged, folder in packages:
        publish_entry(pkgs, what, archive=staged, extracted=folder)


def together(pkgs: Path, packages: list[Package]) -> None:
    cache = CondaCache(pkgs)
    batch = UnpackedBatch(cache)
    for number, (what, staged, folder) in enumerate(packages, 1):
        cache.add_record(what, folder)
        if batch.add(Ready(what, what, staged, folder, folder.parent)) or number == len(packages):
            errors = [error for _, error in batch.place() if error is not None]
            if errors:
                raise errors[0]


def count(counts: Counter[str], module: Any, name: str) -> None:
    real: Callable[..., Any] | None = getattr(module, name, None)

    def call(*arguments: Any) -> Any:
        counts[name] += 1
        return real(*arguments) if real else None

    if real is not None:
        setattr(module, name, call)


def main() -> None:
    rounds = next((int(each) for each in sys.argv[1:] if each.isdigit()), 5)
    ways = {"one by one": one_by_one}
    if UnpackedBatch is not None:
        ways[f"together, {MOST} at most"] = together
    counts: Counter[str] = Counter()
    for module, name in ((os, "sync"), (os, "fsync"), (os, "fdatasync"), (platform, "sync_file_system")):
        count(counts, module, name)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    calls: dict[str, Counter[str]] = {name: Counter() for name in ways}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        for _ in range(rounds):
            for way, publish in ways.items():
                pkgs = Path(name, "pkgs")
                packages = lay(pkgs)
                if "--dirty" in sys.argv:
                    Path(name, "other").write_bytes(bytes(DIRTY))
                counts.clear()
                begun = time.perf_counter()
                publish(pkgs, packages)
                taken[way].append(time.perf_counter() - begun)
                calls[way] += counts
                shutil.rmtree(pkgs)
    for way, times in taken.items():
        each = ", ".join(f"{call} {number / rounds:.0f}" for call, number in sorted(calls[way].items()))
        spread = f"{min(times):.2f} to {max(times):.2f}"
        print(f"{COUNT} packages of {FILES} files, {way}: {statistics.median(times):.2f} s ({spread}); calls: {each}")


if __name__ == "__main__":
    main()
