"""HTTP/1.1 and ``file://`` by ``client.HttpTransport``; the only room that imports httpx and httpcore."""

import sys
import threading
from typing import Any

_CLI_EXTRA = frozenset({"click", "pygments", "rich"})


class _WithoutExtra:
    """Makes the packages of httpx's ``cli`` extra unavailable to one thread, during its own ``import httpx``.

    If they are installed, httpx imports its command line with them, which doubles its import time; without the extra it
    provides a stand-in. Other threads import them as before. Afterwards the finder stays, without effect: removing it
    could make an import in another thread skip the next finder.
    """

    def __init__(self) -> None:
        self.thread: int | None = threading.get_ident()

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> None:
        """Leave ``name`` to the other finders. Raises ModuleNotFoundError for a package of the extra."""
        if self.thread == threading.get_ident() and name.partition(".")[0] in _CLI_EXTRA:
            raise ModuleNotFoundError(f"{name} is not loaded with httpx", name=name)


if "httpx" not in sys.modules:
    _finder = _WithoutExtra()
    sys.meta_path.insert(0, _finder)
    try:
        import httpx  # noqa: F401  its names are used by the modules of this room
    finally:
        _finder.thread = None
