"""Shard indexes and shards as values: what is taken, what is refused, and that refusing costs little."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from resume_dl.indexes.shards.closure import Closure
from resume_dl.indexes.shards.index import LARGEST_INDEX, parse_index
from resume_dl.indexes.shards.packed import BadShardsError
from resume_dl.indexes.shards.shard import LARGEST_SHARD, Shard, mentioned_names, parse_shard
from resume_dl.model.artifact import Source
from resume_dl.model.spec_name import name_of
from resume_dl.model.url import RedactedUrl
from support.shards import archives_of, filename_of, index_of, packed, record_of, shard_of

URL = "https://conda.example/forge/linux-64/repodata_shards.msgpack.zst"
DIGEST = hashlib.sha256(b"a shard").digest()
NUMPY = record_of("numpy", "1.26.4", ("python >=3.8,<3.9.0a0", "conda-forge::libblas 3.*[build=x]", "__glibc >=2.17"))


def refused(data: bytes, url: str = URL, subdir: str = "linux-64") -> str:
    with pytest.raises(BadShardsError) as error:
        parse_index(data, subdir=subdir, url=url)
    return str(error.value)


def refused_shard(data: bytes, name: str = "numpy") -> str:
    with pytest.raises(BadShardsError) as error:
        parse_shard(data, name=name)
    return str(error.value)


def members_of(shard: Shard, section: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(b"{" + shard.members[section] + b"}")
    return found


@pytest.mark.parametrize("spelt", [DIGEST, DIGEST.hex(), DIGEST.hex().upper(), list(DIGEST)])
def test_hashes_are_read_in_every_encoding(spelt: Any) -> None:
    index = parse_index(index_of({"numpy": spelt, "_libgcc_mutex": DIGEST}), subdir="linux-64", url=URL)
    assert index.digest_of("numpy") == DIGEST.hex()
    assert index.digest_of("scipy") is None


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("", "https://conda.example/forge/linux-64/"),
        ("./shards/", "https://conda.example/forge/linux-64/shards/"),
        ("shards", "https://conda.example/forge/linux-64/shards/"),
        ("../shards/", "https://conda.example/forge/shards/"),
        ("/shards/linux-64", "https://conda.example/shards/linux-64/"),
        ("https://conda.example/forge/linux-64/s/", "https://conda.example/forge/linux-64/s/"),
        ("https://cdn.example/x/", "https://cdn.example/x/"),
    ],
)
def test_shards_base_url_locates_shards(base: str, expected: str) -> None:
    index = parse_index(index_of({"numpy": DIGEST}, shards_base_url=base), subdir="linux-64", url=URL)
    login = {"authorization": "secret"}
    found = index.shards_of(Source("upstream", RedactedUrl(URL), headers=login)).shard(DIGEST.hex())
    assert found.url.reveal() == f"{expected}{DIGEST.hex()}.msgpack.zst"
    assert found.headers == ({} if "cdn" in expected else login), "a login goes to its own host only"


def test_shards_below_the_index_are_below_it_at_mirrors_too() -> None:
    absolute = index_of({"numpy": DIGEST}, shards_base_url="https://conda.example/forge/linux-64/s/")
    index = parse_index(absolute, subdir="linux-64", url=URL)
    mirror = Source("tuna", RedactedUrl("https://mirror.example/anaconda/forge/linux-64/repodata_shards.msgpack.zst"))
    assert index.shards_of(mirror).shard("ab").url.reveal() == (
        "https://mirror.example/anaconda/forge/linux-64/s/ab.msgpack.zst"
    )


@pytest.mark.parametrize(
    ("which", "where", "why"),
    [
        ("base_url", "file:///etc", "another scheme"),
        ("base_url", "http://conda.example/", "another scheme"),
        ("base_url", "ftp://conda.example/", "another scheme"),
        ("base_url", "http://127.0.0.1/", "another scheme"),
        ("base_url", "https://127.0.0.1/", "private network"),
        ("base_url", "https://169.254.169.254/latest/", "private network"),
        ("base_url", "https://[::1]/", "private network"),
        ("base_url", "//10.0.0.1/", "private network"),
        ("base_url", "../../etc/", "outside"),
        ("base_url", "%2e%2e/x", "outside"),
        ("base_url", "https://user:secret@conda.example/", "not a plain folder"),
        ("base_url", "https://cdn.example/?token=secret", "not a plain folder"),
        ("base_url", "https://[bad", "not a valid URL"),
        ("shards_base_url", "https://localhost/", "private network"),
        ("shards_base_url", "file:///etc/", "another scheme"),
        ("shards_base_url", "http://cdn.example/", "another scheme"),
        ("shards_base_url", "https://cdn.example:99999/", "not a valid URL"),
    ],
)
def test_addresses_that_leave_the_channel_are_refused(which: str, where: str, why: str) -> None:
    said = refused(index_of({"numpy": DIGEST}, **{which: where}))
    assert which in said
    assert why in said
    assert "secret" not in said


def test_a_private_channel_may_lead_to_private_places() -> None:
    data = index_of({"numpy": DIGEST}, base_url="http://10.0.0.2/x/")
    assert parse_index(data, subdir="linux-64", url="http://10.0.0.1/repodata_shards.msgpack.zst").base_url


@pytest.mark.parametrize(
    ("hashes", "why"),
    [
        ({"numpy": DIGEST[:31]}, "not a SHA-256"),
        ({"numpy": DIGEST + b"x"}, "not a SHA-256"),
        ({"numpy": DIGEST.hex()[:62]}, "not a SHA-256"),
        ({"numpy": "../../etc/passwd"}, "not a SHA-256"),
        ({"numpy": [300] * 32}, "not a SHA-256"),
        ({"numpy": ["a"] * 32}, "not a SHA-256"),
        ({"numpy": None}, "not a SHA-256"),
        ({"numpy": {"sha256": DIGEST}}, "not a SHA-256"),
        ({"../numpy": DIGEST}, "names the package"),
        ({"a/b": DIGEST}, "names the package"),
        ({"a\\b": DIGEST}, "names the package"),
        ({"a..b": DIGEST}, "names the package"),
        ({"a\nb": DIGEST}, "names the package"),
        ({"": DIGEST}, "names the package"),
        ({"a" * 256: DIGEST}, "names the package"),
    ],
)
def test_invalid_names_and_hashes_are_refused(hashes: dict[str, Any], why: str) -> None:
    assert why in refused(index_of(hashes))


def test_an_index_of_another_subdir_or_version_is_refused() -> None:
    assert "'noarch'" in refused(index_of({"numpy": DIGEST}, subdir="noarch"))
    assert "version is 2" in refused(index_of({"numpy": DIGEST}, version=2))
    assert "'linux-64'" in refused(index_of({"numpy": DIGEST}), subdir="noarch")


NESTED = [b"\x91" * 10**6 + b"\xc0", b"\x81\xa1a" * 10**6 + b"\xc0"]


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("key", ["info", "shards", "version", "else"])
def test_nesting_is_refused_in_an_index(nested: bytes, key: str) -> None:
    good = msgspec.msgpack.decode(zstandard.decompress(index_of({"numpy": DIGEST})))
    good.pop(key, None)
    body = msgspec.msgpack.encode(good)
    data = bytes([body[0] + 1]) + body[1:] + msgspec.msgpack.encode(key) + nested
    assert refused(zstandard.compress(data))


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("key", ["packages", "packages.conda", "removed", "v3", "else"])
def test_nesting_is_refused_in_a_shard(nested: bytes, key: str) -> None:
    data = zstandard.compress(b"\x81" + msgspec.msgpack.encode(key) + nested)
    assert refused_shard(data)
    with contextlib.suppress(BadShardsError):
        assert mentioned_names(data) == set()


@pytest.mark.parametrize("nested", NESTED)
def test_nesting_is_refused_in_a_record(nested: bytes) -> None:
    data = b"\x81\xa8packages\x81\xa9a.tar.bz2\x82\xa4name\xa5numpy\xa1x" + nested
    assert refused_shard(zstandard.compress(data))


WRONG = [None, 5, 1.5, True, "text", b"bytes", [], [1], {}, {"a": 1}, {1: 2}]


@given(st.sampled_from(["info", "shards", "version"]), st.sampled_from(WRONG))
def test_wrong_types_in_an_index_are_refused_or_harmless(key: str, wrong: Any) -> None:
    whole = msgspec.msgpack.decode(zstandard.decompress(index_of({"numpy": DIGEST})))
    try:
        index = parse_index(packed({**whole, key: wrong}), subdir="linux-64", url=URL)
    except BadShardsError:
        return
    assert all(isinstance(digest, bytes) and len(digest) == 32 for digest in index.hashes.values())


@given(
    st.sampled_from(["name", "depends", "md5", "sha256", "extra_depends", "constrains"]),
    st.sampled_from([*WRONG, [["numpy"]], [b"x"], [{}], {"a": 5}, {"a": [5]}, {"a": [[]]}]),
)
def test_wrong_types_in_a_record_are_refused_or_are_what_rattler_refuses(key: str, wrong: Any) -> None:
    data = packed({"packages.conda": {filename_of(NUMPY): {**NUMPY, key: wrong}}})
    try:
        shard = parse_shard(data, name="numpy")
    except BadShardsError:
        return
    assert all(isinstance(name, str) for name in shard.mentioned)


@given(st.sampled_from(["packages", "packages.conda", "removed", "v3"]), st.sampled_from(WRONG))
def test_wrong_types_in_a_shard_are_refused_or_empty(key: str, wrong: Any) -> None:
    try:
        shard = parse_shard(packed({key: wrong}), name="numpy")
    except BadShardsError:
        return
    assert not any(shard.members.values())


@given(st.binary(max_size=300), st.booleans())
def test_arbitrary_bytes_raise_only_the_documented_error(data: bytes, pack: bool) -> None:
    data = zstandard.compress(data) if pack else data
    for parse in (
        lambda: parse_index(data, subdir="linux-64", url=URL),
        lambda: parse_shard(data, name="numpy"),
        lambda: mentioned_names(data),
    ):
        with contextlib.suppress(BadShardsError):
            parse()


@given(st.data())
def test_a_flipped_byte_raises_only_the_documented_error(data: st.DataObject) -> None:
    plain = bytearray(zstandard.decompress(shard_of(archives_of(NUMPY))))
    at = data.draw(st.integers(0, len(plain) - 1))
    plain[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(BadShardsError):
        parse_shard(zstandard.compress(bytes(plain)), name="numpy")


@pytest.mark.parametrize(
    "filename", ["../numpy.conda", "a/b.conda", "a\\b.tar.bz2", "..", "con.conda", "a\x00.conda", "numpy-1-0.conda "]
)
def test_file_names_that_lead_elsewhere_are_refused(filename: str) -> None:
    assert "names the file" in refused_shard(packed({"packages.conda": {filename: dict(NUMPY)}}))


def test_a_shard_of_another_package_is_refused() -> None:
    assert "not only for scipy" in refused_shard(shard_of(archives_of(NUMPY)), name="scipy")


@pytest.mark.parametrize("wrong", [b"short", "00" * 31, "zz" * 32, 5, [256] * 32])
def test_digests_of_the_wrong_length_are_refused(wrong: Any) -> None:
    data = packed({"packages.conda": {filename_of(NUMPY): {**NUMPY, "sha256": wrong}}})
    assert "sha256" in refused_shard(data)


def test_a_record_is_what_repodata_json_has() -> None:
    more = {
        "legacy_bz2_md5": b"\x01\x02",
        "run_exports": {"weak": ["numpy"]},
        "sha256": list(DIGEST),
        "odd": [1.5, None],
    }
    shard = parse_shard(packed({"packages.conda": {filename_of(NUMPY): {**NUMPY, **more}}}), name="numpy")
    ((filename, record),) = members_of(shard, "packages.conda").items()
    expected = {**NUMPY, "legacy_bz2_md5": "0102", "sha256": DIGEST.hex(), "odd": [1.5, None]}
    assert filename == filename_of(NUMPY)
    assert record == expected
    assert list(record) == list(expected), "in the same order"


def test_a_shard_of_more_than_one_batch_has_all_its_records_in_the_order_of_their_names() -> None:
    """Records are converted in batches: here each batch has one, and one is removed."""
    records = [record_of("numpy", f"1.{number}", (f"dep{number}", "x" * 700_000)) for number in (3, 0, 2, 1)]
    data = shard_of(archives_of(*records), removed=[filename_of(records[2])])
    shard = parse_shard(data, name="numpy")
    found = members_of(shard, "packages.conda")
    assert list(found) == sorted(filename_of(each) for each in records if each is not records[2])
    assert [each["version"] for each in found.values()] == ["1.0", "1.1", "1.3"]
    assert {"dep0", "dep1", "dep3"} <= shard.mentioned
    assert "dep2" not in shard.mentioned


def test_removed_archives_are_left_out() -> None:
    other = record_of("numpy", "2.0", ("only-of-the-removed",))
    data = shard_of(archives_of(NUMPY, other), removed=[filename_of(other)])
    shard = parse_shard(data, name="numpy")
    assert list(members_of(shard, "packages.conda")) == [filename_of(NUMPY)]
    assert "only-of-the-removed" not in shard.mentioned
    assert mentioned_names(data) == {*shard.mentioned, "only-of-the-removed"}  # as conda follows them


def test_revision_3_is_read_with_its_extras() -> None:
    record = {**NUMPY, "extra_depends": {"test": ["pytest >=7; if python >=3.9"]}}
    data = packed({"v3": {"conda": {"numpy-1.26.4-h0_0": record}}})
    shard = parse_shard(data, name="numpy")
    assert shard.mentioned == mentioned_names(data) == {"python", "libblas", "__glibc", "pytest"}
    assert list(members_of(shard, "v3/conda")) == ["numpy-1.26.4-h0_0"]


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("numpy", "numpy"),
        ("NumPy >=1", "numpy"),
        ("numpy>=1,<2", "numpy"),
        ("numpy=1.2=py_0", "numpy"),
        ("conda-forge::numpy 1", "numpy"),
        ("conda-forge/linux-64::numpy=1", "numpy"),
        ("https://a.example/b::numpy", "numpy"),
        ("numpy[version='>=1',channel='a::b']", "numpy"),
        ("a.b-c_d 1", "a.b-c_d"),
        ("  numpy", "numpy"),
        ("numpy >=1; if python <3.9", "numpy"),
        ("_libgcc_mutex 0.1 main", "_libgcc_mutex"),
        ("", ""),
        ("*", ""),
        (">=3", ""),
    ],
)
def test_the_name_of_a_spec(spec: str, name: str) -> None:
    assert name_of(spec) == name


def test_a_closure_returns_each_name_once_and_pip_with_python() -> None:
    closure = Closure(add_pip=True)
    assert closure.add(["B", "a", "b"]) == ["a", "b"]
    assert closure.add(["python", "a"]) == ["pip", "python"]
    assert closure.add(["pip"]) == []
    assert closure.names == {"a", "b", "python", "pip"}
    assert Closure().add(["python"]) == ["python"]


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=4), max_size=8))
def test_a_closure_contains_all_added_names(rounds: list[list[str]]) -> None:
    closure = Closure()
    handed = [name for names in rounds for name in closure.add(names)]
    assert len(handed) == len(set(handed))
    assert set(handed) == closure.names == {name for names in rounds for name in names}


def _zeros() -> bytes:
    packer = zstandard.ZstdCompressor(1).compressobj()
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(2 << 10)) + packer.flush()


def _empty_lists(head: bytes, count: int) -> bytes:
    return zstandard.compress(head + b"\xdd" + count.to_bytes(4, "big") + b"\x90" * count, 1)


def _many(head: bytes, count: int) -> bytes:
    """A map of so many names, each of four characters."""
    digits = [bytes([high, low]) for high in range(128) for low in range(128)]
    members = (b"\xa4" + high + low + b"\xc0" for high in digits for low in digits)
    return zstandard.compress(head + count.to_bytes(4, "big") + b"".join(islice(members, count)), 1)


_INDEX_HEAD = b"\x83\xa7version\x01\xa4info\x81\xa6subdir\xa8linux-64\xa6shards"
BOMBS: dict[str, Callable[[], bytes]] = {
    "zeros": _zeros,
    "names": lambda: _many(_INDEX_HEAD + b"\xdf", 4_000_000),
    "lists for hashes": lambda: _empty_lists(_INDEX_HEAD + b"\x81\xa1a", 48 << 20),
    "lists in a record": lambda: _empty_lists(b"\x81\xa8packages\x81\xa7a.conda\x82\xa4name\xa5numpy\xa1x", 14 << 20),
    "lists for removed": lambda: _empty_lists(b"\x81\xa7removed", 14 << 20),
    "records": lambda: _many(b"\x81\xa8packages\xdf", 2_000_000),
}


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux")
def test_bombs_cost_little_memory(tmp_path: Path) -> None:
    """Refused one after the other by a process that does nothing else: at no time 300 MiB more than before."""
    for name, made in BOMBS.items():
        (tmp_path / name).write_bytes(made())
    code = f"""
import pathlib, resource, sys
from resume_dl.indexes.shards.index import parse_index
from resume_dl.indexes.shards.packed import BadShardsError
from resume_dl.indexes.shards.shard import parse_shard
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sorted(pathlib.Path({str(tmp_path)!r}).iterdir()):
    data = path.read_bytes()
    for parse in (lambda: parse_index(data, subdir="linux-64", url={URL!r}), lambda: parse_shard(data, name="numpy")):
        try:
            parse()
        except BadShardsError:
            continue
        sys.exit(f"{{path.name}} was taken")
    print(path.name, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    grown = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in done.stdout.splitlines()}
    assert len(grown) == len(BOMBS)
    assert max(grown.values()) < 300, grown


def test_sizes_are_bounded_on_both_sides() -> None:
    assert "exceeds the limit" in refused(os.urandom(LARGEST_INDEX + 1))
    assert "exceeds the limit" in refused_shard(os.urandom(LARGEST_SHARD + 1))
    assert "exceeds the limit" in refused_shard(zstandard.compress(bytes(LARGEST_SHARD + 1)))
    assert "100001 entries" in refused_shard(_many(b"\x81\xa8packages\xdf", 100_001))
    assert "500001 entries" in refused(_many(_INDEX_HEAD + b"\xdf", 500_001))
    whole = shard_of(archives_of(NUMPY))
    assert "truncated" in refused_shard(whole[:-3])
    assert re.search("unpacked|truncated", refused_shard(b""))
