"""The console's encoding and Windows' setting of long paths."""

from __future__ import annotations

import sys

from resume_dl.diagnosis.console_check import ConsoleFacts


def look_at_console(encoding: str) -> ConsoleFacts:
    """``encoding``: that of stdout."""
    if sys.platform == "win32":
        import ctypes

        page = int(ctypes.windll.kernel32.GetConsoleOutputCP() or ctypes.windll.kernel32.GetACP())
        return ConsoleFacts(windows=True, encoding=encoding, code_page=page, long_paths=_long_paths())
    return ConsoleFacts(encoding=encoding)


if sys.platform == "win32":

    def _long_paths() -> bool | None:
        """LongPathsEnabled (learn.microsoft.com: "Maximum Path Length Limitation"); None before Windows 10 1607."""
        import winreg

        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SYSTEM\CurrentControlSet\Control\FileSystem") as key:
                return bool(winreg.QueryValueEx(key, "LongPathsEnabled")[0])
        except OSError:
            return None
