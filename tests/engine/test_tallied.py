"""What the engine tells of its jobs adds up: at each moment, however they come and end."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from engine.running import DATA, KIB, MIB, NAME, artifact
from faults.behaviours import Flip, Ok, Rate, Stall
from resume_dl.ports import PlannedFile
from resume_dl.progress.tally import Tally

SIZE = len(DATA)


def mirrors(fault_server, count):
    server = fault_server(ports=count)
    server.put(f"/{NAME}", DATA)
    return server, artifact(*(server.base(i) for i in range(count)))


def sums(place, what, here=0):
    """All that was told, in order: bytes done and fetched, finished files; then it is forgotten."""
    tally = Tally()
    tally.plan([PlannedFile(what, here)])
    seen = [(tally.done, tally.fetched, tally.files[0])]
    for told in place.told.states:
        tally.add(told)
        seen.append((tally.done, tally.fetched, tally.files[0]))
    place.told.states.clear()
    assert all(0 <= done <= SIZE for done, _, _ in seen)
    assert all(earlier[1] <= later[1] for earlier, later in pairwise(seen))
    assert all(whole == 0 for _, _, whole in seen[:-1])
    return seen


def test_stopped_and_resumed(fault_server, place):
    """Of a stopped file what is safe is done, and the file is not; the next run begins there and fetches the rest."""
    server, what = mirrors(fault_server, 2)
    server.script(None, [Stall(after=512 * KIB), Stall()])
    (stopped,) = place.run(what, cancelled=lambda: server.body_bytes() >= MIB)
    safe = stopped.error.resumable_bytes
    assert 0 < safe < SIZE
    assert sums(place, what)[-1] == (safe, stopped.downloaded, 0)
    server.always(None, Ok())
    (done,) = place.run(what)
    assert done.status == "resumed"
    seen = sums(place, what, here=safe)
    assert seen[0] == (safe, 0, 0)
    assert seen[-1] == (SIZE, SIZE - safe, 1)


def test_wrong_bytes_that_are_fetched_again(fault_server, place):
    """What is forgotten is not done any more; all that was believed for a while came over the line."""
    server, what = mirrors(fault_server, 3)
    server.always(1, Flip(*range(4 * KIB, SIZE, 4 * KIB)))
    (done,) = place.run(what)
    assert done.status == "downloaded"
    assert server.body_bytes() > SIZE
    whole, fetched, finished = sums(place, what)[-1]
    assert (whole, finished) == (SIZE, 1)
    assert fetched >= SIZE, "more, where it was told in between that some was forgotten"


def test_duplicates_of_the_end_game(fault_server, place):
    """Bytes that come twice at once are done once, and no file is ever more than whole."""
    server, what = mirrors(fault_server, 2)
    server.always(0, Rate(100 * KIB))
    place.run(what)
    assert sums(place, what)[-1] == (SIZE, SIZE, 1)


def test_what_another_process_has_published(fault_server, place):
    """It is all there, and none of it came over our line."""
    _, what = mirrors(fault_server, 1)
    place.job = partial(place.job, is_published=lambda: True)
    (done,) = place.run(what)
    assert done.status == "cached"
    assert sums(place, what)[-1] == (SIZE, 0, 1)
