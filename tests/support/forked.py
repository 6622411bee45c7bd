"""Runs of ``resume-dl`` and conda forked from a process that has imported much of them: half of a short run's cost.

A forked run is a process of its own with the arguments, environment, folder and streams that it is given, from the
first line of its ``__main__`` to its last exit function and the last byte of its output. Of conda only the libraries
are imported before: its own modules look at the environment when they are. A run that a test signals or watches is
started as users start it, and all of them are with ``RESUME_DL_TEST_FRESH=1`` (``make test-long``), or where
``environment`` sets what an interpreter reads when it starts.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

FRESH = "RESUME_DL_TEST_FRESH"
STARTED_WITH = {"PYTHONUTF8": "1", **{name: os.environ[name] for name in ("LANG",) if name in os.environ}}

RESUME_DL = r"""
import importlib, pkgutil
import resume_dl

for found in pkgutil.walk_packages(resume_dl.__path__, "resume_dl."):
    if found.name.split(".")[1] not in ("__main__", "conda_plugin", "rattler_worker"):
        try:
            importlib.import_module(found.name)
        except ImportError:  # the runs that need it say so
            pass
for name in (
    "click._textwrap cyclonedx.output.json cyclonedx.schema._res cyclonedx.spdx encodings.cp437 encodings.idna glob "
    "http.cookiejar platformdirs platformdirs.unix ruamel.yaml tqdm uuid uv yaml zstandard backports.zstd"
).split():
    try:
        importlib.import_module(name)
    except ImportError:  # another system, or an extra that is not installed
        pass
from resume_dl.offline_tools import archive, tool_names

for tool in tool_names.TOOLS:
    archive.write_archive(tool)  # which remembers what the modules import: half of what a small bundle costs
"""
CONDA = r"""
import importlib

for name in (
    "argparse bz2 concurrent.futures ctypes email.parser encodings.idna http.client importlib.metadata json lzma "
    "dataclasses decimal difflib ftplib multiprocessing.context netrc pprint secrets sqlite3 ssl sysconfig tarfile "
    "termios tomllib uuid zipfile "
    "archspec.cpu boltons.setutils boltons.timeutils click conda_package_handling.api h11 msgspec platformdirs.unix "
    "pluggy pycosat requests ruamel.yaml ruamel.yaml.mergevalue socksio tqdm zstandard"
).split():
    try:
        importlib.import_module(name)
    except ImportError:  # another conda than the one of the tests has others
        pass
"""

_SERVER = r"""
import atexit, gc, json, os, runpy, signal, socket, sys, threading

asked = socket.socket(fileno=int(sys.argv[1]))
gc.freeze()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the processes that wait for the runs are reaped by the system
while True:
    try:
        data, fds, _, _ = socket.recv_fds(asked, 1, 5)
    except KeyboardInterrupt:
        os._exit(130)
    if not data:
        os._exit(0)
    if os.fork():
        for fd in fds:
            os.close(fd)
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, answer, out, err, reply = fds
    child = os.fork()
    if child:
        for fd in (out, err):
            os.close(fd)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.write(reply, b"%d\n" % child)
        os.write(reply, b"%d\n" % os.waitpid(child, 0)[1])
        os._exit(0)
    break

asked.close()
os.dup2(out, 1)
os.dup2(err, 2)
with open(request, "rb") as file:
    wanted = json.load(file)
os.dup2(answer, 0)
for fd in (answer, out, err, reply):
    os.close(fd)
os.environ.clear()
os.environ.update(wanted["environment"])
os.umask(wanted["umask"])
os.chdir(wanted["folder"])
sys.path[:1] = [wanted["folder"], *filter(None, wanted["environment"].get("PYTHONPATH", "").split(":"))]
sys.path_importer_cache.clear()
sys.argv[1:] = wanted["arguments"]
if wanted["obey"]:  # file permissions hold, for root too: CAP_DAC_OVERRIDE goes, here and in what is run from here
    import ctypes

    head, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None)
    libc.prctl(24, 1, 0, 0, 0)
    libc.capget(head, sets)
    sets[0], sets[1] = sets[0] & ~2, sets[1] & ~2
    libc.capset(head, sets)
module = sys.argv.pop(1)
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    code = 0
except SystemExit as end:
    if not isinstance(end.code, (int, type(None))):
        raise
    code = end.code or 0
try:  # all that an interpreter does at its end but the last, which takes 0.05 s: to take its modules apart
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
except BaseException:
    sys.exit(code)  # which finds the same and says it
os._exit(code & 0xFF)
"""


def possible(environment: Mapping[str, str], *, conda: bool = False) -> bool:
    """Whether a run with this environment may be forked."""
    more = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": environment.get("PYTHONPATH")} if conda else {}
    read_at_start = {
        name: value for name, value in environment.items() if name.startswith(("PYTHON", "LANG", "LC_", "LD_", "TQDM_"))
    }
    return sys.platform == "linux" and not os.environ.get(FRESH) and read_at_start == {**STARTED_WITH, **more}


def run(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    timeout: float,
    conda: Path | None = None,
    answer: str = "",
    obey: bool = False,
) -> subprocess.CompletedProcess[str]:
    """``python -m resume_dl`` to its end, or ``-m conda`` of the interpreter ``conda``; ``answer`` is on stdin.

    With ``obey`` file permissions hold, for root too. Raises TimeoutExpired as ``subprocess.run`` does.
    """
    out, their_out = os.pipe()
    err, their_err = os.pipe()
    reply, their_reply = os.pipe()
    wanted = {
        "arguments": ["resume_dl" if conda is None else "conda", *arguments],
        "environment": dict(environment),
        "folder": str(folder),
        "umask": _umask(),
        "obey": obey,
    }
    request = _holding(json.dumps(wanted))
    their_in = _holding(answer) if answer else os.open(os.devnull, os.O_RDONLY)
    theirs = [request, their_in, their_out, their_err, their_reply]
    server = _server(Path(sys.executable), RESUME_DL) if conda is None else _server(conda, CONDA)
    socket.send_fds(server, [b"."], theirs)
    for fd in theirs:
        os.close(fd)
    with os.fdopen(out, "rb") as first, os.fdopen(err, "rb") as second, os.fdopen(reply, "rb") as third:
        found = _read((first, second, third), timeout, arguments)
    status = int(found[2].split()[1])
    texts = [data.decode().replace("\r\n", "\n").replace("\r", "\n") for data in found[:2]]
    return subprocess.CompletedProcess(list(arguments), os.waitstatus_to_exitcode(status), *texts)


def _holding(text: str) -> int:
    """A file in memory, at its beginning."""
    fd = os.memfd_create("forked")
    os.write(fd, text.encode())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _read(files: Sequence[IO[bytes]], timeout: float, arguments: Sequence[str]) -> list[bytes]:
    """Everything that comes from these until they are closed; the last one begins with the run's process id."""
    found = [bytearray() for _ in files]
    deadline = time.monotonic() + timeout
    with selectors.DefaultSelector() as waiting:
        for number, file in enumerate(files):
            waiting.register(file, selectors.EVENT_READ, number)
        while waiting.get_map():
            for key, _ in waiting.select(max(0.0, deadline - time.monotonic())):
                data = os.read(key.fd, 1 << 16)
                found[key.data] += data
                if not data:
                    waiting.unregister(key.fileobj)
            if time.monotonic() >= deadline and waiting.get_map():
                while not found[-1].count(b"\n"):  # the server imports still
                    found[-1] += os.read(files[-1].fileno(), 1 << 16) or b"0\n"
                if pid := int(found[-1].split()[0]):
                    os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(arguments), timeout, bytes(found[0]), bytes(found[1]))
    return [bytes(each) for each in found]


def _umask() -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))


@functools.cache
def _server(python: Path, imports: str) -> socket.socket:
    """The socket of the process that forks; it ends when the socket is closed, with this process at the latest."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [str(python), "-c", imports + _SERVER, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={
                "PATH": os.environ.get("PATH", ""),
                "PYTHONDONTWRITEBYTECODE": "1" if imports is CONDA else "",
                **STARTED_WITH,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    atexit.register(process.wait)
    atexit.register(ours.close)  # the last one registered is called first
    return ours
