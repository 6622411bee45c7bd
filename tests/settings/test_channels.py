"""Channel names to addresses, as conda does it, and back to their origins."""

from __future__ import annotations

from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.channels import expand_channels, requested_channels
from resume_dl.settings.mirrors import load_mirrors

TABLE = load_mirrors()
TUNA = "https://mirrors.tuna.tsinghua.edu.cn/anaconda"
PLAIN = CondaSettings(subdir="linux-64")
MIRRORED = CondaSettings(
    default_channels=(RedactedUrl(f"{TUNA}/pkgs/main"), RedactedUrl(f"{TUNA}/pkgs/r")),
    custom_channels={
        "conda-forge": RedactedUrl(f"{TUNA}/cloud"),
        "nvidia": RedactedUrl(f"{TUNA}/cloud"),
        "private": RedactedUrl("https://user:s3cret@conda.corp.example/repo"),
        "tokened": RedactedUrl("https://conda.corp.example/t/s3cret"),
    },
    custom_multichannels={"both": (RedactedUrl(f"{TUNA}/cloud/conda-forge"), RedactedUrl("https://h.example/x"))},
)


def expanded(*names: str, conda: CondaSettings = PLAIN, **options: object) -> list[tuple[str, str | None, str, str]]:
    return [
        (channel.name, channel.origin, channel.canonical_base.reveal(), channel.client_base.reveal())
        for channel in expand_channels(names, conda, TABLE, **options)
    ]


def test_plain_names() -> None:
    """Without settings a name is a channel below conda's alias, which is its origin too."""
    base = "https://conda.anaconda.org/"
    assert expanded("pytorch", "somebody/label/dev") == [
        ("pytorch", "conda:pytorch", base + "pytorch", base + "pytorch"),
        ("somebody/label/dev", "conda:somebody", base + "somebody/label/dev", base + "somebody/label/dev"),
    ]


def test_defaults_become_their_members() -> None:
    """``defaults`` is conda's own pair, the condarc's default_channels where set, and has msys2 for Windows."""
    assert [row[:2] for row in expanded("defaults")] == [
        ("pkgs/main", "conda:pkgs/main"),
        ("pkgs/r", "conda:pkgs/r"),
    ]
    assert expanded("defaults", conda=MIRRORED)[0] == (
        "pkgs/main",
        "conda:pkgs/main",
        "https://repo.anaconda.com/pkgs/main",
        f"{TUNA}/pkgs/main",
    )
    assert [row[0] for row in expanded("defaults", subdirs=("win-64", "noarch"))] == [
        "pkgs/main",
        "pkgs/r",
        "pkgs/msys2",
    ]
    assert {channel.group for channel in expand_channels(["defaults"], PLAIN, TABLE)} == {"defaults"}


def test_mirror_in_the_condarc_is_mapped_back() -> None:
    """A custom channel at a known mirror keeps conda's address for the cache and has its origin's for the rest."""
    (forge,) = expand_channels(["conda-forge"], MIRRORED, TABLE)
    assert forge.origin == "conda:conda-forge"
    assert str(forge.file_url("linux-64", "a.conda")) == "https://conda.anaconda.org/conda-forge/linux-64/a.conda"
    assert str(forge.client_file_url("linux-64", "a.conda")) == f"{TUNA}/cloud/conda-forge/linux-64/a.conda"
    assert str(forge.client_subdir_url("noarch")) == f"{TUNA}/cloud/conda-forge/noarch"
    assert expanded("nvidia", conda=MIRRORED)[0][1:3] == ("conda:nvidia", "https://conda.anaconda.org/nvidia")


def test_leading_part_of_a_name_finds_its_custom_channel() -> None:
    """custom_channels' place counts for names below it, the longest first; the whole name is put below the place."""
    conda = CondaSettings(
        custom_channels={"a": RedactedUrl("https://one.example"), "a/b": RedactedUrl("https://two.example")}
    )
    assert [row[3] for row in expanded("a/x", "a/b/c", "ab", conda=conda)] == [
        "https://one.example/a/x",
        "https://two.example/a/b/c",
        "https://conda.anaconda.org/ab",
    ]


def test_channel_alias() -> None:
    """A name that nothing else knows goes below channel_alias; a mirror there is mapped back."""
    conda = CondaSettings(channel_alias=RedactedUrl(f"{TUNA}/cloud"))
    assert expanded("bioconda", "unheard", conda=conda) == [
        ("bioconda", "conda:bioconda", "https://conda.anaconda.org/bioconda", f"{TUNA}/cloud/bioconda"),
        ("unheard", None, f"{TUNA}/cloud/unheard", f"{TUNA}/cloud/unheard"),
    ]


def test_multichannel() -> None:
    """A multichannel becomes its members in order, each with the multichannel's name as its group."""
    channels = expand_channels(["both"], MIRRORED, TABLE)
    assert [(channel.name, channel.group) for channel in channels] == [
        ("conda-forge", "both"),
        ("https://h.example/x", "both"),
    ]


def test_addresses() -> None:
    """Addresses of mirrors, origins and others; a final slash, a subdir and a fragment are dropped."""
    assert [(row[0], row[2]) for row in expanded(
        f"{TUNA}/cloud/pytorch/", "https://conda.anaconda.org/bioconda/linux-64", "https://h.example/a/b/noarch/"
    )] == [
        ("pytorch", "https://conda.anaconda.org/pytorch"),
        ("bioconda", "https://conda.anaconda.org/bioconda"),
        ("https://h.example/a/b", "https://h.example/a/b"),
    ]  # fmt: skip
    assert [row[0] for row in expanded("conda-forge/linux-64")] == ["conda-forge"]


def test_folders(tmp_path: Path) -> None:
    """Paths and file addresses are channels of their own."""
    assert [row[3] for row in expanded(str(tmp_path), "file:///srv/ch/", "./here", "../up", folder=tmp_path / "x")] == [
        tmp_path.as_uri(),
        "file:///srv/ch",
        (tmp_path / "x" / "here").as_uri(),
        (tmp_path / "up").as_uri(),
    ]


def test_each_place_once() -> None:
    """The same channel by name, by mirror and by address is one channel, at its first place."""
    rows = expanded("bioconda", "conda-forge", "https://conda.anaconda.org/conda-forge", conda=MIRRORED)
    assert [row[0] for row in rows] == ["bioconda", "conda-forge"]


def test_credentials_stay_at_their_host() -> None:
    """A channel with a login has no origin, goes nowhere else, and shows its login nowhere."""
    for name, secret in {
        "private": "https://user:s3cret@conda.corp.example/repo/private",
        "tokened": "https://conda.corp.example/t/s3cret/tokened",
        "https://me:s3cret@conda.anaconda.org/pytorch": "https://me:s3cret@conda.anaconda.org/pytorch",
        "https://conda.corp.example/repo/private": "https://user:s3cret@conda.corp.example/repo/private",
    }.items():
        (channel,) = expand_channels([name], MIRRORED, TABLE)
        assert channel.client_base.reveal() == channel.canonical_base.reveal() == secret
        assert channel.origin is None
        shown = repr(channel) + channel.name + channel.client_file_url("noarch", "x").reveal()
        assert "s3cret" not in shown
        assert len(TABLE.sources(channel.file_url("noarch", "x"))) == 1


def test_login_of_one_channel_is_not_lent_to_another() -> None:
    """A configured login is added below its own channel only, at a path boundary."""
    for url in ("https://conda.corp.example/repo/private2", "https://conda.corp.example/repo"):
        assert expanded(url, conda=MIRRORED)[0][3] == url


@pytest.mark.parametrize(
    ("named", "configured", "override", "expected"),
    [
        ((), (), False, ("defaults",)),
        ((), ("a", "b"), False, ("a", "b")),
        (("x", "a"), ("a", "b"), False, ("x", "a", "b")),
        (("x",), ("a",), True, ("x",)),
        ((), ("a",), True, ("a",)),
        (("x",), (), False, ("x",)),
        (("x", "nodefaults"), ("a",), False, ("x",)),
    ],
)
def test_requested_channels(
    named: tuple[str, ...], configured: tuple[str, ...], override: bool, expected: object
) -> None:
    """-c comes before the condarc's channels; --override-channels and nodefaults leave those out."""
    assert requested_channels(named, CondaSettings(channels=configured), override=override) == expected


def test_empty_names_mean_the_condarc_s_channels() -> None:
    """With no name the condarc's channels are expanded, and without those ``defaults``."""
    assert [row[0] for row in expanded(conda=CondaSettings(channels=("bioconda",)))] == ["bioconda"]
    assert [row[0] for row in expanded(conda=CondaSettings(channels=()))] == ["pkgs/main", "pkgs/r"]


def test_empty_name_is_refused() -> None:
    """``-c ''`` is a mistake to be told, not the root of the alias."""
    with pytest.raises(ConfigurationError, match="empty"):
        expanded(" ")
