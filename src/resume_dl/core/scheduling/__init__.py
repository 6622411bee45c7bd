"""Scheduling: which connection requests which bytes from which source, within the limits of the run."""
