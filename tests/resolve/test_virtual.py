"""Which virtual packages are solved with."""

from __future__ import annotations

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.resolve.virtual import defaults, target

HOST = [("__unix", "0", "0"), ("__linux", "6.1", "0"), ("__glibc", "2.36", "0"), ("__archspec", "1", "icelake")]


def packages(subdir="linux-64", host="linux-64", **options):
    options.setdefault("env", {})
    return target(subdir, host=host, detected=HOST, **options).shown()


def test_virtual_packages_of_this_machine_are_detected():
    """On its own platform what was detected counts, and nothing is assumed."""
    assert packages() == ("__archspec=1=icelake", "__glibc=2.36=0", "__linux=6.1=0", "__unix=0=0")
    assert not target("linux-64", host="linux-64", detected=HOST, env={}).assumed
    assert target("linux-64", host="osx-64", detected=HOST, env={}).assumed


@pytest.mark.parametrize(
    ("subdir", "expected"),
    [
        ("linux-64", ("__archspec=1=x86_64", "__glibc=2.17=0", "__linux=5.10=0", "__unix=0=0")),
        ("linux-aarch64", ("__archspec=1=aarch64", "__glibc=2.17=0", "__linux=5.10=0", "__unix=0=0")),
        ("osx-64", ("__archspec=1=x86_64", "__osx=10.15=0", "__unix=0=0")),
        ("osx-arm64", ("__archspec=1=m1", "__osx=11.0=0", "__unix=0=0")),
        ("win-64", ("__archspec=1=x86_64", "__win=10.0=0")),
        ("noarch", ()),
    ],
)
def test_another_platform_has_named_defaults(subdir, expected):
    """Each platform's defaults are those written down."""
    assert packages(subdir, host="freebsd-64") == expected


def test_conda_overrides_of_the_environment():
    """CONDA_OVERRIDE_* set versions, an empty one takes away; only CUDA is added to a platform that has it not."""
    env = {"CONDA_OVERRIDE_GLIBC": "2.17", "CONDA_OVERRIDE_ARCHSPEC": "x86_64_v3", "CONDA_OVERRIDE_CUDA": "11.8"}
    assert packages(env={**env, "CONDA_OVERRIDE_OSX": "12"}) == (
        "__archspec=1=x86_64_v3",
        "__cuda=11.8=0",
        "__glibc=2.17=0",
        "__linux=6.1=0",
        "__unix=0=0",
    )
    assert "__glibc" not in "".join(packages(env={"CONDA_OVERRIDE_GLIBC": ""}))
    assert packages("win-64", env=env) == ("__archspec=1=x86_64_v3", "__cuda=11.8=0", "__win=10.0=0")


def test_options_win_over_the_environment():
    """--cuda over CONDA_OVERRIDE_CUDA, --virtual-package over both."""
    env = {"CONDA_OVERRIDE_CUDA": "11.8"}
    assert "__cuda=10.2=0" in packages(env=env, cuda="10.2")
    assert "__cuda" not in "".join(packages(env=env, cuda="none"))
    assert "__cuda=12.0=0" in packages(env=env, cuda="10.2", overrides=("__cuda=12.0",))
    assert "__cuda" not in "".join(packages(env=env, overrides=("__cuda=",)))
    assert "__made_up=1=x" in packages(overrides=("__made_up=1=x",))
    assert "__archspec=1=zen2" in packages(overrides=("__archspec=1=zen2",))


@pytest.mark.parametrize(
    "options",
    [
        {"cuda": "eleven"},
        {"overrides": ("glibc=2.17",)},
        {"overrides": ("__glibc=a b",)},
        {"env": {"CONDA_OVERRIDE_GLIBC": "; rm"}},
    ],
)
def test_malformed_virtual_packages_are_a_usage_error(options):
    """What is no version or no virtual package's name is refused with the option's name."""
    with pytest.raises(ConfigurationError):
        packages(**options)


def test_an_unknown_platform_is_refused():
    """A subdir that cannot be one is refused."""
    for subdir in ("linux", "../x", "Linux-64", ""):
        with pytest.raises(ConfigurationError, match="not a conda platform"):
            defaults(subdir)
