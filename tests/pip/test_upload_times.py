"""``exclude-newer`` for pip packages: what uv would hold back is not fetched, compared with uv itself."""

from __future__ import annotations

import json
import subprocess

import pytest

from resume_dl.resolve.uv_program import find_uv
from support.fetching import User
from support.pip_index import build_wheel, write_index

pytestmark = pytest.mark.nginx
TIMES = {"1.0": "2021-01-01T12:00:00Z", "2.0": "2021-01-02T12:00:00.123456Z", "3.0": "2021-01-03T12:00:00Z", "4.0": ""}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Four versions of one package, a day apart; the newest has no upload time. ``bare`` has none at all."""
    root = tmp_path_factory.mktemp("dated")
    files = [build_wheel(root / "built", "aged", version) for version in TIMES]
    times = {file.filename: TIMES[file.version] for file in files if TIMES[file.version]}
    write_index(root, [*files, build_wheel(root / "built", "bare", "1.0")], uploaded=times)
    return root


@pytest.fixture
def index(root, nginx_mirrors):
    return f"{nginx_mirrors([root]).base()}/simple"


@pytest.fixture
def user(tmp_path):
    found = User(tmp_path / "user")
    found.options = ["--give-up-after", "20s", "--mirrors", str(found.write_mirrors({}))]
    return found


def version_by_uv(user, index, *options, env):
    """The version that uv chooses."""
    words = [find_uv(), "pip", "compile", "-", "--default-index", index, "--no-header", "--no-annotate", *options]
    done = subprocess.run(
        [*map(str, words)],
        input="aged",
        env=user.environment({"TZ": "UTC", "UV_NO_CACHE": "1", **env}),
        cwd=user.folder,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout.strip().partition("==")[2]


@pytest.mark.parametrize(
    ("env", "settings", "options"),
    [
        ({}, "", []),
        ({}, "", ["--exclude-newer", "2021-01-02"]),
        ({"UV_EXCLUDE_NEWER": "2021-01-02"}, "", []),
        ({"UV_EXCLUDE_NEWER": "2021-01-02T12:00:00.123456Z"}, "", []),
        ({"UV_EXCLUDE_NEWER": "1d"}, "", []),
        ({}, 'exclude-newer = "2021-01-01"', []),
        ({}, 'exclude-newer = "2021-01-01"', ["--exclude-newer", "2021-01-02"]),
        ({}, 'exclude-newer = "2021-01-01"\nexclude-newer-package = {Aged = "2021-01-03"}', []),
        ({}, 'exclude-newer = "2021-01-01"\nexclude-newer-package = {Aged = false}', []),
    ],
)
def test_the_version_is_the_one_that_uv_chooses(user, index, env, settings, options):
    user.folder.mkdir(exist_ok=True)
    if settings:
        (user.folder / "uv.toml").write_text(settings)
    done = user.fetch("--pip", "aged", "--index-url", index, "--dry-run", "--json", *options, env={"TZ": "UTC", **env})
    assert done.code == 0, done.err
    chosen = done.artifact("aged")["filename"].split("-")[1]
    assert chosen == version_by_uv(user, index, *options, env=env)
    assert ("pip packages uploaded after" in done.err) is bool(env or settings or options)


def test_the_rule_of_pip_holds(user, index):
    """``PIP_UPLOADED_PRIOR_TO``; the earlier of the two dates counts, and the option precedes both."""
    both = {"PIP_UPLOADED_PRIOR_TO": "2021-01-02T00:00:00Z", "UV_EXCLUDE_NEWER": "2021-01-03"}
    for options, expected in (
        ([], "1.0"),
        (["--exclude-newer", "2021-01-02"], "2.0"),
        (["--exclude-newer", "none"], "4.0"),
    ):
        done = user.fetch("--pip", "aged", "--index-url", index, "--dry-run", "--json", *options, env=both)
        assert done.code == 0, done.err
        assert done.artifact("aged")["filename"].startswith(f"aged-{expected}-")


def test_a_bundle_says_the_date(user, index):
    folder = user.folder / "made"
    done = user.run(
        "bundle", "create", *user.options, "--pip", "aged", "--index-url", index, "-o", folder,
        env={"UV_EXCLUDE_NEWER": "2021-01-02T18:00:00Z"},
    )  # fmt: skip
    assert done.code == 0, done.err
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    (platform,) = manifest["platforms"].values()
    assert platform["pip_exclude_newer"] == "2021-01-02T18:00:00Z"
    assert [package["version"] for package in manifest["packages"]] == ["2.0"]
    assert "without pip packages uploaded after 2021-01-02T18:00:00Z" in (folder / "README.txt").read_text("utf-8")
    assert user.run("bundle", "verify", folder).code == 0


@pytest.mark.parametrize(
    ("package", "date", "said"),
    [
        (
            "aged",
            "2020-01-01",
            "4 files of aged are too new or have no upload time, from 2021-01-01 on (UV_EXCLUDE_NEWER)",
        ),
        (
            "bare",
            "2030-01-01",
            "the index has no upload times for bare, so its files may be too new (UV_EXCLUDE_NEWER)",
        ),
    ],
)
def test_a_package_that_is_too_new_is_an_error_that_says_so(user, index, package, date, said):
    done = user.fetch("--pip", package, "--index-url", index, env={"UV_EXCLUDE_NEWER": date})
    assert done.code not in {0, 70}
    assert said in done.err
    assert "--exclude-newer sets another date" in done.err


def test_a_value_that_cannot_be_read_is_an_error(user, index):
    done = user.fetch("--pip", "aged", "--index-url", index, env={"UV_EXCLUDE_NEWER": "soon"})
    assert done.code == 2
    assert "UV_EXCLUDE_NEWER: not a date or duration: 'soon'" in done.err
