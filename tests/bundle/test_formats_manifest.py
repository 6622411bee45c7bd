"""manifest.json and SHA256SUMS: written, read back, and refused."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from resume_dl.bundle.manifest import read_manifest, write_manifest
from resume_dl.bundle.sums import write_sums
from resume_dl.errors import ConfigurationError, IntegrityError
from resume_dl.model.bundle import BundleFile, BundlePackage, BundlePlatform, Manifest

A, B, C, D = (letter * 64 for letter in "abcd")

CONDA = BundlePackage(
    path="channel/linux-64/_libgcc_mutex-0.1-main.conda",
    kind="conda",
    name="_libgcc_mutex",
    version="0.1",
    build="main",
    subdir="linux-64",
    channel="https://c.example/main",
    url="https://c.example/main/linux-64/_libgcc_mutex-0.1-main.conda",
    size=3,
    sha256=A,
    md5="e" * 32,
    license="Licence libre, 自由 \u2028 \udc80",
    requested_by=("pytorch=1.7", "numpy"),
)
WHEEL = BundlePackage(
    path="wheels/torch-1!1.7.1+cu110-cp38-cp38-win_amd64.whl",
    kind="wheel",
    name="torch",
    version="1!1.7.1+cu110",
    url="https://w.example/torch-1%211.7.1%2Bcu110-cp38-cp38-win_amd64.whl",
    size=4,
    sha256=B,
    included=False,
)
MANIFEST = Manifest(
    created_by="resume-dl 0.1",
    request={"specs": ["pytorch=1.7"], "pip": ["torch"]},
    platforms=(
        BundlePlatform(
            platform="linux-64",
            virtual_packages=("__cuda=11.0=0",),
            conda=(CONDA.path,),
            explicit="explicit/linux-64.txt",
            exclude_newer="2021-01-04T00:00:00Z",
        ),
        BundlePlatform(platform="win-64", python="3.8", pip=(WHEEL.path,), requirements="requirements/win-64.txt"),
    ),
    packages=(CONDA, WHEEL),
    files=(BundleFile("README.txt", 5, C), BundleFile("explicit/linux-64.txt", 6, D)),
)


def text(manifest: Manifest) -> bytes:
    return b"".join(write_manifest(manifest))


def changed(change: Any) -> bytes:
    document = json.loads(text(MANIFEST))
    change(document)
    return json.dumps(document).encode()


def test_what_is_written_is_read_back() -> None:
    data = text(MANIFEST)
    assert read_manifest(data) == MANIFEST
    assert text(read_manifest(data)) == data


def test_an_empty_one_too() -> None:
    empty = Manifest(created_by="resume-dl 0.1", platforms=(), packages=())
    assert read_manifest(text(empty)) == empty


def test_each_package_file_and_platform_has_a_line_of_its_own() -> None:
    """So that two manifests can be compared by lines; UTF-8 and LF, whatever a licence says."""
    data = text(MANIFEST)
    lines = data.decode("utf-8").split("\n")
    assert b"\r" not in data
    assert data.endswith(b"}\n")
    starts = ('{"path":', '"linux-64":', '"win-64":')
    assert len([line for line in lines if line.startswith(starts)]) == 6
    assert "自由" in lines[next(number for number, line in enumerate(lines) if "_libgcc" in line and "path" in line)]
    document = json.loads(data)
    assert [*document] == ["schema", "kind", "created_by", "request", "platforms", "packages", "files"]
    assert (document["schema"], document["kind"]) == (1, "resume-dl bundle")
    assert document["platforms"]["linux-64"]["explicit"] == "explicit/linux-64.txt"


def test_keys_of_a_later_version_are_passed_over() -> None:
    def change(document: Any) -> None:
        document["new"] = document["packages"][0]["new"] = document["platforms"]["win-64"]["new"] = 1

    assert read_manifest(changed(change)) == MANIFEST


BAD_PATHS = ("../x", "/x", "C:/x", "a\\b", "a//b", "a/./b", "a/", "", "nul", "a/con.txt", "a\nb", "x.", "\0")


@pytest.mark.parametrize("path", BAD_PATHS)
@pytest.mark.parametrize("where", ["packages", "files"])
def test_a_path_that_leads_out_of_the_bundle_is_refused(where: str, path: str) -> None:
    def change(document: Any) -> None:
        document["platforms"] = {}
        document[where][0]["path"] = path

    with pytest.raises(IntegrityError, match="damaged"):
        read_manifest(changed(change))


def put(*keys: Any, value: Any) -> Any:
    def change(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("packages", 0, "sha256", value="A" * 64), "not a valid sha256"),
        (put("packages", 0, "md5", value="1"), "not a valid md5"),
        (put("packages", 0, "size", value=-1), "not a size"),
        (put("packages", 0, "size", value=True), "not a size"),
        (put("packages", 0, "size", value=1.5), "'size' is 1.5"),
        (put("packages", 0, "kind", value="exe"), "'exe' is not a kind"),
        (put("packages", 0, "included", value="no"), "'included' is 'no'"),
        (put("packages", 0, "requested_by", value=[1]), "'requested_by'"),
        (put("packages", 0, value="text"), "'text' is not an object"),
        (put("packages", value={}), "'packages'"),
        (put("files", 0, "path", value=CONDA.path), "twice"),
        (put("platforms", "win-64", "pip", value=["wheels/x.whl"]), "win-64 has 'wheels/x.whl'"),
        (put("platforms", "win-64", "requirements", value="../x"), "unsafe"),
        (put("platforms", "win-64", value={}), "no 'conda'"),
        (lambda document: document["platforms"].update({"../x": document["platforms"]["win-64"]}), "unsafe"),
        (lambda document: document.pop("files"), "no 'files'"),
    ],
)
def test_damaged_files_are_named(change: Any, said: str) -> None:
    with pytest.raises(IntegrityError, match="damaged") as caught:
        read_manifest(changed(change))
    assert said in caught.value.message
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_invalid_json_counts_as_damage(data: bytes) -> None:
    with pytest.raises(IntegrityError, match="not JSON"):
        read_manifest(data)


@pytest.mark.parametrize("data", [b"[]", b"{}", b'{"kind":"resume-dl inventory","schema":1}'])
def test_something_else_is_no_manifest(data: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"target\.json is not the manifest"):
        read_manifest(data, where="target.json")


def test_a_later_schema_is_not_guessed_at() -> None:
    with pytest.raises(ConfigurationError, match="schema 2, known is 1"):
        read_manifest(changed(put("schema", value=2)))


def test_sums_name_all_that_lies_there_sorted() -> None:
    """What a delta leaves out (here the wheel) is not there to be summed."""
    assert b"".join(write_sums(MANIFEST, manifest_sha256="0" * 64, signature_sha256="1" * 64)).decode() == (
        f"{C}  README.txt\n"
        f"{A}  channel/linux-64/_libgcc_mutex-0.1-main.conda\n"
        f"{D}  explicit/linux-64.txt\n"
        f"{'0' * 64}  manifest.json\n"
        f"{'1' * 64}  manifest.json.sig\n"
    )
    assert b"manifest.json.sig" not in b"".join(write_sums(MANIFEST, manifest_sha256="0" * 64))
    whole = replace(MANIFEST, packages=(CONDA, replace(WHEEL, included=True)))
    assert f"{B}  {WHEEL.path}\n".encode() in b"".join(write_sums(whole, manifest_sha256="0" * 64))


def test_the_real_sha256sum_checks_it(tmp_path: Path) -> None:
    """Names with blanks and beyond ASCII, and a damaged file."""
    names = ("a b.txt", "dir/é 自.txt", "wheels/x-1!2.0+cu1.whl")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    (tmp_path / "manifest.json").write_bytes(b"{}")
    files = tuple(BundleFile(name, 1, hashlib.sha256(name.encode()).hexdigest()) for name in names)
    manifest = Manifest(created_by="a test", platforms=(), packages=(), files=files)
    digest = hashlib.sha256(b"{}").hexdigest()
    (tmp_path / "SHA256SUMS").write_bytes(b"".join(write_sums(manifest, manifest_sha256=digest)))
    check = ["sha256sum", "--strict", "-c", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / names[1]).write_text("x", encoding="utf-8")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 1
