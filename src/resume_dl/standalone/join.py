# ruff: noqa: FA100 - `from __future__ import` runs a __future__.py that somebody laid beside the script
"""Puts the parts of a file together again: resume-dl's join.py, for any Python from 3.8 on, with nothing installed.

    python join.py [X.tar.parts.json | X.tar.001 | X.tar | FOLDER] [-o OUT] [--remove-parts]

``X.tar.parts.json`` lists the parts and their digests; ``read_list`` says its shape. Every part is hashed. The good
ones are written to their place in ``X.tar.joining``, so that a later run needs only those that were missing or damaged:
what lies in that file is hashed again and believed, even if its part has been removed meanwhile. Once all is there and
the whole has its digest, the file gets its name.

Exit codes: 0 joined; 1 parts are missing; 4 something is damaged; 2 wrong usage; 5 this machine; 130 stopped.
"""

import sys

if sys.version_info < (3, 8):  # noqa: UP036 - whatever Python is there runs this
    needed: str = "Python 3.8 or newer is needed"  # one without annotations ends here, and shows this line
    sys.stderr.write(f"{needed}; this is {sys.version.split()[0]}\n")
    sys.exit(2)

if __name__ == "__main__" and not (__package__ or sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    # Python puts the script's own folder first, and a json.py that somebody added there would run
    sys.path[:] = [entry for entry in sys.path[1:] if entry not in ("", sys.path[0])]

import argparse
import errno
import hashlib
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

SCHEMA = 1
KIND = "resume-dl parts"
LIST = ".parts.json"
JOINING = ".joining"
SCRIPT = "join.py"
MOST_PARTS = 9999
_CHUNK = 1024 * 1024
_LONGEST_LIST = 16 * 1024 * 1024
"""Ten times what a list of 9999 parts takes."""
_PART = re.compile(r"(?P<name>.+)\.[0-9]{3,4}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DEVICES = re.compile(r"(?:con|prn|aux|nul|(?:com|lpt)[0-9])(?:\..*)?", re.IGNORECASE)
"""Names that are no files on Windows."""
_RENAME_TRIES, _RENAME_PAUSE = 20, 0.05
_MISSING, _USAGE, _DAMAGED, _MACHINE, _STOPPED = 1, 2, 4, 5, 130


class JoinError(Exception):
    """Nothing can be joined: what and why, what to do next, and the exit code."""

    def __init__(self, message: str, hint: str, exit_code: int) -> None:
        super().__init__(message)
        self.message = _printable(message)
        self.hint = _printable(hint)
        self.exit_code = exit_code


class Part(NamedTuple):
    """One part: its file name, where it begins in the whole, its bytes and their sha256."""

    name: str
    offset: int
    size: int
    sha256: str


class Parts(NamedTuple):
    """A file and the parts that it was cut into, in order; sizes in bytes, digests in lower-case hex."""

    name: str
    size: int
    sha256: str
    parts: Tuple[Part, ...]


class Report(NamedTuple):
    """What ``join`` found: where the whole file lies now, or what is missing and what is damaged (name: why)."""

    path: Path
    whole: Parts
    joined: bool
    missing: Tuple[str, ...] = ()
    damaged: Mapping[str, str] = MappingProxyType({})
    warnings: Tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0, 1 or 4."""
        return 0 if self.joined else _DAMAGED if self.damaged else _MISSING


def part_name(name: str, number: int, count: int) -> str:
    """The name of part ``number`` (from 1) of ``count``: ``X.tar.001``, with four digits only where they are needed."""
    return "%s.%0*d" % (name, max(3, len(str(count))), number)  # noqa: UP031 - the width is a number


def self_digest(document: Dict[str, Any]) -> str:
    """The ``digest`` of a list: sha256 of all else in it, however its lines were broken on the way."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_list(path: Path) -> Parts:
    """Read ``X.tar.parts.json``; raises JoinError for one that is damaged, or not to be believed.

    ``{"schema": 1, "kind": "resume-dl parts", "name", "size", "sha256", "parts": [{"name", "size", "sha256"}, ...],
    "digest"}``: bytes, lower-case hex, ``digest`` as ``self_digest``.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise JoinError(f"{path} is no file", "move it away, and copy the list again", _DAMAGED)
        with path.open("rb") as file:
            text = file.read(_LONGEST_LIST + 1)
    except OSError as error:
        raise JoinError(_said(path, error), "look at this file and its permissions", _MACHINE) from error
    name = path.name
    again = f"copy {name} again from where the parts were made"
    try:
        document = json.loads(text.decode("utf-8")) if len(text) <= _LONGEST_LIST else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise JoinError(f"{name} is damaged: it is no JSON object", again, _DAMAGED)
    if document.get("kind") != KIND:
        raise JoinError(f"{name} is no list of parts of resume-dl's", again, _DAMAGED)
    if document.get("digest") != self_digest(document):
        raise JoinError(f"{name} is damaged: its digest is not the one that it states", again, _DAMAGED)
    if document.get("schema") != SCHEMA:
        hint = "use the join.py that was made with the parts"
        raise JoinError(f"{name} is of a newer kind than this script knows", hint, _USAGE)
    wrong = _wrong_with(document)
    if wrong:
        hint = "do not use it; " + again
        raise JoinError(f"{name} cannot be right: {wrong}", hint, _DAMAGED)
    parts, offset = [], 0
    for each in document["parts"]:
        parts.append(Part(each["name"], offset, each["size"], each["sha256"]))
        offset += each["size"]
    return Parts(document["name"], document["size"], document["sha256"], tuple(parts))


def _wrong_with(document: Dict[str, Any]) -> str:
    name, parts = document.get("name"), document.get("parts")
    if not isinstance(name, str) or not is_plain(name):
        return f"{name!r} is no name of a file in a folder"
    if not isinstance(parts, list) or not 0 < len(parts) <= MOST_PARTS:
        return f"it lists no parts, or more than {MOST_PARTS}"
    for number, each in enumerate(parts, 1):
        expected = part_name(name, number, len(parts))
        if not isinstance(each, dict) or each.get("name") != expected:
            return f"its part {number} is not called {expected}"
    for each in [document, *parts]:
        if type(each.get("size")) is not int or each["size"] <= 0:
            return "the size of {} is no number of bytes".format(each["name"])
        if not isinstance(each.get("sha256"), str) or not _DIGEST.fullmatch(each["sha256"]):
            return "the sha256 of {} is none".format(each["name"])
    if sum(each["size"] for each in parts) != document["size"]:
        return "the sizes of its parts do not add up to the whole"
    return ""


def is_plain(name: str) -> bool:
    """Whether it names a file of one folder, on every platform, and shows as it is on a terminal."""
    return (
        0 < len(name) <= 240
        and name.isprintable()
        and not set(name) & set('/\\:*?"<>|')
        and name[-1] not in " ."
        and not _DEVICES.fullmatch(name)
    )


def find_list(what: Path) -> Path:
    """The list that is meant by a folder, a list, a part or the whole file's name; raises JoinError."""
    if what.is_dir():
        return _list_in(what)
    name = what.name
    if name.endswith(LIST) and _is_there(what):
        return what
    found = _PART.fullmatch(name)
    stems = [name] + ([found["name"]] if found else []) + ([name[: -len(LIST)]] if name.endswith(LIST) else [])
    for stem in stems:
        if _is_there(what.with_name(stem + LIST)):
            return what.with_name(stem + LIST)
    if _is_there(what) or any(_is_there(what.with_name(part_name(stem, 1, 1))) for stem in stems):
        raise _without_list(stems[-1])
    raise JoinError(f"{what} is not there", "name X.tar.parts.json, or the folder that it lies in", _USAGE)


def _list_in(folder: Path) -> Path:
    names = sorted(each.name for each in folder.iterdir())
    lists = [name for name in names if name.endswith(LIST)]
    if len(lists) == 1:
        return folder / lists[0]
    if lists:
        which = "name one of " + ", ".join(lists)
        raise JoinError(f"{folder} holds the parts of {len(lists)} files", which, _USAGE)
    stems = sorted({found["name"] for found in map(_PART.fullmatch, names) if found})
    if len(stems) == 1:
        raise _without_list(stems[0])
    raise JoinError(f"{folder} holds no parts", "name the folder of X.tar.parts.json", _USAGE)


def _without_list(stem: str) -> JoinError:
    return JoinError(f"{stem}{LIST} is missing", "copy it here from where the parts were made", _MISSING)


def _printable(text: str) -> str:
    """Without what would move a terminal's cursor: file names are found as somebody made them."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _is_there(path: Path) -> bool:
    return os.path.lexists(str(path))


def join(
    what: Path,
    out: Optional[Path] = None,
    *,
    remove_parts: bool = False,
    told: Callable[[str], object] = lambda _: None,
) -> Report:
    """Join the parts that ``what`` names into ``out`` (a file or a folder; else beside the list).

    ``told`` gets a line for each part. Raises JoinError for what is about no part.
    """
    target = what
    try:
        path = find_list(what)
        whole = read_list(path)
        target = out or path.with_name(whole.name)
        if target.is_dir():
            target = target / whole.name
        report = _join(whole, path.parent, target, told)
    except OSError as error:
        raise _of_this_machine(error, target) from error
    if report.joined and remove_parts:
        return report._replace(warnings=_remove(whole, path.parent))
    return report


def _join(whole: Parts, folder: Path, target: Path, told: Callable[[str], object]) -> Report:
    if _is_there(target):
        if not _is_whole(whole, target):
            hint = "move it away, or choose another name with -o"
            raise JoinError(f"{target} is there already, and is another file", hint, _MACHINE)
        return Report(target, whole, joined=True)
    joining = target.with_name(target.name + JOINING)
    begun = _is_there(joining)
    if not begun and not any(_is_there(folder / part.name) for part in whole.parts):
        return Report(target, whole, joined=False, missing=tuple(part.name for part in whole.parts))
    _check_room(whole, joining)
    with _opened(joining) as file:
        missing: List[str] = []
        damaged: Dict[str, str] = {}
        for part in whole.parts:
            if begun and _digest(file, part.offset, part.size) == part.sha256:
                told(f"{part.name}  joined by an earlier run")
                continue
            why = _take(whole, part, folder / part.name, file)
            if why is None:
                missing.append(part.name)
            elif why:
                damaged[part.name] = why
            told(f"{part.name}  {'MISSING' if why is None else 'DAMAGED: ' + why if why else 'good'}")
        file.flush()
        os.fsync(file.fileno())
        if missing or damaged:
            return Report(target, whole, joined=False, missing=tuple(missing), damaged=damaged)
        file.truncate(whole.size)
        _compare_whole(whole, file, joining)
    if _is_there(target):
        raise JoinError(f"{target} has appeared meanwhile", "look at it, and try again", _MACHINE)
    replace(joining, target)
    return Report(target, whole, joined=True)


def _take(whole: Parts, part: Part, path: Path, file: BinaryIO) -> Optional[str]:
    """Copy a part to its place: "" where it is good, None where it is missing, else what is wrong with it.

    What a damaged one leaves there is never believed: its digest is not the part's.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if not stat.S_ISREG(found.st_mode):
        return "it is no file"
    if found.st_size != part.size:
        return f"it has {found.st_size:,} bytes instead of {part.size:,}"
    digest = hashlib.sha256()
    file.seek(part.offset)
    source = _read(path, part.size)
    while True:
        try:
            chunk = next(source, b"")
        except OSError as error:  # a bad spot of a stick
            return f"it cannot be read: {error.strerror}"
        if not chunk:
            break
        digest.update(chunk)
        file.write(chunk)
    if digest.hexdigest() == part.sha256:
        return ""
    other = [each.name for each in whole.parts if each.sha256 == digest.hexdigest()]
    if other:
        return f"it holds what belongs in {other[0]}"
    return "its bytes are not those that it was made with"


def _read(path: Path, size: int) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while size:
            chunk = file.read(min(_CHUNK, size))
            if not chunk:
                return
            size -= len(chunk)
            yield chunk


def _digest(file: BinaryIO, offset: int, size: int) -> str:
    """The sha256 of ``size`` bytes from ``offset``, or of fewer at the file's end."""
    digest = hashlib.sha256()
    file.seek(offset)
    while size:
        chunk = file.read(min(_CHUNK, size))
        if not chunk:
            break
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest()


def _is_whole(whole: Parts, path: Path) -> bool:
    if not path.is_file() or path.stat().st_size != whole.size:
        return False
    with path.open("rb") as file:
        return _digest(file, 0, whole.size) == whole.sha256


def _compare_whole(whole: Parts, file: BinaryIO, joining: Path) -> None:
    if _digest(file, 0, whole.size) == whole.sha256:
        return
    for part in whole.parts:
        if _digest(file, part.offset, part.size) != part.sha256:
            raise JoinError(
                f"{joining} does not give back what was written of {part.name}",
                "this disk cannot be trusted: choose a folder on another one with -o",
                _MACHINE,
            )
    raise JoinError(
        f"{whole.name}{LIST} is wrong: every part is as it says, the whole is not",
        "copy it again together with the parts, all from one place",
        _DAMAGED,
    )


def _check_room(whole: Parts, joining: Path) -> None:
    have = 0
    if _is_there(joining):
        found = joining.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise JoinError(f"{joining} is no file", "move it away, or choose another name with -o", _MACHINE)
        have = min(found.st_size, getattr(found, "st_blocks", sys.maxsize) * 512, whole.size)
    free = shutil.disk_usage(str(joining.parent)).free
    if whole.size - have > free:
        raise JoinError(
            f"{joining.parent} has {free:,} bytes free, and {whole.size - have:,} more are needed",
            "free some space, or choose a folder on another disk with -o",
            _MACHINE,
        )


def _opened(joining: Path) -> BinaryIO:
    """The unfinished file, locked: what another process finishes meanwhile must not be written any more."""
    flags = os.O_RDWR | os.O_CREAT
    for name in ("O_BINARY", "O_CLOEXEC", "O_NOFOLLOW"):
        flags |= getattr(os, name, 0)
    fd = os.open(str(joining), flags, 0o666)
    try:
        mine = _lock(fd) and os.path.samestat(os.fstat(fd), joining.lstat())
    except OSError:
        mine = False
    if not mine:
        os.close(fd)
        raise JoinError(f"another process joins {joining}", "wait until it has ended", _MACHINE)
    return os.fdopen(fd, "r+b")


def _lock(fd: int) -> bool:
    """Lock an open file until it is closed; False where another process has. File systems without locks have none."""
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415 - Windows alone has it

        os.lseek(fd, 1 << 62, os.SEEK_SET)  # beyond the data: what is locked there nobody else can read
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        os.lseek(fd, 0, os.SEEK_SET)
    else:
        import fcntl  # noqa: PLC0415 - Windows has it not

        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in {errno.EWOULDBLOCK, errno.EACCES}
    return True


def replace(source: Path, target: Path) -> None:
    """Rename over ``target``; virus scanners hold new files for some ten milliseconds (Windows). Raises OSError."""
    for attempt in range(_RENAME_TRIES):
        try:
            source.replace(target)
            return
        except PermissionError:
            if os.name != "nt" or attempt == _RENAME_TRIES - 1:
                raise
            time.sleep(_RENAME_PAUSE)


def _remove(whole: Parts, folder: Path) -> Tuple[str, ...]:
    warnings = []
    for part in whole.parts:
        try:
            (folder / part.name).unlink()
        except FileNotFoundError:
            pass  # a part of an earlier run
        except OSError as error:
            warnings.append(f"{part.name} could not be removed: {error.strerror}")
    return tuple(warnings)


def _of_this_machine(error: OSError, target: Path) -> JoinError:
    if error.errno == errno.EFBIG:
        hint = "FAT32 takes less than 4 GiB a file: choose a folder on another disk with -o"
        return JoinError(f"the disk of {target} takes no file of this size", hint, _MACHINE)
    return JoinError(_said(error.filename or target, error), "look at this folder, or choose another with -o", _MACHINE)


def _said(path: object, error: OSError) -> str:
    return f"{path}: {error.strerror or error}"


def summary(report: Report) -> str:
    """What it came to, in a line."""
    whole = report.whole
    if report.joined:
        return f"{report.path}  is whole: {whole.size:,} bytes, sha256 {whole.sha256}"
    kinds = [(len(report.missing), "missing"), (len(report.damaged), "damaged")]
    said = " and ".join(f"{count} {kind}" for count, kind in kinds if count)
    return f"{whole.name} cannot be joined yet: of {len(whole.parts)} parts {said}"


def advice(report: Report) -> List[str]:
    """What to do next, in lines."""
    if report.joined:
        return _how_to_unpack(report.path) if is_bundle(report.path) else []
    again = list(report.missing) + list(report.damaged)
    lines = ["missing: " + name for name in report.missing]
    lines += [f"damaged: {name} ({why})" for name, why in report.damaged.items()]
    if len(report.damaged) == len(report.whole.parts):
        lines.append("all of them: the list may be of another bundle; copy it again too")
    which = "this part" if len(again) == 1 else "these parts"
    lines.append(f"copy {which} again, and run the same command")
    if len(again) < len(report.whole.parts):
        lines.append(f"all others are kept in {report.path}{JOINING}, and are not needed any more")
    return lines


def is_bundle(path: Path) -> bool:
    """Whether a file begins as the tar of a bundle does. Raises OSError."""
    with path.open("rb") as file:
        head = file.read(512)
    return head[:100].rstrip(b"\0") == b"manifest.json" and head[257:262] == b"ustar"


def _how_to_unpack(path: Path) -> List[str]:
    folder = path.with_suffix("") if path.suffix else path.with_name(path.name + "-unpacked")
    python = "python" if os.name == "nt" else "python3"
    commands = (
        ["mkdir", str(folder)],
        ["tar", "-xf", str(path), "-C", str(folder)],
        [python, str(folder / "verify.py")],
        [python, str(folder / "install.py"), "--help"],
    )
    return ["next, unpack it and verify it (tar is part of Linux, macOS and Windows 10 and newer):"] + [
        "  " + _shown(command) for command in commands
    ]


def _shown(command: Iterable[str]) -> str:
    words = list(command)
    return subprocess.list2cmdline(words) if os.name == "nt" else " ".join(shlex.quote(word) for word in words)


def main(argv: Optional[List[str]] = None) -> int:
    """The command line; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name must not break on a console of few letters
    parser = argparse.ArgumentParser(
        prog=SCRIPT, description="Put the parts of a file together again.", epilog="It can be stopped and run again."
    )
    parser.add_argument(
        "what",
        nargs="?",
        metavar="WHAT",
        type=Path,
        default=Path(__file__).resolve().parent,
        help="X.tar.parts.json, a part, X.tar, or their folder; where this script lies if not given",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="the file, or the folder for it; else beside the parts"
    )
    parser.add_argument("--remove-parts", action="store_true", help="remove the parts once the whole is verified")
    parser.add_argument("--keep-parts", action="store_false", dest="remove_parts", help="keep them (the default)")
    options = parser.parse_args(argv)
    try:
        report = join(options.what, options.output, remove_parts=options.remove_parts, told=_say)
    except JoinError as error:
        _complain(["error: " + error.message, error.hint])
        return error.exit_code
    except KeyboardInterrupt:
        _complain(["error: stopped", "run the same command again: what was joined is kept"])
        return _STOPPED
    for warning in report.warnings:
        _complain(["warning: " + warning])
    if not report.joined:
        _complain(["error: " + summary(report), *advice(report)])
        return report.exit_code
    for line in (summary(report), *advice(report)):
        _say(line)
    return 0


def _say(line: str) -> None:
    with suppress(OSError):  # a reader that has gone away does not change what is joined
        print(line, flush=True)  # noqa: T201 - a command line


def _complain(lines: Iterable[str]) -> None:
    with suppress(OSError):
        for number, line in enumerate(lines):
            print(("  " if number else "") + line, file=sys.stderr)  # noqa: T201 - as above


def settle() -> None:
    """At the end of a script: a reader that has gone away changes no exit code; as in verify.py."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except (AttributeError, ValueError):
            pass  # there is none, or it is closed


if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:
        settle()
