"""pixi.lock as text, of each version of its format, read by py-rattler: what is taken of it, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.resolve.locks.pixi_lock import read_pixi_lock
from resume_dl.resolve.worker import RattlerWorker

MD5, SHA = "a" * 32, "b" * 64
CONDA = "https://conda.anaconda.org/conda-forge"
A, WHEEL = f"{CONDA}/linux-64/a-1.0-0.conda", "https://files.example/packages/demo_app-1.0-py3-none-any.whl"


def lock(*packages: str, version: int = 6, extra: str = "", environments: str = "") -> str:
    """A lock whose default environment has these packages, each the text of its entry."""
    listed = "".join(f"      - {each.splitlines()[0].removeprefix('- ')}\n" for each in packages)
    default = f"  default:\n    channels:\n    - url: {CONDA}/\n    packages:\n      linux-64:\n{listed}"
    return f"version: {version}\n{extra}environments:\n{default}{environments}packages:\n{''.join(packages)}"


def conda(url: str = A, *, sha256: str = SHA, size: str = "12", more: str = "") -> str:
    digests = f"  sha256: {sha256}\n  md5: {MD5}\n" if sha256 else ""
    return f"- conda: {url}\n{digests}  size: {size}\n{more}"


def pypi(url: str = WHEEL, *, name: str = "demo-app", sha256: str = SHA) -> str:
    return f"- pypi: {url}\n  name: {name}\n  version: '1.0'\n" + (f"  sha256: {sha256}\n" if sha256 else "")


def read(text, worker):
    return read_pixi_lock(text, "pixi.lock", lambda url: url, worker)


def _reads_version_7(worker) -> bool:
    """Whether the py-rattler at hand reads a lock of version 7 that locks nothing."""
    text = "version: 7\nplatforms: []\nenvironments: {}\npackages: []\n"
    return not worker.request("read_lock", {"text": text})["problem"]


def test_packages_of_both_kinds_with_digest_and_size(worker) -> None:
    """Version control and local paths have no file to fetch."""
    others = [pypi("git+https://example/vcs.git@abc", name="vcs", sha256=""), pypi("./here", name="here", sha256="")]
    found = read(lock(conda(), pypi(), *others), worker)
    assert (found.platforms, found.groups, found.default) == (("linux-64",), ("default",), {"default"})
    assert {each.name: each.artifact and each.artifact.filename for each in found.packages} == {
        "a": "a-1.0-0.conda",
        "demo-app": "demo_app-1.0-py3-none-any.whl",
        "vcs": None,
        "here": None,
    }
    of_conda, wheel = (each.artifact for each in found.packages if each.artifact is not None)
    assert (of_conda.sha256, of_conda.md5, of_conda.size) == (SHA, MD5, 12)
    assert (of_conda.subdir, of_conda.url.reveal(), of_conda.client_url.reveal()) == ("linux-64", A, A)
    assert (wheel.kind, wheel.sha256, wheel.version, wheel.url.reveal()) == ("wheel", SHA, "1.0", WHEEL)


def test_version_5(worker) -> None:
    text = f"""version: 5
environments:
  default:
    channels:
    - url: {CONDA}/
    packages:
      linux-64:
      - conda: {A}
      - pypi: {WHEEL}
packages:
- kind: conda
  name: a
  version: '1.0'
  build: '0'
  subdir: linux-64
  url: {A}
  sha256: {SHA}
- kind: pypi
  name: demo-app
  version: '1.0'
  url: {WHEEL}
  sha256: {SHA}
"""
    assert [(each.name, each.artifact.sha256) for each in read(text, worker).packages] == [
        ("a", SHA),
        ("demo-app", SHA),
    ]
    with pytest.raises(ConfigurationError, match=r"packages 1, url: not a sha256 digest"):
        read(text.replace(SHA, "xyz", 1), worker)


def test_version_7_has_platforms_with_names(worker) -> None:
    """One that is alone with its subdir stands for it; an older py-rattler is said to be too old."""
    head = "platforms:\n- name: cuda\n  subdir: linux-64\n- name: win-64\n"
    text = lock(conda(), version=7, extra=head).replace("      linux-64:", "      cuda:")
    both = lock(conda(), version=7, extra=head + "- name: linux-64\n")
    both = both.replace("packages:\n- conda", f"      cuda:\n      - conda: {A}\npackages:\n- conda")
    if not _reads_version_7(worker):
        with pytest.raises(ConfigurationError, match="only up to including version 6") as caught:
            read(text, worker)
        assert caught.value.hint == "pip install -U py-rattler"
        return
    found = read(text, worker)
    assert found.platforms == ("linux-64",)
    assert read(both, worker).platforms == ("cuda", "linux-64")


def test_digests_in_the_url(worker) -> None:
    """As py-rattler writes a wheel's; one that contradicts the lock's is refused, and ``direct+`` is no scheme."""
    taken = read(lock(pypi(f"direct+{WHEEL}#sha256={SHA}", sha256="")), worker).packages[0].artifact
    assert (taken.sha256, taken.url.reveal()) == (SHA, WHEEL)
    with pytest.raises(ConfigurationError, match="demo-app, pypi: the digest in the URL is not"):
        read(lock(pypi(f"{WHEEL}#sha256={'c' * 64}")), worker)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lock(conda()) + "  - [", r"line 1\d"),
        (lock(conda())[:120], "packages"),
        (lock(conda(), version=4), "version: is '4'; only 5 or 6 or 7"),
        (lock(conda(), version=8), "version: is '8'"),
        (lock(conda()).replace("version: 6\n", ""), "version: is ''"),
        (lock(conda(sha256="")), "package a, conda: has no digest"),
        (lock(pypi(sha256="")), "package demo-app, pypi: has no digest"),
        (lock(conda(sha256="xyz")), "packages 1, conda: not a sha256 digest"),
        (lock(conda(), pypi(sha256="[1]")), "package demo-app, pypi: has no digest"),
        (lock(conda(size="text")), "packages 1, size"),
        (lock(conda(), "- text\n"), "linux-64 2: is a text, not a table"),
        (lock(conda()).replace("\npackages:\n", "\npackages: 7\nx:\n"), "packages: is a number, not a list"),
        (lock(conda()).replace("environments:", "environments: []\nx:"), "environments: is a list"),
        (lock(), "locks no package"),
        (lock(conda(f"{CONDA}/linux-64/../../a-1.0-0.conda")), "packages 1, conda: .*another place"),
        (lock(conda(f"{CONDA}/linux-64/..%2Fa-1.0-0.conda")), "package ..%2Fa, conda"),
        (lock(conda(f"{CONDA}/linux-64/..%5Ca-1.0-0.conda")), "package ..%5Ca, conda"),
        (lock(conda(f"{CONDA}/linux-64/evil.exe")), "packages 1, conda: .*is not the URL of a conda archive"),
        (lock(conda(more="  name: b\n")), "which is not 'b'"),
        (lock(pypi("https://x.example/..%2Fdemo_app-1.0-py3-none-any.whl")), "demo-app, pypi: "),
        (lock(pypi("https://x.example/other-1.0-py3-none-any.whl")), "which is not 'demo-app'"),
        (lock(pypi("https://x.example/demo_app.exe")), "neither a wheel nor"),
        (lock(pypi("ftp://x.example/demo_app-1.0-py3-none-any.whl")), "scheme is 'ftp'"),
        (lock(pypi("https://me:hush@x.example/demo_app-1.0-py3-none-any.whl")), "has a login"),
        (lock(conda()).replace("linux-64:\n", "../x:\n"), "'../x'"),
        (lock(conda()).replace("      linux-64:\n", f"      linux-64:\n      - conda: {CONDA}/b\n"), "does not exist"),
        ("version: 6\nx: " + "[" * 1_000, "line 2"),
        ("version: 6\0\n", "version: is '6"),
    ],
)  # fmt: skip
def test_a_broken_one_is_refused_with_its_line_or_key(worker, text, said) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        read(text, worker)
    assert caught.value.exit_code == 2
    assert caught.value.message.startswith("pixi.lock")
    assert "hush" not in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="a script of POSIX")
def test_a_file_that_ends_py_rattler_is_refused(tmp_path: Path) -> None:
    """A stack overflow in Rust ends the process."""
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nread line\nkill -SEGV $$\n")
    script.chmod(0o755)
    with RattlerWorker(python=script) as dying, pytest.raises(ConfigurationError, match="SIGSEGV") as caught:
        read(lock(conda()), dying)
    assert caught.value.exit_code == 2
