"""A real nginx as several mirrors: one process, one loopback port a mirror, every byte that it sent counted.

    mirrors = NginxMirrors([root_a, root_b], folder=tmp_path / "nginx", rate=4 << 20)
    mirrors.start()               # the fixture nginx_mirrors starts and stops
    mirrors.base(0)               # "http://127.0.0.1:43211"
    mirrors.set_rate(1, 64_000)   # bytes a second for each connection; None = unlimited
    mirrors.change(1, status=503) # every request to mirror 1 is answered so; None = normal again
    mirrors.requests(0)           # [Request(uri="/pytorch/linux-64/repodata.json", status=206, ...)]
    mirrors.change(0, login="user:secret")  # asked of every request (basic auth)
    mirrors.archive_requests()    # only .conda, .tar.bz2, wheels and sdists, of all mirrors
    mirrors.body_bytes()          # body bytes of those archive requests; body_bytes(archives=False) of everything
    mirrors.reset_log()           # forget what was counted so far

``addresses`` gives each mirror a loopback address of its own, for clients that take the ports of one for one server.

Counts are what nginx handed to the kernel. Send buffers are small, and with a rate below the line's speed nothing
waits in them when a client is killed. ``send_buffer`` None leaves them, and the size of nginx's portions, to the
system: then a rate is exact but for a burst at the start of an answer; with small ones it comes out as half. All
counters first wait until no request is being answered, so a killed client's requests are in; a client that still runs
would be waited for (``PATIENCE`` at most).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from windows.nginx_outside import OutsideNginx, outside, outside_path

INSTALL_HINT = (
    "nginx is not installed: `apt-get install nginx` (or your system's package) to run the tests that need it"
)
ARCHIVE_SUFFIXES = (".conda", ".tar.bz2", ".whl", ".tar.gz")
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def find_nginx() -> str | None:
    """The nginx binary, also where only root has /usr/sbin on the PATH.

    Under Wine it is the one of the Linux side, if that serves it.
    """
    if sys.platform == "win32":
        return "nginx" if outside() else None
    found = shutil.which("nginx")
    if found is None and Path("/usr/sbin/nginx").exists():
        found = "/usr/sbin/nginx"
    return found


PATIENCE = 120.0
"""Seconds after which nginx is taken for hung; no test waits for them on a machine that does anything at all."""


@dataclass(frozen=True)
class Request:
    """One answered request; ``bytes`` of body and ``sent`` with headers; ``range`` is the header, or ''."""

    mirror: int
    method: str
    uri: str
    status: int
    bytes: int
    sent: int
    range: str
    complete: bool
    """Whether the whole answer was sent (False for a client that went away)."""
    began: float
    """When its head came, as ``time.time()`` says it, to the millisecond."""
    ended: float
    """When its last byte was handed to the kernel."""
    agent: str
    """The User-Agent header."""

    @property
    def is_ours(self) -> bool:
        """Whether resume-dl asked, and not a conda or a pip."""
        return self.agent.startswith("resume-dl/")

    @property
    def is_archive(self) -> bool:
        return self.uri.partition("?")[0].endswith(ARCHIVE_SUFFIXES)


@dataclass(frozen=True)
class Mirror:
    """What one port serves; ``rate`` in bytes a second a connection, ``max_ranges`` 0 ignores Range (answers 200).

    Below ``.../simple/`` a folder is answered by its index.json or index.html, as the Accept header asks (PEP 691).
    """

    root: Path
    rate: int | None = None
    max_ranges: int | None = None
    status: int | None = None
    login: str | None = None
    """``user:password`` that every request must carry; None lets everybody in."""
    max_age: int | None = None
    """Seconds that its answers may be used without asking again (Cache-Control)."""


class NginxMirrors:
    """N mirrors in one nginx, run as the current user, with all its files in ``folder``."""

    def __init__(
        self,
        roots: Sequence[Path],
        folder: Path,
        *,
        rate: int | None = None,
        keepalive: int = 30,
        max_ranges: int | None = None,
        send_buffer: int | None = 32 * 1024,
        addresses: Sequence[str] | None = None,
    ) -> None:
        self._mirrors = [Mirror(Path(root).resolve(), rate, max_ranges) for root in roots]
        self._folder = folder.resolve()
        self._keepalive = keepalive
        self._send_buffer = send_buffer
        self._generation = 0
        self._log_start = 0
        self._addresses = list(addresses or ["127.0.0.1"] * len(self._mirrors))
        self._ports = _free_ports(self._addresses)
        self._process: subprocess.Popen[bytes] | OutsideNginx | None = None

    def __len__(self) -> int:
        return len(self._mirrors)

    # --- where things are -------------------------------------------------------------------------------------

    def base(self, mirror: int = 0) -> str:
        """The mirror's base URL, without a slash at its end."""
        return f"http://{self._addresses[mirror]}:{self._ports[mirror]}"

    def port(self, mirror: int = 0) -> int:
        return self._ports[mirror]

    # --- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        binary = find_nginx()
        if binary is None:
            raise RuntimeError(INSTALL_HINT)
        (self._folder / "temp").mkdir(parents=True, exist_ok=True)
        self._write_configuration()
        self._process = OutsideNginx(self._folder) if outside() else self._popen(binary)
        self._wait_for_generation()

    def _popen(self, binary: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                binary,
                "-p",
                str(self._folder),
                "-c",
                str(self._folder / "nginx.conf"),
                "-e",
                str(self._folder / "error.log"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=PATIENCE)
            self._process = None

    def change(self, mirror: int, **fields: object) -> None:
        """Change fields of one mirror (see Mirror); holds for connections made from now on."""
        self._mirrors[mirror] = replace(self._mirrors[mirror], **fields)
        self._write_configuration()
        assert self._process is not None
        if isinstance(self._process, OutsideNginx):
            self._process.reload()
        else:
            self._process.send_signal(signal.SIGHUP)
        self._wait_for_generation()

    def set_rate(self, mirror: int, rate: int | None) -> None:
        self.change(mirror, rate=rate)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Send nothing inside; on entry all that was sent has been read: a client that is killed loses none of it.

        On a busy machine megabytes may wait in the kernel for a client that does not get to read them.
        """
        assert self._process is not None
        number = getattr(self._process, "pid", 0)
        children = Path(f"/proc/{number}/task/{number}/children")
        if (
            not number or not children.exists()
        ):  # another system than Linux: what is in the kernel cannot be seen either
            yield
            return
        workers = [int(each) for each in children.read_text(encoding="ascii").split()]
        for worker in workers:
            os.kill(worker, signal.SIGSTOP)
        try:
            deadline = time.monotonic() + PATIENCE
            while self._in_the_kernel():
                assert time.monotonic() < deadline, "nobody reads what was sent"
                time.sleep(0.005)
            yield
        finally:
            for worker in workers:
                os.kill(worker, signal.SIGCONT)

    def _in_the_kernel(self) -> int:
        """Bytes that lie in the queues of both ends of connections to us (proc(5), net/tcp)."""
        found, established = 0, "01"
        for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
            _, local, remote, state, queues, *_ = line.split()
            sending, _, receiving = queues.partition(":")
            if state != established:
                continue
            if int(local.rpartition(":")[2], 16) in self._ports:
                found += int(sending, 16)
            elif int(remote.rpartition(":")[2], 16) in self._ports:
                found += int(receiving, 16)
        return found

    # --- what was asked ------------------------------------------------------------------------------------------

    def requests(self, mirror: int | None = None) -> list[Request]:
        """All requests since the start or the last ``reset_log``, in the order in which they ended."""
        self._settle()
        found = []
        with (self._folder / "access.log").open(encoding="utf-8") as log:
            log.seek(self._log_start)
            for line in log:
                row = json.loads(line)
                request = Request(
                    mirror=self._ports.index(int(row["port"])),
                    method=row["method"],
                    uri=row["uri"],
                    status=int(row["status"]),
                    bytes=int(row["body"]),
                    sent=int(row["sent"]),
                    range=row["range"],
                    complete=row["complete"] == "OK",
                    began=round(float(row["ended"]) - float(row["time"]), 3),
                    ended=float(row["ended"]),
                    agent=row["agent"],
                )
                if mirror in {None, request.mirror}:
                    found.append(request)
        return found

    def archive_requests(self, mirror: int | None = None) -> list[Request]:
        return [request for request in self.requests(mirror) if request.is_archive]

    def body_bytes(self, mirror: int | None = None, *, archives: bool = True) -> int:
        rows = self.archive_requests(mirror) if archives else self.requests(mirror)
        return sum(request.bytes for request in rows)

    def reset_log(self) -> None:
        self._settle()
        self._log_start = (self._folder / "access.log").stat().st_size

    # --- inside --------------------------------------------------------------------------------------------------

    def _settle(self, patience: float = PATIENCE) -> None:
        """Wait until nginx answers nobody but us: a request is logged when it ends."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            status = self._get(0, "/.status")
            if "Reading: 0 Writing: 1 " in status:
                return
            time.sleep(0.02)
        raise TimeoutError(f"nginx is still answering somebody: {status!r}")

    def _get(self, mirror: int, path: str) -> str:
        with _DIRECT.open(self.base(mirror) + path, timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    def _wait_for_generation(self, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            try:
                if self._old_workers_gone() and all(
                    self._get(i, "/.generation") == str(self._generation) for i in range(len(self))
                ):
                    return
            except (urllib.error.URLError, ConnectionError, FileNotFoundError):  # not there yet
                pass
            time.sleep(0.02)
        log = self._folder / "error.log"
        raise RuntimeError(f"nginx did not start: {log.read_text() if log.exists() else 'no error log'}")

    def _old_workers_gone(self) -> bool:
        """Whether every worker of an older configuration has said that it stops accepting connections."""
        log = (self._folder / "error.log").read_text(encoding="utf-8", errors="replace")
        return log.count("gracefully shutting down") >= self._generation - 1

    def _write_configuration(self) -> None:
        self._generation += 1
        as_root = (outside() or {}).get("user") == "root" or (hasattr(os, "geteuid") and os.geteuid() == 0)
        user = "user root;" if as_root else ""
        temp = "\n".join(f"  {kind}_temp_path temp/{kind};" for kind in _TEMP_KINDS)
        servers = "\n".join(self._server(i) for i in range(len(self)))
        # Small portions wait in small buffers. nginx rounds each wait up, so at a rate they cost some of it.
        chunk = "" if self._send_buffer is None else "  sendfile_max_chunk 64k;"
        (self._folder / "nginx.conf").write_text(
            f"""{user}
daemon off;
worker_processes 1;
pid nginx.pid;
error_log error.log notice;
events {{ worker_connections 512; }}
http {{
{temp}
  default_type application/octet-stream;
  log_format counted escape=json '{{"port":"$server_port","method":"$request_method","uri":"$request_uri",'
    '"status":"$status","body":"$body_bytes_sent","sent":"$bytes_sent","range":"$http_range",'
    '"complete":"$request_completion","ended":"$msec","time":"$request_time","agent":"$http_user_agent"}}';
  access_log access.log counted;
  map $http_accept $simple_page {{ default index.html; "~application/vnd.pypi.simple.v1[+]json" index.json; }}
  keepalive_timeout {self._keepalive}s;
  keepalive_requests 10000;
  lingering_close off;
  sendfile on;
{chunk}
{servers}
}}
""",
            encoding="utf-8",
        )

    def _server(self, index: int) -> str:
        mirror = self._mirrors[index]
        listen = f"{self._addresses[index]}:{self._ports[index]}"
        if self._send_buffer is not None:
            listen += f" sndbuf={self._send_buffer}"
        lines = [f"root {outside_path(mirror.root)};"]
        if mirror.rate is not None:
            lines.append(f"limit_rate {mirror.rate};")
        if mirror.max_ranges is not None:
            lines.append(f"max_ranges {mirror.max_ranges};")
        if mirror.status is not None:
            lines.append(f"return {mirror.status};")
        if mirror.max_age is not None:
            lines.append(f'add_header Cache-Control "max-age={mirror.max_age}";')
        if mirror.login is not None:
            user, _, password = mirror.login.partition(":")
            users = self._folder / f"users-{index}"
            users.write_text(f"{user}:{{PLAIN}}{password}\n", encoding="utf-8")
            lines += ['auth_basic "test";', f"auth_basic_user_file {outside_path(users)};"]
        body = " ".join(lines)
        return (
            f"  server {{ listen {listen};\n"
            f"    location / {{ {body} }}\n"
            f"    location ~ /simple/ {{ {body} {_SIMPLE_PAGES} }}\n"
            f'    location = /.generation {{ access_log off; return 200 "{self._generation}"; }}\n'
            "    location = /.status { access_log off; stub_status; }\n  }"
        )


_SIMPLE_PAGES = (
    "index $simple_page index.html index.json; types { text/html html; application/vnd.pypi.simple.v1+json json; }"
)
_TEMP_KINDS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def _free_ports(addresses: Sequence[str]) -> list[int]:
    """A port at each address that was free a moment ago; all different, because the log tells mirrors by them."""
    found: dict[int, socket.socket] = {}
    try:
        for address in addresses:
            while True:
                one = socket.socket()
                one.bind((address, 0))
                if found.setdefault(one.getsockname()[1], one) is one:
                    break
                one.close()
        return list(found)
    finally:
        for one in found.values():
            one.close()
