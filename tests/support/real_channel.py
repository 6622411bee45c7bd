"""Channels shaped like real ones: few packages with many builds that nearly all depend on, and many that few want.

Everything follows from a seed. Names are ``p0`` (the most wanted) upwards, next to ``python`` and ``pip``; a package
depends on names before it, so that every solve ends.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.shards import write_shards, write_whole

Archives = dict[str, dict[str, Any]]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")


def real_channel(
    seed: int, names: int, *, core: int = 120, builds: int = 160, easy: bool = False
) -> dict[str, Archives]:
    """Subdir -> file name -> record, for linux-64 and noarch.

    The first ``core`` names have about ``builds`` builds each, the others four to twelve. ``easy``: everything can be
    installed together.
    """
    chance = random.Random(seed)
    found: dict[str, Archives] = {"linux-64": {}, "noarch": {}}
    versions: dict[str, list[str]] = {"python": [f"{each}.{patch}" for each in PYTHONS for patch in (1, 4)]}
    for version in versions["python"]:
        _add(found["linux-64"], chance, "python", version, ["__glibc >=2.17"])
    _add(found["noarch"], chance, "pip", "24.0", ["python >=3.9"], noarch="python")
    for number in range(names):
        name = f"p{number}"
        wanted = _dependencies(chance, number, core)
        many = builds if number < core else chance.randint(4, 12)
        versions[name] = sorted({f"{chance.randint(0, 3)}.{chance.randint(0, 9)}" for _ in range(max(2, many // 8))})
        kind = chance.choice(("noarch", "plain", "plain") if easy else ("python", "python", "noarch", "plain"))
        for build in range(many):
            version = chance.choice(versions[name])
            depends = [_spec(chance, each, versions[each]) for each in wanted if chance.random() < 0.9]
            depends = [f"{spec.split()[0]} >=0" for spec in depends] if easy else depends
            constrains = (
                [_spec(chance, f"p{chance.randrange(names)}", ["1.0", "2.0"])]
                if chance.random() < 0.1 and not easy
                else []
            )
            if kind == "noarch":
                depends.append("python >=3.10")
                _add(
                    found["noarch"],
                    chance,
                    name,
                    version,
                    depends,
                    number=build,
                    constrains=constrains,
                    noarch="python",
                )
            elif kind == "python":
                python = chance.choice(PYTHONS)
                depends.append(f"python >={python},<{python[:2]}{int(python[2:]) + 1}.0a0")
                _add(found["linux-64"], chance, name, version, depends, number=build, constrains=constrains)
            else:
                _add(
                    found["linux-64"],
                    chance,
                    name,
                    version,
                    [*depends, "__glibc >=2.17"],
                    number=build,
                    constrains=constrains,
                )
    return found


def write_channel(folder: Path, channel: Mapping[str, Mapping[str, Mapping[str, Any]]], *, shards: bool = True) -> None:
    """Write whole indexes and, with ``shards``, shards, below ``folder``."""
    for subdir, archives in channel.items():
        write_whole(folder / subdir, archives)
        if shards:
            write_shards(folder / subdir, archives)


def closure_of(channel: Mapping[str, Mapping[str, Mapping[str, Any]]], names: Sequence[str]) -> set[str]:
    """What a solve of these names can come to."""
    mentioned: dict[str, set[str]] = {}
    for archives in channel.values():
        for record in archives.values():
            found = mentioned.setdefault(record["name"], set())
            found.update(spec.split()[0] for spec in record["depends"])
    mentioned.setdefault("python", set()).add("pip")
    seen, new = set[str](), list(names)
    while new:
        name = new.pop()
        if name in mentioned and name not in seen:
            seen.add(name)
            new += mentioned[name]
    return seen


def _dependencies(chance: random.Random, number: int, core: int) -> list[str]:
    """Names before this one: the lower, the likelier."""
    found = set()
    for _ in range(chance.randint(1, 4)):
        if number:
            found.add(f"p{min(int(chance.expovariate(3 / min(number, core))), number - 1)}")
    return sorted(found)


def _spec(chance: random.Random, name: str, versions: Sequence[str]) -> str:
    version = chance.choice(versions)
    form = chance.random()
    if form < 0.5:
        return f"{name} >={version}"
    if form < 0.7:
        return f"{name} >={version.split('.')[0]},<{int(version.split('.')[0]) + 2}"
    if form < 0.8:
        return f"{name} {version}.*"
    return name


def _add(
    archives: Archives,
    chance: random.Random,
    name: str,
    version: str,
    depends: Sequence[str],
    *,
    number: int = 0,
    constrains: Sequence[str] = (),
    **more: Any,
) -> None:
    digest = hashlib.sha256(f"{name}-{version}-{number}".encode())
    build = f"h{digest.hexdigest()[:7]}_{number}"
    form = chance.random()
    record = {
        "build": build,
        "build_number": number % 4,
        **({"constrains": list(constrains)} if constrains else {}),
        "depends": sorted(depends),
        "license": "BSD-3-Clause",
        "md5": digest.hexdigest()[:32],
        "name": name,
        **more,
        "sha256": digest.hexdigest(),
        "size": chance.randrange(10_000, 10_000_000),
        "subdir": "noarch" if more else "linux-64",
        "timestamp": 1_600_000_000_000 + chance.randrange(10**11),
        "version": version,
    }
    if form < 0.95:
        archives[f"{name}-{version}-{build}.conda"] = record
    if form > 0.85:  # some in both formats
        other = hashlib.sha256(digest.digest()).hexdigest()
        archives[f"{name}-{version}-{build}.tar.bz2"] = {**record, "md5": other[:32], "sha256": other}
