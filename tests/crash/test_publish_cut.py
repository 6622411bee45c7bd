"""The power goes while something is published, kept or noted: nothing half is believed, what was promised is there.

Each scenario runs on a disk that forgets what was not synced (``crash.disk``), and is looked at after a power cut at
each of its moments. Then it runs once more for each place in the code that syncs something, without that sync: the disk
must find a loss, else the sync is for nothing, or the disk does not see what it is for.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import sys
import zlib
from dataclasses import replace as changed
from pathlib import Path
from types import SimpleNamespace

import pytest

from crash.disk import Disk
from resume_dl.app.reuse import AtHand, prepare
from resume_dl.bundle_creation.folder import BundleFolder
from resume_dl.caches.conda.lookup import is_whole, look, same_bytes, stem
from resume_dl.caches.conda.publish import claim_for_client, publish_entry
from resume_dl.caches.conda.record import RECORD, client_url, read_json
from resume_dl.caches.conda.urls import origin_of
from resume_dl.caches.link_or_copy import link_or_copy
from resume_dl.caches.package_caches import CondaCache, RattlerCache
from resume_dl.caches.rattler import find_for_rattler, publish_for_rattler
from resume_dl.errors import ResumeDLError
from resume_dl.indexes.copies import KeptCopies, Note
from resume_dl.indexes.pip.kept_pages import KeptPages
from resume_dl.indexes.shards.store import KeptIndex, ShardStore
from resume_dl.model.artifact import Artifact
from resume_dl.model.http import CacheHeaders
from resume_dl.model.url import RedactedUrl
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.store.pins import Pins
from resume_dl.store.platform import make_folder
from resume_dl.store.staged import staged_path
from resume_dl.transfer.unpacked_batch import Ready, UnpackedBatch
from resume_dl.transfer.wheel_transfer import WheelDir
from store.parts import crash

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the disk stands in for the calls that Linux has")

DATA = b"PK\x03\x04" + random.Random(5).randbytes(996)
OTHER = b"PK\x03\x04" + random.Random(6).randbytes(996)
KEYS = {"name": "a", "version": "1", "build": "0", "build_number": 0, "subdir": "linux-64"}


def artifact(data=DATA, name="a-1-0.conda", **more):
    sha256 = hashlib.sha256(data).hexdigest()
    record = {**KEYS, "depends": [], "sha256": sha256, "size": len(data)}
    given = {"size": len(data), "sha256": sha256, "record": record, "name": "a", "version": "1", "build": "0", **more}
    return Artifact(kind="conda", filename=name, url=RedactedUrl(f"https://example.org/c/linux-64/{name}"), **given)


def unpacked(folder, text):
    """What an archive unpacks to, as rattler leaves it: nothing of it is synced."""
    files = {"lib/a.txt": text.encode(), "info/index.json": json.dumps(KEYS).encode()}
    rows = [{"_path": name, "size_in_bytes": len(data)} for name, data in files.items()]
    files["info/paths.json"] = json.dumps({"paths": rows}).encode()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


class Scenario:
    """One thing that the code does in ``root``; ``check`` is asked of every folder that a power cut might leave."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.promised = ""
        """What has been done by now, and must be there after a power cut."""
        self.disk: Disk

    def lay(self) -> None:
        """What is on the disk before."""

    def run(self) -> None:
        raise NotImplementedError

    def check(self, image: Path) -> None:
        raise NotImplementedError

    def promise(self, what: str) -> None:
        self.promised = what
        self.disk.forget_seen()
        self.disk.cut()


class PartFile(Scenario):
    """A part file from its first byte on: records, torn tails, lies that are forgotten, a discard."""

    def run(self):
        self.what, self.folder = artifact(), Path(FOLDER)
        self.sure, self.right = (0, 0), [DATA]
        part = self.open(self.root)
        part.resume()
        self.put(part, 0, 300)
        part.record_durable(part.sync_data())
        self.sure = (0, 300)
        self.promise("300 bytes")
        self.put(part, 300, 500)
        part.record_durable(part.sync_data())
        self.sure = (0, 500)
        self.promise("500 bytes")
        crash(part)
        with (self.root / FOLDER / f"{self.what.key}.journal").open("ab") as journal:
            journal.write(b"\x04torn")
        part = self.open(self.root)  # which writes the journal anew
        assert part.resume().ranges == ((0, 500),)
        self.put(part, 500, 700)
        part.record_durable(part.sync_data())
        self.sure = (0, 700)
        self.promise("700 bytes")
        self.lie(part)
        self.sure = (0, 700)
        part.forget([(700, 800)])
        self.right = [DATA]
        self.promise("nothing false")
        self.put(part, 700, 800)
        part.record_durable(part.sync_data())
        self.sure = (0, 0)
        part.discard()
        self.right = [OTHER]
        self.promise("nothing old")
        self.put(part, 0, 400, OTHER)
        part.record_durable(part.sync_data())
        self.sure = (0, 400)
        self.promise("400 new bytes")
        crash(part)

    def lie(self, part):
        """A source's wrong bytes, durable as any others."""
        self.right = [DATA, DATA[:700] + bytes(100) + DATA[800:]]
        self.put(part, 700, 800, self.right[1])
        part.record_durable(part.sync_data())
        self.sure = (0, 800)
        self.promise("800 bytes")

    def put(self, part, start, end, data=DATA):
        part.write(start, data[start:end])
        part.record_written(start, end, zlib.crc32(data[start:end]), "one")

    def open(self, root):
        return PartStore(root / self.folder).open(self.what, journaled=True)

    def check(self, image):
        part = self.open(image)
        believed = part.resume().ranges
        content = part.path.read_bytes()
        crash(part)
        for start, end in believed:
            assert any(content[start:end] == right[start:end] for right in self.right)
        start, end = self.sure
        assert start == end or any(low <= start and end <= high for low, high in believed)


class Move(Scenario):
    """A part file that was begun under its md5 goes on under its sha256."""

    def lay(self):
        self.old = artifact(sha256=None, md5=hashlib.md5(DATA).hexdigest())
        self.new = changed(artifact(), md5=self.old.md5)
        part = PartStore(self.root / FOLDER).open(self.old, journaled=True)
        part.resume()
        part.write(0, DATA[:500])
        part.record_written(0, 500, zlib.crc32(DATA[:500]), "one")
        part.record_durable(part.sync_data())
        crash(part)

    def run(self):
        part = PartStore(self.root / FOLDER).open(self.new, journaled=True)
        assert part.resume().ranges == ((0, 500),)
        part.write(500, DATA[500:600])
        part.record_written(500, 600, zlib.crc32(DATA[500:600]), "one")
        part.record_durable(part.sync_data())
        self.promise("600 bytes")
        crash(part)

    def check(self, image):
        # once it has moved, it is found by who knows the sha256 alone
        part = PartStore(image / FOLDER).open(artifact() if self.promised else self.new, journaled=True)
        ((start, end),) = part.resume().ranges
        content = part.path.read_bytes()
        crash(part)
        assert start == 0
        assert end >= (600 if self.promised else 500)
        assert content[:end] == DATA[:end]


class PublishPart(Scenario):
    """A part file is complete and gets its name, in a folder that is not there yet."""

    def run(self):
        part = PartStore(self.root / FOLDER).open(artifact(), journaled=False)
        part.resume()
        part.write(0, DATA)
        part.publish(self.root / "wheels" / "a")
        self.promise("the file")

    def check(self, image):
        path = image / "wheels" / "a"
        assert not path.exists() or path.read_bytes() == DATA
        assert path.exists() or not self.promised


class PublishEntry(Scenario):
    """A package into conda's cache that does not exist yet: folder, archive, line in ``urls.txt``."""

    stale = False

    def lay(self):
        self.what, self.pkgs = artifact(), self.root / "pkgs"
        if self.stale:  # a package of that name that another channel had built, and its archive
            old = artifact(OTHER, md5=None)
            publish_entry(self.pkgs, old, archive=self.archive(old, OTHER), extracted=self.extracted("an older build"))

    def archive(self, what, data):
        path = staged_path(self.pkgs, what)
        make_folder(path.parent)
        path.write_bytes(data)
        with path.open("rb") as file:
            self.sync(file.fileno())
        return path

    def sync(self, fd):
        """As the engine has done it: not this scenario's to prove."""
        if hasattr(self, "disk"):
            self.disk._sync_one(fd)

    def extracted(self, text, number=0):
        return unpacked(self.pkgs / FOLDER / f"extract-{number}" / "package", text)

    def run(self):
        archive = self.archive(self.what, DATA)
        publish_entry(self.pkgs, self.what, archive=archive, extracted=self.extracted("the right build"))
        self.promise("the entry")

    def check(self, image):
        self.check_entry(image / "pkgs", self.what, DATA, "the right build")

    def check_entry(self, pkgs, what, data, text):
        folder, file = pkgs / stem(what.filename), pkgs / what.filename
        record = read_json(folder / RECORD)
        if record is not None and same_bytes(record, what):
            assert is_whole(folder)
            assert (folder / "lib" / "a.txt").read_text() == text
        elif folder.exists():
            assert self.stale
            assert (folder / "lib" / "a.txt").read_text() == "an older build"
        if file.exists():
            assert file.read_bytes() in ((data, OTHER) if self.stale else (data,))
        if self.promised:
            entry = look(pkgs, what)
            assert entry is not None
            assert entry.extracted is not None
            assert entry.is_for(what)
            assert file.read_bytes() == data
            assert origin_of(pkgs, what.filename) == client_url(what)


class PublishOverStale(PublishEntry):
    """The same where a folder of that name is another package."""

    stale = True


class PublishBatch(PublishEntry):
    """Several packages that wait for the disk together."""

    def lay(self):
        super().lay()
        self.many = {name: random.Random(name).randbytes(500) for name in ("a", "b")}
        self.whats = {name: artifact(data, f"{name}-1-0.conda") for name, data in self.many.items()}

    def run(self):
        batch = UnpackedBatch(cache := CondaCache(self.pkgs))
        for number, (name, what) in enumerate(self.whats.items()):
            archive, folder = self.archive(what, self.many[name]), self.extracted(f"package {name}", number)
            cache.add_record(what, folder)
            batch.add(Ready(what, what, archive, folder, folder.parent))
        assert [error for _, error in batch.place()] == [None, None]
        self.promise("both")

    def check(self, image):
        for name, what in self.whats.items():
            self.check_entry(image / "pkgs", what, self.many[name], f"package {name}")


class PublishArchive(PublishEntry):
    """``--no-extract``: the archive alone."""

    def run(self):
        publish_entry(self.pkgs, self.what, archive=self.archive(self.what, DATA), extracted=None)
        self.promise("the archive")

    def check(self, image):
        path = image / "pkgs" / self.what.filename
        assert not path.exists() or path.read_bytes() == DATA
        if self.promised:
            assert path.exists()
            assert origin_of(image / "pkgs", self.what.filename) == client_url(self.what)


class Claim(PublishEntry):
    """A package that came for another URL becomes the client's: its record is replaced."""

    def lay(self):
        super().lay()
        make_folder(self.pkgs / FOLDER)
        self.entry = publish_entry(
            self.pkgs, self.what, archive=self.archive(self.what, DATA), extracted=self.extracted("the right build")
        )
        self.other = changed(self.what, client_url=RedactedUrl(f"https://mirror.example/c/{self.what.filename}"))

    def run(self):
        claim_for_client(self.entry, self.other)
        self.promise("the record")

    def check(self, image):
        entry = look(image / "pkgs", self.what)
        assert entry is not None
        assert entry.extracted is not None
        assert entry.is_for(self.other) or (entry.is_for(self.what) and not self.promised)
        if self.promised:
            assert origin_of(image / "pkgs", self.what.filename) == client_url(self.other)


class Reuse(PublishEntry):
    """An archive from a cache that cannot be written is copied into one that can."""

    def lay(self):
        super().lay()
        self.pkgs.mkdir()
        (self.pkgs / "urls.txt").write_text("https://example.org/c/linux-64/b-1-0.conda\n")
        self.there = self.root / "system" / self.what.filename
        make_folder(self.there.parent)
        self.there.write_bytes(DATA)

    def run(self):
        self.disk.has_links = False
        at_hand = AtHand(self.what, archives=(self.there,))
        assert prepare(at_hand, is_writable=lambda path: path == self.pkgs, first_writable=lambda: self.pkgs)
        self.promise("the copy")

    check = PublishArchive.check


class PublishForRattler(PublishEntry):
    """A package into rattler's cache."""

    def lay(self):
        super().lay()
        if self.stale:
            return
        make_folder(self.pkgs / FOLDER)

    def run(self):
        publish_for_rattler(self.pkgs, self.what, self.extracted("the right build"))
        self.promise("the folder")

    def check(self, image):
        cache = RattlerCache(image / "pkgs")
        if cache.has(self.what):
            folder = find_for_rattler(image / "pkgs", self.what)
            assert (folder / "lib" / "a.txt").read_text() == "the right build"
        if cache.has(artifact(OTHER)):
            folder = find_for_rattler(image / "pkgs", artifact(OTHER))
            assert (folder / "lib" / "a.txt").read_text() == "an older build"
        assert cache.has(self.what) or not self.promised


class PublishForRattlerOverStale(PublishForRattler):
    """The same where a folder of that name is another package, which its .lock must not vouch for."""

    stale = True

    def lay(self):
        super().lay()
        old = artifact(OTHER)
        make_folder(self.pkgs / FOLDER)
        publish_for_rattler(self.pkgs, old, self.extracted("an older build"))


class Index(Scenario):
    """An index is kept with its validator: never a validator of bytes that are not there."""

    name, old = "repodata.json", False

    def lay(self):
        make_folder(self.root / "indexes")
        self.copies = KeptCopies(self.root / "indexes")
        url = RedactedUrl(f"https://example.org/c/linux-64/{self.name}")
        self.index = Artifact(kind="index", filename=self.name, url=url)
        self.texts = {"v1": b'{"packages": {"old": {}}}' + b" " * 200, "v2": b'{"packages": {"new": {}}}' + b" " * 300}
        if self.old:
            self.keep("v1")

    def keep(self, validator):
        text = self.texts[validator]
        if self.name.endswith(".zst"):
            import zstandard

            text = zstandard.compress(text)
        new = self.copies.arriving(self.index)
        new.write_bytes(text)
        with new.open("rb") as file:
            if hasattr(self, "disk"):
                self.disk._sync_one(file.fileno())
        self.copies.keep(self.index, Note("", CacheHeaders(etag=validator), 0.0))

    def run(self):
        self.keep("v2")
        self.promise("v2")

    def check(self, image):
        copies = KeptCopies(image / "indexes")
        note = copies.note(self.index)
        validator = None if note is None else note.said.validator
        if validator is not None:
            assert copies.path(self.index).read_bytes() == self.texts[validator]
        assert validator == self.promised or not self.promised


class IndexAgain(Index):
    """The same where an older one is replaced."""

    old = True


class PackedIndex(Index):
    """The same for an index that is unpacked."""

    name, old = "repodata.json.zst", True


class ShardIndexKept(Scenario):
    """A shard index and what its server said of it are one file: over an older one, or over a note that there was none.

    A shard itself is never synced: its name is its digest, and one that was spoilt is not believed.
    """

    before = "an older one"

    def lay(self):
        self.url = RedactedUrl("https://example.org/c/linux-64/repodata_shards.msgpack.zst")
        self.digest = hashlib.sha256(DATA).hexdigest()
        store = ShardStore(self.root / "shards")
        self.old = None
        if self.before == "an older one":
            self.old = self.kept(b"old" * 99, "v1")
            store.keep_index(self.url, self.old)
        elif self.before == "a note":
            store.keep_absence(self.url, Note(str(self.url), CacheHeaders(), 0.0))

    def kept(self, data, validator):
        return KeptIndex(data, Note(str(self.url), CacheHeaders(etag=validator), 0.0))

    def run(self):
        store = ShardStore(self.root / "shards")
        self.new = self.kept(b"new" * 100, "v2")
        store.keep(self.digest, DATA)
        store.keep_index(self.url, self.new)
        self.promise("the new one")

    def check(self, image):
        store = ShardStore(image / "shards")
        assert store.read(self.digest) in (DATA, None)
        found = store.index(self.url)
        assert found is not None or (self.old is None and not self.promised)
        if found is not None:
            pairs = [(each.data, each.note.said.validator) for each in (self.old, self.new) if each is not None]
            assert (found.data, found.note.said.validator) in (pairs[-1:] if self.promised else pairs)
        assert store.absence(self.url) is None or not self.promised


class ShardIndexAfterNone(ShardIndexKept):
    """The same where an earlier run had noted that there is none."""

    before = "a note"


class ShardIndexFirst(ShardIndexKept):
    """The same in a folder that is not there yet."""

    before = "nothing"


class NoShardIndex(ShardIndexKept):
    """That a server has no shard index is noted."""

    before = "nothing"

    def run(self):
        self.new = None
        ShardStore(self.root / "shards").keep_absence(self.url, Note(str(self.url), CacheHeaders(), 0.0))
        self.promise("the note")

    def check(self, image):
        note = ShardStore(image / "shards").absence(self.url)
        assert note is not None or not self.promised
        assert note is None or note.source == str(self.url)


class Page(Scenario):
    """An index page or METADATA is kept for a run without a network, over an older one."""

    def lay(self):
        self.url = RedactedUrl("https://example.org/simple/a/")
        KeptPages(self.root / "pages").keep(self.url, b"old" * 9)

    def run(self):
        KeptPages(self.root / "pages").keep(self.url, b"new" * 10)
        self.promise("the new one")

    def check(self, image):
        kept = KeptPages(image / "pages").read(self.url)
        assert kept in ((b"new" * 10,) if self.promised else (b"old" * 9, b"new" * 10))


class Wheel(Scenario):
    """A file without a digest: its hash is noted, then it gets its name."""

    def lay(self):
        self.what = artifact(gzip.compress(DATA), "a-1.tar.gz", sha256=None, size=None)
        make_folder(self.root / "wheels" / FOLDER)
        self.waiting = staged_path(self.root / "wheels", self.what)
        self.waiting.write_bytes(gzip.compress(DATA, mtime=0))

    def run(self):
        pins = Pins(self.root / "pins")
        WheelDir(self.root / "wheels", pins, SimpleNamespace(message=lambda *_, **__: None))._take(
            self.what, self.waiting
        )
        self.promise("the file")

    def check(self, image):
        place = image / "wheels" / self.what.filename
        pin = Pins(image / "pins").find(self.what)
        if place.exists():
            assert pin is not None
            assert hashlib.sha256(place.read_bytes()).hexdigest() == pin.sha256
        assert place.exists() or not self.promised


class Taken(Scenario):
    """A verified file of this machine is copied into a folder that is not there yet."""

    def lay(self):
        make_folder(self.root / "near")
        (self.root / "near" / "a").write_bytes(DATA)

    def run(self):
        self.disk.has_links = False
        target = self.root / "out" / "channel" / "a"
        assert link_or_copy(self.root / "near" / "a", target, self.root / "out" / FOLDER / "waiting", artifact())
        self.promise("the copy")

    def check(self, image):
        path = image / "out" / "channel" / "a"
        assert not path.exists() or path.read_bytes() == DATA
        assert path.exists() or not self.promised


class BundleText(Scenario):
    """A generated file of a bundle, over an older one."""

    def lay(self):
        self.bundle = BundleFolder(self.root / "bundle")
        make_folder(self.root / "bundle" / FOLDER)
        self.bundle.write("README.txt", [b"old" * 9])

    def run(self):
        self.bundle.write("README.txt", [b"new", b"new" * 9])
        self.bundle.write("simple/a/index.html", [b"page"])
        self.promise("both")

    def check(self, image):
        text, page = image / "bundle" / "README.txt", image / "bundle" / "simple" / "a" / "index.html"
        assert text.read_bytes() in ((b"new" * 10,) if self.promised else (b"old" * 9, b"new" * 10))
        assert page.read_bytes() == b"page" if page.exists() else not self.promised


GROUPS = {
    "parts": [PublishPart, Move, PartFile, Reuse],
    "conda": [PublishArchive, Claim, PublishEntry, PublishOverStale, PublishBatch],
    "rattler": [PublishForRattler, PublishForRattlerOverStale],
    "indexes": [Index, IndexAgain, PackedIndex],
    "shards": [ShardIndexKept, ShardIndexAfterNone, ShardIndexFirst, NoShardIndex],
    "files": [Page, Wheel, Taken, BundleText],
}


def play(kind, folder, *, without=""):
    """Run a scenario on a disk that loses its power at every moment; the sites that have synced something."""
    root = folder / "root"
    root.mkdir(parents=True)
    scenario = kind(root)
    scenario.lay()
    scenario.disk = disk = Disk(root, folder / "images", scenario.check, without=without)
    with disk:
        scenario.run()
        disk.cut()
    return disk.sites


@pytest.mark.parametrize("kind", [kind for group in GROUPS.values() for kind in group], ids=lambda kind: kind.__name__)
def test_a_power_cut_at_any_step_loses_nothing(tmp_path, kind):
    """After a power cut at any moment nothing wrong is believed, and what was promised by then is there."""
    assert play(kind, tmp_path)


@pytest.mark.parametrize("group", GROUPS)
def test_each_sync_is_necessary(tmp_path, group):
    """Each sync of a file, a folder or the file system is needed: without it some power cut loses something."""
    needed, idle = set(), set()
    for kind in GROUPS[group]:
        for number, site in enumerate(play(kind, tmp_path / kind.__name__)):
            if site not in needed:
                try:
                    play(kind, tmp_path / f"{kind.__name__}-{number}", without=site)
                    idle.add(site)
                except (AssertionError, OSError, ValueError, ResumeDLError):
                    needed.add(site)
    assert sorted(idle - needed) == []
