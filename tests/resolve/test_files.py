"""@EXPLICIT lists, environment.yml, conda's history, and what can be told of a repodata file."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard

from resume_dl import zstd_frames
from resume_dl.errors import ConfigurationError, IntegrityError, InvalidSpecError
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve import repodata
from resume_dl.resolve.environment_file import read_environment_file
from resume_dl.resolve.explicit import is_explicit, parse_explicit, parse_line, write_explicit
from resume_dl.resolve.installed import read_installed
from resume_dl.resolve.repodata import find_record, newest_timestamp, unpack_zst, unpack_zst_bytes
from resume_dl.resolve.specs import channels_of_specs, split_spec
from support import records
from support.records import record

MD5, SHA256 = "0123456789abcdef" * 2, "0123456789abcdef" * 4


def artifact(**fields):
    base = "https://conda.anaconda.org/pytorch/linux-64"
    fields.setdefault("filename", "pytorch-1.7.1-py3.8_cpu_0.tar.bz2")
    return Artifact(kind="conda", url=RedactedUrl(f"{base}/{fields['filename']}"), subdir="linux-64", **fields)


def test_a_list_has_the_urls_that_the_users_conda_requests():
    """The client's address without its login; md5 where known (conda 24 reads no other), sha256 only alone."""
    client = RedactedUrl("https://u:p@m.example/t/secret/pytorch/linux-64/pytorch-1.7.1-py3.8_cpu_0.tar.bz2")
    text = write_explicit(
        [
            artifact(md5=MD5, sha256=SHA256, client_url=client),
            artifact(filename="a-1-0.conda", sha256=SHA256),
            artifact(filename="b-1-0.conda"),
        ],
        platform="linux-64",
    )
    assert is_explicit(text)
    assert text.splitlines()[-5:] == [
        "# platform: linux-64",
        "@EXPLICIT",
        f"https://m.example/pytorch/linux-64/pytorch-1.7.1-py3.8_cpu_0.tar.bz2#{MD5}",
        f"https://conda.anaconda.org/pytorch/linux-64/a-1-0.conda#sha256:{SHA256}",
        "https://conda.anaconda.org/pytorch/linux-64/b-1-0.conda",
    ]


def test_digests_are_written_as_conda_reads_them():
    """conda 26 takes 64 digits without a word before them as well."""
    url = "https://m.example/pytorch/noarch/a-1-0.conda"
    assert parse_line(f"{url}#{SHA256}").sha256 == SHA256
    assert parse_line(f"{url}#sha256:{SHA256}").sha256 == SHA256
    assert parse_line(f"{url}#{MD5}").md5 == MD5
    assert parse_line(url).digest is None
    with pytest.raises(InvalidSpecError, match="the address: '0123' is not a digest"):
        parse_line(f"{url}#0123")


def test_a_list_is_read_back():
    """Name, version, build, subdir, digest and both addresses; no size."""
    text = (
        f"# c\n@EXPLICIT\n\nhttps://m.example/cloud/pytorch/linux-64/py-torch-1.7.1-py3.8_cpu_0.tar.bz2#{MD5.upper()}\n"
    )
    text += f"https://m.example/cloud/pytorch/noarch/a-1-0.conda#sha256:{SHA256}\nfile:///x/noarch/b-1-0.conda\n"
    swap = str.maketrans({})
    first, second, third = parse_explicit(
        text, canonical=lambda url: url.translate(swap).replace("m.example/cloud", "conda.anaconda.org")
    )
    assert (first.name, first.version, first.build, first.subdir) == ("py-torch", "1.7.1", "py3.8_cpu_0", "linux-64")
    assert (first.md5, first.sha256, first.size) == (MD5, None, None)
    assert str(first.url) == "https://conda.anaconda.org/pytorch/linux-64/py-torch-1.7.1-py3.8_cpu_0.tar.bz2"
    assert str(first.client_url) == "https://m.example/cloud/pytorch/linux-64/py-torch-1.7.1-py3.8_cpu_0.tar.bz2"
    assert first.client_channel == "https://m.example/cloud/pytorch/linux-64"
    assert (second.sha256, second.md5) == (SHA256, None)
    assert third.digest is None


@pytest.mark.parametrize(
    "line",
    [
        "numpy=1.19",
        "https://x.example/linux-64/..%2f..%2fa-1-0.conda",
        "https://x.example/linux-64/a-1-0.zip",
        "https://x.example/linux-64/a-1-0.conda#abc",
        "ftp://x.example/linux-64/a-1-0.conda",
        "https://u:hunter2@x.example/linux-64/nonsense",
    ],
)
def test_a_bad_line_is_named(line):
    """The line's number and the part refused, without secrets; nothing with a path in its name passes."""
    with pytest.raises(InvalidSpecError, match="line 2") as caught:
        parse_explicit(f"@EXPLICIT\n{line}\n")
    assert "hunter2" not in caught.value.message
    with pytest.raises(ConfigurationError, match="no @EXPLICIT"):
        parse_explicit(line)


def test_environment_yml(tmp_path):
    """Channels, conda's and pip's dependencies; another form is refused with the file's name."""
    path = tmp_path / "environment.yml"
    path.write_text("name: e\nchannels: [pytorch, nodefaults]\ndependencies:\n- pytorch=1.7\n- pip:\n  - tqdm==4\n")
    found = read_environment_file(path)
    assert (found.name, found.channels, found.specs, found.pip) == (
        "e",
        ("pytorch", "nodefaults"),
        ("pytorch=1.7",),
        ("tqdm==4",),
    )
    for text in ("- a", "dependencies: a", "dependencies: [{conda: x}]", "channels: [1]", "a: [", "dependencies: [1]"):
        path.write_text(text)
        with pytest.raises(ConfigurationError, match=r"environment\.yml"):
            read_environment_file(path)
    with pytest.raises(ConfigurationError, match="cannot read"):
        read_environment_file(tmp_path / "nosuch.yml")


def test_history_as_conda_reads_it(tmp_path):
    """A later spec of a name replaces an earlier one, removal forgets it, old and new forms of the list are read."""
    meta = tmp_path / "conda-meta"
    meta.mkdir()
    (meta / "history").write_text(
        "==> 2017 <==\n# update specs: a, b 1.*\n"
        "==> 2021 <==\n# update specs: [\"conda-forge::a[version='>=2']\", 'c']\n# remove specs: ['b']\n"
        "# update specs: [broken\n"
    )
    (meta / "not-a-record.json").write_text("{}")
    found = read_installed(tmp_path)
    assert found.history == ("conda-forge::a[version='>=2']", "c")
    assert found.records == ()


def test_the_newest_record(tmp_path):
    """Timestamps come in milliseconds and, in old records, in seconds; none is 0; no file is an integrity error."""
    path = records.write(
        tmp_path / "r.json", [record("a", "1", timestamp=1607375946777), record("b", "1", timestamp=1)]
    )
    assert newest_timestamp(path) == 1607375946.777
    old = records.write(tmp_path / "old.json", [record("a", "1", timestamp=1500000000)])
    assert newest_timestamp(old) == 1500000000.0
    assert newest_timestamp(records.write(tmp_path / "none.json", [])) == 0.0
    (tmp_path / "empty.json").write_bytes(b"")
    for name in ("empty.json", "nosuch.json"):
        with pytest.raises(IntegrityError):
            newest_timestamp(tmp_path / name)


def test_one_record_of_an_index(tmp_path):
    """As the whole file would give it; not what else has its name, nor one without a digest."""
    every = json.loads(records.PYTORCH.read_text())
    name, expected = next(iter(every["packages"].items()))
    assert find_record(records.PYTORCH, name) == expected
    assert find_record(records.PYTORCH, name[1:]) is None
    path = tmp_path / "repodata.json"
    document = {
        "removed": ["a-1-0.conda", "b-1-0.conda"],
        "signatures": {"a-1-0.conda": {"0123": {"signature": "4567"}}},
        "packages.conda": {"a-1-0.conda": {"md5": MD5, "summary": 'x "b-1-0.conda": {}'}, "c-1-0.conda": {"size": 3}},
    }
    path.write_text(json.dumps(document, indent=1))
    assert find_record(path, "a-1-0.conda") == document["packages.conda"]["a-1-0.conda"]
    assert find_record(path, "b-1-0.conda") is None
    assert find_record(path, "c-1-0.conda") is None
    for text in ('{"a-1-0.conda": {"md5": "0', ""):
        path.write_text(text)
        with pytest.raises(IntegrityError):
            find_record(path, "a-1-0.conda")


@pytest.mark.parametrize(("wrong", "is_found"), [(99, True), (400_000, False)])
def test_duplicate_keys_of_a_file_name_are_read_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: int, is_found: bool
) -> None:
    """Each look decodes up to a MiB: 400,000 took hours."""
    parsed = 0

    class Counted(json.JSONDecoder):
        def raw_decode(self, s: str, idx: int = 0) -> Any:
            nonlocal parsed
            parsed += 1
            assert parsed <= 100
            return super().raw_decode(s, idx)

    monkeypatch.setattr(repodata.json, "JSONDecoder", Counted)
    path = tmp_path / "repodata.json"
    right = {"sha256": "a" * 64}
    keys = ['"a-1-0.conda":{}'] * wrong + [f'"a-1-0.conda":{json.dumps(right)}']
    path.write_text('{"packages.conda":{' + ",".join(keys) + "}}", encoding="utf-8")
    assert find_record(path, "a-1-0.conda") == (right if is_found else None)
    assert parsed == 100


@pytest.fixture(params=["backports.zstd", "zstandard"])
def zstd_library(request, monkeypatch):
    """Each of the libraries that unpack zstd, alone."""
    if request.param != "zstandard" and sys.version_info >= (3, 14):
        pytest.skip("this Python has compression.zstd")
    imported = zstd_frames.import_module

    def only(name):
        if name != request.param:
            raise ImportError(name)
        return imported(name)

    monkeypatch.setattr(zstd_frames, "import_module", only)
    zstd_frames._library.cache_clear()
    yield
    zstd_frames._library.cache_clear()


@pytest.mark.usefixtures("zstd_library")
def test_zst(tmp_path):
    """A .zst is unpacked, also of several frames; a cut, foreign or empty one is an integrity error."""
    text = records.PYTORCH.read_bytes()
    packed = tmp_path / "repodata.json.zst"
    packed.write_bytes(zstandard.compress(text))
    assert unpack_zst(packed, tmp_path / "repodata.json") == len(text)
    assert (tmp_path / "repodata.json").read_bytes() == text
    packed.write_bytes(zstandard.compress(text[:5000]) + zstandard.compress(text[5000:]))
    assert unpack_zst(packed, tmp_path / "repodata.json") == len(text)
    for data in (zstandard.compress(text)[:-100], b"<html>", b""):
        packed.write_bytes(data)
        with pytest.raises(IntegrityError):
            unpack_zst(packed, tmp_path / "repodata.json")
    assert unpack_zst_bytes(zstd_frames.compress(text, 3), largest=len(text)) == text
    with pytest.raises(IntegrityError, match="exceeds the limit"):
        unpack_zst_bytes(zstd_frames.compress(text, 3), largest=len(text) - 1)


@pytest.mark.usefixtures("zstd_library")
def test_a_window_that_would_fill_the_memory_is_refused():
    """A frame's header names its window: 1 GiB costs that much memory before a byte is unpacked."""

    def frame(window_log: int) -> bytes:
        """Magic number, descriptor without a size, window, one raw block of one byte (RFC 8878 3.1.1)."""
        return bytes.fromhex("28b52ffd00") + bytes([(window_log - 10) << 3]) + bytes.fromhex("090000") + b"x"

    assert unpack_zst_bytes(frame(27), largest=1) == b"x"
    with pytest.raises(IntegrityError, match="cannot be unpacked"):
        unpack_zst_bytes(frame(30), largest=1)


def test_without_a_library_the_message_says_how_to_install_one(monkeypatch):
    monkeypatch.setattr(zstd_frames, "import_module", importlib.import_module)
    zstd_frames._library.cache_clear()
    for name in (*zstd_frames.STANDARD, zstd_frames.OTHER):
        monkeypatch.setitem(sys.modules, name, None)
    try:
        assert not zstd_frames.is_available()
        with pytest.raises(ConfigurationError, match=r"backports\.zstd, which unpacks zstd files, is not installed"):
            unpack_zst_bytes(b"", largest=1)
    finally:
        zstd_frames._library.cache_clear()


@pytest.mark.parametrize(
    ("spec", "text", "channel", "subdir", "name"),
    [
        ("numpy", "numpy", None, None, "numpy"),
        ("conda-forge::NumPy>=1", "NumPy>=1", "conda-forge", None, "numpy"),
        ("conda-forge/linux-64::numpy", "numpy", "conda-forge", "linux-64", "numpy"),
        ("https://x.example/a/b::numpy=1", "numpy=1", "https://x.example/a/b", None, "numpy"),
        ("numpy[channel=conda-forge]", "numpy", "conda-forge", None, "numpy"),
        ("numpy[channel='conda-forge', build=x]", "numpy[build=x]", "conda-forge", None, "numpy"),
        ('numpy[build=x,channel="a/b"]', "numpy[build=x]", "a/b", None, "numpy"),
        ("numpy[build=x,channel=a,version=1]", "numpy[build=x,version=1]", "a", None, "numpy"),
    ],
)
def test_specs_and_their_channels(spec, text, channel, subdir, name):
    """A spec is parted from its channel in every form; what else it says stays."""
    parts = split_spec(spec)
    assert (parts.text, parts.channel, parts.subdir, parts.name) == (text, channel, subdir, name)
    assert channels_of_specs((spec, spec)) == ((channel,) if channel else ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: *a29\ndependencies: []\n", "name is not a text"),
        ("dependencies: [x, *a29]\n", "entry 2 of dependencies is not a text"),
        (f"dependencies: [0x{'9' * 5000}]\n", "entry 1 of dependencies is not a text"),
        ("? [*a0]\n: 1\n", "is not valid YAML"),
    ],
)
def test_an_environment_yml_of_aliases_of_aliases(tmp_path, text, said):
    """No message writes out lists of 10^30 texts, or a number of more digits than Python writes."""
    aliases = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)]
    path = tmp_path / "environment.yml"
    path.write_text("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(aliases) + text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        read_environment_file(path)
    assert said in str(caught.value)
