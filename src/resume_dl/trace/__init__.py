"""Draws the timeline of a run that ``--debug-trace`` wrote (docs/trace.md); no part of a download ever loads this."""
