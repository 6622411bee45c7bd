"""Power cuts at any write, truncation, sync or rename: nothing wrong is believed, nothing durable is lost."""

from __future__ import annotations

import random
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st

from resume_dl.core.ranges import RangeSet
from resume_dl.errors import StoreError
from store.parts import artifact, crash, reopen
from store.power import Disk, PowerCut

SIZE = 4000
CONTENTS = [random.Random(seed).randbytes(SIZE) for seed in range(8)]
"""What the file holds before the first discard, after it, and so on: an old belief shows at once."""


class Life:
    """A part file as the engine uses it, over several power cuts, and what it must know afterwards."""

    def __init__(self, folder, chance, *, sized):
        self.folder = folder
        self.chance = chance
        self.what = artifact(CONTENTS[0], size=SIZE if sized else None)
        self.epoch = 0
        self.have = RangeSet()
        self.recorded = RangeSet()
        self.durable = RangeSet()
        self.discarding = False
        self.forgetting = RangeSet()
        self.part = None
        self.mark = None

    def resume(self):
        """Open and believe; what is believed must be so on the disk."""
        self.part = reopen(self.folder, self.what)
        found = self.part.resume()
        believed = RangeSet(found.ranges)
        on_disk = self.part.path.read_bytes()
        for start, end in believed:
            assert on_disk[start:end] == CONTENTS[self.epoch][start:end]
        for start, end in self.durable:
            for lo, hi in self.forgetting.gaps(start, end):
                assert self.discarding or believed.covers(lo, hi)
        for start, end in believed:
            assert self.recorded.covers(start, end)
        if self.discarding:
            self.durable = RangeSet()
        for start, end in self.forgetting:
            self.durable.remove(start, end)
        self.forgetting = RangeSet()
        self.have, self.recorded, self.discarding, self.mark = believed.copy(), believed.copy(), False, None
        # the engine continues with what it was told, and the next run may believe less of what is not durable
        return believed

    def write(self):
        """A piece of the first gap, as the engine writes only what is missing (invariant 7)."""
        gaps = self.have.gaps(0, SIZE)
        if not gaps:
            return
        lo, hi = self.chance.choice(gaps)
        start = self.chance.randrange(lo, hi)
        end = min(hi, start + self.chance.randrange(1, 600))
        data = CONTENTS[self.epoch][start:end]
        self.part.write(start, data)
        self.have.add(start, end)
        if self.chance.random() < 0.9:
            self.recorded.add(start, end)  # before: a cut within may have left the record
            self.part.record_written(start, end, zlib.crc32(data), self.chance.choice(["one", "two"]))

    def sync(self):
        """The data sync, with writes of other connections in it (``after_sync``) and before its record."""
        sure = self.recorded.copy()
        mark = self.part.sync_data()
        for _ in range(self.chance.randrange(3)):
            self.write()
        self.part.record_durable(mark)
        self.durable = sure

    def discard(self):
        if self.epoch + 1 == len(CONTENTS):
            return
        self.discarding = True
        self.part.discard()
        self.discarding = False
        self.epoch += 1
        self.have, self.recorded, self.durable = RangeSet(), RangeSet(), RangeSet()

    def forget(self):
        """Some of what is there, whole records or not; every writer has recorded what it wrote."""
        gone = RangeSet()
        for _ in range(self.chance.randrange(1, 4)):
            start = self.chance.randrange(SIZE)
            gone.add(start, min(SIZE, start + self.chance.randrange(1, 500)))
        self.forgetting = gone
        self.part.forget(tuple(gone))
        for each in (self.have, self.recorded, self.durable):
            for start, end in gone:
                each.remove(start, end)
        self.forgetting = RangeSet()

    def act(self):
        self.chance.choices([self.write, self.sync, self.forget, self.discard], [10, 3, 2, 1])[0]()


@settings(max_examples=settings.default.max_examples * 6 // 5)
@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(0, 40), min_size=1, max_size=4), sized=st.booleans())
def test_a_power_cut_at_any_moment_loses_only_what_was_not_durable(tmp_path_factory, seed, cuts, sized):
    """Several lives, each ended at its n-th call to the disk: see ``Life.resume`` for what must hold then."""
    chance = random.Random(seed)
    life = Life(tmp_path_factory.mktemp("cut"), chance, sized=sized)
    for calls in cuts:
        disk = Disk(life.folder, chance)
        with disk:
            disk.fail_after(calls)
            try:
                life.resume()
                disk.after_sync = life.write
                while True:
                    life.act()
            except PowerCut:
                pass
        if life.part is not None:
            crash(life.part)
        disk.cut()
    life.resume()
    life.part.close()


def test_the_loss_is_what_was_not_durable(tmp_path):
    """With a sync every so many bytes, a cut costs no more than came after the last one."""
    chance = random.Random(5)
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        disk = Disk(folder, chance)
        part = None
        with disk:
            part = reopen(folder, artifact(CONTENTS[0]))
            part.resume()
            for start in range(0, 3500, 100):
                data = CONTENTS[0][start : start + 100]
                part.write(start, data)
                part.record_written(start, start + 100, zlib.crc32(data), "one")
                if start % 1000 == 900:
                    part.record_durable(part.sync_data())
        crash(part)
        disk.cut()
        part = reopen(folder, artifact(CONTENTS[0]))
        believed = RangeSet(part.resume().ranges)
        part.close()
        assert believed.covers(0, 3000)


def test_a_size_that_is_known_later_costs_nothing(tmp_path):
    """The file has it on the disk before the journal says it: a shorter one would not be believed any more."""
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        part = reopen(folder, artifact(CONTENTS[0], size=None))
        part.resume()
        part.write(0, CONTENTS[0][:1000])
        part.record_written(0, 1000, zlib.crc32(CONTENTS[0][:1000]), "one")
        part.record_durable(part.sync_data())
        crash(part)
        disk = Disk(folder, random.Random(seed))
        with disk:
            part = reopen(folder, artifact(CONTENTS[0]))
            part.resume()
        crash(part)
        disk.cut()
        part = reopen(folder, artifact(CONTENTS[0]))
        assert RangeSet(part.resume().ranges).covers(0, 1000)
        part.close()


def test_the_shim_loses_what_was_not_synced(tmp_path):
    """Otherwise the tests above would prove nothing: without any sync a cut does lose bytes, and records."""
    lost = 0
    for seed in range(30):
        folder = tmp_path / str(seed)
        folder.mkdir()
        with Disk(folder, random.Random(seed)) as disk:
            part = reopen(folder, artifact(CONTENTS[0]))
            part.resume()
            for start in range(0, 1000, 100):
                part.write(start, CONTENTS[0][start : start + 100])
                part.record_written(start, start + 100, zlib.crc32(CONTENTS[0][start : start + 100]), "one")
        crash(part)
        disk.cut()
        try:
            part = reopen(folder, artifact(CONTENTS[0]))
            lost += RangeSet(part.resume().ranges).total < 1000
            part.close()
        except StoreError as error:  # pragma: no cover - a cut never looks like another version
            raise AssertionError from error
    assert 10 < lost < 30
