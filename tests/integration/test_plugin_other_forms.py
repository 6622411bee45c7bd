"""A solution with a package of another form than conda's own: the others are fetched as ever, and so is that one."""

from __future__ import annotations

import hashlib
import json
import shutil

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
