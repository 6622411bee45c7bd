"""Runs of ``resume-dl`` forked from a process that has imported it: half of what a short run costs is imports.

A forked run is a process of its own with the arguments, environment, folder and streams that it is given, from the
first line of ``resume_dl.__main__`` to the interpreter's end. A run that a test signals or watches is started as users
start it, and all of them are with ``RESUME_DL_TEST_FRESH=1`` (``make test-long``), or where ``environment`` sets what
an interpreter reads when it starts.
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

_SERVER = r"""
import gc, importlib, json, os, pkgutil, runpy, signal, socket, sys

import resume_dl

for found in pkgutil.walk_packages(resume_dl.__path__, "resume_dl."):
    if found.name.split(".")[1] not in ("__main__", "conda_plugin", "rattler_worker"):
        importlib.import_module(found.name)
import cyclonedx.output.json, encodings.idna, http.cookiejar, tqdm, uuid, yaml, zstandard

asked = socket.socket(fileno=int(sys.argv[1]))
gc.freeze()
while True:
    try:
        data, fds, _, _ = socket.recv_fds(asked, 1, 4)
    except KeyboardInterrupt:
        os._exit(130)
    if not data:
        os._exit(0)
    if os.fork():
        for fd in fds:
            os.close(fd)
        os.waitpid(-1, 0)
        continue
    if os.fork():  # the process that waits for the run is reaped by the system
        os._exit(0)
    request, out, err, reply = fds
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
for fd in (out, err, reply):
    os.close(fd)
os.environ.clear()
os.environ.update(wanted["environment"])
os.umask(wanted["umask"])
os.chdir(wanted["folder"])
sys.path[0] = wanted["folder"]
sys.argv[1:] = wanted["arguments"]
del request, out, err, reply, child, fds, data, asked, file, found, wanted
runpy.run_module("resume_dl", run_name="__main__", alter_sys=True)
"""


def possible(environment: Mapping[str, str]) -> bool:
    """Whether a run with this environment may be forked."""
    read_at_start = {
        name: value for name, value in environment.items() if name.startswith(("PYTHON", "LANG", "LC_", "LD_", "TQDM_"))
    }
    return sys.platform == "linux" and not os.environ.get(FRESH) and read_at_start == STARTED_WITH


def run(
    arguments: Sequence[str], *, environment: Mapping[str, str], folder: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """``python -m resume_dl`` with nothing on stdin, to its end; raises TimeoutExpired as ``subprocess.run`` does."""
    out, their_out = os.pipe()
    err, their_err = os.pipe()
    reply, their_reply = os.pipe()
    request = os.memfd_create("request")
    wanted = {
        "arguments": list(arguments),
        "environment": dict(environment),
        "folder": str(folder),
        "umask": _umask(),
    }
    os.write(request, json.dumps(wanted).encode())
    os.lseek(request, 0, os.SEEK_SET)
    theirs = [request, their_out, their_err, their_reply]
    socket.send_fds(_server(), [b"."], theirs)
    for fd in theirs:
        os.close(fd)
    with os.fdopen(out, "rb") as first, os.fdopen(err, "rb") as second, os.fdopen(reply, "rb") as third:
        found = _read((first, second, third), timeout, arguments)
    status = int(found[2].split()[1])
    texts = [data.decode().replace("\r\n", "\n").replace("\r", "\n") for data in found[:2]]
    return subprocess.CompletedProcess(list(arguments), os.waitstatus_to_exitcode(status), *texts)


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
                if pid := bytes(found[-1]).split():
                    os.kill(int(pid[0]), signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(arguments), timeout, bytes(found[0]), bytes(found[1]))
    return [bytes(each) for each in found]


def _umask() -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))


@functools.cache
def _server() -> socket.socket:
    """The socket of the process that forks; it ends when the socket is closed, with this process at the latest."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**{name: os.environ[name] for name in ("PATH",) if name in os.environ}, **STARTED_WITH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    atexit.register(process.wait)
    atexit.register(ours.close)  # the last one registered is called first
    return ours
