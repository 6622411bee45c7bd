"""What `bundle verify` passes, GNU tar, bsdtar and Python's tarfile unpack as the very same names and bytes."""

from __future__ import annotations

import bz2
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from resume_dl.bundle.manifest import write_manifest
from resume_dl.fs.removal import remove
from resume_dl.offline_tools.tarred.tar_check import check_tar
from resume_dl.offline_tools.tarred.unpack_tar import unpack
from resume_dl.offline_tools.verification.check import check
from support.hand_bundle import PYTZ, TQDM, bundle_tar, files, hand_bundle, manifest_of, packages, paths_in, seal
from support.offline_scripts import scripts

BLOCK = 512
NAME = slice(0, 100)
MODE, UID, GID = slice(100, 108), slice(108, 116), slice(116, 124)
SIZE, MTIME, CHECKSUM = slice(124, 136), slice(136, 148), slice(148, 156)
KIND, LINK, MAGIC = slice(156, 157), slice(157, 257), slice(257, 265)
DEVICE, PREFIX, REST = slice(329, 337), slice(345, 500), slice(500, 512)
GNU, USTAR = b"ustar  \0", b"ustar\x0000"
EVIL = "wheels/evil-1.0-py3-none-any.whl"


def header(name: bytes, size: int = 0, kind: bytes = b"0", **fields: bytes) -> bytes:
    """A ustar header, its checksum right; ``fields`` are written over it, by the names above."""
    made = bytearray(BLOCK)
    values = {"NAME": name, "MODE": b"0000644", "UID": b"0000000", "GID": b"0000000", "SIZE": b"%011o" % size,
              "MTIME": b"00000000000", "KIND": kind, "MAGIC": USTAR, "DEVICE": b"0000000"}  # fmt: skip
    for key, value in {**values, **fields}.items():
        place: slice = globals()[key]
        room = place.stop - place.start
        made[place] = value[:room].ljust(room, b"\0")
    if "CHECKSUM" not in fields:
        made[CHECKSUM] = b" " * 8
        made[CHECKSUM] = b"%06o\0 " % sum(made)
    return bytes(made)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def pax(*records: tuple[bytes, bytes], kind: bytes = b"x") -> bytes:
    """An extended header of these records."""
    content = b""
    for key, value in records:
        rest = b" " + key + b"=" + value + b"\n"
        length = next(n for n in range(len(rest), len(rest) + 9) if n == len(rest) + len(str(n)))
        content += str(length).encode() + rest
    return header(b"././@PaxHeader", len(content), kind) + padded(content)


def long_name(name: bytes, kind: bytes = b"L") -> bytes:
    """GNU's long name."""
    return header(b"././@LongLink", len(name) + 1, kind, MAGIC=GNU) + padded(name + b"\0")


def paths_once(bundle: Path) -> list[str]:
    """Manifest and sums first, as `bundle create` orders them."""
    first = ["manifest.json", "SHA256SUMS"]
    return first + [path for path in paths_in(bundle) if path not in first]


def build(
    bundle: Path, target: Path, before: Mapping[str, bytes] = {}, instead: Mapping[str, bytes] = {}, after: bytes = b""
) -> Path:
    """The honest bundle as a tar, with other pieces ``before`` or ``instead`` of a path's own."""
    data = b""
    for name in paths_once(bundle):
        content = (bundle / name).read_bytes()
        own = header(name.encode(), len(content)) + padded(content)
        data += before.get(name, b"") + instead.get(name, own)
    target.write_bytes(data + after + bytes(2 * BLOCK))
    return target


def by_program(program: str) -> Callable[[Path, Path], bool]:
    def run(tar: Path, folder: Path) -> bool:
        done = subprocess.run([program, "-xf", tar, "-C", folder], capture_output=True, timeout=60, check=False)
        return done.returncode == 0

    return run


def by_tarfile(tar: Path, folder: Path) -> bool:
    try:
        with tarfile.open(tar) as archive:
            archive.extractall(folder, filter="fully_trusted")
    except (tarfile.TarError, OSError, ValueError):
        return False
    return True


READERS: dict[str, Callable[[Path, Path], bool]] = {"tarfile": by_tarfile}
if shutil.which("tar") and b"GNU" in subprocess.run(["tar", "--version"], capture_output=True, check=False).stdout:
    READERS["GNU tar"] = by_program("tar")
if shutil.which("bsdtar"):
    READERS["bsdtar"] = by_program("bsdtar")
EVERY_READER = ("GNU tar", "bsdtar", "tarfile")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below it; a link or anything odd has another content than any file."""
    return {
        path.relative_to(folder).as_posix(): b"a link" if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def passes(tar: Path) -> bool:
    """Whether `bundle verify` passes it; both of ours say the same."""
    return not check_tar(tar).problems


def assert_all_unpack_the_same(tar: Path, room: Path, readers: tuple[str, ...] = EVERY_READER) -> None:
    """Each program that unpacks it without an error has what we verified, and nothing else."""
    ours = room / "ours"
    assert unpack(tar, ours).problems == []
    wanted = contents(ours)
    for name in readers:
        if name in READERS:
            theirs = room / name.replace(" ", "-")
            theirs.mkdir()
            if READERS[name](tar, theirs):
                assert contents(theirs) == wanted, name


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readers") / "bundle"
    archives = {TQDM: packages()[TQDM]}
    others = {name: data for name, data in files().items() if name in ("README.txt", "simple/tqdm/index.html")}
    others["requirements/linux-64.txt"] = files()["requirements/linux-64.txt"]
    hand_bundle(folder, archives=archives, others=others)
    return folder


WHEEL = packages()[TQDM]
BYTES = padded(WHEEL)


def wheel(size: bytes, **fields: bytes) -> bytes:
    """The listed wheel, its size field these bytes."""
    return header(TQDM.encode(), SIZE=size, **fields) + BYTES


def wheel_as(name: bytes, **fields: bytes) -> bytes:
    return header(name, len(WHEEL), **fields) + BYTES


PATH = TQDM.encode()
OCTAL = b"%o" % len(WHEEL)
GOOD_SIZE = b"%011o" % len(WHEEL)

AMBIGUOUS = {
    "a pax path and then GNU's long name": {"before": pax((b"path", EVIL.encode())) + long_name(PATH)},
    "GNU's long name and then a pax path": {"before": long_name(PATH) + pax((b"path", EVIL.encode()))},
    "two long names": {"before": long_name(EVIL.encode()) + long_name(PATH)},
    "two pax headers": {"before": pax((b"path", EVIL.encode())) + pax((b"path", PATH))},
    "a path twice in one pax header": {"before": pax((b"path", EVIL.encode()), (b"path", PATH))},
    "a global path": {"before": pax((b"path", EVIL.encode()), kind=b"g")},
    "a global comment": {"before": pax((b"comment", b"x"), kind=b"g")},
    "a long link": {"before": long_name(b"README.txt", b"K")},
    "a header of Solaris's tar": {"before": pax((b"path", PATH), kind=b"X")},
    "another size to bsdtar": {"before": pax((b"SCHILY.realsize", b"3"))},
    "a sparse map to star": {"before": pax((b"SUN.holesdata", b" 0 3"))},
    "a link's target": {"before": pax((b"linkpath", b"README.txt"))},
    "names in the locale's encoding": {"before": pax((b"hdrcharset", b"BINARY"))},
    "names in the locale's encoding, in a comment": {"before": pax((b"comment", b"9 hdrcharset=BINARY\n"))},
    "a NUL in a pax path": {"before": pax((b"path", PATH + b"\0.x"))},
    "no path in a pax header": {"before": pax((b"path", b""))},
    "a size below zero in a pax header": {"before": pax((b"size", b"-1000"))},
    "a size with a sign in a pax header": {"before": pax((b"size", b"+%d" % len(WHEEL)))},
    "a size with an underscore in a pax header": {"before": pax((b"size", b"1_0"))},
    "a NUL in a long name": {"before": long_name(PATH + b"\0x")},
    "an unknown record": {"before": pax((b"VENDOR.path", b"x"))},
    "size with a sign": {"instead": wheel(b"+" + OCTAL)},
    "size with a prefix": {"instead": wheel(b"0o" + OCTAL)},
    "size -1000": {"instead": wheel(b"-1000")},
    "size -0": {"instead": wheel(b"-0")},
    "size with underscores": {"instead": wheel(OCTAL[:1] + b"_" + OCTAL[1:])},
    "size behind blanks": {"instead": wheel(b"   " + OCTAL + b" ")},
    "size behind a line's end": {"instead": wheel(b"\n" + OCTAL)},
    "size with more behind its NUL": {"instead": wheel(OCTAL + b"\x001")},
    "size with a decimal digit": {"instead": wheel(OCTAL + b"8")},
    "size that is empty": {"instead": wheel(b"")},
    "size that is blank": {"instead": wheel(b" " * 12)},
    "size without an end": {"instead": wheel(b"%012o" % len(WHEEL))},
    "size in base 256": {"instead": wheel(b"\x80" + len(WHEEL).to_bytes(11, "big"))},
    "size below zero in base 256": {"instead": wheel(b"\xff" * 10 + b"\xfc\0")},
    "mode with a sign": {"instead": wheel(GOOD_SIZE, MODE=b"-644")},
    "owner with a prefix": {"instead": wheel(GOOD_SIZE, UID=b"0o7")},
    "group of letters": {"instead": wheel(GOOD_SIZE, GID=b"users")},
    "time of letters": {"instead": wheel(GOOD_SIZE, MTIME=b"yesterday")},
    "device with a sign": {"instead": wheel(GOOD_SIZE, DEVICE=b"+1")},
    "checksum with a prefix": {"instead": wheel(GOOD_SIZE, CHECKSUM=b"0o12345")},
    "a prefix that GNU's magic has no room for": {"instead": wheel(GOOD_SIZE, MAGIC=GNU, PREFIX=b"other")},
    "old V7 magic": {"instead": wheel(GOOD_SIZE, MAGIC=b"")},
    "a name with more behind its NUL": {"instead": wheel_as(PATH + b"\0evil")},
    "a contiguous file": {"instead": wheel_as(PATH, KIND=b"7")},
    "a file whose name ends as a folder's": {"instead": wheel_as(PATH + b"/")},
    "a folder of that name with bytes": {"instead": wheel_as(PATH, KIND=b"5")},
    "a file that is there twice": {"instead": header(PATH, 4) + padded(b"evil") + wheel(GOOD_SIZE)},
    "a file that is there twice, once below .": {
        "instead": header(b"./" + PATH, 4) + padded(b"evil") + wheel(GOOD_SIZE),
    },
    "a file of no manifest": {"after": header(b"notes.txt", 4) + padded(b"mine")},
    "a file manager's": {"after": header(b".DS_Store", 4) + padded(b"mine")},
    "a link that takes a file's place": {"after": header(PATH, kind=b"2", LINK=b"/etc/passwd")},
    "a folder of no file": {"after": header(b"other/", kind=b"5")},
    "a folder with a file's name": {"after": header(PATH + b"/", kind=b"5")},
    "the root as a folder": {"after": header(b"/", kind=b"5")},
    "an incremental dump's folder": {"after": header(b"wheels/", kind=b"D")},
    "a volume's label": {"before": header(b"label", kind=b"V")},
    "a piece of a file in another volume": {"after": header(PATH, 4, b"M") + padded(b"evil")},
    "a name without a file": {"after": long_name(EVIL.encode())},
    "files behind the end": {"after": bytes(2 * BLOCK) + header(EVIL.encode(), 4) + padded(b"evil")},
}  # fmt: skip


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_ambiguous_tars_are_refused(bundle: Path, tmp_path: Path, case: str) -> None:
    """In a process of its own: one of these once never ended."""
    pieces = AMBIGUOUS[case]
    tar = build(
        bundle,
        tmp_path / "x.tar",
        {TQDM: pieces["before"]} if "before" in pieces else {},
        {TQDM: pieces["instead"]} if "instead" in pieces else {},
        pieces.get("after", b""),
    )
    script = [sys.executable, "-I", scripts() / "unpack.py", tar, tmp_path / "target"]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (4, False), done.stdout + done.stderr
    assert not (tmp_path / "target").exists()


HONEST = {
    "as it is": {},
    "a long name of GNU's": {"before": long_name(PATH)},
    "a pax path": {"before": pax((b"path", PATH))},
    "a pax size": {"before": pax((b"size", b"%d" % len(WHEEL))), "instead": wheel(b"0")},
    "times, owners and attributes": {
        "before": pax((b"mtime", b"1.5"), (b"uid", b"0"), (b"uname", b"root"), (b"SCHILY.xattr.user.a", b"\0\xff"))
    },
    "size ended by a blank": {"instead": wheel(b"%011o " % len(WHEEL))},
    "a short size": {"instead": wheel(OCTAL)},
    "GNU's magic, an owner in base 256": {"instead": wheel(GOOD_SIZE, MAGIC=GNU, UID=b"\x80\0\0\0\x40\0\0\0")},
    "no type": {"instead": wheel_as(PATH, KIND=b"\0")},
    "a prefix": {"instead": wheel_as(PATH.partition(b"/")[2], PREFIX=b"wheels")},
    "below .": {"instead": wheel_as(b"./" + PATH)},
    "folders": {"before": header(b"./", kind=b"5", MODE=b"0000755") + header(b"wheels/", kind=b"5", MODE=b"0000755")},
    "a folder with a quota": {"before": header(b"wheels/", 512, b"5", MODE=b"0000755")},
}


@pytest.mark.parametrize("reader", EVERY_READER)
@pytest.mark.parametrize("case", HONEST)
def test_an_accepted_tar_unpacks_alike_everywhere(bundle: Path, tmp_path: Path, case: str, reader: str) -> None:
    if reader not in READERS:
        pytest.skip(f"no {reader} here (apt-get install libarchive-tools brings bsdtar)")
    pieces = HONEST[case]
    tar = build(
        bundle,
        tmp_path / "x.tar",
        {TQDM: pieces["before"]} if "before" in pieces else {},
        {TQDM: pieces["instead"]} if "instead" in pieces else {},
    )
    assert_all_unpack_the_same(tar, tmp_path, (reader,))
    theirs = tmp_path / "again"
    theirs.mkdir()
    assert READERS[reader](tar, theirs)
    assert contents(theirs) == contents(bundle)


@pytest.mark.parametrize("reader", EVERY_READER)
def test_our_own_tar_with_long_and_foreign_names(tmp_path: Path, reader: str) -> None:
    if reader not in READERS:
        pytest.skip(f"no {reader} here (apt-get install libarchive-tools brings bsdtar)")
    long = "wheels/" + "a" * 120 + "-1.0-py3-none-any.whl"
    hand_bundle(
        tmp_path / "bundle", archives={**packages(), long: WHEEL}, others={**files(), "simple/ü/index.html": b"u"}
    )
    tar = bundle_tar(tmp_path / "bundle", tmp_path / "x.tar")
    assert_all_unpack_the_same(tar, tmp_path, (reader,))
    assert contents(tmp_path / "ours") == contents(tmp_path / "bundle")


@pytest.mark.skipif("GNU tar" not in READERS, reason="no GNU tar here")
@pytest.mark.parametrize("form", ["gnu", "pax", "ustar"])
def test_a_tar_of_the_folder_by_gnu_tar_is_passed(bundle: Path, tmp_path: Path, form: str) -> None:
    tar = tmp_path / "x.tar"
    subprocess.run(["tar", f"--format={form}", "-cf", tar, "-C", bundle, "."], check=True, timeout=60)
    assert_all_unpack_the_same(tar, tmp_path)


@pytest.mark.skipif("bsdtar" not in READERS, reason="no bsdtar here (apt-get install libarchive-tools)")
@pytest.mark.parametrize("form", ["pax", "gnutar", "ustar"])
def test_a_tar_of_the_folder_by_bsdtar_is_passed(bundle: Path, tmp_path: Path, form: str) -> None:
    tar = tmp_path / "x.tar"
    subprocess.run(["bsdtar", f"--format={form}", "-cf", tar, "-C", bundle, "."], check=True, timeout=60)
    assert_all_unpack_the_same(tar, tmp_path)


NUMBERS = st.sampled_from(
    [GOOD_SIZE, GOOD_SIZE + b" ", OCTAL, b" " + OCTAL, b"-" + OCTAL, b"+" + OCTAL, b"0o" + OCTAL, b"0", b"+0", b"-1000",
     b"", b" ", b"\t" + OCTAL, OCTAL + b"\0\x37", OCTAL + b" 7", b"0x10", b"1000", b"%012o" % len(WHEEL),
     b"\x80" + len(WHEEL).to_bytes(11, "big"), b"\xff" * 12, b"\x81" + bytes(11), b"\x80" + bytes(11), b"7" * 12]
)  # fmt: skip
NAMES = st.sampled_from(
    [PATH, b"./" + PATH, PATH + b"/", b"README.txt", b"notes.txt", b"wheels/", b"wheels", b"./", b"", EVIL.encode(),
     PATH + b"\0x", PATH.partition(b"/")[2], b"wheels//" + PATH.partition(b"/")[2], b"../" + PATH, b"/" + PATH]
)  # fmt: skip
KINDS = st.sampled_from([b"0", b"\0", b"7", b"5", b"1", b"2", b"S", b"D", b"V", b"N", b"g", b"Z"])
KEYS = st.sampled_from(
    [b"path", b"size", b"mtime", b"uid", b"uname", b"comment", b"linkpath", b"hdrcharset", b"SCHILY.realsize",
     b"GNU.sparse.name", b"GNU.sparse.realsize", b"GNU.sparse.major", b"SUN.holesdata", b"SCHILY.ino", b"charset"]
)  # fmt: skip
VALUES = st.one_of(NAMES, st.sampled_from([b"%d" % len(WHEEL), b"0", b"1", b"-1", b"1.5", b"BINARY", b"1 path=x\n"]))
EXTENSIONS = st.one_of(
    st.builds(pax, st.tuples(KEYS, VALUES), kind=st.sampled_from([b"x", b"x", b"g", b"X"])),
    st.builds(pax, st.tuples(KEYS, VALUES), st.tuples(KEYS, VALUES)),
    st.builds(long_name, NAMES, st.sampled_from([b"L", b"L", b"K"])),
)
VALUES_OF = {
    "SIZE": NUMBERS,
    "MODE": NUMBERS,
    "UID": NUMBERS,
    "MTIME": NUMBERS,
    "DEVICE": NUMBERS,
    "NAME": NAMES,
    "KIND": KINDS,
    "MAGIC": st.sampled_from([USTAR, GNU, b"", b"ustar\0\0\0", b"ustar 00", b"USTAR\x0000"]),
    "PREFIX": st.sampled_from([b"", b"wheels", b"x", b"\0x", b"wheels\0x", bytes(131) + b"00000000000 " * 2]),
    "LINK": st.sampled_from([b"", b"README.txt", b"/etc/passwd"]),
    "REST": st.sampled_from([b"", b"tar\0", bytes(8) + b"tar\0"]),
}
FIELDS = st.lists(st.sampled_from(sorted(VALUES_OF)), max_size=2, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: VALUES_OF[name] for name in names})
)


@settings(
    max_examples=200, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(st.lists(EXTENSIONS, max_size=2), FIELDS, st.booleans())
@example([], {"MAGIC": GNU}, False)
def test_any_header_is_read_alike_or_refused(
    bundle: Path,
    tmp_path_factory: pytest.TempPathFactory,
    extensions: list[bytes],
    fields: dict[str, bytes],
    behind: bool,
) -> None:
    """Of a listed file, or ``behind`` all the others."""
    made = b"".join(extensions) + header(PATH, len(WHEEL), **fields) + BYTES
    room = tmp_path_factory.mktemp("fuzzed")
    tar = build(bundle, room / "x.tar", after=made) if behind else build(bundle, room / "x.tar", instead={TQDM: made})
    if passes(tar):
        assert_all_unpack_the_same(tar, room)
    remove(room)  # read-only files too


def test_a_manifest_of_nothing_does_not_let_anything_pass(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir()
    manifest = replace(manifest_of({}, {}), platforms=())
    seal(folder, b"".join(write_manifest(manifest)), manifest)
    tar = build(folder, tmp_path / "x.tar", after=header(b"evil.txt", 4) + padded(b"evil"))
    assert [(each.path, each.what) for each in check_tar(tar).problems] == [("evil.txt", "added")]


def test_a_package_whose_tar_leads_back_into_itself_is_refused(tmp_path: Path) -> None:
    """A size below zero sends older Pythons' tarfile to the same header for ever (CVE-2025-8194)."""
    first = header(b"info/index.json", 2) + padded(b"{}")
    data = first + header(b"a", SIZE=b"\xff" * 10 + b"\xfe\0", MAGIC=GNU) + bytes(1024)
    hand_bundle(tmp_path / "bundle", archives={**packages(), PYTZ: bz2.compress(data)})
    script = [sys.executable, "-I", scripts() / "verify.py", tmp_path / "bundle"]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, f"error: {PYTZ}" in done.stderr) == (4, True), done.stderr


def test_a_package_with_a_damaged_header_is_refused(tmp_path: Path) -> None:
    """Python's tarfile takes it for the end of the archive; bsdtar, and what conda unpacks with, need not."""
    first = header(b"info/index.json", 2) + padded(b"{}")
    data = first + header(b"a", CHECKSUM=b"0000000") + header(b"../evil", 4) + padded(b"evil") + bytes(1024)
    hand_bundle(tmp_path / "bundle", archives={**packages(), PYTZ: bz2.compress(data)})
    assert [(each.path, each.what) for each in check(tmp_path / "bundle").problems] == [(PYTZ, "unsafe")]
