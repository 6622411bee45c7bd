"""A solution with a package of another form than conda's own: the others are fetched as ever, and so is that one."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import subprocess
import zipfile

import pytest

from resume_dl.store.part import FOLDER
from support.conda_cache import SPEC
from support.plugin import our_lines, use_mirrors

pytestmark = pytest.mark.conda

WHEEL = b"PK\x03\x04" + bytes(range(256)) * 8000
"""2 MB that begin as a wheel does; no conda of these tests extracts it."""


@pytest.fixture
def offered(test_conda, offer, nginx_mirrors, tmp_path):
    """A function: the channels of the offer with one more record, at the place that conda asks and at a mirror."""

    def put(filename, record):
        root = tmp_path / "channels"
        shutil.copytree(offer.root, root, symlinks=True)
        folder = root / "pytorch" / "noarch"
        folder.mkdir(exist_ok=True)
        (folder / filename).write_bytes(WHEEL)
        for index in folder.glob("*repodata.json*"):
            index.unlink()
        record = {"name": "strange", "version": "1.0", "build": "0", "build_number": 0, "depends": [], **record}
        known = {"size": len(WHEEL), "sha256": hashlib.sha256(WHEEL).hexdigest()}
        document = {"info": {"subdir": "noarch"}, "packages": {filename: {**known, **record}}, "packages.conda": {}}
        (folder / "repodata.json").write_text(json.dumps(document), encoding="utf-8")
        served = nginx_mirrors([root, root])
        use_mirrors(test_conda, served.base(0), [served.base(1)])
        return served

    return put


def asked_for(served, filename):
    return [request for request in served.requests() if request.uri.endswith(f"/{filename}")]


@pytest.mark.parametrize("filename", ["strange-1.0-py3-none-any.whl", "strange-1.0-0.conda3"])
def test_every_package_is_fetched_by_us(test_conda, offer, offered, filename):
    """conda sends no request for an archive: the foreign one lies where it takes it, of the record's digest."""
    served = offered(filename, {})
    done = test_conda.run("create", "-p", test_conda.folder / "env", *SPEC, "strange")
    asked = asked_for(served, filename)
    assert asked, done.stdout + done.stderr
    assert all(request.is_ours for request in asked)
    archives = served.archive_requests()
    assert all(request.is_ours for request in archives)
    assert {request.uri.rpartition("/")[2] for request in archives} >= {each.filename for each in offer.wanted.values()}
    assert [line for line in our_lines(done.stderr) if "conda continues on its own" in line] == []
    assert not list(test_conda.pkgs.glob("*.partial"))
    assert not list((test_conda.pkgs / FOLDER).glob("*strange*"))


def test_without_a_size_it_is_left_to_conda(test_conda, offer, offered):
    """conda uses no file of ours then, so none is fetched; the other packages are."""
    filename = "strange-1.0-py3-none-any.whl"
    served = offered(filename, {"size": None})
    test_conda.run("create", "-p", test_conda.folder / "env", *SPEC, "strange")
    assert not any(request.is_ours for request in asked_for(served, filename))
    ours = {request.uri.rpartition("/")[2] for request in served.archive_requests() if request.is_ours}
    assert ours >= {each.filename for each in offer.wanted.values()}


def real_wheel():
    """A wheel with one module, as a build backend writes it."""
    about = "strange-1.0.dist-info"
    files = {
        "strange.py": b"ANSWER = 42\n",
        f"{about}/METADATA": b"Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n",
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {
        name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        for name, data in files.items()
    }
    listed = "".join(f"{name},sha256={digests[name]},{len(data)}\n" for name, data in files.items())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in {**files, f"{about}/RECORD": f"{listed}{about}/RECORD,,\n".encode()}.items():
            archive.writestr(name, data)
    return packed.getvalue()


@pytest.mark.parametrize("solver", ["classic", "rattler"])
def test_conda_pypi_extracts_the_wheel_that_we_fetched(test_conda, offer, nginx_mirrors, tmp_path, solver):
    """With a conda that takes wheels, from each form of an index: no archive is requested by conda itself."""
    needed = "import conda_pypi, conda_rattler_solver" if solver == "rattler" else "import conda_pypi"
    if subprocess.run([test_conda.python, "-c", needed], capture_output=True, check=False).returncode != 0:
        pytest.skip(
            "this conda has no conda-pypi; name one that has (and conda-rattler-solver) by RESUME_DL_TEST_CONDA"
        )
    root, filename, wheel = tmp_path / "channels", "strange-1.0-py3-none-any.whl", real_wheel()
    shutil.copytree(offer.root, root, symlinks=True)
    folder = root / "pytorch" / "noarch"
    folder.mkdir(exist_ok=True)
    (folder / filename).write_bytes(wheel)
    for index in folder.glob("*repodata.json*"):
        index.unlink()
    record = {"name": "strange", "version": "1.0", "build": "py3_none_any_0", "build_number": 0, "depends": []}
    record |= {"size": len(wheel), "sha256": hashlib.sha256(wheel).hexdigest(), "subdir": "noarch", "noarch": "python"}
    document = {"info": {"subdir": "noarch"}, "packages": {}, "packages.conda": {}}
    if solver == "rattler":
        document["v3"] = {"whl": {"strange-1.0-py3_none_any_0": {**record, "fn": filename, "url": filename}}}
    else:
        document["packages"][filename] = record
    (folder / "repodata.json").write_text(json.dumps(document), encoding="utf-8")
    served = nginx_mirrors([root, root])
    use_mirrors(test_conda, served.base(0), [served.base(1)])
    test_conda.configure(solver=solver)
    done = test_conda.run("create", "-p", test_conda.folder / "env", "--download-only", *SPEC, "strange")
    assert done.returncode == 0, done.stdout + done.stderr
    asked = [*asked_for(served, filename), *served.archive_requests()]
    assert {request.uri.rpartition("/")[2] for request in asked} == {
        filename,
        *(each.filename for each in offer.wanted.values()),
    }
    assert all(request.is_ours for request in asked), done.stdout + done.stderr
    (module,) = test_conda.pkgs.glob("strange-1.0*/site-packages/strange.py")
    assert module.read_bytes() == b"ANSWER = 42\n"
