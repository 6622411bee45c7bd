"""What a manifest says of a platform: refused where it lies, taken as it is where it is only unusual."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from resume_dl.model.bundle import Manifest
from resume_dl.offline_tools.verification.check import check
from resume_dl.offline_tools.verification.findings import Report, lines
from support.hand_bundle import NUMPY, TQDM, hand_bundle


def with_platform(folder: Path, **changes: object) -> Report:
    """The verification of a sealed bundle whose manifest says this of its platform."""

    def changed(manifest: Manifest) -> Manifest:
        return replace(manifest, platforms=(replace(manifest.platforms[0], **changes),))

    hand_bundle(folder, changed=changed)
    return check(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"python": "3.10; rm -rf ~"}, "python is not a Python version"),
        ({"python": "3"}, "python is not a Python version"),
        ({"python": "3.10\n"}, "python is not a Python version"),
        ({"python": "\N{ARABIC-INDIC DIGIT THREE}.10"}, "python is not a Python version"),
        ({"python": "3." + "1" * 5000}, "python is not a Python version"),
        ({"virtual_packages": ("__glibc=2.17", "glibc=2.17")}, "virtual_packages is invalid"),
        ({"virtual_packages": ("__glibc",)}, "virtual_packages is invalid"),
        ({"virtual_packages": ("__glibc=2.17\x1b[2J",)}, "virtual_packages is invalid"),
        ({"virtual_packages": ("__glibc=2.17=0=0",)}, "virtual_packages is invalid"),
        ({"virtual_packages": ("__glibc=" + "9" * 5000,)}, "virtual_packages is invalid"),
        ({"virtual_packages": ("__" + "g" * 5000 + "=1",)}, "virtual_packages is invalid"),
        ({"conda": (NUMPY, NUMPY)}, "conda names a package twice"),
        ({"pip": (TQDM, TQDM)}, "pip names a package twice"),
        ({"explicit": "explicit/win-64.txt"}, "explicit does not name a file"),
        ({"explicit": NUMPY}, "explicit does not name a file"),
        ({"requirements": "../requirements.txt"}, "requirements does not name a file"),
    ],
)
def test_a_platform_that_lies_is_refused(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    """Although the bundle is sealed as it is: every digest in it fits."""
    report = with_platform(tmp_path / "evil", **changes)
    assert [(problem.path, problem.what) for problem in report.problems] == [("manifest.json", "unsafe")]
    assert said in report.problems[0].text
    assert (report.manifest, report.exit_code) == (None, 4)
    assert "\x1b" not in "".join(lines(report))


@pytest.mark.parametrize("python", ["", "3.10", "3.10.4", "3.15.0rc1", "3.15.0.a2"])
def test_what_platforms_say_otherwise(tmp_path: Path, python: str) -> None:
    virtual = ("__archspec=1=x86_64_v3", "__cuda=12.2=0", "__glibc=2.17", "__unix=0=0", "__win=10.0.22631=0")
    report = with_platform(tmp_path / "fine", python=python, virtual_packages=virtual)
    assert report.problems == []
