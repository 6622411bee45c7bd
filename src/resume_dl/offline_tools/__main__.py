"""Entry point of the archive; rejects a Python that is too old."""

import sys

if sys.version_info < (3, 8):
    sys.stderr.write("Python 3.8 or newer is needed; this is %s\n" % sys.version.split()[0])
    sys.exit(2)

if __name__ == "__main__":
    import os  # Python itself has loaded it

    # PYTHONPATH may name the folder that the archive lies in, or be empty, which is the current one: no module is
    # looked for there. The first entry is the archive.
    _folder = os.path.realpath(os.path.dirname(os.path.abspath(sys.argv[0])))
    sys.path[1:] = [entry for entry in sys.path[1:] if entry and os.path.realpath(entry) != _folder]

    from resume_dl.offline_tools.start import start  # not before, and not for a Python that is too old

    sys.exit(start(sys.argv))
