"""The offline tools: ``install.py``, ``join.py``, ``probe.py``, ``unpack.py`` and ``verify.py`` of a bundle.

They run on a machine without resume-dl: Python 3.8 or newer, its standard library, and ``resume_dl.fs``. ``resume-dl
bundle verify|install|join`` and ``resume-dl probe`` run the same code, so there is one verification and not two.

``archive`` writes this package into one zip archive of Python source (docs.python.org, zipapp), and a bundle has that
archive under each of the five names. Python that is given a zip archive runs the ``__main__.py`` in it, and looks for
modules in the archive where it would look in a script's own folder: a ``json.py`` or ``__pycache__`` beside it is
never read. ``start`` compares the archive with SHA256SUMS before it imports the rest, and runs the tool that the
archive is named after.
"""
