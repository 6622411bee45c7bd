"""A keyring of the tests' own: the real library and program ``keyring``, with a backend that keeps logins in a file.

stored = StoredKeyring(tmp_path / "keyring")
stored.put("https://host/simple/", "me", "secret")
stored.env            # for a Python or a `keyring` that is to use it
stored.questions      # [("https://host/simple/", None)], in order
stored.does("hang")   # it starts a child, notes both ids in `pids`, and never answers
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

PROGRAM = Path(sys.executable).parent / ("keyring.exe" if os.name == "nt" else "keyring")
"""The console script of the library, beside the tests' own Python."""

_BACKEND = """
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.credentials import SimpleCredential

HERE = Path(__file__).parent


class Stored(KeyringBackend):
    priority = 1

    def get_credential(self, service, username):
        with (HERE / "questions").open("a") as file:
            file.write(json.dumps([service, username]) + "\\n")
        if sys.argv[0] == "-c":  # asked by us; the program would print it among its answer
            print("a backend may print")
        does, *more = (HERE / "does").read_text().split(maxsplit=1)
        if does == "hang":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            (HERE / "new").write_text(f"{os.getpid()} {child.pid}")
            (HERE / "new").rename(HERE / "pids")
            time.sleep(600)
        if does == "raise":
            raise RuntimeError(*more)
        for name, password in json.loads((HERE / "logins").read_text()).get(service, {}).items():
            if username in (None, name):
                return SimpleCredential(name, password)

    def get_password(self, service, username):
        found = self.get_credential(service, username)
        return found and found.password

    def set_password(self, service, username, password):
        raise NotImplementedError
"""


class StoredKeyring:
    """The files of one keyring; ``folder`` holds secrets, so it is no folder in which a test looks for leaks."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        (folder / "stored_keyring.py").write_text(_BACKEND, encoding="utf-8")
        self._logins: dict[str, dict[str, str]] = {}
        self.forget()
        self.does("answer")

    @property
    def env(self) -> dict[str, str]:
        path = os.pathsep.join((str(PROGRAM.parent), os.environ["PATH"]))
        backend = {"PYTHONPATH": str(self.folder), "PYTHON_KEYRING_BACKEND": "stored_keyring.Stored"}
        return {**backend, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

    def put(self, service: str, username: str, password: str) -> None:
        self._logins.setdefault(service, {})[username] = password
        self._write()

    def forget(self) -> None:
        self._logins.clear()
        self._write()

    def _write(self) -> None:
        (self.folder / "logins").write_text(json.dumps(self._logins), encoding="utf-8")

    def does(self, what: str) -> None:
        """``answer``, ``hang``, ``raise TEXT``."""
        (self.folder / "does").write_text(what, encoding="utf-8")

    @property
    def pids(self) -> list[int]:
        """The process that hangs and its child, once it does."""
        place = self.folder / "pids"
        return [int(each) for each in place.read_text(encoding="utf-8").split()] if place.exists() else []

    @property
    def questions(self) -> list[tuple[str, str | None]]:
        place = self.folder / "questions"
        lines = place.read_text(encoding="utf-8").splitlines() if place.exists() else []
        return [(service, username) for service, username in map(json.loads, lines)]

    def reset(self) -> None:
        """Forget the questions."""
        (self.folder / "questions").unlink(missing_ok=True)
