"""The lists that plain conda and plain pip install one platform from: ``explicit/`` and ``requirements/``.

Both name exactly what was solved for that platform, so the target solves nothing. Paths in ``explicit/`` are
as seen from the bundle's folder, which must be the current one: conda turns them into addresses from there.

They are written as they are, without percent-encoding, because conda takes a relative line for a path. Measured with
conda 24.7 and 26.7: ``!`` and blanks work; where the path of the *bundle* has a character beyond ASCII, conda quotes
the ``#`` before a digest too, and refuses the line. README.txt names the way out (the channel, or ``install.py``).
"""

from __future__ import annotations

from collections.abc import Iterator

from resume_dl.model.bundle import BundlePackage, BundlePlatform, Manifest


def write_explicit(manifest: Manifest, platform: BundlePlatform) -> Iterator[bytes]:
    """The ``@EXPLICIT`` list of one platform in chunks, sorted by path.

    Each line has the md5 if it is known: conda before 24.9 reads only that (``resolve/explicit.py``), and fails on a
    sha256.
    """
    wanted = {*platform.conda}
    yield (
        f"# For {platform.platform}, with the folder of this bundle as the current one:\n"
        f"#   conda create --offline --name NAME --file {platform.explicit}\n"
        "@EXPLICIT\n"
    ).encode()
    for package in manifest.packages:
        if package.path in wanted:
            yield f"{package.path}#{package.md5 or f'sha256:{package.sha256}'}\n".encode()


def write_requirements(manifest: Manifest, platform: BundlePlatform) -> Iterator[bytes]:
    """The requirements of one platform with the hash of each file, for ``pip install --require-hashes``, in chunks."""
    wanted = {*platform.pip}
    yield (
        f"# For {platform.platform} and Python {platform.python}, with the folder of this bundle as the current one:\n"
        f"#   pip install --no-index --find-links wheels --require-hashes -r {platform.requirements}\n"
    ).encode()
    for package in manifest.packages:
        if package.path in wanted:
            yield f"{requirement(package)}\n".encode()


def requirement(package: BundlePackage, *more: BundlePackage, marker: str = "") -> str:
    """One line of a requirements file: this version, and the hashes of its files (``more``: the other ones)."""
    condition = f" ; {marker}" if marker else ""
    hashes = sorted({each.sha256 for each in (package, *more)})
    return f"{package.name}=={package.version}{condition}" + "".join(f" --hash=sha256:{digest}" for digest in hashes)
