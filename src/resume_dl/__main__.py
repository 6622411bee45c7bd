"""``python -m resume_dl``: the command line."""

import sys

from resume_dl.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
