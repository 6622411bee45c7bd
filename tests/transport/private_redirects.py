"""Run inside a network namespace where 203.0.113.1 is here and ``inside.example`` is 127.0.0.1; prints JSON."""

from __future__ import annotations

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from resume_dl.errors import NetworkError
from resume_dl.model.http import RangeRequest
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.transport.client import HttpTransport

requests: Counter[str] = Counter()
locations: dict[str, str] = {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        host = self.server.server_address[0]
        requests[host] += 1
        location = locations.get(self.path)
        self.send_response(302 if location else 200)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"body")

    def log_message(self, *_: object) -> None:
        return


def serve(host: str) -> int:
    server = ThreadingHTTPServer((host, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


public, private = serve("203.0.113.1"), serve("127.0.0.1")
transport = HttpTransport(NetworkSettings(connect_timeout=20.0, first_byte_timeout=20.0))
outside, inside = f"http://203.0.113.1:{public}", f"http://inside.example:{private}"
locations.update(
    {
        "/literal": f"http://127.0.0.1:{private}/x",
        "/short": f"http://127.1:{private}/x",
        "/mapped": f"http://[::ffff:127.0.0.1]:{private}/x",
        "/localhost": f"http://localhost:{private}/x",
        "/name": f"{inside}/x",
        "/twice": f"http://outside.example:{public}/name",
        "/outside": f"http://outside.example:{public}/x",
    }
)


def told(url: str) -> list[object]:
    """What became of it, and how many requests came to the inside."""
    before = requests["127.0.0.1"]
    try:
        response = transport.exchange(RangeRequest(RedactedUrl(url), whole=True)).open()
        said = b"".join(response.chunks()).decode()
    except NetworkError as error:
        said = f"{error.message} ({'retry' if error.retryable else 'final'})"
    return [said.replace(str(public), "P").replace(str(private), "Q"), requests["127.0.0.1"] - before]


found = {path: told(outside + path) for path in locations}
found["inside, asked for"] = told(f"{inside}/x")  # its connection is kept
found["kept connection"] = told(f"{outside}/name")
found["inside to inside"] = told(f"{inside}/literal")
print(json.dumps(found))
transport.close()
