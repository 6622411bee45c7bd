"""Turns specs, lists and files into artifacts."""
