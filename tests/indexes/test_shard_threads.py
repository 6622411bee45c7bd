"""Shards are parsed by several threads at once."""

from __future__ import annotations

import subprocess
import sys

_FIRST_USE_BY_FOUR = """
import importlib, sys, threading
import msgspec
from resume_dl.resolve.repodata import unpack_zst_bytes
from resume_dl.indexes.shards import index, packed, shard

sys.setswitchinterval(1e-6)
of_index = msgspec.msgpack.encode({"info": {"subdir": "noarch"}, "shards": {}, "version": 1})
of_shard = msgspec.msgpack.encode({"packages": {}, "packages.conda": {}})
failed = []

def use(start):
    start.wait()
    try:
        index.parse_index(of_index, subdir="noarch", url="https://a.example/noarch/x")
        shard.parse_shard(of_shard, name="a")
    except BaseException as error:
        failed.append(error)

for _ in range(100):
    importlib.reload(index)
    importlib.reload(shard)
    index.unpacked = shard.unpacked = lambda data, largest: data
    start = threading.Barrier(4)
    threads = [threading.Thread(target=use, args=(start,)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
print(failed)
"""


def test_the_first_use_may_be_by_several_threads() -> None:
    """A child, because msgspec ends the whole process where two threads meet an unprepared Struct type."""
    command = [sys.executable, "-c", _FIRST_USE_BY_FOUR]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
