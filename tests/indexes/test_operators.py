"""Which mirrors are one witness: anything that says so counts, a key, a home or an address."""

from __future__ import annotations

from itertools import combinations

import pytest

from resume_dl.indexes.operators import independent, operators_of, site
from resume_dl.model.artifact import Source
from resume_dl.model.mirror import Mirror, MirrorTable
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.mirrors import load_mirrors

ORIGIN = "conda:lab"


def mirror(name: str, base: str, *, home: str = "", operator: str = "") -> Mirror:
    return Mirror(name, home=home, operator=operator, carries={ORIGIN: base})


def are_one(*mirrors: Mirror) -> bool:
    """Whether the first and the last of the table are one witness."""
    table = MirrorTable({ORIGIN: "https://origin.example/lab"}, mirrors)
    sources = [Source(each.name, RedactedUrl(each.carries[ORIGIN])) for each in (mirrors[0], mirrors[-1])]
    return independent([operators_of(source, table) for source in sources]) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (mirror("a", "https://a.example/lab", operator="Key"), mirror("b", "https://b.test/lab", operator="key")),
        # a user's own entry for a mirror of the table, which has a key
        (mirror("a", "https://mirrors.a.edu.cn/x", operator="k"), mirror("b", "https://mirrors.a.edu.cn/y")),
        (mirror("a", "https://mirrors.a.edu.cn/x", operator="k"), mirror("b", "https://pypi.a.edu.cn/y", operator="l")),
        (mirror("a", "https://a.example/x", home="https://b.test"), mirror("b", "https://cdn.b.test/y")),
        (mirror("a", "https://10.0.0.1:1/x", operator="k"), mirror("b", "https://10.0.0.1:2/y", operator="l")),
        (mirror("a", "http://127.0.0.1:1/x"), mirror("b", "http://localhost:2/x")),
        (mirror("a", "https://a.example./x"), mirror("b", "https://A.example/x")),
        (mirror("a", "https://b\u00fccher.example/x"), mirror("b", "https://xn--bcher-kva.example/x")),
        (mirror("a", "https://[::ffff:10.0.0.1]/x"), mirror("b", "https://10.0.0.1/x")),
        (mirror("a", "https://[2001:db8:0::1]/x"), mirror("b", "https://[2001:db8::1]/x")),
    ],
)
def test_one_operator(one, other):
    assert are_one(one, other)
    assert are_one(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (mirror("a", "https://mirrors.a.edu.cn/x"), mirror("b", "https://mirrors.b.edu.cn/x")),
        (mirror("a", "https://mirror.a.ac.uk/x"), mirror("b", "https://mirror.b.ac.uk/x")),
        (mirror("a", "https://a.github.io/x"), mirror("b", "https://b.github.io/x")),
        (mirror("a", "https://a.test/x", home="https://github.com/a"), mirror("b", "https://b.test", home="https://github.com/b")),
        (mirror("a", "https://one.s3.amazonaws.com/x"), mirror("b", "https://two.s3.amazonaws.com/x")),
        (mirror("a", "https://10.0.0.1/x"), mirror("b", "https://10.0.0.2/x")),
        # tunnels, whose ends their user knows
        (mirror("a", "http://127.0.0.1:1/x", operator="k"), mirror("b", "http://127.0.0.1:2/x", operator="l")),
    ],
)  # fmt: skip
def test_two_operators(one, other):
    assert not are_one(one, other)


def test_shared_marks_are_transitive():
    middle = mirror("m", "https://mirrors.b.test/x", home="https://a.test")
    assert are_one(mirror("a", "https://a.test/x"), middle, mirror("b", "https://b.test/x"))


def test_a_retired_mirror_counts_for_its_operator():
    former = Mirror("former", status="retired", operator="k", carries={"conda:old": "https://a.test/old"})
    assert are_one(mirror("a", "https://a.test/x"), former, mirror("b", "https://b.test/x", operator="k"))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("x.edu.cn", "x.edu.cn"), ("mirrors.x.edu.cn", "x.edu.cn"), ("a.b.example.com", "example.com"),
        ("edu.cn", "edu.cn"), ("localhost", "localhost"), ("10.1.2.3", "10.1.2.3"), ("fe80::1", "fe80::1"),
        ("a.pages.dev", "a.pages.dev"), ("com.example", "com.example"),
    ],
)  # fmt: skip
def test_sites(host, expected):
    assert site(host) == expected


def test_the_shipped_table():
    """TUNA, BFSU and USTC are one; the others one each."""
    table = load_mirrors()
    sources = {each.name: Source(each.name, RedactedUrl(next(iter(each.carries.values())))) for each in table.mirrors}
    active = [each.name for each in table.mirrors if each.active]
    one = {
        pair
        for pair in combinations(active, 2)
        if independent([operators_of(sources[name], table) for name in pair]) == 1
    }
    assert one == {("tuna", "ustc"), ("tuna", "bfsu"), ("ustc", "bfsu")}


def test_a_local_folder_is_its_own_operator():
    table = MirrorTable({ORIGIN: "file:///srv/lab"}, (mirror("a", "file:///mnt/lab"),))
    sources = [Source("upstream", RedactedUrl("file:///srv/lab")), Source("a", RedactedUrl("file:///mnt/lab"))]
    assert [operators_of(source, table) for source in sources] == [{"upstream"}, {"a"}]
    assert operators_of(sources[1], table, ["b.example"]) == {"a", "b.example"}


def test_how_many_answers_are_independent():
    a, b, c = frozenset("a"), frozenset("b"), frozenset("c")
    assert independent([]) == 0
    assert independent([a, a]) == 1
    assert independent([a | b, a, b]) == 2
    assert independent([a | b, b | c]) == 1
    assert independent([a, b, c, a]) == 3


def test_a_redirect_to_a_shared_host_may_be_any_customers() -> None:
    mirrors = (mirror("a", "https://github.com/evil/lab"), mirror("b", "https://b.example/lab"))
    table = MirrorTable({ORIGIN: "https://origin.example/lab"}, mirrors)
    one, other = (Source(each.name, RedactedUrl(each.carries[ORIGIN])) for each in mirrors)
    assert independent([operators_of(one, table), operators_of(other, table)]) == 2
    assert independent([operators_of(one, table), operators_of(other, table, ["github.com"])]) == 1
