"""What a run says: the JSON object, progress as JSON, silence, and never a secret."""

from __future__ import annotations

import json
import signal

import pytest

from faults.behaviours import Drop, Flip, Ok, Page, Stall, Status
from support.conda_cache import build_large_offer
from support.fetching import User

WANTED = "pytorch=1.7"
LARGE = "pytorch-1.7.1-py3.8_cuda11.0.221_cudnn8.0.5_0.conda"
TOP = {
    "schema": int, "command": str, "ok": bool, "exit_code": int, "elapsed": float, "error": (dict, type(None)),
    "totals": dict, "artifacts": list,
}  # fmt: skip
TOTALS = {"artifacts", "bytes", "downloaded", "resumed", "cached", "wasted"}
ARTIFACT = {
    "name": str, "version": str, "build": str, "subdir": str, "channel": str, "kind": str, "filename": str, "url": str,
    "size": int, "sha256": (str, type(None)), "md5": (str, type(None)), "path": (str, type(None)), "status": str,
    "sources": list, "error": (dict, type(None)),
}  # fmt: skip
ERROR = {"type": str, "message": str, "hint": str, "retryable": bool, "resumable_bytes": int}
STATUSES = {"planned", "downloaded", "resumed", "cached", "stopped", "failed"}


def assert_shape(report):
    """The object is as docs/interface.md has it; more keys may be added, none may be missing."""
    assert_has(report, TOP)
    assert (report["schema"], report["command"]) == (1, "fetch")
    assert report["ok"] is (report["exit_code"] == 0)
    assert report["totals"].keys() >= TOTALS
    assert all(isinstance(report["totals"][name], int) for name in TOTALS)
    for artifact in report["artifacts"]:
        assert_has(artifact, ARTIFACT)
        assert artifact["status"] in STATUSES
        assert artifact["kind"] == "conda"
        assert (artifact["error"] is not None) is (artifact["status"] in {"failed", "stopped"})
        for source in artifact["sources"]:
            assert_has(source, {"mirror": str, "bytes": int, "failures": list})
    for error in (report["error"], *(artifact["error"] for artifact in report["artifacts"])):
        if error is not None:
            assert_has(error, ERROR)
            assert set(error) == set(ERROR)


def assert_has(found, wanted):
    for name, kind in wanted.items():
        assert isinstance(found[name], kind), (name, found[name])


def test_json_of_a_good_run(faulty, offer):
    """Shape, sums, sources, and the canonical address whatever mirror sent it."""
    _, user = faulty
    done = user.fetch(WANTED, "--json")
    assert done.code == 0
    report = done.report
    assert_shape(report)
    by_file = {artifact["filename"]: artifact for artifact in report["artifacts"]}
    for key, package in offer.wanted.items():
        artifact = by_file[package.filename]
        channel = key.rpartition("/")[0]
        base = "https://repo.anaconda.com" if channel == "pkgs/main" else "https://conda.anaconda.org"
        assert artifact["url"] == f"{base}/{channel}/{package.url_path}"
        assert artifact["path"] == str(user.pkgs / package.filename)
        assert (artifact["size"], artifact["md5"]) == (package.size, package.md5)
        assert sum(source["bytes"] for source in artifact["sources"]) == package.size
        assert {source["mirror"] for source in artifact["sources"]} <= {"one", "two"}
        assert artifact["channel"] == channel


def test_json_reports_failures(faulty):
    """Failures of sources that were got over are listed with their source; the run is a success."""
    server, user = faulty
    server.script(None, [Status(503), Drop(after=100), Ok()], path=f"*{LARGE}")
    done = user.fetch(WANTED, "--no-deps", "--json")
    assert done.code == 0, done.err
    assert_shape(done.report)
    failures = [failure for source in done.artifact("pytorch")["sources"] for failure in source["failures"]]
    assert failures
    assert all(isinstance(failure, str) for failure in failures)


@pytest.mark.parametrize(
    ("behaviour", "code", "kind"),
    [
        (Status(404), 1, "SourcesExhaustedError"),
        (Page(), 1, "CaptivePortalError"),
        (Page(403), 1, "SourcesExhaustedError"),
        (Status(500), 1, "SourcesExhaustedError"),
        (Flip(5), 4, "DigestMismatchError"),
    ],
    ids=["404", "page", "403", "500", "flip"],
)
def test_one_artifact_fails(faulty, behaviour, code, kind):
    """One archive cannot be had anywhere: its exit code and its error in the object, the other packages are there."""
    server, user = faulty
    server.always(None, behaviour, path="*/mkl-2020.2-256.conda")
    done = user.fetch(WANTED, "--json", "--give-up-after", "2s")
    assert done.code == code, done.err
    assert_shape(done.report)
    failed = done.artifact("mkl")
    assert (failed["status"], failed["error"]["type"]) == ("failed", kind)
    assert failed["error"]["retryable"] is (code == 1)
    assert {s for name, s in done.statuses.items() if name != failed["filename"]} == {"downloaded"}
    assert "mkl-2020.2-256.conda" in done.err
    assert "Traceback" not in done.err
    assert done.report["next_command"] == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--connections", "0"],
        ["--cuda"],
        ["--no-such-option"],
        ["--limit-rate", "fast"],
        ["--mirror", "nobody"],
        ["--prefix", "x", "--name", "y"],
        ["--file", "is-not-there.yml"],
        ["--no-deps", "--only-deps"],
    ],
)
def test_wrong_usage(tmp_path, arguments):
    """Wrong options end in 2 with one JSON object on stdout and a reason on stderr."""
    user = User(tmp_path / "user")
    done = user.run("fetch", WANTED, "--json", *arguments)
    assert done.code == 2, done.err
    assert_shape(done.report)
    assert done.report["error"]["type"] == "ConfigurationError"
    assert done.report["error"]["message"] in done.err
    assert "Traceback" not in done.err


def test_nothing_to_fetch(tmp_path):
    """No spec at all is wrong usage."""
    user = User(tmp_path / "user")
    done = user.run("fetch", "--json")
    assert done.code == 2
    assert_shape(done.report)


def test_progress_json(faulty, offer):
    """--progress json: every line of stderr is an object with its kind; the plan names all, done never falls."""
    _, user = faulty
    done = user.fetch(WANTED, "--json", "--progress", "json")
    assert done.code == 0
    events = done.events()
    assert all(isinstance(event["event"], str) and event["elapsed"] >= 0 for event in events)
    plan = next(event for event in events if event["event"] == "plan")
    assert {one["filename"] for one in plan["artifacts"]} == {package.filename for package in offer.wanted.values()}
    assert plan["total_bytes"] == done.report["totals"]["bytes"]
    for package in offer.wanted.values():
        mine = [e for e in events if e["event"] == "progress" and e["filename"] == package.filename]
        counts = [event["done"] for event in mine]
        assert counts == sorted(counts)
        assert counts[-1] == package.size
        assert mine[-1]["state"] == "downloaded"


def test_progress_json_of_a_resumed_run(tmp_path, fault_server):
    """The whole run's counts are in each event: a part file's bytes are done once, and from the start."""
    large = build_large_offer(tmp_path / "offer", large=3_000_000)
    server = fault_server(ports=1)
    server.mount(large.root)
    user = User(tmp_path / "user")
    user.mirrors(one=server.base())
    server.script(None, [Stall(after=2_000_000), Stall()], path=f"*{LARGE}")
    with user.start("fetch", *user.options, WANTED, "--progress", "json") as first:
        for line in first.stderr:
            run = json.loads(line).get("run")
            if run is not None and run["files_done"] == 11 and run["done"] - run["total"] + 3_000_000 >= 1_500_000:
                first.send_signal(signal.SIGINT)
                break
        _, err = first.communicate(timeout=60)
    stopped = [event["run"] for event in map(json.loads, err.splitlines()) if event["event"] == "progress"][-1]
    assert (stopped["files_done"], stopped["files"]) == (11, 12)
    assert stopped["done"] < stopped["total"]
    server.always(None, Ok())
    done = user.fetch(WANTED, "--json", "--progress", "json")
    events = done.events()
    plan = next(event for event in events if event["event"] == "plan")
    assert plan["cached_bytes"] == plan["run"]["done"] == sum(one["here"] for one in plan["artifacts"])
    assert plan["run"]["done"] == stopped["done"]
    runs = [event["run"] for event in events if event["event"] == "progress" and event["run"] is not None]
    assert all(stopped["done"] <= run["done"] <= run["total"] for run in runs)
    assert runs[0]["done"] == stopped["done"]
    totals = done.report["totals"]
    whole = {"files": 12, "files_done": 12, "files_of_unknown_size": 0, "total": totals["bytes"]}
    assert runs[-1] == {**whole, "done": totals["bytes"], "fetched": totals["downloaded"]}


def test_progress_json_of_a_failure(faulty):
    """Errors do not break the lines: stderr is all JSON in a failing run as well, and says what failed."""
    server, user = faulty
    server.always(None, Status(404), path=f"*{LARGE}")
    done = user.fetch(WANTED, "--no-deps", "--progress", "json")
    assert done.code == 1
    events = done.events()
    errors = [event for event in events if event["event"] == "error"]
    assert [error["type"] for error in errors] == ["SourcesExhaustedError"]
    assert LARGE in errors[0]["message"]
    assert any(LARGE in json.dumps(event) and "404" in json.dumps(event) for event in events)


def test_debug(faulty):
    """--debug adds a traceback and changes nothing else: exit code, error line and JSON object are as without it."""
    _, user = faulty
    done = user.fetch("pytorch=9", "--debug", "--json")
    assert done.code == 3, done.err
    assert_shape(done.report)
    assert "Traceback" in done.err
    assert "\nerror: " in done.err


def test_quiet(faulty):
    """--quiet: not a word of a good run; errors are still told."""
    server, user = faulty
    done = user.fetch(WANTED, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    server.always(None, Status(404), path="*repodata.json*")
    failed = user.fetch(WANTED, "--quiet", env={"RESUME_DL_CACHE_DIR": str(user.folder / "other")})
    assert failed.code == 3
    assert failed.out == ""
    assert failed.err.startswith("error: ")


def test_progress_none_and_plain(faulty):
    """none shows messages but no lines of progress; neither writes to stdout but the summary."""
    _, user = faulty
    plain = user.fetch(WANTED, "--dest", user.folder / "a", "--progress", "plain")
    none = user.fetch(WANTED, "--dest", user.folder / "b", "--progress", "none")
    assert (plain.code, none.code) == (0, 0)
    assert "\r" not in plain.err + none.err
    assert len(none.err.splitlines()) <= len(plain.err.splitlines())
    assert [line.partition(":")[0] for line in plain.out.splitlines()] == [
        line.partition(":")[0] for line in none.out.splitlines()
    ], "but for how fast it was"


def test_output_to_a_closed_pipe(faulty):
    """A reader of stdout that has gone away does not turn a success into a failure or a traceback."""
    _, user = faulty
    with user.start("fetch", *user.options, WANTED) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
        assert process.wait(60) == 0
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


# --- secrets ---------------------------------------------------------------------------------------------------------

SECRET = "s3cr3t-p4ssw0rd"
TOKEN = "tk-0123456789abcdef"


def files_with(folder, *words):
    """Every file below a folder whose name or content has one of these words."""
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and any(word in str(path) or word.encode() in path.read_bytes() for word in words)
    ]


@pytest.fixture
def private(tmp_path, offer, nginx_mirrors):
    """Channels behind a login and behind a token, at an nginx that looks at neither."""
    root = tmp_path / "private"
    (root / "t" / TOKEN).mkdir(parents=True)
    for name in ("pytorch", "pkgs"):
        (root / name).symlink_to(offer.root / name)
        (root / "t" / TOKEN / name).symlink_to(offer.root / name)
    return nginx_mirrors([root])


@pytest.mark.parametrize("form", ["login", "token"])
@pytest.mark.parametrize("how", ["option", "condarc", "environment.yml"])
def test_no_secret_is_ever_shown_or_kept(tmp_path, private, offer, form, how):
    """A channel with a password or a token works, and its secret is in no output and in no file that we wrote."""
    port = private.port(0)
    base = f"http://user:{SECRET}@127.0.0.1:{port}" if form == "login" else f"http://127.0.0.1:{port}/t/{TOKEN}"
    user = User(tmp_path / "user")
    channels = [f"{base}/pytorch", f"{base}/pkgs/main"]
    arguments = [WANTED, "--verbose", "--progress", "json"]
    user.condarc["channels"] = []
    if how == "condarc":
        user.condarc["channels"] = channels
    elif how == "option":
        arguments += ["--override-channels", "-c", channels[0], "-c", channels[1]]
    else:
        text = json.dumps({"channels": [*channels, "nodefaults"], "dependencies": [WANTED]})
        (user.folder / "environment.yml").write_text(text)
        arguments[0] = "--file=environment.yml"
    done = user.fetch(*arguments, "--json")
    assert done.code == 0, done.err
    user.assert_complete(offer.wanted)
    plain = user.fetch(*arguments)
    assert plain.code == 0
    said = done.out + done.err + plain.out + plain.err
    assert SECRET not in said
    assert TOKEN not in said
    (user.folder / "environment.yml").unlink(missing_ok=True)
    (user.home / ".condarc").unlink()
    assert files_with(user.folder, SECRET, TOKEN) == []
    urls = (user.pkgs / "urls.txt").read_text()
    assert f"http://127.0.0.1:{port}/pytorch/linux-64/{LARGE}" in urls.splitlines()


@pytest.mark.parametrize("form", ["login", "token"])
def test_no_secret_in_errors(tmp_path, private, form):
    """The same where all goes wrong: an unknown package, a channel that is not there, an archive that is damaged."""
    port = private.port(0)
    base = f"http://user:{SECRET}@127.0.0.1:{port}" if form == "login" else f"http://127.0.0.1:{port}/t/{TOKEN}"
    user = User(tmp_path / "user")
    options = ["--override-channels", "--debug", "--verbose", "--json"]
    runs = [
        user.fetch("nothing-like-it", "-c", f"{base}/pytorch", *options),
        user.fetch("pytorch", "-c", f"{base}/no-such-channel", *options),
        user.fetch("pytorch", "-c", f"{base.replace(str(port), '9')}/pytorch", *options, "--give-up-after", "1s"),
        user.fetch(f"{base}/pytorch::pytorch[", "-c", f"{base}/pytorch", *options),
        user.fetch("pytorch", "--file", "no", "-c", f"{base}/pytorch", *options),
    ]
    (user.folder / "lock.txt").write_text(f"@EXPLICIT\n{base}/pytorch/linux-64/a-1-0.conda#{'0' * 32}\n")
    runs.append(user.fetch("--file", "lock.txt", "--json", "--verbose", "--give-up-after", "1s"))
    assert [done.code for done in runs] == [3, 3, 6, 2, 2, 1]
    for done in runs:
        assert SECRET not in done.out + done.err
        assert TOKEN not in done.out + done.err
    (user.folder / "lock.txt").unlink()
    assert files_with(user.folder, SECRET, TOKEN) == []
