"""Judge the console's encoding and Windows' limit of paths. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from resume_dl.diagnosis.finding import Finding, note, ok

UTF8_PAGE = 65001


@dataclass(frozen=True, slots=True)
class ConsoleFacts:
    """``code_page``: the Windows console's, 0 without one; ``long_paths``: LongPathsEnabled, None if unknown."""

    windows: bool = False
    encoding: str = ""
    code_page: int = 0
    long_paths: bool | None = None


def check_console(facts: ConsoleFacts) -> list[Finding]:
    """Findings ``encoding`` and, on Windows, ``paths``."""
    if not facts.windows:
        if facts.encoding.lower().replace("_", "-") in {"utf-8", "utf8"}:
            return [ok("encoding", "UTF-8")]
        shown = facts.encoding or "unknown"
        return [note("encoding", f"{shown}: letters that it lacks are shown by number", "export LC_ALL=C.UTF-8")]
    findings = [ok("encoding", "UTF-8")]
    if facts.code_page and facts.code_page != UTF8_PAGE:
        name = f"{facts.code_page} (GBK)" if facts.code_page == 936 else str(facts.code_page)
        text = f"code page {name}: other programs may show letters that it lacks as ?"
        findings = [note("encoding", text, f"chcp {UTF8_PAGE}")]
    if facts.long_paths is False:
        command = (
            r"reg add HKLM\SYSTEM\CurrentControlSet\Control\FileSystem "
            "/v LongPathsEnabled /t REG_DWORD /d 1 /f"
        )
        text = "paths above 260 characters are switched off in Windows, and some packages have them"
        findings.append(note("paths", f"{text} (the command needs an administrator)", command))
    elif facts.long_paths:
        findings.append(ok("paths", "long paths are switched on"))
    return findings
