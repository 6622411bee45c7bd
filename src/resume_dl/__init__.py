"""resume-dl: conda and pip packages that arrive whole, over slow, breaking or censored lines."""

__version__ = "0.1.0"
