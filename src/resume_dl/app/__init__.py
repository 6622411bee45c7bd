"""Use cases: a function or a small class each, called by the command line and the conda plugin."""
