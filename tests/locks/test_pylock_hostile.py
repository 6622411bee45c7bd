"""pylock.toml as an attacker writes it: refused with exit code 2 and what is wrong, before anything is fetched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.resolve.pylock import read_lock
from support.fetching import User

SHA = "b" * 64
URL = "https://files.example/demo-1.0-py3-none-any.whl"
HEAD = 'lock-version = "1.0"\ncreated-by = "x"\n'


def lock(url: str = URL, hashes: str = f'{{sha256 = "{SHA}"}}', more: str = "", name: str = "demo") -> str:
    text = f'{HEAD}[[packages]]\nname = "{name}"\nversion = "1.0"\n'
    return f'{text}[[packages.wheels]]\nurl = "{url}"\nhashes = {hashes}\n{more}\n'


def read(folder: Path, text: str):
    path = folder / "pylock.toml"
    path.write_text(text, encoding="utf-8")
    return read_lock(path, platform="linux-64", python="3.11")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lock(hashes=f'{{sha256 = "{SHA[1:]}"}}'), "demo, hashes: not a sha256 digest"),
        (lock(hashes='{sha256 = ""}'), "demo, hashes: not a sha256 digest"),
        (lock(hashes=f'{{sha256 = "{SHA}", sha512 = "zz"}}'), "not a sha512 digest"),
        (lock(hashes='{sha512 = "zz"}'), "not a sha512 digest"),
        (lock(hashes=f'{{md5 = "{SHA}"}}'), "not a md5 digest"),
        (lock(hashes='{evil = "x"}'), "no digest that can be compared"),
        (lock(hashes='{shake_128 = "00"}'), "no digest that can be compared"),
        (lock(hashes=f'{{sha256 = "{"a" * 300_000}"}}'), r"not a sha256 digest.*\(300,0\d\d characters\)"),
        (lock(more="size = -1"), "demo, size: is not a size"),
        (lock(more="size = 9000000000000000000000"), "demo, size: is not a size"),
        (lock(more=f"size = 0x{'9' * 5000}"), "demo, size: is not a size"),
        (lock(more=f"size = {'9' * 5000}"), "is not valid TOML"),
        (f"{HEAD}x = {'[' * 100_000}", "is not valid TOML"),
        (f"{HEAD}x = {'{a=' * 50_000}", "is not valid TOML"),
        (lock(name="x" * 100_000), r"not a valid lock file: .*characters\)"),
        (lock(url="https://files.example:x/demo-1.0-py3-none-any.whl"), "demo, url: is not a URL"),
        (lock(url="https://files.example:99999/demo-1.0-py3-none-any.whl"), "demo, url: is not a URL"),
        (lock(url=r"https://files.example\u0000/demo-1.0-py3-none-any.whl"), "another place"),
        (lock(url=r"https://files.example\u0009/demo-1.0-py3-none-any.whl"), "another place"),
        (lock(url=r"https://files.example/\u007f/demo-1.0-py3-none-any.whl"), "another place"),
        (lock(url="https://files.example/../demo-1.0-py3-none-any.whl"), "another place"),
        (lock(url="file:////server/demo-1.0-py3-none-any.whl"), "another place"),
        (lock(url=f"https://files.example/{'x' * 9000}/demo-1.0-py3-none-any.whl"), "more than servers accept"),
        (lock(url="ftp://me:hush@host/demo-1.0-py3-none-any.whl"), "scheme is 'ftp'"),
        (lock(url="https://me:hush@[host/demo-1.0-py3-none-any.whl"), "not a valid lock file"),
        (lock(more='name = "demo-1.0-1_..\\\\x-py3-none-any.whl"'), "unsafe file name"),
    ],
)
def test_a_hostile_one_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        read(tmp_path, text)
    assert caught.value.exit_code == 2
    assert len(caught.value.message) < 600 + len(str(tmp_path))
    assert "hush" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("kind", ["sha256", "sha512", "sha3_256", "blake2b", "md5"])
def test_every_digest_of_pythons_own_is_taken(tmp_path: Path, kind: str) -> None:
    """In either case; one of an algorithm that Python lacks beside it is left out."""
    import hashlib

    value = hashlib.new(kind, b"x", usedforsecurity=False).hexdigest()
    (artifact,) = read(tmp_path, lock(hashes=f'{{{kind} = "{value.upper()}", evil = "x"}}')).artifacts
    assert artifact.record["hashes"] == {kind: value}
    assert artifact.record["allowed"] == [f"{kind}:{value}"]


def test_fetch_ends_with_one_line_and_writes_nothing(tmp_path: Path) -> None:
    """A number that Python does not print and a digest of 63 digits were internal errors."""
    user = User(tmp_path / "user")
    path = tmp_path / "pylock.toml"
    for text in (lock(hashes=f'{{sha256 = "{SHA[1:]}"}}'), lock(more=f"size = {'9' * 5000}")):
        path.write_text(text, encoding="utf-8")
        done = user.run("fetch", "--platform", "linux-64", "--file", path, "--wheel-dir", tmp_path / "wheels")
        assert done.code == 2, done.err
        assert "Traceback" not in done.err
        assert not (tmp_path / "wheels").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX alone has pipes by name")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pylock.toml"
    os.mkfifo(path)
    with pytest.raises(ConfigurationError, match=r"cannot read .*pylock\.toml"):
        read_lock(path, platform="linux-64", python="3.11")
