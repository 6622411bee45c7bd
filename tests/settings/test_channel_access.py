"""Which channels may be used, which want a login, and what of a login goes where."""

from __future__ import annotations

import json
import subprocess
from urllib.parse import quote_plus

import pytest

from resume_dl.model.access import Access
from resume_dl.model.channel_rules import EVERY_CHANNEL, ChannelRules
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.mirror import Mirror, MirrorTable
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.channel_access import channel_access, channel_rules, read_anaconda_tokens
from resume_dl.settings.mirrors import load_mirrors
from resume_dl.transfer.source_places import Places
from settings.users_machine import Machine
from support.conda_env import TestConda

TABLE = MirrorTable(
    {"conda:pkgs/main": "https://repo.anaconda.com/pkgs/main"},
    (
        Mirror(
            "one", carries={"conda:forge": "https://one.example/cloud/forge", "pypi:files": "https://one.example/p"}
        ),
        Mirror("two", carries={"conda:forge": "https://two.example/forge"}),
    ),
)
FORGE = "https://conda.anaconda.org/forge"
FILE = "linux-64/a-1-0.conda"


def rules(allowed: tuple[str, ...] = (), denied: tuple[str, ...] = (), **settings: object) -> ChannelRules:
    conda = CondaSettings(allowlist_channels=allowed, denylist_channels=denied, **settings)
    return channel_rules(conda, TABLE)


def sources(url: str, **options: object) -> list[tuple[str, str, dict[str, str]]]:
    found = Places(TABLE, **options).of(RedactedUrl(url))
    return [(source.mirror, source.url.reveal(), dict(source.headers)) for source in found]


def names(url: str, **options: object) -> list[str]:
    return [mirror for mirror, _, _ in sources(url, **options)]


def test_without_lists_every_channel_may_be_used() -> None:
    """Two empty lists are no rule, and a list of one denies nothing else."""
    assert rules() == EVERY_CHANNEL
    assert names(f"{FORGE}/{FILE}", rules=rules(denied=("other",))) == ["one", "two", "upstream"]


def test_a_denied_place_is_no_source() -> None:
    """Each place counts by its own address, whether it is a mirror or the channel's own."""
    for denied, left in {
        "https://one.example/cloud/forge": ["two", "upstream"],
        "https://ONE.example:443/cloud/forge/": ["two", "upstream"],
        "forge": ["one", "two"],
        f"{FORGE}/label/x": ["one", "two", "upstream"],
        "https://one.example/cloud": ["one", "two", "upstream"],
    }.items():
        for name in (FILE, "noarch/repodata.json.zst"):
            assert names(f"{FORGE}/{name}", rules=rules(denied=(denied,))) == left, denied


def test_only_allowed_places_are_sources() -> None:
    """A mirror of an allowed channel is not allowed by that; a denied one is not, even if it is allowed."""
    two = "https://two.example/forge"
    assert names(f"{FORGE}/{FILE}", rules=rules(("forge",))) == ["upstream"]
    assert names(f"{FORGE}/{FILE}", rules=rules((two,))) == ["two"]
    assert names(f"{FORGE}/{FILE}", rules=rules((two, "forge"), (two,))) == ["upstream"]
    assert names(f"{FORGE}/label/dev/{FILE}", rules=rules(("forge",))) == []


def test_what_is_no_channels_is_not_touched() -> None:
    """Wheels are no channel's files; an address that no origin claims has one place, which somebody named."""
    wheel = "https://files.example/packages/ab/cd/" + "0" * 60 + "/a.whl"
    assert names(wheel, rules=rules(("forge",))) == ["one", "given"]
    assert names(f"https://h.example/x/{FILE}", rules=rules(("forge",))) == ["upstream"]


def test_names_in_the_lists_are_conda_s_names() -> None:
    """``defaults``, custom channels and logins in the settings stand for addresses without a login."""
    found = rules(
        ("defaults", "mine"), custom_channels={"mine": RedactedUrl("https://me:s3cret@corp.example/t/s3cret/repo")}
    )
    assert "s3cret" not in repr(found)
    assert found.permit_channel(RedactedUrl("https://you:pw@corp.example/repo/mine"))
    assert found.permit_channel(RedactedUrl("https://repo.anaconda.com/pkgs/main"))
    assert found.permit_channel(RedactedUrl("https://repo.anaconda.com/pkgs/msys2"))
    assert not found.permit_channel(RedactedUrl("https://corp.example/repo/mine2"))


VALIDATE = """
import json, sys
from conda.base.context import context, reset_context
reset_context()
from conda.exceptions import CondaError
try:
    from conda.base.context import validate_channels as check
except ImportError:
    from conda.core.index import check_allowlist as check
def allowed(channel):
    try:
        check([channel])
    except CondaError:
        return False
    return True
print(json.dumps({name: allowed(name) for name in json.load(sys.stdin)}))
"""
ASKED = [
    "https://conda.anaconda.org/forge", "https://conda.anaconda.org/forge/label/x", "https://one.example/cloud/forge",
    "https://repo.anaconda.com/pkgs/r", "https://me:pw@corp.example/repo/mine", "https://corp.example/t/tk-1/repo/mine",
    "https://corp.example/repo/mine2", "https://two.example/forge", "http://two.example/forge", "file:///srv/ch",
    "file:///srv/other",
]  # fmt: skip


@pytest.mark.conda
def test_a_real_conda_decides_alike(test_conda: TestConda) -> None:
    """For every address of a channel our rules say what conda says."""
    allowed = ["forge", "defaults", "mine", "https://two.example/forge", "file:///srv/ch"]
    denied = ["https://two.example/forge"] if test_conda.version() >= (25,) else []
    custom = {"mine": "https://me:s3cret@corp.example/repo"}
    test_conda.configure(allowlist_channels=allowed, denylist_channels=denied, custom_channels=custom)
    test_conda.configure(default_channels=None)
    done = subprocess.run(
        [test_conda.python, "-c", VALIDATE],
        input=json.dumps(ASKED),
        capture_output=True,
        text=True,
        env=test_conda.environment(),
        check=True,
    )
    custom_channels = {name: RedactedUrl(place) for name, place in custom.items()}
    found = rules(tuple(allowed), tuple(denied), custom_channels=custom_channels)
    assert {url: found.permit_channel(RedactedUrl(url)) for url in ASKED} == json.loads(done.stdout)


# --- logins -----------------------------------------------------------------------------------------------------------


def test_headers_go_to_their_own_place_alone() -> None:
    """What a client adds for one address is sent there, and never to a mirror."""
    url = f"{FORGE}/{FILE}"
    login = {"X-Auth": "s3cret"}
    assert sources(url, access=lambda url: Access(url, login)) == [
        ("one", f"https://one.example/cloud/forge/{FILE}", {}),
        ("two", f"https://two.example/forge/{FILE}", {}),
        ("upstream", url, login),
    ]
    assert sources(url, access=lambda url: Access(url, login, private=True)) == [("upstream", url, login)]
    assert "s3cret" not in repr(Places(TABLE, access=lambda url: Access(url, login)).of(RedactedUrl(url)))
    assert "s3cret" not in repr(Access(RedactedUrl(url), login))


def test_a_hosts_token_goes_to_that_host(machine: Machine) -> None:
    """What anaconda-client keeps is added for its host, as conda does; the channel's mirrors are asked without it."""
    machine.env["BINSTAR_CONFIG_DIR"] = str(machine.home)
    for address in ("https://api.anaconda.org", "https://corp.example", "https://x.example/api"):
        machine.write(f"data/{quote_plus(address)}.token", "tk-s3cret\n")
    machine.write("data/notes.txt", "nothing")
    assert set(read_anaconda_tokens(machine.env)) == {
        "https://api.anaconda.org", "https://conda.anaconda.org", "https://corp.example", "https://x.example/api",
        "https://x.example/conda",
    }  # fmt: skip
    access = channel_access(CondaSettings(), TABLE, machine.env)
    assert "s3cret" not in repr(access)
    assert [place[:2] for place in sources(f"{FORGE}/{FILE}", access=access)] == [
        ("one", f"https://one.example/cloud/forge/{FILE}"),
        ("two", f"https://two.example/forge/{FILE}"),
        ("upstream", f"https://conda.anaconda.org/t/tk-s3cret/forge/{FILE}"),
    ]
    for url, asked in {
        f"https://corp.example/ch/{FILE}": f"https://corp.example/t/tk-s3cret/ch/{FILE}",
        f"https://corp.example/conda/ch/{FILE}": f"https://corp.example/conda/t/tk-s3cret/ch/{FILE}",
        f"https://x.example/conda/ch/{FILE}": f"https://x.example/conda/t/tk-s3cret/ch/{FILE}",
        f"https://corp.example/t/other/ch/{FILE}": f"https://corp.example/t/other/ch/{FILE}",
        f"https://corp.example.evil/ch/{FILE}": f"https://corp.example.evil/ch/{FILE}",
        "https://me:pw@corp.example/a.conda": "https://me:pw@corp.example/a.conda",
    }.items():
        assert access(RedactedUrl(url)).url.reveal() == asked
    off = channel_access(CondaSettings(add_anaconda_token=False), TABLE, machine.env)
    assert off(RedactedUrl(f"{FORGE}/{FILE}")) == Access(RedactedUrl(f"{FORGE}/{FILE}"))


def test_no_tokens_are_none(machine: Machine) -> None:
    """Nobody has to have anaconda-client; a folder or a file that cannot be read is none either."""
    machine.env["BINSTAR_CONFIG_DIR"] = str(machine.home)
    assert read_anaconda_tokens(machine.env) == {}
    (machine.write("data/x", "").parent / "folder.token").mkdir()
    assert read_anaconda_tokens(machine.env) == {}


@pytest.mark.parametrize("channel", ["forge", FORGE, "https://conda.anaconda.org/for*", "https://conda.*/forge/*"])
def test_a_channel_with_a_plugins_login_has_one_place(machine: Machine, channel: str) -> None:
    """``channel_settings`` with ``auth`` names it, by name, address or pattern; nobody else is asked for it."""
    machine.env["BINSTAR_CONFIG_DIR"] = str(machine.home)
    settings = ({"channel": channel, "auth": "corp"}, {"channel": "pkgs/main", "auth": " "})
    access = channel_access(CondaSettings(channel_settings=settings), TABLE, machine.env)
    assert names(f"{FORGE}/{FILE}", access=access) == ["upstream"]
    for other in ("https://conda.anaconda.org/other", "https://repo.anaconda.com/pkgs/main", "http://x.example/forge"):
        assert not access(RedactedUrl(f"{other}/{FILE}")).private


@pytest.mark.conda
def test_a_real_conda_adds_the_same_token(machine: Machine, test_conda: TestConda) -> None:
    """conda's own session asks for the same address."""
    machine.env["BINSTAR_CONFIG_DIR"] = str(machine.home)
    for address in ("https://api.anaconda.org", "https://corp.example"):
        machine.write(f"data/{quote_plus(address)}.token", "tk-s3cret")
    test_conda.configure(default_channels=None)
    urls = [
        f"{FORGE}/{FILE}", f"https://corp.example/conda/ch/{FILE}", f"https://corp.example/deep/ch/{FILE}",
        f"https://else.example/ch/{FILE}", f"https://corp.example/t/tk-2/ch/{FILE}",
    ]  # fmt: skip
    code = (
        "import json, sys\nfrom conda.base.context import reset_context\nreset_context()\n"
        "from conda.gateways.connection.session import CondaHttpAuth\n"
        "print(json.dumps([CondaHttpAuth.add_binstar_token(url) for url in json.load(sys.stdin)]))"
    )
    done = subprocess.run(
        [test_conda.python, "-c", code],
        input=json.dumps(urls),
        capture_output=True,
        text=True,
        env=test_conda.environment({"BINSTAR_CONFIG_DIR": machine.env["BINSTAR_CONFIG_DIR"]}),
        check=True,
    )
    access = channel_access(CondaSettings(), load_mirrors(), machine.env)
    assert [access(RedactedUrl(url)).url.reveal() for url in urls] == json.loads(done.stdout)
