"""A small honest bundle, made by hand: two conda archives, a wheel, and every other file that a bundle has.

The archives are real ones (ZIP), small, and hold next to nothing: nobody can install them.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from resume_dl.bundle.manifest import write_manifest
from resume_dl.bundle.sums import write_sums
from resume_dl.bundle.tar import Member, in_order, write_tar
from resume_dl.model.bundle import BundleFile, BundlePackage, BundlePlatform, Manifest
from support.offline_scripts import archive

NUMPY = "channel/linux-64/numpy-1.0-0.conda"
PYTZ = "channel/noarch/pytz-2020-0.tar.bz2"
TQDM = "wheels/tqdm-4.0-py3-none-any.whl"
SCRIPTS = ("install.py", "probe.py", "unpack.py", "verify.py")


def zipped(**members: bytes) -> bytes:
    """A ZIP archive of these members, a dot in a name written as ``__``."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name.replace("__", ".")), content)
    return data.getvalue()


def tarred(mode: str = "w:bz2", members: Sequence[tuple[tarfile.TarInfo, bytes]] = ()) -> bytes:
    """A tar of these members."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:
        for info, content in members:
            info.size = info.size or len(content)
            archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


def packages() -> dict[str, bytes]:
    """The archives by path."""
    return {
        NUMPY: zipped(metadata__json=b"{}", info=b"numpy " * 100),
        PYTZ: tarred(members=[(tarfile.TarInfo("info/index.json"), b'{"name": "pytz"}')]),
        TQDM: zipped(tqdm=b"tqdm " * 300),
    }


def files() -> dict[str, bytes]:
    """Everything else that the manifest lists, by path; verify.py and unpack.py are the real ones."""
    numpy = hashlib.md5(packages()[NUMPY]).hexdigest()
    return {
        "README.txt": b"What this is, and what to do with it.\n",
        "channel/linux-64/repodata.json": b'{"packages.conda": {"numpy-1.0-0.conda": {}}}',
        "channel/noarch/repodata.json": b'{"packages": {"pytz-2020-0.tar.bz2": {}}}',
        "environment.yml": b"dependencies: [numpy]\n",
        "explicit/linux-64.txt": f"@EXPLICIT\n{NUMPY}#{numpy}\n".encode(),
        "install.py": b"print('installed')\n",
        "probe.py": b"print('{}')\n",
        "pylock.toml": b'lock-version = "1.0"\n',
        "requirements/linux-64.txt": b"tqdm==4.0 --hash=sha256:00\n",
        "sbom.cdx.json": b'{"bomFormat": "CycloneDX"}',
        "simple/index.html": b'<a href="tqdm/">tqdm</a>',
        "simple/tqdm/index.html": b'<a href="../../wheels/tqdm-4.0-py3-none-any.whl">tqdm</a>',
        "unpack.py": archive("unpack.py"),
        "verify.py": archive("verify.py"),
    }


def kind_of(path: str) -> str:
    """Of a package."""
    if path.startswith("wheels/"):
        return "wheel" if path.endswith(".whl") else "sdist"
    return "conda"


def manifest_of(archives: Mapping[str, bytes], others: Mapping[str, bytes]) -> Manifest:
    """The manifest of these bytes."""
    listed = tuple(
        BundlePackage(
            path=path,
            kind=kind_of(path),
            name=path.rpartition("/")[2].partition("-")[0],
            version="1.0",
            url=f"https://packages.example/{path}",
            size=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            requested_by=("numpy",),
        )
        for path, data in sorted(archives.items())
    )
    conda = tuple(each.path for each in listed if each.kind == "conda")
    platform = BundlePlatform(
        platform="linux-64",
        python="3.10",
        conda=conda,
        pip=tuple(each.path for each in listed if each.kind != "conda"),
        explicit="explicit/linux-64.txt" if conda else "",
        requirements="requirements/linux-64.txt",
    )
    rest = tuple(BundleFile(path, len(data), hashlib.sha256(data).hexdigest()) for path, data in sorted(others.items()))
    return Manifest(
        created_by="resume-dl 0.0", request={"specs": ["numpy"]}, platforms=(platform,), packages=listed, files=rest
    )


def hand_bundle(
    folder: Path,
    *,
    archives: Mapping[str, bytes] | None = None,
    others: Mapping[str, bytes] | None = None,
    changed: Callable[[Manifest], Manifest] = lambda manifest: manifest,
    key: Path | None = None,
) -> Manifest:
    """Lay a bundle into ``folder``; ``changed`` may make another manifest of it, ``key`` signs it."""
    archives = packages() if archives is None else archives
    others = files() if others is None else others
    for path, data in {**archives, **others}.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    manifest = changed(manifest_of(archives, others))
    seal(folder, b"".join(write_manifest(manifest)), manifest, key=key)
    return manifest


def seal(folder: Path, text: bytes, manifest: Manifest, *, key: Path | None = None) -> str:
    """Write manifest, signature and SHA256SUMS; returns the manifest's digest."""
    (folder / "manifest.json").write_bytes(text)
    signature = ""
    if key is not None:
        (folder / "manifest.json.sig").unlink(missing_ok=True)
        sign = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", "resume-dl-bundle", "manifest.json"]
        subprocess.run(sign, cwd=folder, check=True, capture_output=True)
        signature = hashlib.sha256((folder / "manifest.json.sig").read_bytes()).hexdigest()
    digest = hashlib.sha256(text).hexdigest()
    sums = write_sums(manifest, manifest_sha256=digest, signature_sha256=signature)
    (folder / "SHA256SUMS").write_bytes(b"".join(sums))
    return digest


def without(manifest: Manifest, path: str) -> Manifest:
    """As a delta: this package is the target's own."""
    left_out = tuple(replace(each, included=each.path != path) for each in manifest.packages)
    return replace(manifest, packages=left_out)


def bundle_tar(folder: Path, tar: Path) -> Path:
    """The folder as ``bundle create -o X.tar`` writes it."""
    members = []
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            data = file.read_bytes()
            members.append(
                Member(file.relative_to(folder).as_posix(), file, len(data), hashlib.sha256(data).hexdigest())
            )
    write_tar(in_order(members), tar)
    return tar


def paths_in(folder: Path) -> list[str]:
    """Every file of it."""
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
