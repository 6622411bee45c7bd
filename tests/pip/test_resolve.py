"""Requirements to files: the right ones, from indexes of every form, with few bytes."""

from __future__ import annotations

import pytest

from support.pip_index import build_wheel, write_index
from support.pip_resolving import Resolving, by_name, names


@pytest.fixture
def user(tmp_path):
    return Resolving(tmp_path)


def test_an_index_of_every_form(tmp_path, nginx_mirrors, user):
    wheel = build_wheel(tmp_path / "built", "demo.app", "1.0", requires=["Helper_Lib"])
    helper = build_wheel(tmp_path / "built", "helper-lib", "2.0")
    write_index(tmp_path / "root", [wheel, helper])
    nginx = nginx_mirrors([tmp_path / "root"])
    solution = user.resolve("demo-app", index=f"{nginx.base()}/simple")
    assert names(solution) == {wheel.filename, helper.filename}
    found = by_name(solution)["demo-app"]
    assert (found.sha256, found.size, found.version) == (wheel.sha256, wheel.size, "1.0")
    assert found.url.reveal() == f"{nginx.base()}/{wheel.url_path}"
    print(solution.lock_text, user.told.text, *nginx.requests(), sep="\n")
