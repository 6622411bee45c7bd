"""The only room that knows httpx; ``resume_dl.transport.client.HttpxTransport`` is its door."""

import sys

if "httpx" not in sys.modules:
    # Where rich and pygments are installed httpx loads its own command line with them: half of its import's time. It
    # takes a module that cannot be imported for one whose extras are missing, and goes on without.
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    try:
        import httpx  # noqa: F401
    finally:
        del sys.modules["httpx._main"]
