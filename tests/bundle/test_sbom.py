"""The CycloneDX document: valid, complete, the same everywhere, and with nothing secret in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from resume_dl.bundle.sbom import serial_number, write_sbom
from resume_dl.model.bundle import BundlePackage

PYTORCH = BundlePackage(
    path="channel/linux-64/pytorch-1.7.1-py3.8_cuda11.0.221_cudnn8.0.5_0.tar.bz2",
    kind="conda",
    name="pytorch",
    version="1.7.1",
    url="https://conda.anaconda.org/pytorch/linux-64/pytorch-1.7.1-py3.8_cuda11.0.221_cudnn8.0.5_0.tar.bz2",
    size=808077339,
    sha256="a" * 64,
    md5="b" * 32,
    build="py3.8_cuda11.0.221_cudnn8.0.5_0",
    subdir="linux-64",
    channel="pytorch",
    license="BSD 3-Clause",
)
NUMPY = BundlePackage(
    path="channel/win-64/numpy-1.19.2-py38_0.conda",
    kind="conda",
    name="numpy",
    version="1.19.2",
    url="https://repo.anaconda.com/pkgs/main/win-64/numpy-1.19.2-py38_0.conda",
    size=3,
    sha256="c" * 64,
    build="py38_0",
    subdir="win-64",
    channel="pkgs/main",
    license="bsd-3-clause",
)
TORCH = BundlePackage(
    path="wheels/Torch_Vision-1!1.6.0+cu101-cp38-cp38-linux_x86_64.whl",
    kind="wheel",
    name="Torch.Vision_X",
    version="1!1.6.0+cu101",
    url="https://download.pytorch.org/whl/cu101/Torch_Vision-1%211.6.0%2Bcu101-cp38-cp38-linux_x86_64.whl",
    size=5,
    sha256="d" * 64,
    license="mit and (apache-2.0 or LicenseRef-自由)",
)
ALL = (PYTORCH, NUMPY, TORCH)
EDGES = {PYTORCH.path: (NUMPY.path,), NUMPY.path: ()}

SCRIPT = """
import sys
from resume_dl.bundle.sbom import write_sbom
from resume_dl.model.bundle import BundlePackage
names = {f"n{number}" for number in range(40)}
packages = [
    BundlePackage(
        path=f"wheels/{name}-1-py3-none-any.whl", kind="wheel", name=name, version="1", url=f"https://h.example/{name}",
        size=1, sha256="a" * 64, md5="b" * 32, license="Lizenz f\\u00fcr \\u00c4rzte",
    )
    for name in sorted(names)
]
edges = {package.path: {other.path for other in packages} for package in packages}
for chunk in write_sbom(packages, created_by="resume-dl 1", depends=edges):
    sys.stdout.buffer.write(chunk)
"""


def text_of(packages: Sequence[BundlePackage], **options: Any) -> str:
    return b"".join(write_sbom(packages, created_by="resume-dl 0.6.0", **options)).decode("ascii")


def components_of(*packages: BundlePackage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text_of(packages))["components"]
    return found


def wrong_in(text):
    """What the strict validator finds; loaded here, because that takes seconds, and each worker collects all tests."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)


@pytest.mark.parametrize(
    ("packages", "options"),
    [
        (ALL, {"depends": EDGES}),
        (ALL, {"depends": EDGES, "epoch": 1_600_000_000}),
        ((), {}),
        ((replace(TORCH, included=False, kind="sdist", license="", url=""),), {}),
    ],
    ids=["all", "time", "empty", "delta"],
)
def test_the_schema_of_cyclonedx_takes_it(packages, options):
    """The library's own strict validator, which refuses unknown keys too."""
    assert wrong_in(text_of(packages, **options)) is None


def test_the_validator_would_say_what_is_wrong():
    """It is not one that takes everything."""
    broken = text_of(ALL).replace('"SHA-256"', '"SHA-257"', 1)
    assert wrong_in(broken) is not None


def test_a_conda_package_has_a_unique_name_in_the_sbom():
    """Its package URL, both digests, where it came from; a licence that SPDX does not know by its name."""
    assert components_of(PYTORCH) == [
        {
            "type": "library",
            "bom-ref": PYTORCH.path,
            "name": "pytorch",
            "version": "1.7.1",
            "purl": "pkg:conda/pytorch@1.7.1?build=py3.8_cuda11.0.221_cudnn8.0.5_0&channel=pytorch"
            "&subdir=linux-64&type=tar.bz2",
            "hashes": [{"alg": "MD5", "content": "b" * 32}, {"alg": "SHA-256", "content": "a" * 64}],
            "licenses": [{"license": {"name": "BSD 3-Clause"}}],
            "externalReferences": [{"type": "distribution", "url": PYTORCH.url}],
        }
    ]


def test_a_wheel_is_named_as_its_index_names_it():
    """PEP 503's name in the package URL, its own in the component; an expression in SPDX's writing."""
    (wheel,) = components_of(TORCH)
    assert wheel["name"] == "Torch.Vision_X"
    assert wheel["purl"] == (
        "pkg:pypi/torch-vision-x@1%211.6.0%2Bcu101?file_name=Torch_Vision-1%211.6.0%2Bcu101-cp38-cp38-linux_x86_64.whl"
    )
    assert wheel["hashes"] == [{"alg": "SHA-256", "content": "d" * 64}]


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("bsd-3-clause", {"license": {"id": "BSD-3-Clause"}}),
        ("GPL-2.0+", {"license": {"id": "GPL-2.0+"}}),
        ("mit and (apache-2.0 or zlib)", {"expression": "MIT AND (Apache-2.0 OR Zlib)"}),
        ("GPL-3.0-only WITH GCC-exception-3.1", {"expression": "GPL-3.0-only WITH GCC-exception-3.1"}),
        ("LicenseRef-NVIDIA", {"expression": "LicenseRef-NVIDIA"}),
        ("LicenseRef-自由", {"license": {"name": "LicenseRef-自由"}}),
        ("MIT (really", {"license": {"name": "MIT (really"}}),
        ("(" * 5000 + "MIT" + ")" * 5000, {"license": {"name": "(" * 5000 + "MIT" + ")" * 5000}}),
        ("\udc80 \x00", {"license": {"name": "\udc80 \x00"}}),
        ("Proprietary", {"license": {"name": "Proprietary"}}),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) and value.isascii() else "",
)
def test_licences_are_what_spdx_knows_else_a_name(said, written):
    """An id, an expression, or the words as they stand; never an error."""
    assert components_of(replace(NUMPY, license=said))[0]["licenses"] == [written]


def test_a_missing_licence_is_empty():
    """Nothing is made up for who says nothing."""
    assert "licenses" not in components_of(replace(NUMPY, license=""))[0]


def test_what_a_delta_leaves_out_is_marked():
    """It is a part of what gets installed, and not in the bundle."""
    (out,) = components_of(replace(NUMPY, included=False))
    assert out["properties"] == [{"name": "resume-dl:included", "value": "false"}]
    assert "properties" not in components_of(NUMPY)[0]


def test_dependencies_are_those_that_are_known():
    """An empty list says that it needs nothing, none that nobody knows."""
    document = json.loads(text_of(ALL, depends=EDGES))
    assert document["dependencies"] == [
        {"ref": PYTORCH.path, "dependsOn": [NUMPY.path]},
        {"ref": NUMPY.path, "dependsOn": []},
    ]
    assert json.loads(text_of(ALL))["dependencies"] == []


def test_the_serial_number_follows_from_the_packages_alone():
    """Every change of a package is another number; the rest of the document is not in it."""
    first = json.loads(text_of(ALL))
    assert first["serialNumber"] == f"urn:uuid:{serial_number(ALL)}"
    assert json.loads(text_of(ALL, depends=EDGES, epoch=5))["serialNumber"] == first["serialNumber"]
    others = [serial_number((replace(PYTORCH, size=1), NUMPY, TORCH)), serial_number((NUMPY, TORCH)), serial_number(())]
    assert len({serial_number(ALL), *others}) == 4
    assert {number.version for number in others} == {5}


def test_a_time_is_written_only_where_one_is_given():
    """SOURCE_DATE_EPOCH; its tool is named with it."""
    document = json.loads(text_of(ALL))
    assert document["metadata"] == {
        "tools": {"components": [{"name": "resume-dl", "type": "application", "version": "0.6.0"}]}
    }
    assert json.loads(text_of(ALL, epoch=0))["metadata"]["timestamp"] == "1970-01-01T00:00:00+00:00"


def test_no_login_gets_in():
    """Neither from an address nor from a channel that is one; a file's place on this machine stays here."""
    url = "https://alice:hunter2@c.example/t/tk-12345/x/linux-64/a.conda?token=hunter3"
    text = text_of([replace(NUMPY, url=url, channel="https://alice:hunter2@c.example/t/tk-12345/x")])
    assert not [secret for secret in ("alice", "hunter", "tk-12345") if secret in text]
    assert "c.example" in text
    assert "externalReferences" not in components_of(replace(NUMPY, url="file:///home/alice/a.conda"))[0]


@pytest.mark.parametrize("locale", ["C", "tr_TR.UTF-8"])
def test_the_same_bytes_whatever_the_hash_seed_the_locale_and_the_hour(locale):
    """Two processes with other seeds, in other time zones."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale, "TZ": zone, "PYTHONUTF8": "0"},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }
    assert len(outputs) == 1
    assert len(json.loads(outputs.pop())["components"]) == 40
