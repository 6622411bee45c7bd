"""resume-dl: conda and pip packages that arrive whole, over slow, breaking or censored lines. The API: docs/api.md."""

__all__ = ["Artifact", "Downloaded", "Downloader", "Progress", "__version__", "fetch"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:  # its types are in __init__.pyi
    """Load the API when one of its names is first used (PEP 562)."""
    if name not in __all__:
        raise AttributeError(name)
    from importlib import import_module  # noqa: PLC0415  every program of ours loads this module

    return getattr(import_module("resume_dl.api"), name)
