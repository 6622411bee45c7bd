"""Scripts for a machine that has no resume-dl: one file each, Python's standard library alone, Python 3.8 and newer.

They are copied as text into a bundle, and are the same code that ``resume-dl bundle verify|install|join`` and
``resume-dl probe`` run. So they import nothing of ours but each other.
"""
