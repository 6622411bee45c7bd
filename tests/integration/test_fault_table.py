"""The faults of mirrors, and what each must come to: for conda archives and wheels, alone and beside other mirrors."""

from __future__ import annotations

import base64
import hashlib
import random
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path

import pytest

from engine.running import KIB, MIB, POLICY, Told
from faults.behaviours import (
    ChangingETag,
    Drop,
    Flip,
    Gzip,
    Headers,
    IgnoreRange,
    Ok,
    Page,
    RefuseRange,
    Stall,
    Status,
    Step,
    WrongContentRange,
    times,
)
from faults.server import FaultServer
from resume_dl.app.get import GetRequest, get
from resume_dl.core.policy import Policy
from resume_dl.demo.channel import build_channel
from resume_dl.demo.package import PackageSpec, write_package
from resume_dl.errors import DigestMismatchError
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.transfer.report import ArtifactResult, RunResult
from resume_dl.transfer.setup import TransferOptions, load_setup
from support.fetching import User
from support.own_time import own_time

PAYLOAD = 8 * MIB
PATIENT = changed(
    POLICY,
    stall_seconds=3.0,
    first_byte_seconds=10.0,
    first_byte_most=20.0,
    give_up_after=10.0,
    unreached_give_up=10.0,
    segment_seconds=10.0,
    compare_block=16 * KIB,
    compare_step=128 * KIB,
    dispute_bytes=MIB,
)
"""Leases are as long as in the real policy, so that a fault after a megabyte meets most of them."""
SOON = {"stall_seconds": 0.3}
SHORTEST = 0.8
"""Seconds of the shortest patience of a row that nobody serves."""
SHORT = 240 * KIB
"""Less than the first lease of a connection."""
LIMIT = 240.0
"""Seconds after which a run is cancelled, so that one that hangs fails."""
BUFFERS = MIB
"""What may be under way to us on one connection when it is closed: socket buffers of both sides."""


@dataclass(frozen=True)
class Row:
    """What a mirror does, and what is wanted of us when no other is better.

    ``short``: the same for leases as short as they are beside other mirrors. ``policy``: shorter times, where it waits.
    ``says`` empty: the file arrives; ``together``: the same where three mirrors do alike, if that is another thing.
    ``kind``: how the report names the failure, ``lie``: where other mirrors show it. ``waste``: the most bytes that the
    server may have sent in vain over one connection, ``requests``: the most of them. ``kept``: so many bytes at least
    are there for a later run. ``ended``: the fault as the server saw it.
    """

    name: str
    steps: list[Step]
    says: str = ""
    together: str = ""
    exit_code: int = 0
    kind: str = ""
    lie: str = ""
    waste: int = 0
    requests: int = 24
    kept: int = 0
    ended: str = ""
    short: list[Step] | None = None
    policy: Mapping[str, float] = field(default_factory=dict)


ROWS = [
    Row("drops", [Drop(after=MIB)], ended="fin", short=[Drop(after=SHORT)]),
    Row("drops hard", [Drop(after=MIB, how="rst")], ended="rst", short=[Drop(after=SHORT, how="rst")]),
    Row("stalls", [Stall(after=2 * MIB)], ended="stall", short=[Stall(after=SHORT)], waste=BUFFERS, policy=SOON),
    Row(
        "stalls once",
        [Ok(), Stall(after=SHORT), Ok()],
        ended="stall",
        short=[Stall(after=SHORT), Ok()],
        waste=BUFFERS,
        policy=SOON,
    ),
    Row("200 with a page", [Page()], "login page", exit_code=1, kind="login page", requests=2, waste=KIB),
    Row(
        "200 with a page, as bytes",
        [(Page(), Headers({"Content-Type": "application/octet-stream"}))],
        "what came is no",
        exit_code=1,
        requests=3,
        waste=KIB,
    ),
    Row("ignores Range", [IgnoreRange()], waste=BUFFERS, requests=3),
    Row(
        "drops once, ignores Range",
        [IgnoreRange(), *times(2, IgnoreRange(), Drop(after=4 * MIB)), IgnoreRange()],
        waste=2 * 4 * MIB + BUFFERS,
        requests=5,
        ended="fin",
    ),
    Row(
        "one byte flipped",
        [Flip(PAYLOAD // 2)],
        "no other source to compare with",
        exit_code=4,
        together="agree on bytes with digest",
        waste=2 * PAYLOAD,
        requests=60,
    ),
    Row(
        "many bytes flipped",
        [Flip(*range(1000, PAYLOAD, MIB))],
        "no other source to compare with",
        exit_code=4,
        together="agree on bytes with digest",
        lie="wrong bytes",
        waste=2 * PAYLOAD,
        requests=60,
    ),
    Row("wrong Content-Range", [WrongContentRange(shift=5)], waste=BUFFERS, requests=4),
    Row("bytes of another range", [WrongContentRange(shift=5, body=True)], waste=BUFFERS, requests=4),
    Row("503 twice, Retry-After", [*times(2, Status(503, retry_after=2)), Ok()], kind="throttled", waste=100),
    Row(
        "416 to every Range, drops",
        [(RefuseRange(), Drop(after=3 * MIB))],
        "ended before the body did",
        exit_code=1,
        waste=PATIENT.one_stream_failures * 3 * MIB,
        requests=3 + PATIENT.one_stream_failures,
        kept=3 * MIB,
        ended="fin",
    ),
    Row("an ETag for each request", [ChangingETag()]),
    Row("gzip", [Gzip()], "encoded (gzip)", exit_code=1, kind="not the file", requests=2, waste=BUFFERS),
    Row(
        "404", [Status(404)], "does not have it (status 404)", exit_code=1, kind="lacks the file", requests=2, waste=100
    ),
    Row(
        "503 for ever",
        [Status(503)],
        "asks to wait (status 503)",
        exit_code=1,
        kind="throttled",
        requests=100,
        waste=2000,
        policy={"give_up_after": SHORTEST},
    ),
]
CONDA, WHEEL = "a-1-0.conda", "a-1-py3-none-any.whl"
LOOKED_AT = {"200 with a page", "200 with a page, as bytes", "gzip", "one byte flipped"}
"""Rows where the first bytes or the members of a file count, and not its size and digest alone."""
each_row = pytest.mark.parametrize(
    ("row", "name"),
    [
        pytest.param(row, name, id=f"{row.name}-{kind}")
        for row in ROWS
        for name, kind in ((CONDA, "conda"), (WHEEL, "wheel"))
        if name == CONDA or row.name in LOOKED_AT
    ],
)
each_format = pytest.mark.parametrize("name", [CONDA, WHEEL], ids=["conda", "wheel"])


@dataclass(frozen=True, slots=True)
class Quick(TransferOptions):
    """The options of a run, with a policy that does not wait for real minutes."""

    quick: Policy = PATIENT

    def policy(self) -> Policy:
        return self.quick


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, bytes]:
    """A conda archive and a wheel, as such files are made."""
    folder = tmp_path_factory.mktemp("files")
    archive = write_package(PackageSpec(name="a", version="1", payload_size=PAYLOAD), folder)
    wheel = folder / "a-1-py3-none-any.whl"
    write_wheel(wheel, random.Random(5).randbytes(PAYLOAD))
    return {path.name: path.read_bytes() for path in (archive, wheel)}


def write_wheel(path: Path, payload: bytes) -> None:
    """A wheel of one module and one large file (PyPA: binary distribution format)."""
    members = {
        "a/__init__.py": b"",
        "a/payload.bin": payload,
        "a-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: a\nVersion: 1\n",
        "a-1.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, data in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    members["a-1.dist-info/RECORD"] = f"{record}a-1.dist-info/RECORD,,\n".encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, date_time=(2021, 1, 1, 0, 0, 0)), data)


class Bench:
    """One file at mirrors that misbehave, and a user's folder to get it into."""

    def __init__(self, server: FaultServer, folder: Path, name: str, data: bytes) -> None:
        self.server = server
        self.user = User(folder / "user")
        self.path = self.user.folder / name
        self.data = data
        server.put(f"/{name}", data)

    def urls(self, ports: int = 1) -> list[str]:
        return [f"{self.server.base(port)}/{self.path.name}" for port in range(ports)]

    def get(self, ports: int = 1, **policy: float) -> RunResult:
        """``resume-dl get`` with the true digest, below the command line; one that hangs is cancelled."""
        address, *others = self.urls(ports)
        request = GetRequest(
            urls=(address,),
            sha256=hashlib.sha256(self.data).hexdigest(),
            output=self.path,
            mirror_urls=tuple(others),
        )
        setup = load_setup(Quick(quick=changed(PATIENT, **policy)), self.user.environment())
        over = time.monotonic() + LIMIT
        return get(request, setup, Told(), cancelled=lambda: time.monotonic() > over)

    @property
    def unfinished(self) -> int:
        """Bytes that wait for a later run."""
        return sum(part.done for part in PartStore(self.user.folder / FOLDER).unfinished())

    @property
    def left(self) -> list[str]:
        """Names in the user's folder beside their home and what settings and state are kept in."""
        return [path.name for path in self.user.folder.iterdir() if path.name not in {"home", *self.user.own}]

    @property
    def endings(self) -> set[str]:
        """How the servers saw answers end."""
        return {request.ended for request in self.server.requests()}

    @property
    def wasted(self) -> int:
        """Bytes that the servers sent beyond the file's size."""
        return self.server.body_bytes() - len(self.data)

    def assert_arrived(self, result: RunResult) -> ArtifactResult:
        """The file is there, right, and nothing else."""
        (one,) = result.artifacts
        assert one.error is None
        assert result.exit_code == 0
        assert self.path.read_bytes() == self.data
        assert self.left == [self.path.name]
        return one

    def assert_failed(self, result: RunResult, row: Row, says: str = "") -> ArtifactResult:
        """Nothing has the file's name, the error says why, and what it calls safe is there."""
        (one,) = result.artifacts
        assert one.error is not None
        assert (result.exit_code, one.status) == (row.exit_code, "failed")
        assert (says or row.says) in one.error.message
        assert "there is no source" not in one.error.message
        assert not self.path.exists()
        assert one.error.resumable_bytes == self.unfinished
        assert self.unfinished >= row.kept
        if not self.unfinished:
            assert self.left == []
        return one


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The scaled-down patience is of a clock that waits with us: no good mirror seems silent on a busy machine."""
    with own_time(monkeypatch) as clock:
        yield clock


@pytest.fixture
def bench(fault_server, tmp_path, files) -> Callable[..., Bench]:
    """Make a bench: ``bench(name, steps, bad=1, ports=3)``."""

    def make(name: str, steps: list[Step], *, bad: int = 1, ports: int = 1) -> Bench:
        server = fault_server(ports=ports)
        for port in range(bad):
            server.script(port, steps)
        return Bench(server, tmp_path, name, files[name])

    return make


@each_row
def test_alone(bench, row, name):
    """The only mirror there is, over one connection: the file, or a clear error that keeps what is right."""
    made = bench(name, row.steps)
    result = made.get(per_host=1, first_segment=4 * MIB, **row.policy)
    one = made.assert_failed(result, row) if row.says else made.assert_arrived(result)
    assert row.ended in {"", *made.endings}
    if row.kind:
        assert row.kind in one.sources[0].failures
    assert len(made.server.requests()) <= row.requests
    assert made.wasted <= row.waste
    if not row.waste:
        assert (made.wasted, one.wasted) == (0, 0)


@each_row
def test_one_of_three_mirrors_has_wrong_bytes(bench, row, name):
    """The bad mirror first, two good ones behind it: the file, and no more in vain than the bad one gave."""
    made = bench(name, row.short or row.steps, ports=3)
    one = made.assert_arrived(made.get(3, **row.policy))
    assert made.server.requests(0)
    if row.short:
        assert row.ended in made.endings
    assert {row.kind, row.lie} <= {"", *one.sources[0].failures}
    # to a busy machine a good one may seem silent, and nothing worse
    assert {kind for source in one.sources[1:] for kind in source.failures} <= {"stalled"}
    assert len(made.server.requests(0)) <= row.requests
    assert made.wasted <= 1.2 * made.server.body_bytes(0) + 2 * BUFFERS


@each_row
def test_all_three_mirrors_have_wrong_bytes(bench, clock, row, name):
    """Three mirrors with one fault: as alone, each asked."""
    made = bench(name, row.short or row.steps, bad=3, ports=3)
    # patience that ends before a busy machine has started the third connection would end the run by the first two
    clock.wait(at=SHORTEST / 2, until=lambda: all(made.server.requests(port) for port in range(3)))
    result = made.get(3, **row.policy)
    if row.says:
        one = made.assert_failed(result, row, row.together)
        if isinstance(one.error, DigestMismatchError):
            assert one.error.expected in one.error.message
            assert one.error.actual in one.error.message
        assert all(made.server.requests(port) for port in range(3))
    else:
        made.assert_arrived(result)
    assert row.ended in {"", *made.endings}
    assert len(made.server.requests()) <= 3 * row.requests
    assert made.wasted <= 3 * (row.waste + 2 * BUFFERS)


@each_format
def test_three_sources_with_different_wrong_bytes(bench, name):
    """Nobody has the right bytes, and no two the same: exit 4, and none of it under the file's name."""
    made = bench(name, [Ok()], ports=3)
    for port in range(3):
        made.server.always(port, Flip(*range(1000 * (port + 1), PAYLOAD, MIB)))
    made.assert_failed(made.get(3), Row("", [], "digest", exit_code=4))


# ---------------------------------------------------------------------- the same command again

# One connection asks (``per_host``), so that each answer brings all that it has: none is another's duplicate.
LIES_THEN_LEAVES = [*times(2, Flip(*range(1000, PAYLOAD, MIB)), Drop(after=2 * MIB)), Status(403)]


def test_retries_if_every_run_is_interrupted(bench):
    """Each run gets two megabytes before the mirror has enough: the runs add up, and no byte comes twice."""
    made = bench(CONDA, [Ok()])
    for run in range(5):
        assert made.unfinished == run * 2 * MIB
        made.server.script(0, [Drop(after=2 * MIB), Status(403)])
        result = made.get(per_host=1, first_segment=4 * MIB)
    assert made.assert_arrived(result).status == "resumed"
    assert made.wasted <= 20 * len(made.server.requests())


def test_a_retry_without_ranges(bench):
    """A part that no Range can continue does not keep us: the next whole answer does, and only the rest is written."""
    steps = [(RefuseRange(), Drop(after=3 * MIB))]
    made = bench(CONDA, steps)
    row = Row("", steps, "ended before the body did", exit_code=1, kept=3 * MIB)
    for _ in range(2):
        one = made.assert_failed(made.get(one_stream_failures=2), row)
        assert "cannot resume a download" in one.error.hint
    made.server.always(0, RefuseRange())
    one = made.assert_arrived(made.get())
    assert (one.status, one.resumed, one.downloaded) == ("resumed", 3 * MIB, len(made.data) - 3 * MIB)


def test_a_retry_with_scattered_pieces_and_no_ranges(bench):
    """The same with pieces from several ranges: what lies between them is written, what is there is kept."""
    made = bench(CONDA, [*times(3, Drop(after=MIB)), Status(403)])
    assert made.get().exit_code == 1
    kept = made.unfinished
    assert kept
    made.server.always(0, RefuseRange())
    one = made.assert_arrived(made.get())
    assert (one.status, one.resumed) == ("resumed", kept)


@each_format
def test_a_retry_after_a_wrong_first_part(bench, name):
    """Wrong bytes that an earlier run took from a liar are found out, and fetched again from the good mirror."""
    made = bench(name, LIES_THEN_LEAVES, ports=2)
    made.server.always(1, Status(403))
    assert made.get(2, first_segment=4 * MIB, per_host=1).exit_code == 1
    kept = made.unfinished
    assert kept >= 2 * MIB
    made.server.always(1, Ok())
    made.assert_arrived(made.get(2))
    again = made.server.body_bytes(1) - (len(made.data) - kept)
    assert again <= 1.2 * kept


def test_a_retry_after_a_wrong_first_part_from_the_only_mirror(bench):
    """The mirror is well again: what it gave wrong before does not keep us, at the latest in the run after."""
    made = bench(CONDA, LIES_THEN_LEAVES)
    assert made.get(first_segment=4 * MIB, per_host=1).exit_code == 1
    assert made.unfinished >= 2 * MIB
    made.server.always(0, Ok())
    result = made.get()
    if result.exit_code:
        assert result.exit_code == 4
        result = made.get()
    made.assert_arrived(result)


# ---------------------------------------------------------------------- as real processes


def test_get_as_a_process(bench):
    """What a user reads and a script gets: a page and a wrong digest, then a refusal of every Range, and the end."""
    made = bench("a-1-0.conda", [Page()])
    command = ["get", *made.urls(), "--sha256", hashlib.sha256(made.data).hexdigest(), "--give-up-after", "60s"]
    page = made.user.run(*command)
    assert (page.code, "login page" in page.err, made.path.exists()) == (1, True, False)
    made.server.always(0, Flip(PAYLOAD // 2))
    wrong = made.user.run(*command)
    assert (wrong.code, "digest" in wrong.err, made.path.exists()) == (4, True, False)
    made.server.always(0, RefuseRange(), Drop(after=3 * MIB))
    cut = made.user.run(*command)
    assert (cut.code, "safe on disk" in cut.err, made.path.exists()) == (1, True, False)
    made.server.always(0, RefuseRange())
    assert made.user.run(*command).code == 0
    assert made.path.read_bytes() == made.data


FETCH_ROWS = [
    Row("drops", [Drop(after=3 * MIB)]),
    *(row for row in ROWS if row.name in {"200 with a page", "many bytes flipped"}),
]


@pytest.mark.parametrize("row", FETCH_ROWS, ids=[row.name for row in FETCH_ROWS])
def test_fetch_as_a_process(fault_server, tmp_path, row):
    """`fetch` knows size and digest from the record: alone an error or the file, beside two good mirrors the file."""
    (package,) = build_channel(
        tmp_path / "www" / "pytorch", [PackageSpec(name="a", version="1", payload_size=PAYLOAD)]
    ).packages
    build_channel(tmp_path / "www" / "pkgs" / "main", [])
    server = fault_server(ports=3)
    server.mount(tmp_path / "www")
    server.script(0, row.steps, path="*.conda")
    archives = 0
    for ports in (1, 3):
        user = User(tmp_path / f"user{ports}")
        user.mirrors(**{f"m{port}": server.base(port) for port in range(ports)})
        done = user.fetch("a", "--give-up-after", "60s", "--json")
        assert done.code == (row.exit_code if ports == 1 else 0), done.err
        if done.code:
            assert row.says in done.err
            assert user.archives() == set()
        else:
            user.assert_complete([package])
        archives += len(server.requests(0, path="*.conda"))
        assert server.requests(0, path="*.conda")
