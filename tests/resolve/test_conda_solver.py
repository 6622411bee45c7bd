"""--solver conda, with a real conda, and that ours comes to the same."""

from __future__ import annotations

import json
from functools import partial

import pytest

from resume_dl.errors import ConfigurationError, InvalidSpecError, PackageNotFoundError, ResolutionError
from resume_dl.model.channel import Channel
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.conda_solver import solve_with_conda
from resume_dl.resolve.request import RepodataFile, SolveRequest
from resume_dl.resolve.solve import solve
from support import records
from support.channels import build_pytorch_channels
from support.records import record

pytestmark = pytest.mark.conda


@pytest.fixture
def channels(tmp_path):
    """The pytorch-like channels on disk, as file:// channels."""
    root = tmp_path / "channels"
    build_pytorch_channels(root, large=50_000, medium=5_000)
    made = []
    for name in ("pytorch", "pkgs/main"):
        base = RedactedUrl((root / name).as_uri())
        made.append(Channel(name, f"conda:{name}", RedactedUrl(f"https://conda.anaconda.org/{name}"), base))
    return root, tuple(made)


def test_both_solvers_give_the_same_solution(test_conda, channels, worker):
    """The real conda and we choose the same files, with the same addresses, digests and sizes, pip among them."""
    root, found = channels
    request = SolveRequest(specs=("pytorch=1.7",), channels=found, platform="linux-64")
    command = [str(test_conda.python), "-m", "conda"]
    theirs = solve_with_conda(command, request, env=test_conda.environment())
    files = [
        RepodataFile(channel, subdir, root / channel.name / subdir / "repodata.json")
        for channel in found
        for subdir in ("linux-64", "noarch")
    ]
    ours = solve(request, files, worker, env={})

    def essence(solution):
        return [
            (a.filename, str(a.url), str(a.client_url), a.client_channel, a.channel, a.subdir, a.md5, a.sha256, a.size)
            for a in solution.artifacts
        ]

    assert essence(theirs) == essence(ours)
    assert {"pytorch", "python", "pip", "blas"} <= {artifact.name for artifact in ours.artifacts}
    assert ours.requested == theirs.requested == ("pytorch",)
    assert not (test_conda.folder / "envs").exists()


def test_records_of_cached_packages_come_from_condas_cache(test_conda, channels, tmp_path):
    """Packages in conda's cache are not in FETCH: their records are read from the cache, or they are named."""
    _, found = channels
    request = SolveRequest(specs=("libuv",), channels=found, platform="linux-64")
    command = [str(test_conda.python), "-m", "conda"]
    first = solve_with_conda(command, request, env=test_conda.environment())
    arguments = ["-c", found[0].client_base.reveal(), "-c", found[1].client_base.reveal()]
    done = test_conda.run("create", "-p", tmp_path / "env", "--override-channels", *arguments, "libuv", plugin=False)
    assert done.returncode == 0, done.stderr
    again = solve_with_conda(command, request, env=test_conda.environment(), pkgs_dirs=[test_conda.pkgs])
    assert [(a.filename, a.sha256, a.size) for a in again.artifacts] == [
        (a.filename, a.sha256, a.size) for a in first.artifacts
    ]
    unseen = solve_with_conda(command, request, env=test_conda.environment())
    assert unseen.artifacts == ()
    assert "libuv-1.40.0-h7b6447c_0" in unseen.notes[0]
    installed = solve_with_conda(command, request, env=test_conda.environment(), prefix=tmp_path / "env")
    assert installed.artifacts == ()


def test_conda_errors_are_mapped_to_ours(test_conda, channels):
    """What conda cannot find is exit 3 with conda's words; an option in place of a spec never reaches it."""
    _, found = channels
    command = [str(test_conda.python), "-m", "conda"]
    with pytest.raises(PackageNotFoundError, match="nosuch"):
        solve_with_conda(
            command, SolveRequest(specs=("nosuch",), channels=found, platform="linux-64"), env=test_conda.environment()
        )
    with pytest.raises(ResolutionError) as caught:
        solve_with_conda(
            command,
            SolveRequest(specs=("pytorch=1.7", "numpy=1.99"), channels=found, platform="linux-64"),
            env=test_conda.environment(),
        )
    assert caught.value.exit_code == 3
    with pytest.raises(InvalidSpecError):
        solve_with_conda(command, SolveRequest(specs=("--yes",), channels=found, platform="linux-64"))


def test_a_conda_that_does_not_run(tmp_path, channels):
    """A conda that is not there, or answers something else, is a matter of configuration."""
    _, found = channels
    request = SolveRequest(specs=("a",), channels=found, platform="linux-64")
    with pytest.raises(ConfigurationError, match="cannot run"):
        solve_with_conda([str(tmp_path / "nosuch")], request)
    script = tmp_path / "conda"
    script.write_text("#!/bin/sh\necho https://u:hunter2@x.example/ >&2\nexit 3\n")
    script.chmod(0o755)
    with pytest.raises(ConfigurationError, match="status 3") as caught:
        solve_with_conda([str(script)], request)
    assert "hunter2" not in caught.value.message
    script.write_text("#!/bin/sh\nprintf '%s ' \"$@\" > " + str(tmp_path / "seen") + "\necho '{}'\n")
    secret = RedactedUrl("https://u:hunter2@x.example/one")
    solve_with_conda(
        [str(script)], SolveRequest(specs=("a",), channels=(Channel("one", None, secret, secret),), platform="linux-64")
    )
    assert "-c one a" in (tmp_path / "seen").read_text()
    assert "hunter2" not in json.dumps((tmp_path / "seen").read_text())


@pytest.mark.parametrize("priority", ["strict", "flexible", "disabled"])
def test_both_solvers_understand_priorities_alike(test_conda, tmp_path, worker, priority):
    """Two channels that overlap: the real conda and we take the same builds under each priority, or both fail."""
    content = {
        "one": [record("a", "1"), record("b", "1"), record("d", "1"), record("d", "1", extension=".conda")],
        "two": [record("a", "2"), record("b", "2"), record("c", "1", depends=["b >=2", "a", "d"])],
    }
    channels = []
    for name, packages in content.items():
        base = RedactedUrl((tmp_path / name).as_uri())
        channels.append(Channel(name, None, base, base))
        records.write(tmp_path / name / "linux-64" / "repodata.json", packages)
        records.write(tmp_path / name / "noarch" / "repodata.json", [], subdir="noarch")
    files = [
        RepodataFile(channel, "linux-64", tmp_path / channel.name / "linux-64" / "repodata.json")
        for channel in channels
    ]
    cases = [(("a", "b"), False), (("c",), False), (("c", "a=2"), False)]
    if priority == "flexible":
        cases.append((("a", "d"), True))
    command, environment = [str(test_conda.python), "-m", "conda"], test_conda.environment()
    for specs, bz2 in cases:
        request = SolveRequest(
            specs=specs,
            channels=tuple(channels),
            platform="linux-64",
            channel_priority=priority,
            use_only_tar_bz2=bz2,
        )
        found = []
        for answer in (
            partial(solve, request, files, worker, env={}),
            partial(solve_with_conda, command, request, env=environment),
        ):
            try:
                found.append({str(artifact.url) for artifact in answer().artifacts})
            except ResolutionError as error:
                found.append(error.exit_code)
        assert found[0] == found[1], specs
