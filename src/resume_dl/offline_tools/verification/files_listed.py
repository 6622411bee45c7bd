"""The required files, from the manifest, or from SHA256SUMS if the manifest is unusable."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from resume_dl.offline_tools.console import shown
from resume_dl.offline_tools.verification.bundle_source import Expected, Source, read_whole
from resume_dl.offline_tools.verification.file_names import folded
from resume_dl.offline_tools.verification.findings import Report
from resume_dl.offline_tools.verification.layout import (
    COPY_AGAIN,
    LEFT_BY_SYSTEM,
    MANIFEST,
    OWN_FILES,
    REMAKE,
    REMOVE_IT,
    SIGNATURE,
    SUMS,
    TAR_WITHOUT_IT,
    UNFINISHED,
)
from resume_dl.offline_tools.verification.manifest_check import parse_manifest
from resume_dl.offline_tools.verification.readers import is_leftover, read_by
from resume_dl.offline_tools.verification.sums_list import first_difference, is_damaged_copy, listed_in_sums, parse_sums
from resume_dl.offline_tools.verification.trusted_by import settle_trust
from resume_dl.offline_tools.verification.wanted import Wanted

_LONGEST_MANIFEST = 256 << 20
"""50,000 packages take 40 MB."""
_PLAIN_URL = re.compile(r"https?://[\w.:+!~%=-]+/[\w.:/+!~%=-]*")
"""A URL without login or characters with a meaning to a shell."""


def list_files(source: Source, wanted: Wanted, report: Report) -> list[Expected]:
    """The required files, sorted by path; missing and added ones are reported."""
    expected = _read_list(source, wanted, report)
    _compare_names(source, expected, report)
    return expected


def _read_list(source: Source, wanted: Wanted, report: Report) -> list[Expected]:
    """The required files, from the manifest or, if it is unusable, from SHA256SUMS; sorted by path."""
    if source.unfinished:
        report.add(
            UNFINISHED,
            "unfinished",
            "the bundle is unfinished",
            "run `resume-dl bundle create` to its end where it is made, then copy the bundle again; one that was "
            "unpacked from a tar: unpack that again, into the same folder",
        )
    if not (source.cut or MANIFEST in source.entries or SUMS in source.entries):
        if not source.unfinished:
            report.add(
                MANIFEST,
                "unfinished",
                f"is missing, and so is {SUMS}: this is not a bundle, or an unfinished one",
                f"name the folder that holds {MANIFEST}, or run `resume-dl bundle create` to its end",
            )
        return []
    text = read_whole(source, MANIFEST, _LONGEST_MANIFEST, report)
    listed = read_whole(source, SUMS, _LONGEST_MANIFEST, report)
    sums, unclear = parse_sums(listed)
    if text is None:
        if listed is not None and unclear:
            report.add(SUMS, "damaged", unclear, COPY_AGAIN)
        return listed_in_sums(sums, unclear)
    report.manifest_sha256 = hashlib.sha256(text).hexdigest()
    recorded = sums.get(MANIFEST, "")
    known = report.manifest_sha256 in (recorded, wanted.sha256)
    if listed is not None and unclear:
        report.add(SUMS, "damaged", unclear, COPY_AGAIN)
    elif listed is not None and recorded != report.manifest_sha256:
        if known or not recorded or is_damaged_copy(recorded, report.manifest_sha256):
            report.add(SUMS, "damaged", f"its line for {MANIFEST} is damaged", COPY_AGAIN)
        else:
            report.add(
                MANIFEST,
                "damaged",
                f"is not the manifest that {SUMS} was made with",
                f"copy {MANIFEST} and {SUMS} again, both from the same bundle",
            )
            settle_trust(source, text, wanted, report, sound=False)
            return listed_in_sums(sums, unclear)
    manifest, wrong = parse_manifest(text)
    for what, complaint in wrong:
        hint = REMAKE
        if what == "newer":
            hint = "verify it with the verify.py that came with it, or with a newer resume-dl"
        elif listed is None or unclear:
            hint = COPY_AGAIN
        report.add(MANIFEST, what, complaint, hint)
    settle_trust(source, text, wanted, report, sound=manifest is not None)
    if manifest is None:
        return listed_in_sums(sums, unclear)
    report.manifest = manifest
    expected = listed_in_manifest(manifest)
    signature = sums.get(SIGNATURE)
    if signature is not None:
        expected.append(Expected(SIGNATURE, None, signature, ""))
    expected.sort()
    if listed is not None and not any(problem.path == SUMS for problem in report.problems):
        line = first_difference(listed, [*expected, Expected(MANIFEST, None, report.manifest_sha256, "")])
        if line:
            report.add(SUMS, "damaged", f"line {line} does not agree with {MANIFEST}", COPY_AGAIN)
    return expected


def listed_in_manifest(manifest: dict[str, Any]) -> list[Expected]:
    """The files in the bundle, without those that a delta expects on the target."""
    packages = [each for each in manifest["packages"] if each["included"]]
    return [
        Expected(each["path"], each["size"], each["sha256"], _plain_url(each.get("url", "")))
        for each in [*packages, *manifest["files"]]
    ]


def _plain_url(url: str) -> str:
    """The URL if it can be shown and typed; empty if it may hold a login or a token."""
    return url if _PLAIN_URL.fullmatch(url) and "/t/" not in url else ""


def _compare_names(source: Source, expected: list[Expected], report: Report) -> None:
    """Report missing, added and misspelled files."""
    if not expected and report.manifest is None:
        return  # the required files are unknown, which is reported already
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
            continue  # reported already
        elif other is not None:
            report.add(path, "missing", f"is missing, but {shown(other)}", "rename the file")
        else:
            report.add(path, "missing", "is missing", COPY_AGAIN)
    for path in sorted(added):
        reader = read_by(path)
        if path == SIGNATURE and any(problem.path == SUMS for problem in report.problems):
            continue  # the unreadable list would name it
        if path == SIGNATURE:
            report.add(path, "added", f"is not part of this bundle: {SUMS} does not list it", REMOVE_IT)
        elif reader:
            report.add(path, "added", f"is not part of this bundle, and {reader} would read it", REMOVE_IT)
        elif source.unpacked_by_others:
            report.add(path, "added", "is not part of this bundle, and tar would unpack it", TAR_WITHOUT_IT)
        elif not is_leftover(path.casefold().split("/")):
            report.warn(path, "is not part of this bundle and will not be used")
        else:
            report.warn(path, LEFT_BY_SYSTEM)
    rooms = {path[:at] for path in [*wanted, *OWN_FILES] for at, letter in enumerate(path) if letter == "/"}
    for path in sorted(source.folders - rooms - {UNFINISHED}):
        if not path.startswith(UNFINISHED + "/"):
            report.add(path, "added", "is a folder of no file of this bundle, and tar would make it", TAR_WITHOUT_IT)
