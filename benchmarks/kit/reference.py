"""What is to be compared with: perfect keep-alive connections, whose client knows everything and verifies nothing.

    python reference.py CONNECTIONS < paths.json     # {"hosts": ["127.0.0.1:1234", ...], "paths": ["/a", ...]}

Prints the seconds from the first connect to the last byte, and the bytes.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from queue import Empty, SimpleQueue


def fetch_all(hosts: list[str], paths: list[str], connections: int) -> tuple[float, int]:
    """Every path from any host; connection i to host i modulo their number."""
    waiting: SimpleQueue[str] = SimpleQueue()
    for path in paths:
        waiting.put(path)
    counts: list[int] = []

    def work(host: str) -> None:
        connection = http.client.HTTPConnection(host)
        try:
            while True:
                connection.request("GET", waiting.get_nowait())
                answer = connection.getresponse()
                counts.append(len(answer.read()))
                if answer.status != 200:
                    counts.append(-(1 << 60))
        except Empty:
            connection.close()

    threads = [threading.Thread(target=work, args=(hosts[i % len(hosts)],)) for i in range(connections)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started, sum(counts)


def main() -> None:
    asked = json.load(sys.stdin)
    seconds, count = fetch_all(asked["hosts"], asked["paths"], int(sys.argv[1]))
    print(json.dumps({"seconds": seconds, "bytes": count}))


if __name__ == "__main__":
    main()
