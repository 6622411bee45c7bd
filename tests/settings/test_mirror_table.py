"""MirrorTable: which addresses hold the same bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resume_dl.model.mirror import Mirror, MirrorTable
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.mirrors import load_mirrors

SHIPPED = load_mirrors()
TABLE = MirrorTable(
    {"conda:pytorch": "https://conda.anaconda.org/pytorch", "conda:pkgs/main": "https://repo.anaconda.com/pkgs/main"},
    (
        Mirror(
            "one",
            connections=2,
            carries={
                "conda:pytorch": "https://one.example/anaconda/cloud/pytorch",
                "conda:pkgs/main": "https://one.example/anaconda/pkgs/main",
                "pypi:files": "https://one.example/pypi/packages",
            },
        ),
        Mirror(
            "two", carries={"conda:pytorch": "http://127.0.0.1:8001/pt", "conda:deep": "http://127.0.0.1:8001/pt/deep"}
        ),
        Mirror(
            "gone",
            status="retired",
            carries={"conda:pytorch": "https://gone.example/pytorch", "pypi:simple": "https://gone.example/simple"},
        ),
    ),
)
DIGEST = "ab/cd/" + "0" * 60


def sources(url: str, table: MirrorTable = TABLE, **options: object) -> list[tuple[str, str]]:
    return [(source.mirror, source.url.reveal()) for source in table.sources(RedactedUrl(url), **options)]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://conda.anaconda.org/pytorch/linux-64/a.conda", ("conda:pytorch", "linux-64/a.conda")),
        ("https://conda.anaconda.org/pytorch", ("conda:pytorch", "")),
        ("https://conda.anaconda.org/pytorch//", ("conda:pytorch", "")),
        ("HTTPS://Conda.Anaconda.ORG:443/pytorch/", ("conda:pytorch", "")),
        ("http://one.example/anaconda/cloud/pytorch/noarch", ("conda:pytorch", "noarch")),
        ("http://127.0.0.1:8001/pt/linux-64/a.conda", ("conda:pytorch", "linux-64/a.conda")),
        ("https://gone.example/simple/numpy/", ("pypi:simple", "numpy/")),
        ("https://conda.anaconda.org/pytorch/label/x/noarch", ("conda:pytorch", "label/x/noarch")),
    ],
)
def test_known_bases_are_recognised(url: str, expected: tuple[str, str]) -> None:
    """Canonical and mirror bases name their origin; scheme, default port, host case and final slashes do not count."""
    assert TABLE.origin_of(url) == expected


def test_longest_base_wins() -> None:
    """A base inside another base belongs to its own origin."""
    assert TABLE.origin_of("http://127.0.0.1:8001/pt/deep/noarch/x.conda") == ("conda:deep", "noarch/x.conda")


@pytest.mark.parametrize(
    "url",
    [
        "https://one.example/anaconda/cloud/pytorch-nightly/a.conda",
        "https://one.example/anaconda/cloud",
        "https://one.example/ANACONDA/cloud/pytorch/a",
        "http://127.0.0.1:8002/pt/a.conda",
        "https://conda.anaconda.org/",
        "https://one.example.evil.test/anaconda/cloud/pytorch/a.conda",
    ],
)
def test_bases_match_whole_segments_only(url: str) -> None:
    """A longer name, a shorter path, another case of the path, another port and another host are another place."""
    assert TABLE.origin_of(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://user:pw@conda.anaconda.org/pytorch/linux-64/a.conda",
        "https://user@one.example/anaconda/cloud/pytorch/a.conda",
        "https://conda.anaconda.org/t/tk-1234-abcd/pytorch/linux-64/a.conda",
        "https://conda.anaconda.org/pytorch/t/tk-1234/linux-64/a.conda",
        "https://conda.anaconda.org/pytorch/linux-64/a.conda?token=s3cret",
        "https://conda.anaconda.org/pytorch/linux-64/a.conda?v=1",
        f"https://u:p@index.example/packages/{DIGEST}/a.whl",
    ],
)
def test_credentials_are_never_mapped(url: str) -> None:
    """An address with a login, a token or a query goes to its own host only, and no other host hears of it."""
    assert TABLE.origin_of(url) is None
    assert TABLE.canonical(url) == url
    assert sources(url) == [("upstream", url)]
    assert sources(url, upstream=False, only=frozenset({"one"})) == [("upstream", url)]


OWN = TABLE.merge(
    MirrorTable(
        {"conda:private": "https://conda.corp.example/repo/private"},
        (Mirror("office", carries={"conda:private": "https://office.example/private"}),),
    )
)
PRIVATE = "conda.corp.example/repo/private/linux-64/a.conda"


@pytest.mark.parametrize(
    "url", [f"https://user:s3cret@{PRIVATE}", "https://conda.corp.example/t/s3cret/repo/private/linux-64/a.conda"]
)
def test_login_and_mirrors_where_the_users_own_file_says_so(url: str) -> None:
    """A channel that the user's file names as an origin: its mirrors first, without the login, its own place last."""
    there = ("office", "https://office.example/private/linux-64/a.conda")
    assert sources(url, OWN) == [there, ("upstream", url)]
    assert sources(url, OWN, upstream=False) == [there]
    assert sources(url, OWN, only=frozenset({"one"})) == []
    assert sources(url, TABLE) == [("upstream", url)]
    shipped = MirrorTable(OWN.origins, OWN.mirrors)  # the same places, but nobody's own
    assert sources(url, shipped, upstream=False) == [("upstream", url)]


def test_login_at_another_place_stays_there() -> None:
    """Neither a neighbour of the user's origin nor a mirror's address is its place: a login there is for it alone."""
    for url in (
        "https://user:s3cret@conda.corp.example/repo/private2/linux-64/a.conda",
        "https://user:s3cret@office.example/private/linux-64/a.conda",
        "https://user:s3cret@conda.anaconda.org/pytorch/linux-64/a.conda",
        f"https://user:s3cret@{PRIVATE}?v=1",
    ):
        assert sources(url, OWN) == [("upstream", url)]


def test_private_without_a_login_in_the_address() -> None:
    """Who is let in by other means than the address has one place as well."""
    url = "https://conda.anaconda.org/pytorch/linux-64/a.conda"
    assert len(sources(url)) == 3
    assert sources(url, private=True) == [("upstream", url)]
    there = ("office", "https://office.example/private/linux-64/a.conda")
    assert sources(f"https://{PRIVATE}", OWN, private=True) == [there, ("upstream", f"https://{PRIVATE}")]


@given(
    login=st.sampled_from(["https://user:s3cret@{}/{}", "https://s3cret@{}/{}", "https://{}/t/s3cret/{}"]),
    place=st.sampled_from(
        [base.partition("://")[2] for base in (*OWN.origins.values(), *OWN.mirrors[0].carries.values())]
    ),
    rest=st.sampled_from(["linux-64/a.conda", "label/x/noarch/b.tar.bz2", ""]),
)
def test_no_other_host_hears_a_login(login: str, place: str, rest: str) -> None:
    """Whatever the table knows, a login stands in one address alone: the one that was given."""
    host, _, path = f"{place}/{rest}".partition("/")
    url = login.format(host, path)
    assert [address for _, address in sources(url, OWN) if "s3cret" in address] == [url]


@pytest.mark.parametrize("tail", ["../x/a", "%2e%2E/x", "./a", "a//b", "a\\..\\b", "x/.."])
def test_climbing_paths_are_never_mapped(tail: str) -> None:
    """A path that servers may read as leaving the base is not carried to another host."""
    assert TABLE.origin_of("https://conda.anaconda.org/pytorch/" + tail) is None


@pytest.mark.parametrize(
    "url", ["", "pytorch", "file:///srv/pytorch", "ftp://one.example/pypi", "http://[::1", "http://h:x/a"]
)
def test_what_is_no_http_address_belongs_to_nobody(url: str) -> None:
    """Names, files, other schemes and broken addresses are left as they are."""
    assert TABLE.origin_of(url) is None
    assert TABLE.canonical(url) == url


def test_unlisted_channel_has_an_origin() -> None:
    """A channel that the table does not list is conda:<name>, below conda's own alias."""
    url = "https://conda.anaconda.org/somebody/noarch/x.conda"
    assert TABLE.origin_of(url) == ("conda:somebody", "noarch/x.conda")
    assert sources(url) == [("upstream", url)]
    assert sources(url, upstream=False) == []


def test_name_below_the_alias_reaches_its_own_base() -> None:
    """conda's alias for pkgs/main is the same channel as repo.anaconda.com's, and is not a further source."""
    url = "https://conda.anaconda.org/pkgs/main/linux-64/x.conda"
    assert TABLE.canonical(url) == "https://repo.anaconda.com/pkgs/main/linux-64/x.conda"
    assert [name for name, _ in sources(url)] == ["one", "upstream"]


def test_sources_stand_in_table_order_with_upstream_last() -> None:
    """Active mirrors in order, with their connection limit, then the canonical address; a retired one is not used."""
    assert sources("https://gone.example/pytorch/linux-64/a.conda") == [
        ("one", "https://one.example/anaconda/cloud/pytorch/linux-64/a.conda"),
        ("two", "http://127.0.0.1:8001/pt/linux-64/a.conda"),
        ("upstream", "https://conda.anaconda.org/pytorch/linux-64/a.conda"),
    ]
    assert [s.connections for s in TABLE.sources(RedactedUrl("https://conda.anaconda.org/pytorch/a"))] == [
        2,
        None,
        None,
    ]


def test_sources_can_be_limited() -> None:
    """--no-upstream drops the canonical address; --mirror keeps the named ones and nothing else."""
    url = "https://conda.anaconda.org/pytorch/a"
    assert [name for name, _ in sources(url, upstream=False)] == ["one", "two"]
    assert [name for name, _ in sources(url, only=frozenset({"two"}))] == ["two"]
    assert [name for name, _ in sources(url, only=frozenset({"two", "upstream"}))] == ["two", "upstream"]
    assert sources(url, only=frozenset({"nobody"})) == []


def test_pypi_file_is_known_by_its_layout() -> None:
    """A file of PyPI at an unknown host is served by the mirrors too; its given address stays a source."""
    url = f"https://index.example/some/packages/{DIGEST}/a.whl"
    assert TABLE.origin_of(url) == ("pypi:files", f"{DIGEST}/a.whl")
    assert sources(url + "#sha256=00") == [
        ("one", f"https://one.example/pypi/packages/{DIGEST}/a.whl"),
        ("given", url),
    ]
    assert [name for name, _ in sources(url, upstream=False)] == ["one"]
    based = TABLE.merge(MirrorTable({"pypi:files": "https://files.example/packages"}))
    assert [name for name, _ in sources(url, based)] == ["one", "given", "upstream"]
    assert [name for name, _ in sources(url, based, upstream=False)] == ["one", "given"]
    assert TABLE.origin_of(f"https://index.example/packages/ab/cd/{'0' * 59}/a.whl") is None


def test_no_address_comes_twice() -> None:
    """Two mirrors at one base, or a mirror at the canonical base, give one source."""
    base = "https://conda.anaconda.org/pytorch"
    table = TABLE.merge(MirrorTable({}, (Mirror("copy", carries={"conda:pytorch": base}),)))
    urls = [url for _, url in sources(base + "/a", table)]
    assert len(urls) == len(set(urls)) == 3
    assert table.canonical(base + "/a") == base + "/a"


def test_retired_mirrors_are_named() -> None:
    """A user who still has a mirror that is gone is told which; an active one is not retired."""
    assert TABLE.retired("http://gone.example/simple/").name == "gone"
    assert TABLE.retired("https://one.example/anaconda/pkgs/main") is None
    assert TABLE.retired("https://elsewhere.example/") is None


def test_merge_extends_by_name() -> None:
    """A user's entry of a known name adds and replaces origins in place; a new name comes last."""
    mine = MirrorTable(
        {"conda:mine": "https://conda.example/mine"},
        (
            Mirror("new", carries={"conda:mine": "https://new.example/mine"}),
            Mirror("one", connections=4, carries={"conda:pytorch": "https://one.example/pt"}),
            Mirror("gone", carries={"conda:pytorch": "https://back.example/pytorch"}),
        ),
    )
    merged = TABLE.merge(mine)
    assert [mirror.name for mirror in merged.mirrors] == ["one", "two", "gone", "new"]
    one = merged.mirrors[0]
    assert one.connections == 4
    assert one.carries["conda:pytorch"] == "https://one.example/pt"
    assert one.carries["conda:pkgs/main"] == "https://one.example/anaconda/pkgs/main"
    assert merged.mirrors[2].active
    assert merged.origins["conda:mine"] == "https://conda.example/mine"
    assert TABLE.merge(MirrorTable({})) == TABLE


def test_moved_origin_moves_the_alias() -> None:
    """Where a table gives a channel another canonical base, conda's usual address for it leads there."""
    table = MirrorTable({"conda:pytorch": "http://127.0.0.1:9/up"})
    assert table.canonical("https://conda.anaconda.org/pytorch/noarch/a") == "http://127.0.0.1:9/up/noarch/a"


CARRIED = [
    (mirror.name, origin, base) for mirror in SHIPPED.mirrors for origin, base in mirror.carries.items()
]  # of the shipped table
SEGMENT = st.text(
    st.characters(codec="ascii", categories=("L", "N"), include_characters="-_.+!~"), min_size=1, max_size=12
)
REST = st.lists(SEGMENT.filter(lambda s: s.strip(".") and s != "t"), max_size=4).map("/".join)


@given(st.sampled_from(CARRIED), REST)
def test_every_mirror_address_leads_home(carried: tuple[str, str, str], rest: str) -> None:
    """canonical(mirror's address) is canonical(origin's address) for whatever the shipped table says is carried."""
    _, origin, base = carried
    at_mirror = f"{base}/{rest}" if rest else base
    found = SHIPPED.origin_of(at_mirror)
    assert found == (origin, rest)
    home = SHIPPED.base_of(origin)
    if home is None:
        assert origin.startswith("pypi:")
        assert SHIPPED.canonical(at_mirror) == at_mirror
    else:
        at_home = f"{home}/{rest}" if rest else home
        assert SHIPPED.canonical(at_mirror) == SHIPPED.canonical(at_home) == at_home


@given(st.sampled_from(CARRIED), REST)
def test_sources_agree_whatever_address_was_given(carried: tuple[str, str, str], rest: str) -> None:
    """The sources of a file do not depend on which of its sources it was asked by, and none comes twice."""
    _, _, base = carried
    url = f"{base}/{rest}" if rest else base
    first = SHIPPED.sources(RedactedUrl(url))
    assert len({source.url.reveal() for source in first}) == len(first)
    for source in first:
        assert SHIPPED.sources(source.url) == first


@pytest.mark.parametrize("path", ["pytorch/../x", "a/%2E%2e/pytorch", "/pytorch", "a\\b", "./pytorch"])
def test_without_upstream_no_unclear_path_at_an_origin(path: str) -> None:
    """A path that a server may read as the origin's is nowhere without upstream; elsewhere the user's word counts."""
    url = f"https://conda.anaconda.org/{path}/linux-64/a.conda"
    assert sources(url, upstream=False) == []
    assert sources(url) == [("upstream", url)]
    other = f"https://other.example/{path}/linux-64/a.conda"
    assert sources(other, upstream=False) == [("upstream", other)]
