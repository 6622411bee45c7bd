"""A real conda with the plugin fetches through our engine, from every mirror, and its result is conda's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from resume_dl.store.part import FOLDER
from support.conda_cache import SPEC
from support.conda_env import TestConda
from support.fetching import User
from support.plugin import our_lines, records, use_mirrors

pty = pytest.importorskip("pty", reason="pseudo-terminals are POSIX's")

pytestmark = pytest.mark.conda


@pytest.fixture
def served(offer, nginx_mirrors):
    """The same channels at three places: the one that conda asks, and two mirrors of it."""
    return nginx_mirrors([offer.root, offer.root, offer.root])


@pytest.fixture
def ready(test_conda, served):
    """A conda with an empty cache, and mirrors."""
    use_mirrors(test_conda, served.base(0), [served.base(1), served.base(2)])
    return test_conda


def create(conda, *arguments, expect=0, name="env", **options):
    done = conda.run("create", "-p", conda.folder / name, *SPEC, *arguments, **options)
    assert done.returncode == expect, done.stdout + done.stderr
    assert "resume-dl: " not in done.stdout
    return done


def tree(folder):
    """Every file below a folder, less the channel indexes that conda keeps there."""
    return {path for path in folder.rglob("*") if path.relative_to(folder).parts[0] != "cache"}


def test_every_archive_is_fetched_by_the_plugin_with_condas_own_result(ready, offer, served):
    """No archive is asked for by conda, mirrors have a share, and the records are those that conda writes alone."""
    create(ready, plugin=False)
    expected = records(ready.folder / "env")
    shutil.rmtree(ready.pkgs)
    served.reset_log()
    create(ready, name="second")
    asked = served.archive_requests()
    assert len(asked) == len(offer.wanted)
    assert all(request.is_ours for request in asked)
    assert len({request.mirror for request in asked}) > 1
    assert records(ready.folder / "second") == expected
    create(ready, name="third", plugin=False)
    assert len(served.archive_requests()) == len(asked)  # and it stays conda's own without us


def test_with_the_rattler_solver(ready, offer, served):
    """The hook stands behind every solver: the same packages, all fetched by us."""
    has = [str(ready.python), "-c", "import conda_rattler_solver"]
    if subprocess.run(has, capture_output=True, check=False).returncode != 0:
        pytest.skip("this conda has no conda-rattler-solver; name one that has by RESUME_DL_TEST_CONDA")
    ready.configure(solver="rattler")
    create(ready)
    asked = served.archive_requests()
    assert len(asked) == len(offer.wanted)
    assert all(request.is_ours for request in asked)
    assert len(records(ready.folder / "env")) == len(offer.wanted)


def test_updates_and_environment_files_come_the_same_way(ready, offer, served):
    """``install``, ``update``, ``env create``, ``env update`` and ``--download-only``: conda asks for no archive."""
    prefix = ready.folder / "env"
    file = ready.folder / "environment.yml"
    steps = (
        (("create", "-p", prefix, "libuv", "--download-only"), None),
        (("create", "-p", prefix, "libuv"), None),
        (("install", "-p", prefix, "ninja"), None),
        (("update", "-p", prefix, "--all"), None),
        (("env", "create", "-p", ready.folder / "other", "-f", file), ["pytorch=1.7", "pip"]),
        (("env", "update", "-p", prefix, "-f", file), ["mkl"]),
    )
    for arguments, wanted in steps:
        if wanted is not None:
            channels = ready.settings["channels"]
            file.write_text(json.dumps({"channels": channels, "dependencies": wanted}), encoding="utf-8")
        done = ready.run(*arguments)
        assert done.returncode == 0, (arguments, done.stdout + done.stderr)
    assert {path.name.partition("-")[0] for path in (prefix / "conda-meta").glob("*.json")} >= {"libuv", "ninja", "mkl"}
    assert any((ready.folder / "other" / "conda-meta").glob("pytorch-*.json"))
    asked = served.archive_requests()
    assert len(asked) == len({request.uri for request in asked})  # nothing twice
    assert all(request.is_ours for request in asked)
    assert len(asked) > len(offer.wanted) - 3


def test_json_has_no_other_output_and_a_dry_run_sends_no_request(ready, served):
    """stdout of ``--json`` parses and stderr has no line of ours; a dry run leaves the cache as it was."""
    create(ready, "--dry-run")
    before = tree(ready.pkgs)
    dry = create(ready, "--dry-run", "--json")
    assert json.loads(dry.stdout)["dry_run"] is True
    assert tree(ready.pkgs) == before
    assert served.archive_requests() == []
    done = create(ready, "--json")
    assert json.loads(done.stdout)["success"] is True
    assert our_lines(done.stderr) == []
    assert all(request.is_ours for request in served.archive_requests())


@pytest.mark.parametrize("how", ["never", "too small", "environment", "offline"])
def test_commands_that_are_left_to_conda(ready, offer, served, how):
    """``never`` and a small fetch are conda's own; CONDA_PLUGINS_* counts as well; nobody is asked with --offline."""
    plugins = ready.settings["plugins"]
    env = {}
    if how == "never":
        ready.configure(plugins={**plugins, "resume_dl_prefetch": False})  # what YAML makes of: off
    elif how == "too small":
        ready.configure(plugins={**plugins, "resume_dl_min_size": "10MB"})
    elif how == "environment":
        env = {"CONDA_PLUGINS_RESUME_DL_PREFETCH": "never"}
    if how == "offline":
        create(ready, "--offline", expect=1)
        assert served.requests() == []
        return
    done = create(ready, env=env)
    assert our_lines(done.stderr) == []
    asked = served.archive_requests()
    assert len(asked) == len(offer.wanted)
    assert not any(request.is_ours for request in asked)


def test_invalid_settings_are_reported_and_do_not_stop_conda(ready, served):
    ready.configure(plugins={**ready.settings["plugins"], "resume_dl_prefetch": "perhaps", "resume_dl_min_size": "big"})
    done = create(ready)
    said = our_lines(done.stderr)
    assert any("resume_dl_prefetch is 'perhaps'" in line for line in said)
    assert any("resume_dl_min_size is 'big'" in line for line in said)
    assert all(request.is_ours for request in served.archive_requests())


BROKEN = {
    "state cannot be written": None,
    "broken mirrors.toml": None,
    "no httpx": "httpx",
    "no httpcore": "httpcore",
    "no uv, no rattler": "rattler",
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_failure_of_the_plugin_only_adds_one_line(ready, offer, served, tmp_path, case):
    """Whatever of ours is broken: conda's exit code, environment and archives are those of a conda without us."""
    env = {}
    if case == "state cannot be written":
        nowhere = tmp_path / "a-file"
        nowhere.touch()
        env = {f"RESUME_DL_{kind}_DIR": str(nowhere / kind) for kind in ("CONFIG", "CACHE", "STATE")}
    elif case == "broken mirrors.toml":
        Path(ready.settings["plugins"]["resume_dl_mirrors"]).write_text("schema = 'none", encoding="utf-8")
    else:
        (ready.folder / "on-pythonpath" / f"{BROKEN[case]}.py").write_text("raise ImportError('not here')\n")
    done = create(ready, env=env)
    assert len(our_lines(done.stderr)) <= 1, done.stderr
    if case in {"broken mirrors.toml", "no httpx", "no httpcore"}:
        assert "conda continues on its own" in done.stderr
        assert not any(request.is_ours for request in served.archive_requests())
    assert len(served.archive_requests()) == len(offer.wanted)
    found = records(ready.folder / "env")
    shutil.rmtree(ready.pkgs)
    create(ready, name="without", plugin=False)
    assert found == records(ready.folder / "without")


def answer(conda: TestConda, answers: str, *arguments: str) -> tuple[int, str]:
    """conda on a terminal of its own; ``answers`` is typed ahead. Exit code and all that it showed."""
    ours, theirs = pty.openpty()
    arguments = arguments or ("create", "-p", str(conda.folder / "env"), *SPEC)
    command = [str(conda.python), "-m", "conda", *arguments]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=conda.environment(), cwd=conda.folder
    ) as process:
        os.close(theirs)
        os.write(ours, answers.encode())
        shown = []
        try:
            while data := os.read(ours, 4096):
                shown.append(data)
        except OSError:  # the other end is closed: the program has ended
            pass
        code = process.wait(60)
    os.close(ours)
    return code, b"".join(shown).decode(errors="replace")


def test_on_a_terminal_it_prompts_once_and_keeps_packages_after_no(ready, offer, served, tmp_path):
    """Yes to us and no to conda: nothing is installed, the packages wait, ``status`` lists them, conda finds them."""
    ready.configure(always_yes=None)
    _, shown = answer(ready, "y\nn\n")
    assert "Exiting" in shown
    assert shown.count("fetch them now") == 1
    assert f"{len(offer.wanted)} packages to fetch" in shown
    assert not (ready.folder / "env" / "conda-meta").exists()
    assert len(served.archive_requests()) == len(offer.wanted)
    user = User(tmp_path / "user", env=ready.environment(), pkgs=ready.pkgs)
    status = user.run("status", "--pkgs-dir", ready.pkgs, "--json")
    assert {each["filename"] for each in status.report["fetched_ahead"]} == {
        package.filename for package in offer.wanted.values()
    }
    ready.configure(always_yes=True)
    create(ready)
    assert len(served.archive_requests()) == len(offer.wanted)
    assert user.run("status", "--pkgs-dir", ready.pkgs, "--json").report["fetched_ahead"] == []


def test_no_at_our_prompt_leaves_the_download_to_conda(ready, offer, served):
    ready.configure(always_yes=None)
    code, shown = answer(ready, "n\ny\n")
    assert code == 0, shown
    assert not any(request.is_ours for request in served.archive_requests())
    assert len(served.archive_requests()) == len(offer.wanted)


def test_it_prompts_only_if_conda_prompts(ready, served):
    """``conda env create`` and an address get no question of conda's, so none of ours: they end by themselves."""
    ready.configure(always_yes=None)
    file = ready.folder / "environment.yml"
    wanted = {"channels": ready.settings["channels"], "dependencies": ["libuv"]}
    file.write_text(json.dumps(wanted), encoding="utf-8")
    for arguments in (
        ("env", "create", "-p", str(ready.folder / "env"), "-f", str(file)),
        (
            "create",
            "-p",
            str(ready.folder / "other"),
            f"{served.base(0)}/pkgs/main/linux-64/ninja-1.10.2-py38hff7bd54_0.tar.bz2",
        ),
    ):
        code, shown = answer(ready, "", *arguments)
        assert code == 0, shown
        assert "fetch them now" not in shown
    asked = served.archive_requests()
    assert len(asked) == 2
    assert all(request.is_ours for request in asked)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is Linux's")
def test_an_unwritable_stderr_is_not_a_failure(ready):
    """Everything is installed, so conda's exit code is 0."""
    arguments = [str(ready.python), "-m", "conda", "create", "-p", str(ready.folder / "env"), "libuv"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            arguments, stdout=subprocess.DEVNULL, stderr=full, env=ready.environment(), cwd=ready.folder, check=False
        )
    assert done.returncode == 0
    assert len(records(ready.folder / "env")) == 1
    assert not list((ready.pkgs / FOLDER).glob("ahead-*"))


def test_two_conda_processes_and_a_fetch_download_everything_once(ready, offer, served, tmp_path):
    """Three processes on one cache: all succeed, and no archive is downloaded twice."""
    for mirror in range(3):
        served.set_rate(mirror, 150_000)
    user = User(tmp_path / "user", env={**ready.environment(), "RESUME_DL_CONDA": str(ready.python)}, pkgs=ready.pkgs)
    user.options = ["--mirrors", ready.settings["plugins"]["resume_dl_mirrors"]]
    results = {}

    def run(name):
        if name == "fetch":
            done = user.fetch(*SPEC)
            results[name] = done.code, done.err
        else:
            done = ready.run("create", "-p", ready.folder / name, *SPEC)
            results[name] = done.returncode, done.stdout + done.stderr

    threads = [threading.Thread(target=run, args=(name,)) for name in ("one", "two", "fetch")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {code for code, _ in results.values()} == {0}, results
    assert records(ready.folder / "one") == records(ready.folder / "two")
    sizes = sum(package.size for package in offer.wanted.values())
    assert served.body_bytes() <= 1.1 * sizes
    assert not list((ready.pkgs / FOLDER).glob("*.part"))
