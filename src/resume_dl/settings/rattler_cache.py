"""The package folder of rattler and pixi.

rattler: ``RATTLER_CACHE_DIR``, else ``rattler/cache`` in the user's cache folder. pixi first reads
``PIXI_CACHE_CONDA_PACKAGES_DIR`` (the package folder itself) and ``PIXI_CACHE_DIR``; without variables it uses a
folder ``pixi`` in the user's cache folder, if there is one. Source: rattler's
``default_cache_dir``, pixi's ``resolve_cache_root``. A ``[cache]`` table in pixi's config.toml is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from resume_dl import fs

PACKAGES = "pkgs"
"""The package folder in such a cache."""


def rattler_packages_dir(env: Mapping[str, str], root: Path | None = None) -> Path:
    """The package folder, absolute: below the cache ``root`` if given, else as pixi finds it."""
    if root is not None:
        return fs.roomy(root.absolute()) / PACKAGES
    if own := env.get("PIXI_CACHE_CONDA_PACKAGES_DIR"):
        return fs.roomy(Path(own).absolute())
    if named := env.get("PIXI_CACHE_DIR") or env.get("RATTLER_CACHE_DIR"):
        return fs.roomy(Path(named).absolute()) / PACKAGES
    import platformdirs

    caches = fs.roomy(Path(platformdirs.user_cache_dir()))
    pixi = caches / "pixi"
    return (pixi if pixi.exists() else caches / "rattler" / "cache") / PACKAGES
