"""Where rattler and pixi keep their packages.

rattler: ``RATTLER_CACHE_DIR``, else ``rattler/cache`` in the user's cache folder. pixi asks first: its own
``PIXI_CACHE_CONDA_PACKAGES_DIR`` (the packages' folder itself) and ``PIXI_CACHE_DIR``; and where no variable says
anything, it takes a folder ``pixi`` in the user's cache folder, if there is one. Source: rattler's
``default_cache_dir``, pixi's ``resolve_cache_root``. A ``[cache]`` table in pixi's config.toml is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PACKAGES = "pkgs"
"""The packages' folder in such a cache."""


def rattler_packages_dir(env: Mapping[str, str], root: Path | None = None) -> Path:
    """The packages' folder, absolute: that of the cache ``root`` where one is named, else where pixi would look."""
    if root is not None:
        return root.absolute() / PACKAGES
    if own := env.get("PIXI_CACHE_CONDA_PACKAGES_DIR"):
        return Path(own).absolute()
    if named := env.get("PIXI_CACHE_DIR") or env.get("RATTLER_CACHE_DIR"):
        return Path(named).absolute() / PACKAGES
    import platformdirs

    caches = Path(platformdirs.user_cache_dir())
    pixi = caches / "pixi"
    return (pixi if pixi.exists() else caches / "rattler" / "cache") / PACKAGES
