"""No token, no password and no path of the machine that makes a bundle stands in any of its files, or is shown."""

from __future__ import annotations

import os

import pytest

from resume_dl.bundle_creation.public_text import public, public_url
from resume_dl.model.url import RedactedUrl
from support.bundles import Maker, archives_of, build_world, by_path, has_no_secret, manifest, sums_hold

pytestmark = [pytest.mark.nginx, pytest.mark.skipif(os.name == "nt", reason="symbolic links")]
TOKEN = "t0kenT0KENt0ken"
PASSWORD = "pa55w0rdPA55"
SECRET = "S3CRETinQUERY"
LINUX_64 = ("--platform", "linux-64")
WIN = ("--platform", "win-64")


@pytest.fixture
def private(nginx_mirrors, tmp_path):
    """Somebody whose channel wants a token and whose index a password."""
    world = build_world(tmp_path / "world")
    tokens = world.root / "t" / TOKEN
    tokens.parent.mkdir()
    tokens.symlink_to(world.root)
    nginx = nginx_mirrors([world.root])
    nginx.change(0, login=f"me:{PASSWORD}")
    maker = Maker(tmp_path / "maker", nginx)
    maker.options = ["--give-up-after", "20s", "--mirrors", str(maker.write_mirrors({}))]
    host = nginx.base().replace("http://", f"http://me:{PASSWORD}@")
    maker.index = f"{host}/simple/"
    channels = [f"{host}/t/{TOKEN}/{name}" for name in ("pytorch", "pkgs/main")]
    return maker, channels


def looked_through(maker, done):
    """Nothing secret in what was written and said; the bundle is whole."""
    assert done.code == 0, done.err
    assert has_no_secret(maker.out, TOKEN, PASSWORD, maker.folder, maker.home) == []
    for secret in (TOKEN, PASSWORD):
        assert secret not in done.out + done.err
    assert sums_hold(maker.out)
    assert maker.run("bundle", "verify", maker.out).code == 0


def test_on_the_command_line(private):
    """Channels and an index with a login, a requirement by its address."""
    maker, (pytorch, main) = private
    direct = maker.index.replace("/simple/", "/built/colorama-0.4.6-py3-none-any.whl")
    wanted = ("pytorch", "-c", pytorch, "-c", main, "--override-channels", "--pip", "demo-app", *WIN)
    looked_through(maker, maker.create(*wanted, "--pip", f"colorama @ {direct}", "--json", "--verbose"))
    assert len(archives_of(maker.out)) > 7
    assert len(manifest(maker.out)["request"]["channels"]) == 2


def test_in_files(private):
    """In environment.yml, requirements.txt and lists; a spec that names its channel by its address."""
    maker, (pytorch, main) = private
    maker.condarc["channels"] = [main]
    environment = maker.folder / "environment.yml"
    environment.write_text(
        f"name: lab\nprefix: {maker.folder}/env\nchannels: ['{pytorch}', '{main}']\n"
        f"dependencies:\n  - '{main}::mkl'\n  - python\n  - pip:\n      - --index-url {maker.index}\n      - tqdm\n"
    )
    requirements = maker.folder / "requirements.txt"
    requirements.write_text(f"--extra-index-url {maker.index}\nfast\n")
    looked_through(maker, maker.create("--file", environment, "--file", requirements, *WIN))
    lists = maker.folder / "list.txt"
    mkl = next(each for each in manifest(maker.out)["packages"] if each["name"] == "mkl")
    lists.write_text(f"# platform: win-64\n@EXPLICIT\n{main}/win-64/mkl-2020.2-256.conda#{mkl['md5']}\n")
    looked_through(maker, maker.create("--file", lists))


def test_packages_of_local_folders(private, tmp_path):
    """A channel and wheels out of folders: their paths mean nothing elsewhere."""
    maker, _ = private
    root = tmp_path / "world"
    wanted = ("mkl", "--pip", "tqdm", "--find-links", str(root / "built"), "--python", "3.8")
    done = maker.create(*wanted, "-c", str(root / "pkgs" / "main"), "--override-channels", *WIN)
    assert done.code == 0, done.err
    assert has_no_secret(maker.out, tmp_path) == []
    looked_through(maker, done)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("numpy >=1.11,<2 *mkl", "numpy >=1.11,<2 *mkl"),
        ("tqdm>=4; sys_platform == 'win32'", "tqdm>=4; sys_platform == 'win32'"),
        ("conda-forge/label/x::y", "conda-forge/label/x::y"),
        ("https://host.example/a/b", "https://host.example/a/b"),
        ("https://me:secret@host.example/t/token/x::mkl", "https://***@host.example/t/***/x::mkl"),
        ("file:///home/me/my channel/main::mkl", "main::mkl"),
        ("foo @ file:///home/me/foo-1.0-py3-none-any.whl", "foo @ foo-1.0-py3-none-any.whl"),
        ("/home/me/main/", "main"),
        ("../main", "main"),
        ("~/channels/main", "main"),
        (r"C:\Users\me\main", "main"),
        ("file:///C:/Users/me/main", "main"),
    ],
)
def test_texts(text, shown):
    """Logins are hidden, and of places on this machine all but their names."""
    assert public(text) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://host.example/a.whl?x=1", "https://host.example/a.whl"),
        ("https://host.example/a.whl?sig=secret&x=1", "https://host.example/a.whl"),
        ("https://me:secret@host.example/t/token/a.conda", "https://host.example/a.conda"),
        ("file:///home/me/a.conda", ""),
    ],
)
def test_addresses(url, shown):
    """An address goes without what only its user has."""
    assert public_url(RedactedUrl(url)) == shown


def test_a_secret_in_any_query(maker):
    """A query may hold a secret under any name: it stands in no file of the bundle, whatever asked for it."""
    place = maker.index.replace("/simple/", "/built/").replace("http://", "http://me:pa55w0rd@")
    asked = maker.folder / "requirements.txt"
    asked.write_text(f"colorama @ {place}colorama-0.4.6-py3-none-any.whl?x={SECRET}\n")
    wanted = f"tqdm @ {place}tqdm-4.66.0-py3-none-any.whl?x={SECRET}#egg={SECRET}"
    done = maker.create("mkl", "--pip", wanted, "--file", asked, "--python", "3.8", *LINUX_64)
    assert done.code == 0, done.err
    assert has_no_secret(maker.out, SECRET, "pa55w0rd") == []
    assert manifest(maker.out)["request"]["pip"] == [public(wanted)]
    found = by_path(maker.out)["wheels/tqdm-4.66.0-py3-none-any.whl"]
    assert found["url"].endswith("/built/tqdm-4.66.0-py3-none-any.whl")
    assert found["requested_by"] == [public(wanted)]
    assert sums_hold(maker.out)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"tqdm @ http://h.example/x.whl?x={SECRET}", "tqdm @ http://h.example/x.whl"),
        (f"a @ http://h.example/x.whl?x={SECRET} ; os_name == 'nt'", "a @ http://h.example/x.whl ; os_name == 'nt'"),
        (f"a @ https://h.example/x.whl?{SECRET}#sha256=0af&egg={SECRET}", "a @ https://h.example/x.whl#sha256=0af"),
        (f"a @ https://h.example/x.whl?x=1&sha256=0af#{SECRET}", "a @ https://h.example/x.whl"),
        (f"https://h.example/it's my/channel?x='{SECRET}", "https://h.example/it's my/channel"),
        (f"https://h.example/channel?x={SECRET}::mkl >=2", "https://h.example/channel::mkl >=2"),
        (f"git+https://h.example/r.git@v1?x={SECRET}", "git+https://h.example/r.git@v1"),
        (f"foo @ file:///home/me/foo.whl?x={SECRET}", "foo @ foo.whl"),
        ("mkl >=2  # why?", "mkl >=2  # why?"),
    ],
)
def test_texts_with_queries(text, shown):
    """The whole query goes, and of a fragment all but a digest."""
    assert public(text) == shown


def test_an_address_with_a_query():
    """It leads nowhere without its query, and nobody can tell whether that is a secret."""
    assert public_url(RedactedUrl(f"https://h.example/a.whl?x={SECRET}#{SECRET}")) == "https://h.example/a.whl"
