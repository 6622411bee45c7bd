"""Scripts for a machine that has no resume-dl: Python's standard library alone, Python 3.8 and newer.

They are copied as text into a bundle, and are the same code that ``resume-dl bundle verify|install|join`` and
``resume-dl probe`` run. So they import nothing of ours but each other. ``fs`` is no
command: it opens and removes files safely, for the scripts and for all other rooms.

``from __future__ import annotations`` must not stand in them: Python really imports ``__future__``, that line has to be
the first of all, and when it runs the script's own folder is still where Python looks first. A ``__future__.py`` that
somebody laid beside the script would run, before anything is verified. So annotations are those of Python 3.8.
"""
