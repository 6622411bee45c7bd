"""The main job's solve, on the real records of the pytorch channel of 2021, none of which knows ``__cuda``."""

from __future__ import annotations

import json
import sys

import pytest

from resume_dl.errors import PackageNotFoundError, UnsatisfiableError
from support import records


def names(solution):
    return {artifact.name: artifact.filename for artifact in solution.artifacts}


CPU = "pytorch-1.7.1-py3.8_cpu_0.tar.bz2"
CUDA_102 = "pytorch-1.7.1-py3.8_cuda10.2.89_cudnn7.6.5_0.tar.bz2"
CUDA_110 = "pytorch-1.7.1-py3.8_cuda11.0.221_cudnn8.0.5_0.tar.bz2"


def test_the_records_know_no_cuda_driver():
    """The premise: nothing in these records depends on __cuda."""
    assert "__cuda" not in records.PYTORCH.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("cuda", "build", "toolkit"),
    [
        ("11.0", CUDA_110, "cudatoolkit-11.0.221-h1_0.tar.bz2"),
        ("10.2", CUDA_102, "cudatoolkit-10.2.89-h1_0.tar.bz2"),
        ("none", CPU, None),
        # A newer driver runs older CUDA; without the check that the toolkit is used, 11.3 would give the CPU build.
        ("11.3", CUDA_110, "cudatoolkit-11.0.221-h1_0.tar.bz2"),
        ("12.4", CUDA_110, "cudatoolkit-11.0.221-h1_0.tar.bz2"),
        (None, CUDA_110, "cudatoolkit-11.0.221-h1_0.tar.bz2"),
    ],
)
def test_cuda_chooses_the_build(fetch, cuda, build, toolkit):
    """--cuda gives the 1.7.1 build for the newest CUDA that the driver runs, none the CPU build."""
    solution = fetch("pytorch=1.7", cuda=cuda)
    assert names(solution)["pytorch"] == build
    assert names(solution).get("cudatoolkit") == toolkit


def notes_of(solution):
    """Without the one that another system than Linux gets for every solve of linux-64."""
    return tuple(note for note in solution.notes if sys.platform == "linux" or "is not this machine" not in note)


def test_cuda_notes_name_the_toolkit_and_tried_versions(fetch):
    """The note names the toolkit and the versions that had no build; the constraint is handed on."""
    solution = fetch("pytorch=1.7", cuda="11.3")
    assert notes_of(solution) == (
        "--cuda 11.3: cudatoolkit 11.0 is the newest compatible version (no build for 11.3, 11.1)",
    )
    assert solution.constraints == ("cudatoolkit 11.0.*",)
    assert notes_of(fetch("pytorch=1.7")) == ()


def test_a_cuda_version_that_is_too_old_is_dropped_with_a_note(fetch):
    """Where nothing is built for so old a driver, the solve goes on without the constraint and says so."""
    solution = fetch("pytorch=1.7", cuda="9.0")
    assert names(solution)["pytorch"] == CUDA_110
    assert solution.constraints == ()
    assert "no matching build for CUDA 9.0 or older" in notes_of(solution)[0]


def test_cuda_has_no_note_if_it_is_irrelevant(fetch):
    """Packages without CUDA are solved as ever, without a note."""
    solution = fetch("numpy", cuda="11.0")
    assert notes_of(solution) == ()
    assert "cudatoolkit" not in names(solution)


def test_cuda_with_the_later_toolkit_package(fetch):
    """pytorch 1.12 follows cudatoolkit 11.3 by way of pytorch-mutex, and the CPU build for none."""
    assert "cuda11.3" in names(fetch("pytorch=1.12", cuda="11.3"))["pytorch"]
    assert "_cpu_" in names(fetch("pytorch=1.12", cuda="none"))["pytorch"]


def test_impossible_is_explained(fetch):
    """pytorch 1.7 with python 3.12: exit 3, and the solver's explanation names both sides."""
    with pytest.raises(UnsatisfiableError) as caught:
        fetch("pytorch=1.7", "python=3.12")
    assert caught.value.exit_code == 3
    assert "cannot solve pytorch=1.7, python=3.12" in caught.value.message
    assert "python >=3.8,<3.9.0a0" in caught.value.message
    assert "python 3.12.1" in caught.value.message
    assert "channel-0.invalid" not in caught.value.message


def test_artifacts_carry_both_addresses_and_the_original_record(fetch):
    """An artifact has the origin's URL, the one of the user's mirror and the record unchanged."""
    solution = fetch("pytorch=1.7")
    pytorch = next(artifact for artifact in solution.artifacts if artifact.name == "pytorch")
    assert str(pytorch.url) == f"https://conda.anaconda.org/pytorch/linux-64/{CUDA_110}"
    assert str(pytorch.client_url) == f"https://mirror.example/anaconda/cloud/pytorch/linux-64/{CUDA_110}"
    assert pytorch.client_channel == "https://mirror.example/anaconda/cloud/pytorch/linux-64"
    assert (pytorch.channel, pytorch.subdir, pytorch.kind) == ("pytorch", "linux-64", "conda")
    original = json.loads(records.PYTORCH.read_text(encoding="utf-8"))["packages"][CUDA_110]
    assert pytorch.record == original
    assert (pytorch.size, pytorch.sha256, pytorch.md5) == (808077339, original["sha256"], original["md5"])
    typing = next(artifact for artifact in solution.artifacts if artifact.name == "typing_extensions")
    assert (typing.subdir, typing.channel) == ("noarch", "pkgs/main")
    assert solution.requested == ("pytorch",)


def test_md5_only_records_work(fetch):
    """A record of old times, with md5 and size and no sha256, becomes an artifact keyed by md5."""
    blas = next(artifact for artifact in fetch("pytorch=1.7").artifacts if artifact.name == "blas")
    assert blas.sha256 is None
    assert blas.key == f"md5-{blas.md5}"


def test_pip_comes_with_python(fetch):
    """conda adds pip to python unless add_pip_as_python_dependency is off."""
    assert {"pip", "setuptools", "wheel"} <= names(fetch("pytorch=1.7")).keys()
    assert "pip" not in names(fetch("pytorch=1.7", add_pip=False))


def test_no_deps_and_only_deps(fetch):
    """--no-deps leaves what was asked for, --only-deps all the rest, of one and the same solution."""
    everything = names(fetch("pytorch=1.7", "numpy"))
    assert names(fetch("pytorch=1.7", "numpy", no_deps=True)) == {n: everything[n] for n in ("numpy", "pytorch")}
    only = names(fetch("pytorch=1.7", "numpy", only_deps=True))
    assert only == {name: file for name, file in everything.items() if name not in {"numpy", "pytorch"}}


def test_pins_and_default_packages(fetch):
    """pinned_packages hold back what would be newer; create_default_packages come along unless asked for otherwise."""
    assert names(fetch("pytorch=1.7", pinned=("numpy 1.18.*",)))["numpy"].startswith("numpy-1.18.5-")
    assert "mkl" not in names(fetch("libuv", pinned=("mkl 2020.*",)))
    solution = fetch("libuv", default_packages=("mkl", "libuv 0.1"))
    assert names(solution).keys() == {"libuv", "mkl"}


def test_unknown_names_and_versions(fetch):
    """An unknown name gives the nearest, an unknown version the ones there are, a wrong build the builds."""
    with pytest.raises(PackageNotFoundError) as caught:
        fetch("pytroch=1.7")
    assert caught.value.exit_code == 3
    assert caught.value.nearest[0] == "pytorch"
    assert "pytroch" in caught.value.message
    assert "pytorch" in caught.value.hint
    with pytest.raises(PackageNotFoundError) as caught:
        fetch("pytorch=1.99")
    assert caught.value.nearest[-1] == "1.13.1"
    assert "1.13.1" in caught.value.hint
    with pytest.raises(PackageNotFoundError, match=r"pytorch=1.7.1=py3.8_gpu_0") as caught:
        fetch("pytorch=1.7.1=py3.8_gpu_0")
    assert "py3.8_cpu_0" in caught.value.hint
    with pytest.raises(PackageNotFoundError) as caught:
        fetch("python 3.8")
    assert "write python=3.8" in caught.value.hint


def test_a_missing_dependency_names_the_channel_to_add(fetch, real):
    """With the pytorch channel alone the explanation says what no channel has."""
    with pytest.raises(UnsatisfiableError) as caught:
        fetch("pytorch=1.12", repodata=real[:1])
    assert "none of the given channels has blas" in caught.value.hint
