"""The gateway by itself: what it answers to whom, and how little it takes from the network for it."""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from faults.behaviours import ChangingETag, Drop, Page, Status, Truncate, times
from resume_dl.errors import (
    ChannelUnavailableError,
    ConfigurationError,
    IntegrityError,
    InternalError,
    PackageNotFoundError,
)
from resume_dl.indexes.pip.catalogue import Catalogue, Wanted
from resume_dl.indexes.pip.gateway import Gateway
from resume_dl.indexes.pip.page_sources import PageSources
from resume_dl.indexes.pip.pages import Pages
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.mirror import Mirror, MirrorTable
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.index_page import ACCEPT, JSON_TYPE, parse_page
from resume_dl.transfer.source_places import Places
from resume_dl.transport.client import HttpTransport
from support.pip_index import build_wheel, write_index

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url):
    with DIRECT.open(urllib.request.Request(url, headers={"Accept": ACCEPT}), timeout=120) as answer:
        return answer.headers["Content-Type"], answer.read()


def status(url):
    try:
        get(url)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


@pytest.fixture
def transport():
    made = HttpTransport(NetworkSettings(connect_timeout=2, first_byte_timeout=5, read_timeout=60))
    yield made
    made.close()


@pytest.fixture
def catalogue(transport):
    def make(*indexes, table=None, **options):
        places, named = Places(table or MirrorTable({}, ())), options.pop("named", ())
        given = tuple(map(RedactedUrl, indexes))
        wanted = Wanted(options.pop("direct", {}), options.pop("hashes", {}))
        pages = Pages(Reader(transport), places, named=named)
        return Catalogue(pages, indexes=given, wanted=wanted, **options)

    return make


@pytest.fixture
def demo(tmp_path):
    wheel = build_wheel(tmp_path / "built", "demo", "1.0", filler=200_000)
    write_index(tmp_path / "root", [wheel], core_metadata=False)
    return wheel


@pytest.fixture
def offered(tmp_path, fault_server, demo):
    """A server that has the wheel and its page."""
    server = fault_server(ports=2)
    server.put("/simple/demo/", (tmp_path / "root" / "simple" / "demo" / "index.html").read_bytes())
    server.put(f"/{demo.url_path}", demo.path.read_bytes())
    return server


# --- HTTP -------------------------------------------------------------------------------------------------------------


def test_pages_lead_back_to_it(catalogue, offered, demo):
    with Gateway(catalogue(f"{offered.base()}/simple")) as gateway:
        kind, body = get(f"{gateway.indexes()[0]}demo/")
        (entry,) = json.loads(body)["files"]
        assert (kind, entry["hashes"], entry["core-metadata"]) == (JSON_TYPE, {"sha256": demo.sha256}, True)
        assert entry["url"].startswith(gateway.base)
        assert get(entry["url"] + ".metadata")[1] == demo.metadata
        assert gateway.file_of(entry["url"]).url == f"{offered.base()}/{demo.url_path}"
        assert gateway.shown(f"see `{entry['url']}` at {gateway.indexes()[0]}") == (
            f"see `{offered.base()}/{demo.url_path}` at {offered.base()}/simple"
        )


def test_requests_need_the_secret_path(catalogue, offered):
    """Other users and web pages on this machine can reach the port, and learn nothing."""
    with Gateway(catalogue(f"{offered.base()}/simple")) as gateway:
        assert status(f"{gateway.proxy}/index/0/demo/") == 404
        assert status(f"{gateway.proxy}/") == 404
        guessed = "x" * len(gateway.base.rpartition("/")[2])
        assert status(f"{gateway.proxy}/{guessed}/index/0/demo/") == 404
        assert gateway.indexes()[0].startswith("http://127.0.0.1:")
    with Gateway(catalogue(f"{offered.base()}/simple")) as another:
        assert another.base.rpartition("/")[2] != gateway.base.rpartition("/")[2]
    assert offered.requests() == []


@pytest.mark.parametrize(
    "path", ["/index/1/demo/", "/index/x/demo/", "/index/0/demo", "/links/0/", "/direct", "/file/0/x", "/file/9/x", "/"]
)
def test_what_is_not_there(catalogue, offered, path):
    with Gateway(catalogue(f"{offered.base()}/simple")) as gateway:
        assert status(gateway.base + path) == 404
        assert gateway.errors == []


def test_files_are_given_only_for_builds(catalogue, offered, demo):
    with Gateway(catalogue(f"{offered.base()}/simple")) as gateway:
        (entry,) = json.loads(get(f"{gateway.indexes()[0]}demo/")[1])["files"]
        assert status(entry["url"]) == 404
    with Gateway(catalogue(f"{offered.base()}/simple"), with_files=True) as gateway:
        (entry,) = json.loads(get(f"{gateway.indexes()[0]}demo/")[1])["files"]
        assert get(entry["url"])[1] == demo.path.read_bytes()


def test_a_file_for_a_build_is_verified(catalogue, offered):
    """It is run on this machine: bytes with another digest are not handed on."""
    with Gateway(catalogue(f"{offered.base()}/simple"), with_files=True) as gateway:
        (entry,) = json.loads(get(f"{gateway.indexes()[0]}demo/")[1])["files"]
        offered.always(0, Truncate(1000), path="*.whl")
        assert status(entry["url"]) == 502
        assert "does not have the index's digest" in str(gateway.errors[0])


def test_the_gateway_refuses_proxy_requests(catalogue, offered):
    with Gateway(catalogue()) as gateway:
        address = gateway.proxy.removeprefix("http://")
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.request("GET", f"{offered.base()}/{'x'}")
        assert connection.getresponse().status == 403
        connection.close()
        tunnel = http.client.HTTPConnection(address, timeout=60)
        tunnel.set_tunnel("files.example", 443)
        with pytest.raises(OSError, match="403"):
            tunnel.request("GET", "/")
        assert gateway.stray == {offered.base().removeprefix("http://"), "files.example:443"}
    assert offered.requests() == []


def test_uv_cannot_reach_other_hosts(catalogue, fault_server):
    """An address of somebody's own reaches only the gateway, which refuses it."""
    from resume_dl.resolve.uv import UvRefusedError, UvRequest, lock

    server = fault_server()
    server.put("/evil-1.0-py3-none-any.whl", b"x")
    elsewhere = server.base().replace("127.0.0.1", "localhost")
    with Gateway(catalogue()) as gateway:
        request = UvRequest(
            requirements=(f"evil @ {elsewhere}/evil-1.0-py3-none-any.whl",),
            refusal=gateway.proxy,
            interpreter=Path(sys.executable),
        )
        with pytest.raises(UvRefusedError):
            lock(request, env=os.environ, cancelled=lambda: False)
        assert gateway.stray == {elsewhere.removeprefix("http://")}
    assert server.requests() == []


def test_a_client_that_goes_away(catalogue, offered, capfd):
    """No traceback on the user's terminal."""
    with Gateway(catalogue(f"{offered.base()}/simple"), with_files=True) as gateway:
        host, _, port = gateway.proxy.removeprefix("http://").partition(":")
        for _ in range(3):
            with socket.create_connection((host, int(port))) as line:
                line.sendall(
                    f"GET {gateway.base.partition(port)[2]}/index/0/demo/ HTTP/1.1\r\nHost: x\r\n\r\n".encode()
                )
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        get(f"{gateway.indexes()[0]}demo/")
        assert gateway.errors == []
    assert capfd.readouterr().err == ""


def test_errors_behind_it_are_kept(catalogue):
    with Gateway(catalogue("http://127.0.0.1:9/simple")) as gateway:
        assert status(f"{gateway.indexes()[0]}demo/") == 502
        assert isinstance(gateway.errors[0], ChannelUnavailableError)


# --- the catalogue ----------------------------------------------------------------------------------------------------


def test_a_page_is_fetched_once_for_all_threads(catalogue, offered):
    wanted = catalogue(f"{offered.base()}/simple")
    found = []
    threads = [threading.Thread(target=lambda: found.append(wanted.project(0, "demo"))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    assert all(each is found[0] for each in found)
    assert len(offered.requests()) == 1


def test_a_page_that_breaks_off_is_asked_for_again(catalogue, offered):
    offered.script(0, [*times(2, Drop(after=10)), ()], path="/simple/demo/")
    assert catalogue(f"{offered.base()}/simple").project(0, "demo")
    assert len(offered.requests()) == 3


def test_a_page_that_never_comes(catalogue, offered):
    """There is an end, and it is the index's failure and not the project's."""
    offered.always(0, Status(500), path="/simple/demo/")
    with pytest.raises(ChannelUnavailableError, match="500"):
        catalogue(f"{offered.base()}/simple").project(0, "demo")


def test_an_authority_that_serves_a_login_page_does_not_count(catalogue, offered):
    """A block page or a login page is no empty project; one mirror alone does not take its place unless it is named."""
    offered.always(0, Page(), path="/simple/*")
    mirrors = (Mirror("one", carries={"pypi:simple": f"{offered.base(1)}/simple"}),)
    table = MirrorTable({"pypi:simple": f"{offered.base(0)}/simple"}, mirrors)
    with pytest.raises(ChannelUnavailableError, match="only one mirror, one, has answered") as caught:
        catalogue(f"{offered.base(0)}/simple", table=table).project(0, "demo")
    assert "--index-from, with a name of `resume-dl mirrors list`" in caught.value.hint
    (file,) = catalogue(f"{offered.base(0)}/simple", table=table, named=("one",)).project(0, "demo")
    assert file.url.startswith(offered.base(1))


def test_the_standing_of_each_source():
    """The address that the user named decides, the others carry; a place that the table does not know has no others."""
    mirrors = tuple(Mirror(name, carries={"pypi:simple": f"https://{name}/simple"}) for name in ("one", "two"))
    table = MirrorTable({"pypi:simple": "https://origin/simple"}, mirrors)

    def told(url, *named):
        standing = PageSources(Places(table), named).standing(RedactedUrl(url))
        return [[each.mirror for each, _ in standing.believed], [each.mirror for each in standing.carriers]]

    assert told("https://origin/simple/a/") == [["upstream"], ["one", "two"]]
    assert told("http://two/simple/a/") == [["two"], ["one", "upstream"]]
    assert told("https://origin/simple/a/", "two") == [["two", "upstream"], ["one"]]
    assert told("https://private/simple/a/", "two") == [["upstream"], []]


def test_a_404_of_the_authority_decides(catalogue, offered):
    """Its 404 is an answer: no mirror outranks it, and none is asked."""
    mirrors = (Mirror("other", carries={"pypi:simple": f"{offered.base(1)}/simple"}),)
    table = MirrorTable({"pypi:simple": f"{offered.base()}/simple"}, mirrors)
    wanted = catalogue(f"{offered.base()}/simple", table=table)
    assert wanted.project(0, "missing") is None
    assert offered.requests(1) == []


@pytest.mark.parametrize(("origin", "known"), [("wheels:pytorch", True), ("pypi:simple", False)])
def test_an_object_store_forbids_what_it_lacks(catalogue, offered, origin, known):
    """pytorch's answers 403 for a project that is not there; at other indexes 403 is a refusal."""
    offered.always(0, Status(403), path="*")
    wanted = catalogue(f"{offered.base()}/whl", table=MirrorTable({origin: f"{offered.base()}/whl"}, ()))
    if known:
        assert wanted.project(0, "demo") is None
    else:
        with pytest.raises(ChannelUnavailableError, match="403"):
            wanted.project(0, "demo")


def test_a_login_goes_to_its_own_place_only(catalogue, fault_server, tmp_path):
    """Links to the same host keep it, links elsewhere do not get it."""
    server = fault_server(ports=2)
    places = ("", server.base(1), server.base(0))
    links = "".join(f'<a href="{place}/a-{n}.0-py3-none-any.whl">a</a>' for n, place in enumerate(places))
    server.put("/simple/a/", links.encode())
    index = server.base(0).replace("//", "//me:pw@")
    relative, elsewhere, absolute = catalogue(f"{index}/simple").project(0, "a")
    assert relative.url == f"{index}/a-0.0-py3-none-any.whl"
    assert elsewhere.url == f"{server.base(1)}/a-1.0-py3-none-any.whl"
    assert absolute.url == f"{index}/a-2.0-py3-none-any.whl"


# --- metadata ---------------------------------------------------------------------------------------------------------


def file_of(wanted):
    (file,) = wanted.project(0, "demo")
    return file


def test_the_end_of_a_wheel_is_enough(catalogue, offered, demo):
    wanted = catalogue(f"{offered.base()}/simple")
    found = wanted.metadata(file_of(wanted))
    assert (found.data, found.size) == (demo.metadata, demo.size)
    wheel = [request for request in offered.requests() if request.path.endswith(".whl")]
    assert sum(request.sent for request in wheel) < 40_000
    assert len(wheel) == 2  # its size, its end


@pytest.fixture
def three(tmp_path, fault_server, demo):
    """The index at 0 and mirrors of it at 1 and 2, of an operator each; the table."""
    server = fault_server(ports=3)
    server.put("/simple/demo/", (tmp_path / "root" / "simple" / "demo" / "index.html").read_bytes())
    places = ("", "/m1", "/m2")
    for place in places:
        server.put(f"{place}/{demo.url_path}", demo.path.read_bytes())
    mirrors = tuple(
        Mirror(f"m{port}", carries={"wheels:x": server.base(port) + places[port]}, operator=f"o{port}")
        for port in (1, 2)
    )
    return server, MirrorTable({"wheels:x": server.base(0)}, mirrors)


def test_other_mirrors_go_on(catalogue, three, demo):
    """The index's own place has only a part of the wheel: what two mirrors give alike counts."""
    server, table = three
    server.always(0, Truncate(100_000), path="*.whl")
    wanted = catalogue(f"{server.base(0)}/simple", table=table)
    assert wanted.metadata(file_of(wanted)).data == demo.metadata
    assert server.requests(1, "*.whl")
    assert server.requests(2, "*.whl")


def test_one_mirror_alone_gives_no_metadata(catalogue, three):
    """It would decide what else is installed; and the index gives no digest of it."""
    server, table = three
    for port in (0, 2):
        server.always(port, Status(404), path="*.whl")
    wanted = catalogue(f"{server.base(0)}/simple", table=table)
    with pytest.raises(PackageNotFoundError, match="only m1 serves its METADATA"):
        wanted.metadata(file_of(wanted))


def test_mirrors_that_contradict_each_other_in_metadata(tmp_path, catalogue, three, demo):
    server, table = three
    server.always(0, Status(404), path="*.whl")
    evil = build_wheel(tmp_path / "evil", "demo", "1.0", requires=["trojan"], filler=200_000)
    server.put(f"/m2/{demo.url_path}", evil.path.read_bytes())
    wanted = catalogue(f"{server.base(0)}/simple", table=table)
    with pytest.raises(IntegrityError, match=r"mirrors serve different METADATA \(m\d and m\d\)"):
        wanted.metadata(file_of(wanted))


def test_a_wheel_that_changes_between_two_requests(catalogue, offered):
    """Parts of two versions are never put together; a server that changes its mind each time is given up."""
    offered.always(0, ChangingETag(), path="*.whl")
    wanted = catalogue(f"{offered.base()}/simple")
    with pytest.raises(ChannelUnavailableError, match="changed"):
        wanted.metadata(file_of(wanted))


def test_promised_metadata_that_is_not_there_or_wrong(catalogue, tmp_path, fault_server, demo):
    """Some mirrors keep wheels only, and some copies are damaged: the wheel itself is right."""
    write_index(tmp_path / "root", [demo])
    server = fault_server()
    server.put("/simple/demo/", (tmp_path / "root" / "simple" / "demo" / "index.html").read_bytes())
    server.put(f"/{demo.url_path}", demo.path.read_bytes())
    wanted = catalogue(f"{server.base()}/simple")
    assert wanted.metadata(file_of(wanted)).data == demo.metadata
    server.put(f"/{demo.url_path}.metadata", b"Name: evil\n")
    wanted = catalogue(f"{server.base()}/simple")
    assert wanted.metadata(file_of(wanted)).data == demo.metadata
    server.put(f"/{demo.url_path}.metadata", demo.metadata)
    wanted = catalogue(f"{server.base()}/simple")
    before = len(server.requests())
    assert wanted.metadata(file_of(wanted)).data == demo.metadata
    assert [request.path[-9:] for request in server.requests()[before + 1 :]] == [".metadata"]


def test_a_wheel_that_is_nowhere(catalogue, offered):
    offered.always(0, Status(404), path="*.whl")
    wanted = catalogue(f"{offered.base()}/simple")
    with pytest.raises(PackageNotFoundError, match="no source has it"):
        wanted.metadata(file_of(wanted))


@pytest.mark.parametrize("content", [b"", b"PK\3\4" + b"x" * 50_000, b"no zip at all" * 9000])
def test_what_is_no_wheel(catalogue, offered, demo, content):
    offered.put(f"/{demo.url_path}", content)
    wanted = catalogue(f"{offered.base()}/simple")
    with pytest.raises(ChannelUnavailableError):
        wanted.metadata(file_of(wanted))


def test_a_size_is_requested_once(catalogue, offered):
    """Where the page has none and the server says none, the download goes without."""
    wanted = catalogue(f"{offered.base()}/simple")
    file = file_of(wanted)
    assert wanted.size(file) is not None
    offered.always(0, Status(500), path="*.whl")
    before = len(offered.requests())
    assert wanted.size(file) is None
    assert len(offered.requests()) == before + 1


def test_a_find_links_page_is_read_by_the_same_rules(catalogue, offered, demo):
    offered.put("/links.html", f'<a href="{demo.url_path}">x</a><a href="../">up</a>'.encode())
    wanted = catalogue(find_links=[RedactedUrl(f"{offered.base()}/links.html")])
    with Gateway(wanted) as gateway:
        kind, body = get(gateway.find_links()[0])
        (file,) = parse_page(kind, body, gateway.find_links()[0]).files
        assert get(file.url + ".metadata")[1] == demo.metadata


def test_an_internal_error_behind_a_page_names_the_page(catalogue, monkeypatch):
    """An exception that nothing expected becomes an error with exit code 70 that names the page; uv is answered."""
    made = catalogue("https://index.example/simple")

    def broken(*_):
        raise TypeError("a defect")

    monkeypatch.setattr(made, "project", broken)
    with Gateway(made) as gateway:
        assert status(f"{gateway.indexes()[0]}numpy/") == 502
    (error,) = gateway.errors
    assert isinstance(error, InternalError)
    assert "numpy: internal error (TypeError)" in str(error)


def test_a_gateway_that_cannot_serve_refuses_at_once(catalogue, monkeypatch):
    """Where its serving ends with an exception nothing is left listening: a resolver would wait for a day."""
    gateway = Gateway(catalogue())

    def broken(*_):
        raise OSError("no poll")

    monkeypatch.setattr(gateway._server, "service_actions", broken)
    place = ("127.0.0.1", int(gateway.proxy.rpartition(":")[2]))
    with gateway:
        gateway._thread.join(60)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(place, timeout=60)
    assert isinstance(gateway.errors[0], InternalError)


def test_a_machine_without_a_loopback_interface(catalogue, offered, monkeypatch):
    """Its loopback interface is down, or a firewall is in the way: no package is to blame, and no address is shown."""

    def refused(*_, **__):
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr("resume_dl.indexes.pip.gateway.socket.create_connection", refused)
    with pytest.raises(ConfigurationError, match="cannot be reached on this machine"):
        Gateway(catalogue(f"{offered.base()}/simple")).__enter__()


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("file:///tmp/demo-1.0-py3-none-any.whl", "an http(s) page may link only to http(s)"),
        (f"demo-1.0-{'.'.join('a' * 40)}-{'.'.join('b' * 40)}-any.whl", "expands to too many tags"),
        ("http://[/demo-1.0-py3-none-any.whl", "an address cannot be read"),
    ],
)
def test_a_page_whose_links_are_all_refused_is_no_login_page(catalogue, fault_server, link, why):
    server = fault_server()
    server.put("/simple/demo/", f'<a href="{link}">demo</a>'.encode())
    with pytest.raises(ChannelUnavailableError) as caught:
        catalogue(f"{server.base()}/simple").project(0, "demo")
    assert why in caught.value.message
    assert "login page" not in caught.value.message


class BrokenJson:
    """JSON that is no page, unless HTML alone is asked for."""

    def apply(self, answer):
        if "json" in answer.asked.get("accept", ""):
            answer.headers["Content-Type"] = JSON_TYPE
            answer.replace_body(b'{"meta": {}}')


def test_a_page_whose_json_is_broken_is_read_as_html(catalogue, offered, demo):
    """Both are the same source's word: no other place has to be asked."""
    offered.always(0, BrokenJson(), path="/simple/*")
    (file,) = catalogue(f"{offered.base()}/simple").project(0, "demo")
    assert file.hashes == {"sha256": demo.sha256}
    assert len(offered.requests()) == 2
