# ruff: noqa: FA100 - `from __future__ import` runs a __future__.py that somebody laid beside the script
"""Verify an offline bundle in a tar and unpack it, so that nothing is written outside, or unverified.

Run it as ``python unpack.py BUNDLE.tar [FOLDER]``: Python 3.8 and newer, its standard library, and the verify.py that
lies beside it. ``resume-dl bundle verify``, ``bundle install``, a bundle's own ``install.py``, and ``verify.py`` where
it is given a tar, call ``check_tar``, ``check_any`` and ``unpack``; verify.py says what a bundle is.

The tar is read as POSIX's ustar with pax headers or GNU's long names (pax(1), tar(5)), by a reader of our own:
``tarfile`` has met its endless loops and takes links, sparse files and devices, none of which a bundle has. A header
that GNU tar, bsdtar and ``tarfile`` may read in different ways is refused: what is verified is what they unpack.
"""

import sys

if sys.version_info < (3, 8):  # noqa: UP036 - whatever Python is there runs this
    needed: str = "Python 3.8 or newer is needed"  # one without annotations ends here, and shows this line
    sys.stderr.write(f"{needed}; this is {sys.version.split()[0]}\n")
    sys.exit(2)

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    # Python puts the script's own folder first, and a json.py that somebody added there would run
    sys.path[:] = [entry for entry in sys.path[1:] if entry not in ("", sys.path[0])]

import argparse
import hashlib
import os
import re
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple


def _beside(name: str) -> Any:
    """The script of that name beside this one, as a module; these lines are the same in each script that needs it.

    Its text is compiled: Python would take a ``__pycache__`` for it, which nothing verifies. It runs before the bundle
    is verified, so it is held against SHA256SUMS; where there is none it is no bundle's. Raises OSError, SystemExit.
    """
    loaded = sys.modules.get("resume_dl_bundle_" + name)
    if loaded is not None:
        return loaded
    path = Path(os.path.abspath(__file__)).with_name(name + ".py")  # noqa: PTH100 - resolve() follows links
    data = path.read_bytes()
    with suppress(FileNotFoundError):
        listed = path.with_name("SHA256SUMS").read_bytes().splitlines()
        if f"{hashlib.sha256(data).hexdigest()}  {path.name}".encode() not in listed:
            what, hint = "is not the file that SHA256SUMS lists", f"copy {path.name} and SHA256SUMS again"
            with suppress(OSError):
                print(f"error: {path.name} {what}; nothing was started\n  {hint}", file=sys.stderr)  # noqa: T201 - a script has nothing else
            sys.exit(4)
    module = ModuleType("resume_dl_bundle_" + name)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(data, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102 - what an import does
    return module


if TYPE_CHECKING or __package__:
    from resume_dl.standalone import verify
else:
    try:
        verify = _beside("verify")
    except OSError as _error:
        with suppress(OSError):
            print(  # noqa: T201 - a script has nothing else
                f"error: {_error.filename}: {_error.strerror}; nothing was started\n"
                "  copy it there too: unpack.py needs this file",
                file=sys.stderr,
            )
        sys.exit(2)

_PART = re.compile(r"\.tar\.(\d{3,}|parts\.json)$")

# ---------------------------------------------------------------------------------------------------------------------
# What others call


def check_tar(
    path: Path,
    *,
    manifest_sha256: Optional[str] = None,
    allowed_signers: Optional[Path] = None,
    signer: Optional[str] = None,
    told: Optional[verify.Told] = None,
    deep: bool = False,
) -> verify.Report:
    """As ``verify.check``, of a bundle in a tar, without unpacking it. Raises UsageError also where it is no file."""
    path = Path(path)
    wanted = verify.Wanted(manifest_sha256, allowed_signers, signer, None)
    report = verify.Report()
    try:
        with _open(path) as file:
            verify.check_source(_Tar(path, file, report), wanted, report, told, deep=deep)
    except OSError as error:
        report.add_unreadable(str(path), error)
    return report


def check_any(
    path: Path,
    *,
    manifest_sha256: Optional[str] = None,
    allowed_signers: Optional[Path] = None,
    signer: Optional[str] = None,
    told: Optional[verify.Told] = None,
    deep: bool = False,
) -> verify.Report:
    """``verify.check`` or ``check_tar``, whichever ``path`` is. Raises UsageError also where it is neither."""
    check = verify.check if Path(path).is_dir() else check_tar
    return check(
        path,
        manifest_sha256=manifest_sha256,
        allowed_signers=allowed_signers,
        signer=signer,
        told=told,
        deep=deep,
    )


def unpack(
    tar: Path,
    folder: Path,
    *,
    manifest_sha256: Optional[str] = None,
    allowed_signers: Optional[Path] = None,
    signer: Optional[str] = None,
    told: Optional[verify.Told] = None,
) -> verify.Report:
    """Verify a tar and lay its files into ``folder``, new, empty, or left by an ``unpack`` that failed.

    No file gets its name before its bytes are verified, and nothing is written outside. Where anything is wrong with
    the tar's list or names, nothing is written at all. Where files are damaged, the others are laid out and the
    manifest is not; the same call continues once the tar was copied again. Raises UsageError.
    """
    tar, folder = Path(tar), Path(folder)
    wanted = verify.Wanted(manifest_sha256, allowed_signers, signer, folder)
    report = verify.Report()
    try:
        with _open(tar) as file:
            source = _Tar(tar, file, report)
            expected = verify.list_files(source, wanted, report)
            if not report.problems:
                _Unpacking(source, verify.native(folder), report, told).run(expected)
    except OSError as error:
        why = f"cannot be unpacked into {verify.shown(str(folder))}: {verify.shown(error.strerror or str(error))}"
        report.add(str(tar), "machine", why, "look at both disks, then unpack it again: what is laid out is kept")
    return report


def _open(tar: Path) -> BinaryIO:
    """Raises UsageError, OSError."""
    if not tar.is_file():
        what = "is a folder, and no tar" if tar.is_dir() else "no such folder or tar"
        raise verify.UsageError(f"{verify.shown(str(tar))}: {what}")
    if _PART.search(tar.name):
        raise verify.UsageError(f"{verify.shown(str(tar))} is a part of a bundle: put the parts together with join.py")
    return verify.native(tar).open("rb", buffering=0)


# ---------------------------------------------------------------------------------------------------------------------
# Reading a tar


_TAR_BLOCK = 512
_LONGEST_EXTENSION = 1 << 16
_MOST_MEMBERS = 1 << 20
"""Twice the files that the longest manifest lists."""
_TAR_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"S": "a sparse file",
}
_WITHOUT_BYTES = (b"1", b"2", b"3", b"4", b"5", b"6")
_USTAR, _GNU = b"ustar\x0000", b"ustar  \0"
_OCTAL = re.compile(rb"([0-7]+)[ \0]+")
_BLANK = re.compile(rb"[ \0]*")
_UNREAD_FIELDS = ((100, 108), (108, 116), (116, 124), (136, 148), (329, 337), (337, 345))
"""Mode, owner, group, time and device numbers: of no use here, but other programs give up where one is malformed."""
_PAX_RECORDS = re.compile(
    rb"path|size|[amc]time|[ug]id|[ug]name|comment|LIBARCHIVE\.(creationtime|xattr\..+)|RHT\.security\.selinux"
    rb"|SCHILY\.(dev|ino|nlink|fflags|(acl|xattr)\..+)"
)
"""What tar programs write of plain files. ``SCHILY.realsize``, for one, is a size to bsdtar only."""


class _BrokenTarError(Exception):
    """The tar cannot be read further; says why."""


class _Tar(verify.Source):
    """A bundle in an uncompressed tar: plain files, and the folders that other programs put in.

    Its headers are read at once, its files where they are needed. Bytes that belong to no file must be zero.
    """

    def __init__(self, path: Path, file: BinaryIO, report: verify.Report) -> None:
        super().__init__()
        self.unpacked_by_others = True
        self._file = file
        self._starts: Dict[str, int] = {}
        self._keys: Dict[str, str] = {}
        self._end = os.fstat(file.fileno()).st_size
        last = ""
        try:
            for name, size, start, kind in self._members():
                last = name
                self._enter(name, size, start, kind, report)
        except _BrokenTarError as broken:
            self.cut = str(broken)
            after = f" after {verify.shown(last)}" if last else ""
            hint = "copy the whole tar again, then verify it again: what follows could not be looked at"
            what = "truncated" if "ends" in self.cut else "damaged"
            report.add(path.name, what, f"{self.cut}{after}", hint)

    def open(self, path: str) -> BinaryIO:
        return verify.piece(self._file, self._starts[path], self.entries[path])

    def _enter(self, name: str, size: int, start: int, kind: bytes, report: verify.Report) -> None:
        path = name[2:] if name.startswith("./") else name
        if kind == b"5":
            if name in (".", "./"):
                return
            path = path.rstrip("/")
        complaint = verify.unsafe_path(path)
        if complaint:
            self.odd.add(path)
            report.add(path, "unsafe", complaint, verify.REMAKE)
        elif kind == b"5":
            self.unfinished = self.unfinished or path == verify.UNFINISHED
            self.folders.add(path)
        elif kind not in (b"0", b"\0"):
            self.odd.add(path)
            odd = _TAR_KINDS.get(kind, "of an unknown kind")
            report.add(path, "unsafe", f"is {odd}; a bundle holds plain files", verify.REMAKE)
        elif path.startswith(verify.UNFINISHED + "/"):
            self.unfinished = True
        elif verify.folded(path) in self._keys:
            other = self._keys[verify.folded(path)]
            report.add(path, "unsafe", f"is in the tar twice, also as {verify.shown(other)}", verify.REMAKE)
        else:
            self._keys[verify.folded(path)] = path
            self.entries[path] = size
            self._starts[path] = start

    def _members(self) -> Iterator[Tuple[str, int, int, bytes]]:
        """Name, size, where its bytes begin, and type of each. Raises _BrokenTarError."""
        at = count = 0
        extension: Optional[_Extension] = None
        while True:
            header = self._take(at, _TAR_BLOCK)
            at += _TAR_BLOCK
            if header == bytes(_TAR_BLOCK):
                if extension is not None:
                    raise _BrokenTarError("has a name without a file")
                self._check_end(at)
                return
            name, size, kind = _parse_header(header)
            if kind in _EXTENSIONS:
                if extension is not None:
                    raise _BrokenTarError("gives one file two extended headers,")
                if size > _LONGEST_EXTENSION:
                    raise _BrokenTarError(f"has a name of {verify.show_size(size)}")
                extension = _EXTENSIONS[kind](self._take(at, size))
                at = self._skip_padding(at, size)
                continue
            if extension is not None:
                name = name if extension.name is None else extension.name
                size = size if extension.size is None else extension.size
                extension = None
            held = 0 if kind in _WITHOUT_BYTES else size
            if held > self._end - at:
                raise _BrokenTarError(f"ends in the middle of {verify.shown(name)}")
            count += 1
            if count > _MOST_MEMBERS:
                raise _BrokenTarError(f"has more than {_MOST_MEMBERS:,} members")
            yield name, size, at, kind
            at = self._skip_padding(at, held)

    def _take(self, at: int, size: int) -> bytes:
        self._file.seek(at)
        found = self._file.read(size)
        if len(found) != size:
            raise _BrokenTarError("ends too early")
        return found

    def _skip_padding(self, at: int, size: int) -> int:
        """Where the next header is."""
        padding = -size % _TAR_BLOCK
        if any(self._take(at + size, padding)):
            raise _BrokenTarError("is damaged between its files")
        return at + size + padding

    def _check_end(self, at: int) -> None:
        """After the first block of zeros comes a second, and nothing else (pax(1), "ustar Interchange Format")."""
        self._take(at, _TAR_BLOCK)
        self._file.seek(at)
        if any(any(block) for block in verify.blocks(self._file)):
            raise _BrokenTarError("has something behind its end")


def _parse_header(header: bytes) -> Tuple[str, int, bytes]:
    """Name, size and type. Raises _BrokenTarError."""
    if sum(header) - sum(header[148:156]) + 8 * 32 != _number(header[148:156]):
        raise _BrokenTarError("is damaged, or is no tar,")
    magic, kind = header[257:265], header[156:157]
    if magic not in (_USTAR, _GNU):
        raise _BrokenTarError("is no tar of a kind that bundles have,")
    if kind in _REFUSED_EXTENSIONS:
        raise _BrokenTarError(f"has {_REFUSED_EXTENSIONS[kind]}, which no bundle's tar has,")
    for start, end in _UNREAD_FIELDS:
        field = header[start:end]
        if field[:1] not in (b"\x80", b"\xff") and not (_OCTAL.fullmatch(field) or _BLANK.fullmatch(field)):
            raise _BrokenTarError("has a damaged header")
    # old GNU headers have times and sparse maps where POSIX has the prefix, and tarfile takes either for a prefix
    if any(header[345:] if magic == _GNU else header[500:]):
        raise _BrokenTarError("has a header that programs read in different ways,")
    name, prefix = _field(header[:100]), _field(header[345:500])
    return _text(prefix + b"/" + name if prefix else name), _number(header[124:136]), kind


def _field(field: bytes) -> bytes:
    """A text up to its NUL, behind which nothing may stand. Raises _BrokenTarError."""
    text, _, rest = field.partition(b"\0")
    if any(rest):
        raise _BrokenTarError("has a damaged header")
    return text


def _number(field: bytes) -> int:
    """Octal digits and what ends them, nothing else: programs differ in signs, blanks before it, and base 256.

    A file of 8 GiB or more has its size in a pax record. Raises _BrokenTarError.
    """
    found = _OCTAL.fullmatch(field)
    if found is None:
        raise _BrokenTarError("has a damaged header")
    return int(found.group(1), 8)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


class _Extension(NamedTuple):
    """What an extended header says of the member that follows it; None: nothing."""

    name: Optional[str]
    size: Optional[int]


def _parse_long_name(content: bytes) -> _Extension:
    """GNU's: the name and a NUL. Raises _BrokenTarError."""
    return _Extension(_text(_field(content)), None)


def _parse_pax(content: bytes) -> _Extension:
    """Records ``<length> <key>=<value>`` and a line's end; none twice. Raises _BrokenTarError."""
    found: Dict[bytes, bytes] = {}
    if b"hdrcharset=" in content:  # tarfile looks for it in values too
        raise _BrokenTarError("has names in another encoding than UTF-8,")
    while content:
        length = content.partition(b" ")[0]
        if not re.fullmatch(rb"[1-9][0-9]{0,5}", length) or not len(length) < int(length) <= len(content):
            raise _BrokenTarError("has a damaged header")
        key, mark, value = content[len(length) + 1 : int(length) - 1].partition(b"=")
        if not mark or content[int(length) - 1 : int(length)] != b"\n":
            raise _BrokenTarError("has a damaged header")
        if key.startswith(b"GNU.sparse"):
            raise _BrokenTarError("holds a sparse file, which no bundle does,")
        if key in found or not _PAX_RECORDS.fullmatch(key):
            raise _BrokenTarError(f"has a header that programs read in different ways ({verify.shown(_text(key))}),")
        found[key] = value
        content = content[int(length) :]
    name, size = found.get(b"path"), found.get(b"size")
    if name == b"" or (name is not None and b"\0" in name):
        raise _BrokenTarError("has a damaged header")
    if size is not None and not re.fullmatch(rb"0|[1-9][0-9]{0,17}", size):
        raise _BrokenTarError("has a damaged header")
    return _Extension(None if name is None else _text(name), None if size is None else int(size))


_EXTENSIONS: Dict[bytes, Callable[[bytes], _Extension]] = {b"x": _parse_pax, b"L": _parse_long_name}
_REFUSED_EXTENSIONS = {b"g": "a global header", b"K": "a long link", b"X": "a header of Solaris's tar"}


# ---------------------------------------------------------------------------------------------------------------------
# Laying its files into a folder


class _Unpacking:
    """Lays verified files of a tar into a folder: each in a folder aside until its bytes are right."""

    def __init__(self, source: _Tar, root: Path, report: verify.Report, told: Optional[verify.Told]) -> None:
        self._source = source
        self._root = root
        # by it the same bundle is known again, and nothing of another is mixed with it
        self._aside = root / verify.UNFINISHED / f"unpack-{report.manifest_sha256[:16]}"
        self._rooms: Set[Path] = set()
        self._report = report
        self._told = told

    def run(self, expected: List[verify.Expected]) -> None:
        """All of them, the manifest last: until then the folder is an unfinished bundle. Raises OSError."""
        if not self._prepare(sum(self._source.entries[each.path] for each in expected)):
            return
        judge = verify.Judge(expected, self._source, self._report, self._told)
        for each in expected:
            self._lay(each, judge)
        if self._report.problems:
            return
        with self._source.open(verify.SUMS) as file:
            sums = judge.hash(file)
        for path, sha256 in ((verify.SUMS, sums), (verify.MANIFEST, self._report.manifest_sha256)):
            self._lay(verify.Expected(path, self._source.entries[path], sha256, ""), judge)
        if not self._report.problems:
            shutil.rmtree(str(self._root / verify.UNFINISHED))

    def _prepare(self, needed: int) -> bool:
        """Whether there is a folder for it, and room."""
        aside = _is_plain_folder(self._root / verify.UNFINISHED) and _is_plain_folder(self._aside)
        if not aside and self._root.exists() and any(self._root.iterdir()):
            hint = "name a folder that does not exist yet"
            self._report.add(str(self._root), "machine", "is not empty, and this bundle was not begun there", hint)
            return False
        self._aside.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(str(self._root)).free
        done = sum(Path(at, name).lstat().st_size for at, _, names in os.walk(str(self._root)) for name in names)
        if needed - done > free:
            text = f"has {verify.show_size(free)} free, {verify.show_size(needed - done)} are needed"
            self._report.add(str(self._root), "machine", text, "make room, or name a folder on another disk")
            return False
        return True

    def _lay(self, each: verify.Expected, judge: verify.Judge) -> None:
        target = self._room(each.path)
        if target is None:
            return
        if _is_there(each, target, judge):
            judge.passed(each, self._source.entries[each.path])
            return
        part = self._aside / "part"
        with suppress(FileNotFoundError):
            part.unlink()
        with self._source.open(each.path) as file, part.open("xb") as out:
            out.writelines(verify.blocks(file))
        with part.open("rb", buffering=0) as written:  # what was written is hashed, and not what was read
            right = judge.is_right(each, written, os.fstat(written.fileno()).st_size)
            right = right and verify.look_inside(each, written, self._report, deep=self._report.trust == "accidents")
        if right:
            part.replace(target)

    def _room(self, path: str) -> Optional[Path]:
        """The file's place, its folders made; None, and a problem, where one of them leads elsewhere."""
        at = self._root
        for part in path.split("/")[:-1]:
            at /= part
            if at in self._rooms:
                continue
            if not (at.exists() or at.is_symlink()):
                at.mkdir()
            if not _is_plain_folder(at):
                self._report.add(path, "unsafe", f"{verify.shown(str(at))} is no folder", "unpack into a new folder")
                return None
            self._rooms.add(at)
        return self._root / path


def _is_there(each: verify.Expected, target: Path, judge: verify.Judge) -> bool:
    """Whether an earlier run laid it."""
    if target.is_symlink() or not target.is_file():
        return False
    with target.open("rb", buffering=0) as file:
        return judge.hash(file) == each.sha256


def _is_plain_folder(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and not verify.odd_kind(found)


# ---------------------------------------------------------------------------------------------------------------------
# The command


def main(argv: Optional[List[str]] = None) -> int:
    """Verify and unpack what the command line names. Returns the exit code of ``verify.run``, or 2 for wrong usage."""
    parser = argparse.ArgumentParser(
        description="Verify an offline bundle in a tar, and unpack it.", epilog=verify.EXIT_CODES
    )
    parser.add_argument("tar", metavar="BUNDLE.tar", type=Path)
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", type=Path, help="new, or empty; default: BUNDLE, beside the tar"
    )
    verify.add_trust_options(parser)
    given = vars(parser.parse_args(argv))
    tar, folder = given.pop("tar"), given.pop("folder")
    if folder is None:
        folder = tar.with_suffix("") if tar.suffix else tar.with_name(tar.name + "-unpacked")
    code = verify.run(
        lambda: unpack(tar, folder, told=verify.tell, **given), if_stopped="the same command begins or continues it"
    )
    if code == 0:
        with suppress(OSError):
            print(f"unpacked: {verify.shown(str(folder))}", flush=True)  # noqa: T201 - a script has nothing else
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:
        verify.settle()
