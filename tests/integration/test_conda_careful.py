"""The plugin leaves no user worse off: nothing unverified is used, and what goes wrong is conda's to do itself."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from resume_dl.caches.conda.lookup import stem
from resume_dl.store.journal import Written, encode_header, encode_size, encode_source, encode_written
from resume_dl.store.lock import FileLock
from resume_dl.store.part import FOLDER
from support.conda_cache import SPEC

pytestmark = pytest.mark.conda
MKL = "pkgs/main/mkl-2020.2-256.conda"
NINJA = "pkgs/main/ninja-1.10.2-py38hff7bd54_0.tar.bz2"


@pytest.fixture
def served(offer, nginx_mirrors):
    return nginx_mirrors([offer.root, offer.root])


@pytest.fixture
def ready(test_conda, offer, served):
    """A conda that has every package of the spec under its own URL but MKL, of which tests make a case."""
    test_conda.configure(channels=offer.urls(served.base(0)))
    for key in offer.wanted:
        if key != MKL:
            offer.publish(test_conda.pkgs, key, served.base(0))
    return test_conda


def create(conda, *arguments, expect=0, **options):
    done = conda.run("create", "-p", conda.folder / "env", *SPEC, *arguments, **options)
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def ours(done):
    """Our lines on stderr; none of ours may ever be on stdout."""
    assert "resume-dl" not in done.stdout
    return [line for line in done.stderr.splitlines() if line.startswith("resume-dl")]


def asked_for(served):
    return [Path(request.uri).name for request in served.archive_requests()]


def tree(folder):
    """Every path below a folder with its content, less the channel indexes that conda keeps there."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.relative_to(folder).parts[0] != "cache"
    }


def assert_mkl_installed(conda, offer):
    """The files of the package in the environment are those of the archive."""
    source = offer.extracted / offer.wanted[MKL].filename / "share" / "mkl" / "payload.bin"
    assert (conda.folder / "env" / "share" / "mkl" / "payload.bin").read_bytes() == source.read_bytes()


def write_part(pkgs, artifact, data, *, end=None):
    """A part file and its journal, as an interrupted fetch leaves them; ``end`` bytes are recorded."""
    folder = pkgs / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{artifact.key}.part"
    part.write_bytes(data)
    records = [
        encode_header(7),
        encode_size(7, len(data)),
        encode_source(7, 0, "tuna"),
        encode_written(7, Written(0, len(data) if end is None else end, 0, 0)),
    ]
    part.with_suffix(".journal").write_bytes(b"".join(records))
    return part


@pytest.mark.parametrize("damage", ["one byte flipped", "cut short"])
def test_wrong_bytes_are_not_used(ready, offer, served, damage):
    """A hand-placed file of the right name and wrong content is passed over, and conda downloads that one properly."""
    data = bytearray(offer.wanted[MKL].path.read_bytes())
    if damage == "cut short":
        del data[-1000:]
    else:
        data[len(data) // 2] ^= 1
    (ready.pkgs / offer.wanted[MKL].filename).write_bytes(data)
    done = create(ready)
    assert asked_for(served) == [offer.wanted[MKL].filename]
    assert ours(done) == []
    assert_mkl_installed(ready, offer)
    assert (ready.pkgs / offer.wanted[MKL].filename).read_bytes() == offer.wanted[MKL].path.read_bytes()


def test_a_folder_with_a_missing_file_is_not_used(ready, offer, served):
    """Another mirror's entry whose extracted folder is not whole is not handed over."""
    entry = offer.publish(ready.pkgs, MKL, served.base(1))
    (entry.extracted / "share" / "mkl" / "payload.bin").unlink()
    entry.archive.unlink()
    create(ready)
    assert asked_for(served) == [offer.wanted[MKL].filename]
    assert_mkl_installed(ready, offer)


@pytest.mark.parametrize("beside", ["half extracted", "another mirror's, not whole", "another package"])
def test_an_archive_beside_a_bad_folder_is_used(ready, offer, served, beside):
    """A verified archive beside a folder of its name that cannot be trusted: conda extracts it anew, no request."""
    folder = ready.pkgs / stem(offer.wanted[MKL].filename)
    if beside == "another mirror's, not whole":
        entry = offer.publish(ready.pkgs, MKL, served.base(1))
        (entry.extracted / "share" / "mkl" / "payload.bin").unlink()
    else:
        offer.put_by_hand(ready.pkgs, [MKL])
        source = MKL if beside == "half extracted" else NINJA
        shutil.copytree(offer.extracted / offer.wanted[source].filename / "info", folder / "info")
    done = create(ready)
    assert asked_for(served) == []
    assert ours(done) == [f"resume-dl: {offer.wanted[MKL].filename}: verified and at hand, no download needed"]
    assert_mkl_installed(ready, offer)
    assert not list(ready.pkgs.glob("*.partial"))
    assert not list((ready.pkgs / FOLDER).iterdir())


def test_a_finished_part_is_used(ready, offer, served):
    """A download that was finished and not published yet is verified and published; conda asks for nothing."""
    artifact = offer.artifact(MKL, served.base(1))
    part = write_part(ready.pkgs, artifact, offer.wanted[MKL].path.read_bytes())
    create(ready)
    assert asked_for(served) == []
    assert_mkl_installed(ready, offer)
    assert not part.exists()
    assert not part.with_suffix(".journal").exists()


@pytest.mark.parametrize("case", ["unfinished", "wrong bytes", "locked"])
def test_a_part_that_cannot_be_used_stays(ready, offer, served, case):
    """An unfinished, a damaged and a busy part file are left as they are where we may not fetch; conda downloads."""
    artifact = offer.artifact(MKL, served.base(0))
    data = bytearray(offer.wanted[MKL].path.read_bytes())
    if case != "locked":
        data[-1] ^= 1
    part = write_part(ready.pkgs, artifact, bytes(data), end=len(data) - 1 if case == "unfinished" else None)
    journal = part.with_suffix(".journal").read_bytes()
    lock = FileLock(part.with_suffix(".lock"))
    if case == "locked":
        lock.acquire()
    ready.configure(plugins={"resume_dl_prefetch": "never"})
    done = create(ready)
    lock.release()
    assert ours(done) == []
    assert asked_for(served) == [offer.wanted[MKL].filename]
    assert (part.read_bytes(), part.with_suffix(".journal").read_bytes()) == (bytes(data), journal)


def test_dry_run_writes_nothing(test_conda, offer, served):
    """--dry-run leaves entries of another mirror, parts and everything else byte for byte as they were."""
    test_conda.configure(channels=offer.urls(served.base(1)))
    for key in offer.wanted:
        if key != MKL:
            offer.publish(test_conda.pkgs, key, served.base(0))
    write_part(test_conda.pkgs, offer.artifact(MKL, served.base(1)), offer.wanted[MKL].path.read_bytes())
    before = tree(test_conda.pkgs)
    done = create(test_conda, "--dry-run")
    assert ours(done) == []
    assert served.archive_requests() == []
    after = tree(test_conda.pkgs)
    assert {name: value for name, value in after.items() if name != "urls"} == before


def test_a_read_only_cache_is_used_and_not_written(test_conda, offer, served, tmp_path):
    """Entries and archives in a cache that this user cannot write are used from there, for any mirror's URL."""
    shared = tmp_path / "shared"
    for key in offer.wanted:
        if key == MKL:
            offer.put_by_hand(shared, [key])
        else:
            offer.publish(shared, key, served.base(0))
    before = tree(shared)
    subprocess.run(["chmod", "-R", "a-w", str(shared)], check=True)
    test_conda.configure(channels=offer.urls(served.base(1)), pkgs_dirs=[str(shared), str(test_conda.pkgs)])
    done = create(test_conda)
    subprocess.run(["chmod", "-R", "u+w", str(shared)], check=True)
    assert asked_for(served) == []
    assert ours(done) == [f"resume-dl: {len(offer.wanted)} packages: verified and at hand, no download needed"]
    assert_mkl_installed(test_conda, offer)
    assert tree(shared) == before


def test_a_failure_of_the_plugin_is_one_line(ready, offer, served):
    """A plain file where our folder belongs stops us: one line says so, and conda's result is the same."""
    offer.put_by_hand(ready.pkgs, [MKL])
    (ready.pkgs / stem(offer.wanted[MKL].filename)).mkdir()
    shutil.rmtree(ready.pkgs / FOLDER)
    (ready.pkgs / FOLDER).write_text("in the way")
    done = create(ready)
    (line,) = ours(done)
    assert offer.wanted[MKL].filename in line
    assert "conda continues on its own" in line
    assert asked_for(served) == [offer.wanted[MKL].filename]
    assert_mkl_installed(ready, offer)


def test_a_damaged_record_is_ignored(ready, offer, served):
    """A repodata_record.json that is no JSON makes that entry unknown to us; conda does what it does without us."""
    entry = offer.publish(ready.pkgs, MKL, served.base(1))
    (entry.extracted / "info" / "repodata_record.json").write_text("{")
    done = create(ready)
    assert asked_for(served) in ([], [offer.wanted[MKL].filename])
    assert len(ours(done)) <= 1
    assert_mkl_installed(ready, offer)


@pytest.mark.parametrize("flag", ["--json", "--quiet"])
def test_quiet_and_json_are_respected(test_conda, offer, served, flag):
    """With --json stdout is one JSON document, and neither flag lets a line of ours through."""
    test_conda.configure(channels=offer.urls(served.base(1)))
    offer.publish_all(test_conda.pkgs, served.base(0))
    done = create(test_conda, flag)
    assert ours(done) == []
    assert served.archive_requests() == []
    if flag == "--json":
        assert json.loads(done.stdout)["success"] is True


def test_no_at_the_prompt_leaves_no_partial(ready, offer, served):
    """A .partial that was placed and not used is gone when conda ends; the archive that it came from is still there."""
    offer.put_by_hand(ready.pkgs, [MKL])
    folder = ready.pkgs / stem(offer.wanted[MKL].filename)
    shutil.copytree(offer.extracted / offer.wanted[NINJA].filename / "info", folder / "info")
    ready.configure(always_yes=None)
    done = ready.run("create", "-p", ready.folder / "env", *SPEC, answer="n\n")
    assert "verified and at hand" in done.stderr
    assert not (ready.folder / "env" / "conda-meta").exists()
    assert not list(ready.pkgs.glob("*.partial"))
    assert not list((ready.pkgs / FOLDER).iterdir())
    assert (ready.pkgs / offer.wanted[MKL].filename).read_bytes() == offer.wanted[MKL].path.read_bytes()


def test_a_killed_condas_partial_is_withdrawn_by_the_next(ready, offer, served):
    """kill -9 at the prompt leaves the .partial; the next conda command that solves takes it away."""
    offer.put_by_hand(ready.pkgs, [MKL])
    folder = ready.pkgs / stem(offer.wanted[MKL].filename)
    shutil.copytree(offer.extracted / offer.wanted[NINJA].filename / "info", folder / "info")
    ready.configure(always_yes=None)
    with ready.start("create", "-p", ready.folder / "env", *SPEC) as process:
        assert "verified and at hand" in process.stderr.readline()
        process.kill()
    partial = ready.pkgs / f"{offer.wanted[MKL].filename}.partial"
    assert partial.exists()
    ready.configure(always_yes=True)
    ninja_only = ready.run("create", "-p", ready.folder / "other", "libuv")
    assert ninja_only.returncode == 0, ninja_only.stderr
    assert not partial.exists()
    assert served.archive_requests() == []


PROBE = """
    import json, os, sys
    from conda.plugins import hookimpl
    from conda.plugins.types import CondaPostSolve

    def note(name):
        def action(*_):
            with open(os.environ["PROBE_FOLDER"] + "/" + name, "w") as file:
                json.dump(sorted(sys.modules), file)
        return action

    @hookimpl
    def conda_post_solves():
        yield CondaPostSolve(name="a-before-us", action=note("before"))
        yield CondaPostSolve(name="z-after-us", action=note("after"))
"""


@pytest.mark.parametrize("state", ["another mirror", "by hand", "part", "nothing"])
def test_reusing_loads_no_network_library(test_conda, offer, served, tmp_path, state):
    """Inside the real conda our hook loads neither httpx nor tqdm nor rattler, nor does the plugin module alone."""
    test_conda.add_plugin("probe", entry="probe = probe", source=PROBE)
    test_conda.configure(channels=offer.urls(served.base(1)))
    for key in offer.wanted:
        if state == "another mirror" or (state in {"by hand", "part"} and key != MKL):
            offer.publish(test_conda.pkgs, key, served.base(0))
    if state == "by hand":
        offer.put_by_hand(test_conda.pkgs, [MKL])
    if state == "part":
        write_part(test_conda.pkgs, offer.artifact(MKL, served.base(1)), offer.wanted[MKL].path.read_bytes())
    test_conda.configure(plugins={"resume_dl_prefetch": "never", "resume_dl_index": "never"})
    create(test_conda, env={"PROBE_FOLDER": str(tmp_path)})
    before, after = (set(json.loads((tmp_path / name).read_text())) for name in ("before", "after"))
    assert {name for name in before if name.split(".")[0] == "resume_dl"} == {"resume_dl", "resume_dl.conda_plugin"}
    loaded = {name.split(".")[0] for name in after - before}
    assert "resume_dl" in loaded
    assert not loaded & {"httpx", "httpcore", "tqdm", "rattler", "click", "yaml", "platformdirs"}
