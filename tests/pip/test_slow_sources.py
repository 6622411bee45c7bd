"""Small things from servers that send a byte now and then: another source is asked as well, and no trickle lasts."""

from __future__ import annotations

import threading
import time

import pytest

from faults.behaviours import Headers, Rate
from resume_dl.core.policy import Policy
from resume_dl.errors import Interrupted
from resume_dl.indexes.small_answers import Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.transport.client import HttpTransport
from support.fetching import User
from support.own_time import OwnTime
from support.pip_index import build_wheel, write_index

_PAGE = b"<html>" + b"x" * 4096
_TRICKLE = Rate(1)


@pytest.fixture
def server(fault_server):
    """Two servers of one page."""
    server = fault_server(ports=2)
    server.put("/page", _PAGE)
    server.put("/other", _PAGE[::-1])
    return server


@pytest.fixture
def reader():
    """A reader whose policy has these numbers, and whose clock waits for a busy machine."""
    transport = HttpTransport(NetworkSettings())
    clock = OwnTime()
    yield lambda **numbers: Reader(transport, Policy(**numbers), clock=clock)
    transport.close()
    clock.close()


def sources(server, count: int, path: str = "/page") -> list[Source]:
    return [Source(str(port), RedactedUrl(f"{server.base(port)}{path}")) for port in range(count)]


def test_the_first_whole_answer_counts(server, reader):
    """The trickle is given up when it comes, and the next page is not asked of its host first."""
    server.always(0, _TRICKLE)
    reading = reader(page_look_seconds=0.2)
    found = reading.whole(sources(server, 2))
    assert (found.data, found.source.mirror) == (_PAGE, "1")
    again = reading.whole(sources(server, 2, "/other"))
    assert (again.data, again.source.mirror) == (_PAGE[::-1], "1")
    assert [len(server.requests(port)) for port in (0, 1)] == [1, 2]
    (trickle,) = server.requests(0)
    while not trickle.ended:  # it was left, not read to its end
        time.sleep(0.01)
    assert (trickle.ended, trickle.sent < len(_PAGE)) == ("client", True)


def test_a_trickling_source_ends_with_the_time_limit(server, reader):
    server.always(0, _TRICKLE)
    numbers = {"page_look_seconds": 0.2, "page_trickle_seconds": 1.0, "give_up_after": 2.0, "stall_seconds": 60.0}
    with pytest.raises(Unanswered, match="less than 100 bytes came a second"):
        reader(**numbers).whole(sources(server, 1))
    assert len(server.requests()) == 1


def test_stop_ends_both(server, reader):
    """The caller that waits for the page is told so."""
    server.always(None, _TRICKLE)
    reading = reader(page_look_seconds=0.1, stall_seconds=60.0)
    told: list[BaseException] = []

    def wait() -> None:
        try:
            reading.whole(sources(server, 2))
        except Interrupted as error:
            told.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while len(server.requests()) < 2:
        assert thread.is_alive()
        time.sleep(0.01)
    reading.stop()
    thread.join(60)
    assert len(told) == 1


def test_pip_resolves_beside_a_trickling_index(tmp_path, fault_server):
    """The mirror sends a byte a second of its pages: the index answers, and no page is asked of the mirror."""
    root = tmp_path / "www"
    write_index(root, [build_wheel(tmp_path / "built", "app", "1.0")])
    server = fault_server(ports=2)
    server.mount(root)
    server.put("/simple/app/", (root / "simple/app/index.html").read_bytes())
    page = Headers({"Content-Type": "text/html"})
    server.always(None, page, path="/simple/*")
    server.always(1, page, _TRICKLE, path="/simple/*")
    user = User(tmp_path / "user")
    places = [
        {"pypi:simple": f"{server.base(port)}/simple", "pypi:files": f"{server.base(port)}/packages"} for port in (0, 1)
    ]
    table = user.write_mirrors({"two": places[1]}, origins=places[0])
    index = ["--index-url", f"{server.base(0)}/simple"]
    done = user.run("fetch", "--mirrors", table, *index, "--give-up-after", "20s", "--pip", "app", "--json")
    assert done.code == 0, done.err
    assert [each["status"] for each in done.report["artifacts"]] == ["downloaded"]
    assert [len(server.requests(port, "/simple/*")) for port in (0, 1)] == [1, 0]
