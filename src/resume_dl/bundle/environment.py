"""``environment.yml`` for ``conda env create --offline --file environment.yml`` in the bundle's folder.

It names the requested packages; the bundle's channel holds only what was solved, so one file serves every platform.
conda resolves ``./channel`` against the current folder. A version or build that differs between platforms is left
out; only if a *noarch* package has two versions may conda choose another one than was solved (``explicit/`` is exact).

pip's part is exact: a marker for each platform, and hashes, which pip insists on. conda hands these lines to pip as a
requirements file, in the folder of environment.yml.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence

from resume_dl.bundle.lists import requirement
from resume_dl.bundle.releases import releases
from resume_dl.model.bundle import CHANNEL, WHEELS, BundlePackage, Manifest

_PYTHON, _PIP = "python", "pip"


def write_environment(manifest: Manifest, *, name: str, requested: Collection[str] = ()) -> Iterator[bytes]:
    """The file in chunks, for a bundle with conda packages.

    ``name``: the environment's default name. ``requested``: the names of the requested conda packages; empty for all of
    them (a list requests all that it holds). Packages not requested on every platform are named in a comment; wheels
    are left out if a platform has no Python.
    """
    known = {each.path: each for each in manifest.packages}
    platforms = [each for each in manifest.platforms if each.conda]
    by_name: dict[str, dict[str, BundlePackage]] = {}
    for platform in platforms:
        for path in platform.conda:
            by_name.setdefault(known[path].name, {})[platform.platform] = known[path]
    wheels = [each.platform for each in manifest.platforms if each.pip]
    with_wheels = bool(wheels) and all(each in by_name.get(_PYTHON, {}) for each in wheels)
    yield _text(
        f"# For {', '.join(each.platform for each in platforms)}, with the folder of this bundle as the current"
    )
    yield _text("# one: conda env create --offline --file environment.yml")
    yield _text(f"name: {_yaml(name)}", "channels:", f"  - ./{CHANNEL}", "  - nodefaults", "dependencies:")
    names = ({*requested} or {*by_name}) | ({_PYTHON, _PIP} if with_wheels else set())
    for each in sorted(names & {*by_name}):
        found = by_name[each]
        if len(found) == len(platforms):
            yield _text(f"  - {_yaml(_pinned([*found.values()]))}")
        else:
            yield _text(f"  # {each}: only for {', '.join(sorted(found))}, and in its list in explicit/")
    if with_wheels:
        yield _text("  - pip:", "    - --no-index", f"    - --find-links ./{WHEELS}", "    - --require-hashes")
        for release in releases(manifest):
            yield _text(f"    - {_yaml(requirement(*release.files, marker=release.marker))}")
    elif wheels:
        yield _text("  # the wheels: README.txt says how pip installs them")


def _pinned(packages: Sequence[BundlePackage]) -> str:
    """The narrowest spec that matches all packages."""
    first = packages[0]
    if len({each.version for each in packages}) > 1:
        return first.name
    if len({each.build for each in packages}) > 1:
        return f"{first.name}=={first.version}"
    return f"{first.name}={first.version}={first.build}"


def _text(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _yaml(text: str) -> str:
    """A double-quoted YAML scalar, of which JSON strings are a subset."""
    return json.dumps(text, ensure_ascii=False)
