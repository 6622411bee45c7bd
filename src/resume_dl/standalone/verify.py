# ruff: noqa: FA100 - `from __future__ import` runs a __future__.py that somebody laid beside the script
"""Verify an offline bundle, before anything of it is used.

Run it as ``python verify.py [FOLDER]``: one file, Python's standard library alone, Python 3.8 and newer; for the tar of
a bundle it needs the unpack.py that came with it. ``resume-dl bundle verify``, ``bundle install`` and a bundle's own
``install.py`` call ``check``. Whoever loads this file from a bundle must compile its source: Python would run a
``__pycache__`` beside it.

A bundle is ``manifest.json``, which names every file with its size and SHA-256, ``SHA256SUMS``, whose every byte
follows from the manifest, and those files (docs/offline.md). Sizes are in bytes, digests SHA-256 in lower-case hex,
paths below the bundle with ``/``. Nothing that a bundle says is believed before it is checked: what is wrong with it
ends in ``Report.problems`` and never in an exception.

Signatures are OpenSSH's (ssh-keygen(1), ``-Y``; PROTOCOL.sshsig).
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
import io
import json
import os
import re
import stat
import subprocess
import tarfile
import tempfile
import time
import unicodedata
import zipfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

SCHEMA = 1
KIND = "resume-dl bundle"
MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
SIGNATURE = "manifest.json.sig"
NAMESPACE = "resume-dl-bundle"
UNFINISHED = ".resume-dl"
"""The folder that a bundle has as long as it is being made, or unpacked."""

Told = Callable[[str], None]

_BLOCK = 1 << 20
_LONGEST_MANIFEST = 256 << 20
"""50,000 packages take 40 MB."""
_LONGEST_SIGNATURE = 1 << 16
_LONGEST_DIRECTORY = 64 << 20
"""Of an archive, in one piece: half a million members."""
_LARGEST_MEMBER = 1 << 40
"""No package has one of a terabyte; zeros of any number pack well."""
_LONGEST_PATH = 1000
_MOST_OF_A_KIND = 20
"""Warnings that are told; 5,000 files of somebody's own would hide the verdict."""
_SECONDS_BETWEEN_LINES = 5.0
_SECONDS_FOR_SSH = 60.0

_HEX = re.compile(r"[0-9a-f]{64}")
_MD5 = re.compile(r"[0-9a-f]{32}")
_SUBDIR = re.compile(r"[a-z0-9][a-z0-9_-]*")
_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<path>.+)")
_PLAIN_URL = re.compile(r"https?://[\w.:+!~%=-]+/[\w.:/+!~%=-]*")
"""Without login, and without letters that a shell would read."""
_PYTHON_VERSION = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){1,2}(?:\.?(?:a|b|rc)[0-9]{1,3})?")
_VIRTUAL_PACKAGE = re.compile(r"__[a-z0-9][a-z0-9_.-]{0,60}(?:=[A-Za-z0-9_.+!-]{1,60}){1,2}")
"""``__cuda=11.0=0``: name, version, build."""
_RESERVED = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|com[0-9\u00b9\u00b2\u00b3]|lpt[0-9\u00b9\u00b2\u00b3])", re.IGNORECASE
)

_AGAIN = "copy it again from the machine or disk that the bundle came from"
_REMOVE = "remove it, or copy the bundle again"
_WITHOUT = "make the tar again of the files that SHA256SUMS lists and it, or copy the tar that `bundle create` wrote"
_LEFT = "was left by a file manager or file system; nothing of it will be used"
REMAKE = "do not use this bundle; ask whoever made it for another"


class UsageError(ValueError):
    """The caller's options do not go together; nothing is said of the bundle."""


class Problem(NamedTuple):
    """What is wrong with one file, for a program and for people."""

    path: str
    """Below the bundle, as it was found; print ``text``, in which nothing unprintable is left."""
    what: str
    """``missing``, ``truncated``, ``damaged``, ``swapped``, ``added``, ``unsafe``, ``unfinished``, ``untrusted``,
    ``newer`` (made by a newer resume-dl), or ``machine``: this machine's disk or programs, and not the bundle."""
    text: str
    hint: str


class Report:
    """What a verification came to; whole and to be used only where ``problems`` is empty."""

    def __init__(self) -> None:
        self.problems: List[Problem] = []
        self.warnings: List[Problem] = []
        self.manifest: Optional[Dict[str, Any]] = None
        """The parsed manifest; None where it is missing, damaged or hostile."""
        self.manifest_sha256 = ""
        """Of the manifest that is there; empty where none is."""
        self.trust = "accidents"
        """``signature``, ``digest``, or ``accidents``: whoever can change the bundle can change its manifest too."""
        self.signer = ""
        """Who signed it, where ``trust`` is ``signature``."""
        self.verified: Set[str] = set()
        """Paths of the files that were hashed and found right, with all their ``bytes``."""
        self.bytes = 0
        self.unlooked: List[str] = []
        """Paths of .conda packages that were to be looked into, by a Python that cannot unpack them."""

    @property
    def exit_code(self) -> int:
        """0 whole, 4 bytes that cannot be trusted, 5 where this machine failed."""
        if any(problem.what == "machine" for problem in self.problems):
            return 5
        return 4 if self.problems else 0

    def add(self, path: str, what: str, text: str, hint: str) -> None:
        """One more problem; ``text`` goes on after the path."""
        self.problems.append(Problem(path, what, f"{shown(path)}: {text}", hint))

    def warn(self, path: str, text: str) -> None:
        """One more warning."""
        self.warnings.append(Problem(path, "warning", f"{shown(path)}: {text}", ""))

    def add_unreadable(self, path: str, error: OSError) -> None:
        """One more problem: this machine cannot read a file."""
        hint = "look at this disk and the file's permissions; copy it again if it can be read where it came from"
        self.add(path, "machine", f"cannot be read: {shown(error.strerror or str(error))}", hint)


# ---------------------------------------------------------------------------------------------------------------------
# What others call


def check(
    folder: Path,
    *,
    manifest_sha256: Optional[str] = None,
    allowed_signers: Optional[Path] = None,
    signer: Optional[str] = None,
    told: Optional[Told] = None,
    deep: bool = False,
) -> Report:
    """Verify a bundle's folder; ``told`` gets a line every few seconds.

    Packages are looked into, for members that would be written elsewhere, where the bundle is not vouched for by a
    digest or a signature, or it is asked for: ``deep``. Raises UsageError for options that do not go together, and
    nothing for a bundle, however hostile.
    """
    folder = Path(folder)
    wanted = Wanted(manifest_sha256, allowed_signers, signer, folder)
    report = Report()
    check_source(_Folder(folder, report), wanted, report, told, deep=deep)
    return report


def lines(report: Report) -> List[str]:
    """The report as lines for people, problems first; a hint that several share stands once, after the last of them."""
    found = [f"warning: {text}" for text in _few(report.warnings)]
    for number, problem in enumerate(report.problems):
        found.append(f"error: {problem.text}")
        last = number + 1 == len(report.problems) or report.problems[number + 1].hint != problem.hint
        if problem.hint and last:
            found.append(f"  {problem.hint}")
    if report.manifest_sha256:
        found.append(f"manifest sha256: {report.manifest_sha256}")
    if report.problems:
        verdict = "not to be used" if report.exit_code == 4 else "this machine failed"
        found.append("{}: {}".format(verdict, _count(len(report.problems), "problem")))
        return found
    if report.unlooked:
        packages = _count(len(report.unlooked), ".conda package")
        found.append(f"warning: {packages} not looked into: this Python has no zstandard, conda's own has")
    if report.trust == "signature":
        found.append(f"trust: signed by {shown(report.signer)}")
    elif report.trust == "digest":
        found.append("trust: its manifest has the digest that you gave")
    else:
        found.append(
            "trust: only accidents are caught; who can change this bundle can change its list. Against that, compare "
            "the digest that `bundle create` printed (--manifest-sha256) or check a signature (--allowed-signers)"
        )
    found.append("verified: {}, {}".format(_count(len(report.verified), "file"), show_size(report.bytes)))
    return found


def _few(warnings: List[Problem]) -> List[str]:
    """Of each kind of warning the first ones, and how many more there are."""
    texts: List[str] = []
    kinds: Dict[str, int] = {}
    for warning in warnings:
        kind = warning.text[len(shown(warning.path)) + 2 :]
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] <= _MOST_OF_A_KIND:
            texts.append(warning.text)
    more = ((count - _MOST_OF_A_KIND, kind) for kind, count in kinds.items() if count > _MOST_OF_A_KIND)
    return texts + [f"and {count:,} more, of each: {kind}" for count, kind in more]


# ---------------------------------------------------------------------------------------------------------------------
# The verification


class Expected(NamedTuple):
    """A file that has to be there; ``size`` None where only SHA256SUMS could be read."""

    path: str
    size: Optional[int]
    sha256: str
    url: str


class Source:
    """Where a bundle's files are: a folder or a tar."""

    def __init__(self) -> None:
        self.entries: Dict[str, int] = {}
        """Size of each plain file, by path."""
        self.odd: Set[str] = set()
        """Paths that were refused already: nobody is told that they are missing."""
        self.unfinished = False
        self.folders: Set[str] = set()
        """Paths of a tar's folders."""
        self.unpacked_by_others = False
        """Whether a program that knows nothing of the manifest may unpack all of it, what is not listed too: a tar."""
        self.cut = ""
        """Where a tar cannot be read further; what is behind it is not called missing."""

    def open(self, path: str) -> BinaryIO:
        """The file's bytes, seekable. Raises OSError."""
        raise NotImplementedError

    def same(self, there: str, wanted: str) -> bool:
        """Whether the file found as ``there`` can be opened as ``wanted``: a disk that does not tell case apart."""
        del there, wanted
        return False


def check_source(source: Source, wanted: "Wanted", report: Report, told: Optional[Told], *, deep: bool) -> None:
    """Verify all that is in ``source``; see ``check``."""
    expected = list_files(source, wanted, report)
    deep = deep or report.trust == "accidents"
    judge = Judge(expected, source, report, told)
    for each in expected:
        if each.path not in source.entries:
            continue
        try:
            with source.open(each.path) as file:
                if judge.is_right(each, file, source.entries[each.path]):
                    look_inside(each, file, report, deep=deep)
        except OSError as error:
            report.add_unreadable(each.path, error)


def list_files(source: Source, wanted: "Wanted", report: Report) -> List[Expected]:
    """What has to be there, sorted by path; what is missing or added is reported."""
    expected = _read_list(source, wanted, report)
    _compare_names(source, expected, report)
    return expected


class Judge:
    """Holds files against what they should be. A file with another's size and digest was swapped with it."""

    def __init__(self, expected: List[Expected], source: Source, report: Report, told: Optional[Told]) -> None:
        self._sizes = {each.size for each in expected}
        self._owner = {each.sha256: each.path for each in expected}
        self._report = report
        self._progress = _Progress(
            [source.entries[each.path] for each in expected if each.path in source.entries], told
        )

    def is_right(self, each: Expected, file: BinaryIO, size: int) -> bool:
        """Whether the bytes are right; what is wrong is reported. Raises OSError."""
        right_size = each.size is None or each.size == size
        digest = ""
        # another size is wrong already, and worth reading only where it may be another file's
        if right_size or size in self._sizes:
            digest = self.hash(file)
        if right_size and digest == each.sha256:
            self.passed(each, size)
            return True
        self._progress.file()
        if each.path == SIGNATURE and _alike(digest, each.sha256):
            self._report.add(SUMS, "damaged", f"its line for {SIGNATURE} is not what it was made as", _AGAIN)
            return False
        what, text = self._what_is_wrong(each, size, digest)
        hint = _AGAIN
        if each.url:
            hint += f", or fetch it again: resume-dl get {each.url} --sha256 {each.sha256}"
        self._report.add(each.path, what, text, hint)
        return False

    def passed(self, each: Expected, size: int) -> None:
        """Enter a file that is right."""
        self._report.verified.add(each.path)
        self._report.bytes += size
        self._progress.file()

    def hash(self, file: BinaryIO) -> str:
        """The SHA-256 of what is left of it. Raises OSError."""
        digest = hashlib.sha256()
        for block in blocks(file):
            digest.update(block)
            self._progress.bytes(len(block))
        return digest.hexdigest()

    def _what_is_wrong(self, each: Expected, size: int, digest: str) -> Tuple[str, str]:
        owner = self._owner.get(digest, "")
        if owner and owner != each.path:
            return "swapped", f"holds what belongs to {shown(owner)}"
        if size == 0:
            return "truncated", "is empty"
        if each.size is None or size == each.size:
            return "damaged", "its bytes are not those that the bundle was made with"
        if size < each.size:
            return "truncated", f"has {size:,} of {each.size:,} bytes"
        return "damaged", f"has {size:,} bytes instead of {each.size:,}"


def _read_list(source: Source, wanted: "Wanted", report: Report) -> List[Expected]:
    """What has to be there, by the manifest, or by SHA256SUMS where the manifest is of no use; sorted by path."""
    if source.unfinished:
        report.add(
            UNFINISHED,
            "unfinished",
            "this bundle is unfinished",
            "run `resume-dl bundle create` to its end where it is made, then copy the bundle again; one that was "
            "unpacked from a tar: unpack that again, into the same folder",
        )
    if not (source.cut or MANIFEST in source.entries or SUMS in source.entries):
        if not source.unfinished:
            report.add(
                MANIFEST,
                "unfinished",
                f"is not there, nor is {SUMS}: this is no bundle, or an unfinished one",
                f"name the folder that holds {MANIFEST}, or run `resume-dl bundle create` to its end",
            )
        return []
    text = _read_whole(source, MANIFEST, _LONGEST_MANIFEST, report)
    listed = _read_whole(source, SUMS, _LONGEST_MANIFEST, report)
    sums, unclear = _parse_sums(listed)
    if text is None:
        if listed is not None and unclear:
            report.add(SUMS, "damaged", unclear, _AGAIN)
        return _from_sums(sums, unclear)
    report.manifest_sha256 = hashlib.sha256(text).hexdigest()
    recorded = sums.get(MANIFEST, "")
    known = report.manifest_sha256 in (recorded, wanted.sha256)
    if listed is not None and unclear:
        report.add(SUMS, "damaged", unclear, _AGAIN)
    elif listed is not None and recorded != report.manifest_sha256:
        if known or not recorded or _alike(recorded, report.manifest_sha256):
            report.add(SUMS, "damaged", f"its line for {MANIFEST} is not what it was made as", _AGAIN)
        else:
            report.add(
                MANIFEST,
                "damaged",
                f"is not the manifest that {SUMS} was made with",
                f"copy {MANIFEST} and {SUMS} again, both from the same bundle",
            )
            _settle_trust(source, text, wanted, report, sound=False)
            return _from_sums(sums, unclear)
    manifest, wrong = _parse_manifest(text)
    for what, complaint in wrong:
        hint = REMAKE
        if what == "newer":
            hint = "verify it with the verify.py that came with it, or with a newer resume-dl"
        elif listed is None or unclear:
            hint = _AGAIN
        report.add(MANIFEST, what, complaint, hint)
    _settle_trust(source, text, wanted, report, sound=manifest is not None)
    if manifest is None:
        return _from_sums(sums, unclear)
    report.manifest = manifest
    expected = _from_manifest(manifest)
    signature = sums.get(SIGNATURE)
    if signature is not None:
        expected.append(Expected(SIGNATURE, None, signature, ""))
    expected.sort()
    if listed is not None and not any(problem.path == SUMS for problem in report.problems):
        line = _first_difference(listed, [*expected, Expected(MANIFEST, None, report.manifest_sha256, "")])
        if line:
            report.add(SUMS, "damaged", f"line {line} is not what {MANIFEST} says", _AGAIN)
    return expected


def _read_whole(source: Source, path: str, longest: int, report: Report) -> Optional[bytes]:
    """A small file's bytes; None where it is not there, empty or too large, which is reported."""
    size = source.entries.get(path)
    if size is None:
        if path not in source.odd and not source.cut:
            report.add(path, "missing", "is not there", _AGAIN)
    elif size == 0:
        report.add(path, "truncated", "is empty", _AGAIN)
    elif size > longest:
        report.add(path, "unsafe", f"is larger than any bundle's, {show_size(size)}", REMAKE)
    else:
        try:
            with source.open(path) as file:
                return b"".join(bytes(block) for block in blocks(file))
        except OSError as error:
            report.add_unreadable(path, error)
    return None


def _alike(one: str, other: str) -> bool:
    """Whether one digest is the other with some damage; two that have nothing in common agree in 4 digits of 64."""
    return 2 * sum(a == b for a, b in zip(one, other)) > len(other)


def _parse_sums(listed: Optional[bytes]) -> Tuple[Dict[str, str], str]:
    """Digest by path, and what is wrong with it; the lines that can be read are given even so."""
    sums: Dict[str, str] = {}
    unclear = ""
    for number, line in enumerate((listed or b"").split(b"\n")[:-1], 1):
        found = _LINE.fullmatch(line.decode("utf-8", "replace"))
        if found is None or found["path"] in sums or (found["path"] not in _OWN and unsafe_path(found["path"])):
            unclear = unclear or f"line {number} is none of `sha256sum`, or names no file of a bundle"
        else:
            sums[found["path"]] = found["sha256"]
    if listed is not None and not listed.endswith(b"\n"):
        unclear = unclear or "its last line is cut off"
    return sums, unclear


_OWN = (MANIFEST, SUMS, SIGNATURE)
"""What a manifest cannot list."""


def _from_sums(sums: Dict[str, str], unclear: str) -> List[Expected]:
    """What SHA256SUMS lists, but the manifest; nothing where some of its lines cannot be read."""
    if unclear:
        return []
    return [Expected(path, None, sums[path], "") for path in sorted(sums) if path not in (MANIFEST, SUMS)]


def _from_manifest(manifest: Dict[str, Any]) -> List[Expected]:
    """All that lies in the bundle; what a delta leaves to the target does not."""
    packages = [each for each in manifest["packages"] if each["included"]]
    return [
        Expected(each["path"], each["size"], each["sha256"], _plain_url(each.get("url", "")))
        for each in [*packages, *manifest["files"]]
    ]


def _plain_url(url: str) -> str:
    """The address if it can be shown and typed; empty where it may hold a login or a token."""
    return url if _PLAIN_URL.fullmatch(url) and "/t/" not in url else ""


def _first_difference(listed: bytes, expected: List[Expected]) -> int:
    """The line of SHA256SUMS, from 1, that is another than it must be; 0 where every byte is right."""
    right = [f"{each.sha256}  {each.path}".encode() for each in sorted(expected)]
    right.append(b"")
    found = listed.split(b"\n")
    if found == right:
        return 0
    return next((n for n, (a, b) in enumerate(zip(found, right), 1) if a != b), min(len(found), len(right)))


# ---------------------------------------------------------------------------------------------------------------------
# The manifest


_Wrong = List[Tuple[str, str]]


def _parse_manifest(text: bytes) -> Tuple[Optional[Dict[str, Any]], _Wrong]:
    """The manifest, or None and all that is wrong with it: what, and the sentence."""
    try:
        data = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_no_name_twice,
            parse_int=_short_number,
        )
    except (ValueError, RecursionError, MemoryError) as error:
        why = "it nests too deeply" if isinstance(error, RecursionError) else shown(str(error))
        return None, [("damaged", f"is no JSON of a bundle: {why}")]
    if not isinstance(data, dict) or data.get("kind") != KIND:
        return None, [("damaged", "is not the manifest of a resume-dl bundle")]
    schema = data.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        return None, [("damaged", "says no schema")]
    if schema > SCHEMA:
        return None, [("newer", f"was made by a newer resume-dl (schema {schema}; this reads {SCHEMA})")]
    wrong: _Wrong = []
    _check_manifest(data, wrong)
    return (None if wrong else data), wrong


def _no_name_twice(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _short_number(digits: str) -> int:
    if len(digits) > 18:
        raise ValueError("a number is too long")
    return int(digits)


def _check_manifest(data: Dict[str, Any], wrong: _Wrong) -> None:
    packages, files, platforms = data.get("packages"), data.get("files"), data.get("platforms")
    if not isinstance(packages, list) or not isinstance(files, list) or not isinstance(platforms, dict):
        wrong.append(("damaged", "lacks packages, files or platforms"))
        return
    if not isinstance(data.get("created_by"), str) or not isinstance(data.get("request"), dict):
        wrong.append(("damaged", "does not say what made it, or for which request"))
    kinds: Dict[str, str] = {}
    for noun, entries, misplaced in (("package", packages, _package_is_wrong), ("file", files, _file_is_wrong)):
        for number, each in enumerate(entries, 1):
            complaint = _entry_is_wrong(each) or misplaced(each)
            if complaint:
                wrong.append(("unsafe", f"{noun} {number}: {complaint}"))
                continue
            if each["path"] in kinds:
                wrong.append(("unsafe", "lists {} twice".format(shown(each["path"]))))
            kinds[each["path"]] = each["kind"] if noun == "package" else noun
    _check_collisions(kinds, wrong)
    for name, platform in platforms.items():
        complaint = _platform_is_wrong(name, platform, kinds)
        if complaint:
            wrong.append(("unsafe", f"platform {shown(name)}: {complaint}"))


def _check_collisions(paths: Dict[str, str], wrong: _Wrong) -> None:
    """Two paths that are one file on a disk that does not tell case apart, or a file that is a folder too."""
    seen: Dict[str, str] = {}
    for path in paths:
        other = seen.setdefault(folded(path), path)
        if other is not path:
            wrong.append(("unsafe", f"lists {shown(other)} and {shown(path)}, one file on many disks"))
    for path in paths:
        folder = folded(path).rpartition("/")[0]
        while folder:
            if folder in seen:
                wrong.append(("unsafe", f"lists {shown(seen[folder])} as a file and as a folder"))
            folder = folder.rpartition("/")[0]


def _package_is_wrong(each: Dict[str, Any]) -> str:
    path: str = each["path"]
    for name in ("kind", "name", "version", "url", "build", "subdir", "channel", "license"):
        if not isinstance(each.get(name), str):
            return f"{shown(path)}: {name} is no text"
    if not isinstance(each.get("included"), bool) or not _is_texts(each.get("requested_by")):
        return f"{shown(path)}: does not say whether it is included, or who asked for it"
    md5 = each.get("md5")
    if md5 is not None and not (isinstance(md5, str) and _MD5.fullmatch(md5)):
        return f"{shown(path)}: its md5 is none"
    parts = path.split("/")
    if each["kind"] == "conda":
        fits = len(parts) == 3 and parts[0] == "channel" and _SUBDIR.fullmatch(parts[1]) is not None
        fits = fits and parts[2].endswith((".conda", ".tar.bz2"))
    else:
        fits = each["kind"] in ("wheel", "sdist") and len(parts) == 2 and parts[0] == "wheels"
        fits = fits and parts[1].endswith(".whl") == (each["kind"] == "wheel")
    return "" if fits else "{} is no place for a {}".format(shown(path), shown(each["kind"]))


def _file_is_wrong(each: Dict[str, Any]) -> str:
    path: str = each["path"]
    if path in (*_SCRIPTS, *_READ_BY_PURPOSE) or ("/" in path and path.partition("/")[0] in _CLIENTS):
        return ""
    reader = read_by(path)
    return f"{shown(path)} would be read by {reader}" if reader else ""


def _entry_is_wrong(each: Any) -> str:
    """What holds for packages and other files alike."""
    if not isinstance(each, dict):
        return "is no object"
    path = each.get("path")
    if not isinstance(path, str):
        return "its path is no text"
    complaint = unsafe_path(path)
    if complaint:
        return f"{shown(path)} {complaint}"
    if path in _OWN or folded(path).partition("/")[0] in {folded(own) for own in (*_OWN, UNFINISHED)}:
        return f"{shown(path)} cannot be listed in it"
    if not _is_count(each.get("size")):
        return f"{shown(path)}: its size is no count of bytes"
    sha256 = each.get("sha256")
    if not isinstance(sha256, str) or not _HEX.fullmatch(sha256):
        return f"{shown(path)}: its sha256 is none"
    return ""


def _platform_is_wrong(name: str, platform: Any, kinds: Dict[str, str]) -> str:
    """``install`` hands these paths to conda and pip: each must be one of the bundle's own."""
    if not _SUBDIR.fullmatch(name) or not isinstance(platform, dict):
        return "is none of conda's"
    python, virtual = platform.get("python"), platform.get("virtual_packages")
    if not isinstance(python, str) or not isinstance(virtual, list) or not _is_texts(virtual):
        return "its python or virtual_packages are no text"
    if python and not _PYTHON_VERSION.fullmatch(python):
        return "its python is no version of Python"
    if not all(_VIRTUAL_PACKAGE.fullmatch(each) for each in virtual):
        return "one of its virtual_packages is none"
    for part, allowed in (("conda", ("conda",)), ("pip", ("wheel", "sdist"))):
        paths = platform.get(part)
        if not isinstance(paths, list) or not _is_texts(paths):
            return f"{part} is no list of paths"
        lost = [path for path in paths if kinds.get(path) not in allowed]
        if lost:
            return f"{part} names {shown(lost[0])}, which is no such package of this bundle"
        if len(set(paths)) != len(paths):
            return f"{part} names a package twice"
    for part in ("explicit", "requirements"):
        path = platform.get(part)
        if not isinstance(path, str) or (path and kinds.get(path) != "file"):
            return f"{part} names no file of this bundle"
    return ""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


# ---------------------------------------------------------------------------------------------------------------------
# Names


def unsafe_path(path: str) -> str:
    """Why ``path`` may not be used below a bundle on every platform; empty where it may.

    Windows' rules are Microsoft's "Naming Files, Paths, and Namespaces".
    """
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return "is no UTF-8"
    if not path or path.startswith("/"):
        return "is empty or absolute"
    if len(path) > _LONGEST_PATH:
        return "is longer than any bundle's"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in path):
        return "holds unprintable letters"
    if any(letter in '\\:<>"|?*' for letter in path):
        return "holds one of \\ : < > \" | ? *, which is no file's name on Windows"
    for part in path.split("/"):
        if part in ("", ".", ".."):
            return "leaves its folder, or goes through none"
        if part[-1] in ". ":
            return "ends with a dot or a blank, which Windows takes away"
        if _RESERVED.fullmatch(part.partition(".")[0].rstrip(" ")):
            return "is a device on Windows"
        if len(part.encode("utf-8")) > 255:
            return "is longer than a file's name may be"
    return ""


def folded(path: str) -> str:
    """Equal for paths that are one file on a disk that tells neither case nor Unicode forms apart."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


_SCRIPTS = ("install.py", "verify.py", "unpack.py", "probe.py", "join.py", "fs.py")
_READ_BY_PURPOSE = ("environment.yml", "pylock.toml")
_CLIENTS = {
    "channel": "conda",
    "wheels": "pip",
    "simple": "pip",
    "explicit": "conda",
    "requirements": "pip",
}
_PYTHON = (".py", ".pyw", ".pyc", ".pyd", ".so", ".pth", ".egg", ".egg-link")
_METADATA = (".dist-info", ".egg-info")
_PROGRAMS = (".dll", ".dylib", ".exe", ".com", ".bat", ".cmd")
_SETTINGS = re.compile(
    r"pylock(\..*)?\.toml|pip\.(conf|ini)|\.?(conda|mamba)rc|environment\.ya?ml|.*requirements.*\.(txt|in)"
    r"|constraints.*\.txt|pyproject\.toml|setup\.cfg|tox\.ini|(uv|pixi|conda)\.(toml|lock)|conda-lock\.ya?ml"
    r"|[._]netrc|\.pypirc|\.env|mirrors\.toml|pyvenv\.cfg|\.python-version"
)
_LEFTOVERS = re.compile(
    r"\.ds_store|\._.*|thumbs\.db|ehthumbs(_vista)?\.db|desktop\.ini|\.directory|\.apdisk|\.nfs[0-9a-f]+|\.fuse_hidden.*"
    r"|fsck[0-9]{4}\.rec|\.volumeicon\.icns|\.com\.apple\..*|indexervolumeguid|wpsettings\.dat"
)
_LEFTOVER_FOLDERS = re.compile(
    r"system volume information|\$recycle\.bin|recycler|found\.[0-9]{3}|lost\+found|lost\.dir|\.spotlight-v100"
    r"|\.trashes|\.trash(-[0-9]+)?|\.fseventsd|\.temporaryitems|\.documentrevisions-v100|__macosx|@eadir"
)


def read_by(path: str) -> str:
    """Which program would read a file of this name in a bundle, or below its root as the current folder; empty: none.

    Python imports from the current folder (``python -m pip``), Windows starts programs from it.
    """
    parts = path.casefold().split("/")
    if _is_leftover(parts):
        return ""
    if parts[0] in _CLIENTS:
        return _CLIENTS[parts[0]]
    if parts[-1].endswith(_PYTHON) and all(part.isidentifier() for part in parts[:-1]):
        return "Python"
    if parts[0].endswith(_METADATA):
        return "Python"
    if parts[0] in ("conda-meta", ".venv", ".pixi", ".conda"):
        return "conda, pip or uv"
    if len(parts) == 1 and parts[0].endswith(_PROGRAMS):
        return "Windows, as a program"
    if len(parts) == 1 and _SETTINGS.fullmatch(parts[0]):
        return "conda, pip or uv, as settings"
    return ""


def _is_leftover(parts: List[str]) -> bool:
    """What file managers and file systems leave on every disk that they see."""
    return bool(_LEFTOVERS.fullmatch(parts[-1]) or any(_LEFTOVER_FOLDERS.fullmatch(part) for part in parts[:-1]))


def _compare_names(source: Source, expected: List[Expected], report: Report) -> None:
    """Report what is missing and what was added; what is there under another spelling is found."""
    if not expected and report.manifest is None:
        return  # what belongs here is unknown, and was told
    wanted = {each.path for each in expected}
    added = [path for path in source.entries if path not in wanted and path not in (MANIFEST, SUMS)]
    spelt = {folded(path): path for path in added}
    for path in sorted(wanted):
        if path in source.entries:
            continue
        other = spelt.get(folded(path))
        if other is not None and source.same(other, path):
            source.entries[path] = source.entries.pop(other)
            added.remove(other)
        elif path in source.odd or source.cut or any(path.startswith(odd + "/") for odd in source.odd):
            continue  # was told
        elif other is not None:
            report.add(path, "missing", f"is not there, but {shown(other)}", "give the file its name again")
        else:
            report.add(path, "missing", "is not there", _AGAIN)
    for path in sorted(added):
        reader = read_by(path)
        if path == SIGNATURE and any(problem.path == SUMS for problem in report.problems):
            continue  # whether it belongs here would stand there
        if path == SIGNATURE:
            report.add(path, "added", f"is no part of this bundle: {SUMS} does not list it", _REMOVE)
        elif reader:
            report.add(path, "added", f"is no part of this bundle, and {reader} would read it", _REMOVE)
        elif source.unpacked_by_others:
            report.add(path, "added", "is no part of this bundle, and tar would unpack it", _WITHOUT)
        elif not _is_leftover(path.casefold().split("/")):
            report.warn(path, "is no part of this bundle; nothing of it will be used")
        else:
            report.warn(path, _LEFT)
    rooms = {path[:at] for path in [*wanted, *_OWN] for at, letter in enumerate(path) if letter == "/"}
    for path in sorted(source.folders - rooms - {UNFINISHED}):
        if not path.startswith(UNFINISHED + "/"):
            report.add(path, "added", "is a folder of no file of this bundle, and tar would make it", _WITHOUT)


# ---------------------------------------------------------------------------------------------------------------------
# Trust


class Wanted:
    """By what the manifest is to be trusted. Raises UsageError where the options do not go together."""

    def __init__(
        self, sha256: Optional[str], allowed_signers: Optional[Path], signer: Optional[str], folder: Optional[Path]
    ) -> None:
        given = (sha256 or "").strip().lower()
        self.sha256 = given[7:] if given.startswith("sha256:") else given
        if given and not _HEX.fullmatch(self.sha256):
            raise UsageError("--manifest-sha256 takes 64 hex digits, as `bundle create` printed them")
        if signer and allowed_signers is None:
            raise UsageError("--signer needs --allowed-signers, the file that says whose key is whose")
        self.signer = signer or ""
        self.folder = None if folder is None else folder.resolve()
        self.allowed_signers: Optional[Path] = None
        if allowed_signers is not None:
            self.allowed_signers = Path(allowed_signers).resolve()
            if not self.allowed_signers.is_file():
                raise UsageError(f"{shown(str(allowed_signers))}: no such file of allowed signers")
            if self.folder is not None and self.folder in self.allowed_signers.parents:
                raise UsageError(
                    f"{shown(str(allowed_signers))} lies in the bundle: who can change the one can change the "
                    "other. Name a file that came another way"
                )


def _settle_trust(source: Source, manifest: bytes, wanted: Wanted, report: Report, *, sound: bool) -> None:
    """Compare the digest and check the signature; ``Report.trust`` says what held of a sound manifest."""
    held = ""
    if wanted.sha256:
        if wanted.sha256 == report.manifest_sha256:
            held = "digest"
        else:
            report.add(
                MANIFEST,
                "untrusted",
                f"has the digest {report.manifest_sha256}, and not the one that you gave",
                "compare all 64 digits with those that `bundle create` printed; if they differ, do not use this bundle",
            )
    if SIGNATURE in source.entries:
        signature = _read_whole(source, SIGNATURE, _LONGEST_SIGNATURE, report)
        if signature is not None and _check_signature(manifest, signature, wanted, report):
            held = "signature"
    elif wanted.allowed_signers is not None:
        report.add(
            SIGNATURE,
            "untrusted",
            "is not there: this bundle has no signature, and one was asked for",
            "ask for a bundle made with --sign, or verify it with --manifest-sha256 instead of --allowed-signers",
        )
    if sound and held:
        report.trust = held


def _check_signature(manifest: bytes, signature: bytes, wanted: Wanted, report: Report) -> bool:
    """Whether somebody who is allowed signed it. Without a list of them it is only held against the manifest."""
    program = _find_ssh_keygen(wanted.folder)
    if program is None:
        if wanted.allowed_signers is None:
            report.warn(SIGNATURE, "cannot be checked: there is no ssh-keygen here")
        else:
            report.add(
                SIGNATURE,
                "machine",
                "cannot be checked: there is no ssh-keygen here",
                "install OpenSSH (on Windows an optional feature), or use --manifest-sha256 instead",
            )
        return False
    with tempfile.TemporaryDirectory(prefix="resume-dl-") as folder:
        file = Path(folder, "signature")
        file.write_bytes(signature)
        ssh = _SSH(program, file, manifest)
        if wanted.allowed_signers is None:
            return _hold_against(ssh, report)
        allowed = shown(str(wanted.allowed_signers))
        if wanted.signer:
            principals, said = [wanted.signer], ""
            wrong = f"was not made by {shown(wanted.signer)}, as {allowed} has it"
        else:
            code, said = ssh.run("find-principals", "-f", str(wanted.allowed_signers))
            principals = said.splitlines() if code == 0 else []
            wrong = f"does not fit {MANIFEST}" if principals else f"was made by a key that {allowed} does not allow"
        for principal in principals:
            code, said = ssh.run("verify", "-f", str(wanted.allowed_signers), "-I", principal, "-n", NAMESPACE)
            if code == 0:
                report.signer = principal
                return True
    if ssh.too_old:
        hint = "install OpenSSH 8.2 or newer, or use --manifest-sha256 instead"
        report.add(SIGNATURE, "machine", "cannot be checked: this ssh-keygen is older than signatures", hint)
    else:
        hint = f"copy {MANIFEST} and {SIGNATURE} again; if that does not help, do not use this bundle"
        report.add(SIGNATURE, "untrusted", wrong + _because(said), hint)
    return False


def _because(said: str) -> str:
    last = said.strip().splitlines()[-1:]
    return f" (ssh-keygen: {shown(last[0])})" if last else ""


def _hold_against(ssh: "_SSH", report: Report) -> bool:
    """Nobody said whose key to trust: the signature must fit, and its key is named."""
    code, said = ssh.run("check-novalidate", "-n", NAMESPACE)
    if code == 0:
        key = re.search(r"SHA256:[A-Za-z0-9+/=]+", said)
        made = f" by the key {key.group()}" if key else ""
        report.warn(SIGNATURE, f"was made{made}; without --allowed-signers nobody says whose key that is")
    elif ssh.too_old:
        report.warn(SIGNATURE, "cannot be checked: this ssh-keygen is older than signatures")
    else:
        report.add(SIGNATURE, "damaged", f"does not fit {MANIFEST}{_because(said)}", _AGAIN)
    return False


_NO_SUCH_OPTION = re.compile(r"(unknown|illegal|invalid) option|Unsupported operation")


class _SSH:
    """``ssh-keygen -Y``, in a folder where nothing else lies."""

    def __init__(self, program: str, signature: Path, manifest: bytes) -> None:
        self._program = program
        self._signature = signature
        self._manifest = manifest
        self.too_old = False

    def run(self, *words: str) -> Tuple[int, str]:
        """Its exit code, and what it said: on stdout if all went well, else on stderr."""
        try:
            done = subprocess.run(
                [self._program, "-Y", *words, "-s", str(self._signature)],
                input=self._manifest,
                capture_output=True,
                timeout=_SECONDS_FOR_SSH,
                check=False,
                cwd=str(self._signature.parent),
            )
        except (OSError, subprocess.SubprocessError) as error:
            return -1, str(error)
        said = (done.stderr if done.returncode else done.stdout).decode("utf-8", "replace")
        self.too_old = self.too_old or _NO_SUCH_OPTION.search(said) is not None
        return done.returncode, said


def _find_ssh_keygen(folder: Optional[Path]) -> Optional[str]:
    """The first on PATH; not from the current folder, where Windows looks first, nor from the bundle."""
    name = "ssh-keygen.exe" if os.name == "nt" else "ssh-keygen"
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        place = Path(entry.strip('"'))
        if not place.is_absolute():
            continue
        found = place / name
        try:
            inside = folder is not None and folder in found.resolve().parents
        except OSError:
            continue
        if not inside and found.is_file() and os.access(str(found), os.X_OK):
            return str(found)
    return None


# ---------------------------------------------------------------------------------------------------------------------
# Bytes


def piece(file: BinaryIO, start: int, size: int, *, own: bool = False) -> BinaryIO:
    """A piece of a file as a file of its own; closing it closes the file below if it is its ``own``."""
    return _Window(file, start, size, own=own)  # type: ignore[return-value]  # RawIOBase reads as BinaryIO does


class _Window(io.RawIOBase):
    """What ``piece`` gives."""

    def __init__(self, file: BinaryIO, start: int, size: int, *, own: bool) -> None:
        super().__init__()
        self._file = file
        self._start = start
        self._size = size
        self._own = own
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._at, self._size)[whence]
        if base + offset < 0:
            raise OSError("before the file's begin")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        self._file.seek(self._start + self._at)
        count = self._file.readinto(view[: max(0, min(len(view), self._size - self._at))])  # type: ignore[attr-defined]  # BinaryIO does not say so
        self._at += count
        return int(count)

    def read(self, size: int = -1) -> bytes:
        """As of any file, but not in pieces that only a hostile archive asks for."""
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted > _LONGEST_DIRECTORY:
            raise zipfile.BadZipFile(f"asks for {show_size(wanted)} at once")
        return super().read(wanted) or b""

    def close(self) -> None:
        if self._own and not self.closed:
            self._file.close()
        super().close()


class _LastRead(_Window):
    """A window that remembers what was read last."""

    last = b""

    def read(self, size: int = -1) -> bytes:
        self.last = super().read(size)
        return self.last


def blocks(file: BinaryIO) -> Iterator[memoryview]:
    """The file in blocks; each is overwritten by the next."""
    buffer = memoryview(bytearray(_BLOCK))
    while True:
        count = file.readinto(buffer)  # type: ignore[attr-defined]  # BinaryIO does not say so
        if not count:
            return
        yield buffer[:count]


class _Progress:
    """A line every few seconds."""

    def __init__(self, sizes: List[int], told: Optional[Told]) -> None:
        self._told = told
        self._last = time.monotonic()
        self._all_files = len(sizes)
        self._all_bytes = sum(sizes)
        self._files = self._bytes = 0

    def file(self) -> None:
        """One more was looked at."""
        self._files += 1

    def bytes(self, count: int) -> None:
        """So many more were read."""
        self._bytes += count
        now = time.monotonic()
        if self._told is not None and now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            read, size = show_size(self._bytes), show_size(self._all_bytes)
            self._told(f"verified {read} of {size}, {self._files:,} of {self._all_files:,} files")


def native(path: Path) -> Path:
    """The path as this system takes it, longer than 260 letters too on Windows."""
    whole = os.path.abspath(str(path))  # noqa: PTH100 - resolve() fails on loops of links
    if os.name == "nt" and not whole.startswith("\\\\?\\"):
        whole = "\\\\?\\UNC" + whole[1:] if whole.startswith("\\\\") else "\\\\?\\" + whole
    return Path(whole)


def shown(text: str) -> str:
    """The text with nothing in it that a terminal would obey or could not print."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def show_size(count: float) -> str:
    """For people, as ``1.5 MB``; what our own commands say too (model/units.py)."""
    for unit, scale, figures in (("B", 1, 0), ("kB", 1000, 1), ("MB", 1000**2, 1)):
        if round(count / scale, figures) < 1000:
            return f"{count / scale:.{figures}f} {unit}"
    return f"{count / 1000**3:.1f} GB"


def _count(number: int, noun: str) -> str:
    return "{:,} {}{}".format(number, noun, "" if number == 1 else "s")


# ---------------------------------------------------------------------------------------------------------------------
# A folder


class _Folder(Source):
    """A bundle's folder. Links, junctions and devices in it are reported, and nobody follows them."""

    def __init__(self, folder: Path, report: Report) -> None:
        super().__init__()
        self._root = native(folder)
        waiting = [""]
        while waiting:
            below = waiting.pop()
            try:
                names = sorted(os.listdir(self._path(below)))  # noqa: PTH208 - names are wanted
            except OSError as error:
                report.add_unreadable(below or str(folder), error)
                self.odd.add(below)
                continue
            if not below and MANIFEST not in names and SUMS not in names:
                # whatever this folder is, nobody wants to hear of all that lies in it
                names = [name for name in names if name == UNFINISHED]
            for name in names:
                path = f"{below}/{name}" if below else name
                try:
                    found = os.lstat(self._path(path))
                except OSError as error:
                    report.add_unreadable(path, error)
                    self.odd.add(path)
                    continue
                kind = odd_kind(found)
                if kind:
                    self.odd.add(path)
                    report.add(path, "unsafe", f"is {kind}; a bundle holds plain files", _REMOVE)
                elif not stat.S_ISDIR(found.st_mode):
                    self.entries[path] = found.st_size
                elif path == UNFINISHED:
                    self.unfinished = True
                elif _LEFTOVER_FOLDERS.fullmatch(name.casefold()):
                    # not looked into: these are often closed to everybody but the system
                    report.warn(path, _LEFT)
                else:
                    waiting.append(path)

    def _path(self, path: str) -> Path:
        return self._root / path

    def open(self, path: str) -> BinaryIO:
        file = self._path(path).open("rb", buffering=0)
        # read to its true end: a file that grew since is damaged
        return piece(file, 0, os.fstat(file.fileno()).st_size, own=True)

    def same(self, there: str, wanted: str) -> bool:
        try:
            return os.path.samestat(os.lstat(self._path(there)), os.lstat(self._path(wanted)))
        except OSError:
            return False


_NAME_SURROGATE = 0x20000000
"""The bit of a reparse tag that says: this is another file's name (ntifs.h, IsReparseTagNameSurrogate)."""


def odd_kind(found: os.stat_result) -> str:
    """What a file is that is neither plain nor a folder; empty for those."""
    if stat.S_ISLNK(found.st_mode):
        return "a symbolic link"
    if getattr(found, "st_reparse_tag", 0) & _NAME_SURROGATE:
        return "a junction"
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        return "a device, pipe or socket"
    return ""


# ---------------------------------------------------------------------------------------------------------------------
# What is in the packages


def look_inside(each: Expected, file: BinaryIO, report: Report, *, deep: bool) -> bool:
    """Whether the members of an archive stay in the folder it is unpacked to; what is wrong is reported.

    Its bytes are those that the bundle was made with. Conda itself writes through a hard link that leads elsewhere
    (24.7.1). Raises OSError.
    """
    lower = each.path.lower()
    wrong = ""
    file.seek(0)
    try:
        if lower.endswith((".whl", ".conda", ".zip")):
            wrong = _wrong_in_zip(file)
        if not wrong and deep and lower.endswith(".conda"):
            unpacked = _zstd()
            if unpacked is None:
                report.unlooked.append(each.path)
            else:
                wrong = _wrong_in_conda(file, unpacked)
        elif deep and lower.endswith((".tar.bz2", ".tar.gz", ".tgz")):
            wrong = _wrong_in_tar(file)
    except Exception as error:  # noqa: BLE001 - what zipfile and tarfile raise for hostile archives is in no list
        why = shown(str(error)) or type(error).__name__
        wrong = f"is no archive that can be unpacked ({why})"
    if wrong:
        report.add(each.path, "unsafe", wrong, REMAKE)
    return not wrong


def look_into(folder: Path, paths: List[str], report: Report) -> None:
    """Look into these packages of a folder whose files are verified already; for a Python that can unpack them."""
    for path in paths:
        try:
            with Path(folder, path).open("rb") as file:
                look_inside(Expected(path, None, "", ""), file, report, deep=True)
        except OSError as error:
            report.add_unreadable(path, error)


def _zstd() -> Optional[Callable[[BinaryIO], Any]]:
    """What reads a zstd stream: of Python 3.14, or of every conda's own Python; None without either."""
    with suppress(ImportError):
        opened: Callable[[BinaryIO], Any] = import_module("compression.zstd").ZstdFile
        return opened
    with suppress(ImportError):
        zstandard = import_module("zstandard")
        return lambda file: zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    return None


def _wrong_in_conda(file: BinaryIO, unpacked: Callable[[BinaryIO], Any]) -> str:
    """By unpacking its tars to nowhere (conda-package-handling's format 2: pkg-*.tar.zst, info-*.tar.zst)."""
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".tar.zst"):
                with archive.open(member) as packed, unpacked(packed) as plain:  # type: ignore[arg-type]  # it is read only
                    wrong = _wrong_in_plain_tar(plain)
                    if wrong:
                        return wrong
    return ""


def _wrong_in_zip(file: BinaryIO) -> str:
    """By its directory alone: cheap for any size."""
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if stat.S_ISLNK(member.external_attr >> 16):
                return f"its member {shown(member.orig_filename)} is a symbolic link"
            if _leaves(member.orig_filename):
                return f"its member {shown(member.orig_filename)} leaves the folder"
    return ""


def _wrong_in_tar(file: BinaryIO) -> str:
    """By unpacking it to nowhere. Sparse files are refused: a few bytes of those fill any disk."""
    import bz2  # noqa: PLC0415 - a Python may lack it, and only looking inside needs it
    import gzip  # noqa: PLC0415 - as above

    packed = file.read(2) == b"BZ"
    file.seek(0)
    with bz2.open(file) if packed else gzip.open(file) as plain:
        return _wrong_in_plain_tar(plain)


def _wrong_in_plain_tar(plain: Any) -> str:
    # through a window, because a header of it may ask for any number of bytes at once
    window = _LastRead(plain, 0, sys.maxsize, own=False)
    links: Set[str] = set()
    with tarfile.open(fileobj=window, mode="r:") as archive:
        for member in archive:
            name = shown(member.name)
            if _leaves(member.name) or ".." in _parts(member.name):
                return f"its member {name} leaves the folder"
            if member.issparse() or not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                return f"its member {name} is a device, pipe or sparse file"
            if member.size < 0:  # an older tarfile goes back by it, and meets the same header for ever (CVE-2025-8194)
                return f"its member {name} has a size below zero"
            if member.size > _LARGEST_MEMBER:
                return f"its member {name} has {show_size(member.size)}"
            base = member.name.rpartition("/")[0] if member.issym() else ""
            if (member.issym() or member.islnk()) and _leaves(member.linkname, base):
                return f"its link {name} leads out of the folder, to {shown(member.linkname)}"
            # where links lead together is not known: what no real package does is refused
            if _goes_through(member.name, links) or (member.islnk() and _goes_through(member.linkname, links)):
                return f"its member {name} goes through a link"
            if member.issym():
                links.add("/".join(_parts(member.name)).casefold())
            archive.members = []  # type: ignore[attr-defined]  # else it keeps every member
    # tarfile takes a damaged header for the end, and other programs go on behind it
    return "its tar is damaged between two members" if any(window.last) else ""


def _parts(name: str) -> List[str]:
    return [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]


def _goes_through(name: str, links: Set[str]) -> bool:
    """Whether ``name`` is one of these links, or below one."""
    at = ""
    for part in _parts(name.casefold()):
        at = f"{at}/{part}" if at else part
        if at in links:
            return True
    return False


def _leaves(name: str, base: str = "") -> bool:
    """Whether ``name``, read from the folder ``base``, is absolute or leads above where it starts."""
    name = name.replace("\\", "/")
    if name.startswith("/") or "\0" in name or re.match(r"[A-Za-z]:", name):
        return True
    depth = len(_parts(base))
    for part in name.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            return True
    return False


# ---------------------------------------------------------------------------------------------------------------------
# The command


def main(argv: Optional[List[str]] = None) -> int:
    """Verify what the command line names. Returns the exit code of ``run``, or 2 for wrong usage."""
    parser = argparse.ArgumentParser(
        description="Verify every file of an offline bundle, before anything of it is used.", epilog=EXIT_CODES
    )
    parser.add_argument("bundle", metavar="FOLDER|TAR", nargs="?", type=Path, help="default: where this script lies")
    add_trust_options(parser)
    parser.add_argument("--deep", action="store_true", help="look into packages also where a digest vouches for them")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)  # for install.py: paths from stdin
    given = vars(parser.parse_args(argv))
    bundle = given.pop("bundle") or Path(__file__).parent
    if given.pop("inside"):
        return run(lambda: _look_into(bundle), if_stopped="nothing was changed")
    return run(lambda: _check_either(bundle, given), if_stopped="nothing was changed")


def _look_into(folder: Path) -> Report:
    report = Report()
    look_into(folder, sys.stdin.buffer.read().decode("utf-8").splitlines(), report)
    if report.unlooked:
        raise UsageError("this Python has no zstandard")
    return report


def _check_either(bundle: Path, given: Dict[str, Any]) -> Report:
    if bundle.is_dir():
        return check(bundle, told=tell, **given)
    sys.modules["resume_dl_bundle_verify"] = sys.modules[__name__]  # else unpack.py would load this file once more
    try:
        unpack = _beside("unpack")
    except OSError as error:
        raise UsageError(
            f"{shown(str(bundle))} is no folder, and a tar is read by unpack.py, which is not beside this script: "
            "copy it there too, or use `resume-dl bundle verify`"
        ) from error
    report: Report = unpack.check_any(bundle, told=tell, **given)
    return report


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


EXIT_CODES = "Exit codes: 0 whole, 2 wrong usage, 4 not to be used, 5 this machine (disk, no ssh-keygen)."


def add_trust_options(parser: argparse.ArgumentParser) -> None:
    """By what the manifest is to be trusted: the keywords of ``check``, None where they are not given."""
    parser.add_argument("--manifest-sha256", metavar="HEX", type=_some, help="as `bundle create` printed it")
    parser.add_argument(
        "--allowed-signers", metavar="FILE", type=_some_path, help="whose signature is taken; ssh-keygen(1)"
    )
    parser.add_argument("--signer", metavar="IDENTITY", type=_some, help="the only one of them that is taken")


EMPTY = "is empty, as a variable that nobody has set; leave the option out if nothing is to be compared"


def _some(text: str) -> str:
    """The text as it is; an empty one asks for less than whoever typed the option wanted."""
    if not text.strip():
        raise argparse.ArgumentTypeError(EMPTY)
    return text


def _some_path(text: str) -> Path:
    return Path(_some(text))


def run(work: Callable[[], Report], *, if_stopped: str) -> int:
    """Do it, and print what came of it. Returns the exit code: 0, 2 wrong usage, 4 not to be trusted, 5, 130."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a console of another language shows what it can
    try:
        report = work()
    except UsageError as error:
        tell(f"error: {error}")
        return 2
    except OSError as error:
        tell(f"error: {error}")
        return 5
    except KeyboardInterrupt:
        tell(f"stopped; {if_stopped}")
        return 130
    with suppress(OSError):  # a reader that has gone away does not change what was found
        print("\n".join(lines(report)), file=sys.stderr if report.problems else sys.stdout, flush=True)
    return report.exit_code


def tell(text: str) -> None:
    """A line for people, if anybody takes it."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - a script has nothing else


def settle() -> None:
    """At the end of a script: a reader that has gone away changes no exit code.

    What nobody takes is dropped: Python would fail over it once more while it ends, with exit code 120
    (docs.python.org, signal: "Note on SIGPIPE").
    """
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
