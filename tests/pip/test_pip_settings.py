"""pip.conf, pip.ini and PIP_*: what they come to, held against the real pip."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.model.network import NetworkSettings
from resume_dl.model.pip import PipIndexes, PipSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.settings import pip_find, pip_settings
from resume_dl.settings.pip_find import default_index, find_python
from resume_dl.settings.pip_network import pip_network
from resume_dl.settings.pip_settings import load_pip_settings, pip_files
from settings.users_machine import Machine

PROGRAMS = "Scripts" if os.name == "nt" else "bin"

PIP_SAYS = """
import json, sys
from pip._internal.commands import create_command
said = create_command(sys.argv[1]).parser.get_default_values()
names = "index_url extra_index_urls find_links no_index trusted_hosts proxy cert client_cert timeout constraints "
names += "keyring_provider no_input"
print(json.dumps({name: getattr(said, name) for name in names.split()}))
"""
SCENES = {
    "nothing": ({}, {}),
    "user": ({"home/.config/pip/pip.conf": "[global]\nindex-url = https://one.example/simple\ntimeout = 60\n"}, {}),
    "lists": (
        {
            "home/.config/pip/pip.conf": "[global]\nextra-index-url =\n    https://a.example/s\n    https://b.example/s\n"
            "find-links = https://c.example/f.html https://d.example/\ntrusted_host = a.example b.example:8443\n"
        },
        {},
    ),
    "legacy, then the new one": (
        {
            "home/.pip/pip.conf": "[global]\nindex-url = https://old.example/s\nproxy = http://old.example:1\n",
            "home/.config/pip/pip.conf": "[global]\nindex-url = https://new.example/s\n",
        },
        {},
    ),
    "system, user, environment": (
        {
            "etc/pip/pip.conf": "[global]\nindex-url = https://sys.example/s\n"
            "proxy = http://sys.example:1\ncert = /s.pem\n",
            "home/.config/pip/pip.conf": "[global]\nproxy = http://user.example:1\ncert = ~/u.pem\n",
            "venv/pip.conf": "[global]\ncert = /v.pem\n",
        },
        {},
    ),
    "a section beats a file": (
        {
            "etc/pip/pip.conf": "[install]\nindex-url = https://section.example/s\n",
            "home/.config/pip/pip.conf": "[global]\nindex-url = https://global.example/s\n",
            "venv/pip.conf": "[list]\nindex-url = https://never.example/s\n",
        },
        {},
    ),
    "variables beat all": (
        {"venv/pip.conf": "[install]\nindex-url = https://file.example/s\nextra-index-url = https://gone.example/s\n"},
        {
            "PIP_INDEX_URL": "https://env.example/s",
            "PIP_EXTRA_INDEX_URL": "https://x.example/s  https://y.example/s",
            "PIP_DEFAULT_TIMEOUT": "100",
            "PIP_TRUSTED_HOST": "env.example",
            "PIP_CLIENT_CERT": "~/me.pem",
            "PIP_CONSTRAINT": "/c/one.txt /c/two.txt",
        },
    ),
    "an empty variable says nothing": (
        {"home/.config/pip/pip.conf": "[global]\nindex-url = https://file.example/s\n"},
        {"PIP_INDEX_URL": ""},
    ),
    "an empty option hides one with less say": (
        {
            "etc/pip/pip.conf": "[global]\nindex-url = https://sys.example/s\n",
            "home/.config/pip/pip.conf": "[global]\nindex-url =\n",
        },
        {},
    ),
    "a named file takes the user's place": (
        {
            "home/.config/pip/pip.conf": "[global]\nindex-url = https://user.example/s\nproxy = http://user.example:1\n",
            "venv/pip.conf": "[global]\nindex-url = https://venv.example/s\n",
            "named.conf": "[global]\nindex-url = https://named.example/s\n",
        },
        {"PIP_CONFIG_FILE": "{folder}/named.conf"},
    ),
    "a named file that is not there": (
        {"home/.config/pip/pip.conf": "[global]\nindex-url = https://user.example/s\n"},
        {"PIP_CONFIG_FILE": "{folder}/none.conf"},
    ),
    "no files": (
        {"home/.config/pip/pip.conf": "[global]\nindex-url = https://user.example/s\n"},
        {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "yes"},
    ),
    "another home for settings": (
        {"elsewhere/pip/pip.conf": "[global]\n--index_url = https://xdg.example/s\nno-index = false\n"},
        {"XDG_CONFIG_HOME": "{folder}/elsewhere"},
    ),
    "a keyring": (
        {"etc/pip/pip.conf": "[global]\nkeyring-provider = import\nno-input = true\n"},
        {"PIP_KEYRING_PROVIDER": "subprocess"},
    ),
    "aliases": (
        {"home/.config/pip/pip.conf": "[global]\npypi-url = https://alias.example/s\ndefault-timeout = 7\n"},
        {"PIP_TIMEOUT": "8"},
    ),
}


@pytest.fixture(scope="session")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment whose pip is that of the tests' own Python: none is installed into it."""
    if not find_python({}).has_pip:
        pytest.skip("the tests' own Python has no pip")
    folder = tmp_path_factory.mktemp("venvs") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder


def pip_says(venv: Path, env: dict[str, str], command: str = "install") -> dict[str, object]:
    """What the real pip, run in ``venv``, takes for its defaults."""
    import pip

    program = f"import sys; sys.path.append({str(Path(pip.__file__).parents[1])!r})\n{PIP_SAYS}"
    python = venv / ("Scripts" if os.name == "nt" else "bin") / "python"
    done = subprocess.run([python, "-c", program, command], env=env, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def ours(found: PipSettings, venv: Path, env: dict[str, str]) -> dict[str, object]:
    indexes = found.indexes
    return {
        "index_url": indexes.index_url.reveal() if indexes.index_url else default_index(find_python(env), env).reveal(),
        "extra_index_urls": [url.reveal() for url in indexes.extra],
        "find_links": [link.reveal().rstrip("/") for link in indexes.find_links if isinstance(link, RedactedUrl)],
        "no_index": indexes.no_index,
        "trusted_hosts": [*indexes.trusted_hosts],
        "proxy": found.proxy and found.proxy.reveal(),
        "cert": found.cert and str(found.cert),
        "client_cert": found.client_cert and str(found.client_cert),
        "timeout": 15 if found.timeout is None else found.timeout,
        "constraints": [str(path) for path in found.constraints],
        "keyring_provider": found.keyring_provider,
        "no_input": found.no_input,
    }


@pytest.fixture
def real_machine(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """With the settings of this very system, which the real pip reads whatever the environment says."""
    monkeypatch.setattr(pip_settings, "_ETC", Path("/etc"))
    return machine


@pytest.mark.parametrize("scene", SCENES)
def test_the_real_pip_understands_the_same(real_machine: Machine, venv: Path, scene: str) -> None:
    """Every source of settings, each over the other, as the pip at hand combines them."""
    machine = real_machine
    files, variables = SCENES[scene]
    site = venv / pip_settings.BASENAME
    try:
        for place, text in files.items():
            file = site if place.startswith("venv/") else machine.folder / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        machine.env |= {name: value.format(folder=machine.folder) for name, value in variables.items()}
        theirs = pip_says(venv, machine.env)
        theirs["find_links"] = [str(link).rstrip("/") for link in theirs["find_links"]]
        for name in ("cert", "client_cert"):
            theirs[name] = theirs[name] and str(Path(str(theirs[name])).absolute())
        theirs["constraints"] = [str(Path(str(path)).absolute()) for path in theirs["constraints"]]
        assert ours(load_pip_settings(machine.env, prefix=venv), venv, machine.env) == theirs
    finally:
        site.unlink(missing_ok=True)


def test_the_real_pip_looks_in_the_same_files(real_machine: Machine, venv: Path) -> None:
    """``pip config debug`` names them, in an order of its own."""
    import pip

    machine = real_machine
    machine.env |= {"XDG_CONFIG_DIRS": f"{machine.folder}/etc:/opt/other", "PIP_CONFIG_FILE": "/none.conf"}
    program = (
        f"import sys; sys.path.append({str(Path(pip.__file__).parents[1])!r}); from pip._internal.cli.main import main"
    )
    line = [venv / PROGRAMS / "python", "-c", f"{program}; main(['config', 'debug'])"]
    shown = subprocess.run(line, env=machine.env, check=True, capture_output=True, text=True).stdout
    theirs = [Path(line.split(", ")[0].strip()).absolute() for line in shown.splitlines() if ", exists: " in line]
    assert sorted(pip_files(machine.env, prefix=venv)) == sorted(theirs)


def test_each_option_names_its_origin(machine: Machine) -> None:
    """A file's path or a variable's name: for a message about a retired mirror."""
    file = machine.write(".config/pip/pip.conf", "[global]\nindex-url = https://a.example/s\nproxy = http://p:1\n")
    machine.env["PIP_PROXY"] = "http://q:1"
    found = load_pip_settings(machine.env)
    assert found.origins == {"index-url": str(file), "proxy": "PIP_PROXY"}
    assert found.files == (file,)


def test_paths_and_addresses(machine: Machine) -> None:
    """find-links may be a folder (``~`` too) or a ``file:`` address; an index that is a folder gets its address."""
    page = (machine.folder / "a page.html").as_uri()
    machine.env |= {"PIP_FIND_LINKS": f"~/wheels {page} https://h.example/x.html", "PIP_INDEX_URL": "/srv/simple/"}
    found = load_pip_settings(machine.env).indexes
    assert found.find_links == (
        machine.home / "wheels",
        machine.folder / "a page.html",
        RedactedUrl("https://h.example/x.html"),
    )
    assert found.index_url == RedactedUrl(Path("/srv/simple").absolute().as_uri())


def test_download_counts_too_and_install_counts_more(machine: Machine) -> None:
    """Both sections are about us, who fetch what pip will install."""
    machine.write(
        ".config/pip/pip.conf",
        "[download]\nindex-url = https://down.example/s\npre = yes\n[install]\nindex-url = https://in.example/s\n",
    )
    found = load_pip_settings(machine.env).indexes
    assert (str(found.index_url), found.pre) == ("https://in.example/s", True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("index-url = https://me:hush@h.example/s\n", "line 1"),
        ("[global]\nhush\n", "line 2"),
        ("[global]\nproxy = http://me:hush@a\nproxy = http://me:hush@b\n", "line 3"),
        ("[global]\ntimeout = hush\n", "timeout"),
        ("[global]\nno-index = hush\n", "no-index"),
        ("[global]\nindex-url = https://me:hush@[bad/s\n", "index-url"),
        ("[global]\nextra-index-url = https://me:hush@[bad/s\n", "extra-index-url"),
        ("[global]\nfind-links = https://me:hush@[bad/s\n", "find-links"),
    ],
)
def test_a_file_that_pip_refuses_is_named_and_not_quoted(machine: Machine, text: str, said: str) -> None:
    """Exit code 2, the line's number or the option, and no password."""
    file = machine.write(".config/pip/pip.conf", text)
    with pytest.raises(ConfigurationError) as caught:
        load_pip_settings(machine.env)
    assert str(file) in caught.value.message
    assert said in caught.value.message
    assert "hush" not in caught.value.message + caught.value.hint + repr(caught.value)
    assert caught.value.__cause__ is None


def test_no_password_in_what_is_printed(machine: Machine) -> None:
    """repr and str of the settings."""
    url = "https://me:hush@h.example/s"
    machine.env |= {f"PIP_{name}": url for name in ("INDEX_URL", "EXTRA_INDEX_URL", "FIND_LINKS", "PROXY")}
    found = load_pip_settings(machine.env)
    assert found.indexes.index_url == RedactedUrl(url)
    assert "hush" not in repr(found) + str(found)


# --------------------------------------------------------------------------- which pip, which index


def test_the_active_environment_is_meant(machine: Machine, venv: Path, tmp_path: Path) -> None:
    """VIRTUAL_ENV or CONDA_PREFIX; of two, the one that stands first on PATH; nothing active: a Python with pip."""
    other = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", other], check=True)
    machine.env |= {"VIRTUAL_ENV": str(venv), "CONDA_PREFIX": str(other)}
    assert find_python(machine.env).prefix == venv
    machine.env["PATH"] = os.pathsep.join([str(other / PROGRAMS), str(venv / PROGRAMS), "/usr/bin"])
    found = find_python(machine.env)
    assert (found.prefix, found.version, found.has_pip) == (other, ".".join(map(str, sys.version_info[:2])), False)
    machine.env |= {"CONDA_PREFIX": str(tmp_path / "gone"), "VIRTUAL_ENV": ""}
    assert find_python(machine.env).executable == Path(sys.executable)


def test_the_default_index_is_pips_own(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one from the settings; and a folder named pip in the current one is not run."""
    (tmp_path / "here" / "pip").mkdir(parents=True)
    (tmp_path / "here" / "pip" / "__init__.py").touch()
    (tmp_path / "here" / "pip" / "__main__.py").write_text("print('--index-url x (default https://trap.example/s)')")
    monkeypatch.chdir(tmp_path / "here")
    python = find_python(machine.env)
    if not python.has_pip:
        pytest.skip("the tests' own Python has no pip")
    from pip._internal.models.index import PyPI

    machine.env |= {"PIP_INDEX_URL": "https://set.example/s", "PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://set.example/s\n", encoding="utf-8")
    assert default_index(python, machine.env).reveal() == PyPI.simple_url


def test_uv_is_asked_first_and_without_both_the_user_is_told(machine: Machine) -> None:
    """uv's help in its own words; the hint names --index-url."""
    lines = "--default-index <X>\n   The default package index (by\n   default: <https://i.example/simple>) [env: X=]"
    uv = machine.program("uv", f"cat <<'END'\n{lines}\nEND")
    assert default_index(None, machine.env, uv=uv) == RedactedUrl("https://i.example/simple")
    with pytest.raises(ConfigurationError) as caught:
        default_index(None, machine.env)
    assert "--index-url" in caught.value.hint


def test_the_real_uv_says_the_same_as_pip(machine: Machine) -> None:
    """Both name the index that everybody knows."""
    uv = pytest.importorskip("uv")
    python = find_python(machine.env)
    if not python.has_pip:
        pytest.skip("the tests' own Python has no pip")
    assert default_index(None, machine.env, uv=Path(uv.find_uv_bin())) == default_index(python, machine.env)


def test_a_python_that_cannot_start_is_passed_over(machine: Machine, tmp_path: Path) -> None:
    """Broken, or another program of that name."""
    for number, body in enumerate(("exit 1", "echo hello")):
        broken = tmp_path / f"broken{number}" / "bin" / "python"
        broken.parent.mkdir(parents=True)
        broken.write_text(f"#!/bin/sh\n{body}\n")
        broken.chmod(0o755)
        machine.env["VIRTUAL_ENV"] = str(broken.parents[1])
        assert find_python(machine.env).executable == Path(sys.executable)
    assert pip_find.without_settings({"UV_INDEX": "x", "pip_index_url": "y", "A": "b"})["A"] == "b"


# --------------------------------------------------------------------------- the network


def test_pips_network_settings_take_precedence(tmp_path: Path) -> None:
    """Proxy for every host, certificates replaced, trusted hosts by name, patience only ever longer."""
    cert, client = tmp_path / "ca.pem", tmp_path / "me.pem"
    cert.touch()
    client.touch()
    base = NetworkSettings(
        proxies={"https": "http://env:1"}, no_proxy=("h.example",), verify=tmp_path, system_store=True
    )
    pip = PipSettings(proxy=RedactedUrl("socks5://127.0.0.1:1087"), cert=cert, client_cert=client, timeout=6000)
    found = pip_network(base, pip, PipIndexes(trusted_hosts=("h.example",)))
    assert found.proxy_for("https://h.example/x") == "socks5://127.0.0.1:1087"
    assert (found.verify, found.system_store, found.client_cert) == (cert, False, client)
    assert found.trusts("https://h.example/x")
    assert not base.trusts("https://h.example/x")
    assert found.first_byte_timeout == 120
    assert pip_network(base, PipSettings(timeout=1), PipIndexes()) == base
    assert pip_network(base, PipSettings(proxy=RedactedUrl("h:1")), PipIndexes()).proxies == {"all": "http://h:1"}


def test_condas_disabled_certificate_checks_do_not_apply_to_pip() -> None:
    """``ssl_verify: false`` in a condarc is about channels."""
    assert pip_network(NetworkSettings(verify=False), PipSettings(), PipIndexes()).verify is True


def test_a_certificate_that_is_not_there_is_named(machine: Machine) -> None:
    """With the variable or file that names it."""
    machine.env["PIP_CERT"] = str(machine.folder / "none.pem")
    with pytest.raises(ConfigurationError, match=r"PIP_CERT names .*none\.pem"):
        pip_network(NetworkSettings(), load_pip_settings(machine.env), PipIndexes())


@pytest.mark.parametrize(
    ("url", "trusted"),
    [
        ("https://H.example/x", True),
        ("https://h.example:8443/x", True),
        ("https://a.h.example/x", False),
        ("https://p.example:8443/x", True),
        ("https://p.example/x", False),
        ("https://s.example/x", True),
        ("https://[::1]:5/x", True),
        ("https://h.example.evil/x", False),
    ],
)
def test_a_trusted_host_is_that_host_alone(url: str, trusted: bool) -> None:
    """By name at every port, or at one; no domain below it."""
    trusting = NetworkSettings(trusted_hosts=("h.example", "P.example:8443", "s.example:443", "[::1]"))
    assert trusting.trusts(url) is trusted


@pytest.mark.parametrize(
    ("url", "protected"),
    [
        ("http://h.example/s", False),
        ("HTTP://h.example/s", False),
        ("https://h.example/s", True),
        ("http://t.example:8080/s", True),
        ("http://127.0.0.1:8080/s", True),
        ("http://localhost/s", True),
        ("http://[::1]/s", True),
        ("http://127.example/s", False),
        ("file:///srv/simple", True),
    ],
)
def test_plain_http_is_for_this_machine_and_trusted_hosts(url: str, protected: bool) -> None:
    """Whoever sits between could name other files; the real pip ignores such an index, and says so."""
    one = RedactedUrl(url)
    for indexes in (PipIndexes(index_url=one), PipIndexes(extra=(one,)), PipIndexes(find_links=(one,))):
        said = indexes.then(PipIndexes(trusted_hosts=("t.example",)))
        assert said.unprotected() == (() if protected else (one,))
    session = pytest.importorskip("pip._internal.network.session").PipSession(trusted_hosts=["t.example"])
    link = pytest.importorskip("pip._internal.models.link").Link(url)
    assert session.is_secure_origin(link) is protected


def test_macos_locations_of_pip_settings(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Application Support if it is there, else ~/.config (pip.pypa.io, "Configuration"); XDG counts for nothing."""
    monkeypatch.setattr(pip_settings.sys, "platform", "darwin")
    machine.env["XDG_CONFIG_HOME"] = "/never"
    legacy, plain = machine.home / ".pip" / "pip.conf", machine.home / ".config" / "pip" / "pip.conf"
    system = Path("/Library/Application Support/pip/pip.conf")
    assert pip_files(machine.env) == (system, legacy, plain)
    support = machine.home / "Library" / "Application Support" / "pip"
    support.mkdir(parents=True)
    assert pip_files(machine.env) == (system, legacy, support / "pip.conf")
