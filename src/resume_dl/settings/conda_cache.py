"""A cache of conda's answers, valid until something that conda reads has changed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from resume_dl import fs
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.url import RedactedUrl, redact
from resume_dl.settings.conda_find import CondaCommand
from resume_dl.settings.condarc import condarc_files

_MOST_BYTES = 16 << 20
SCHEMA = 3
_VARIABLE = re.compile(rb"\$(\w+)|\$\{(\w+)\}|%(\w+)%")
_ALWAYS = ("HOME", "USERPROFILE", "XDG_CONFIG_HOME", "CONDARC")
_NOISE = ("CONDA_SHLVL", "CONDA_PROMPT_MODIFIER", "CONDA_PREFIX_")


class CondaCache:
    """One answer, in one file, for one conda and one target environment.

    Valid while the executable, the root prefix's history (a new conda writes there), the text of every condarc in the
    search path, and every environment variable that conda or a condarc reads are the same. An answer that holds a
    login is never written: our files hold no secrets.
    """

    def __init__(self, folder: Path, command: CondaCommand, prefix: Path | None) -> None:
        name = hashlib.sha256(repr((SCHEMA, command.line, str(prefix))).encode()).hexdigest()[:32]
        self.file = folder / "conda-settings" / f"{name}.json"
        self.command = command

    def get(self, env: Mapping[str, str], now: float) -> CondaSettings | str | None:
        """The settings if still valid; the reason if this conda failed recently; or None."""
        try:
            kept = json.loads(fs.read_regular(self.file, _MOST_BYTES))
            if kept["schema"] != SCHEMA or kept["seal"] != self._seal([Path(path) for path in kept["places"]], env):
                return None
            if "problem" in kept:
                return str(kept["problem"]) if 0 <= kept["until"] - now <= kept["lasts"] else None
            return _thaw(kept["settings"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, settings: CondaSettings, places: Iterable[Path], env: Mapping[str, str]) -> bool:
        """Store an answer; ``places`` are the files and folders that could change it. False if it holds a login."""
        if any("@" in line or redact(line) != line for line in _lines_of(settings)):
            self.forget()
            return False
        listed = list(places)
        return self._write({"settings": _freeze(settings), "places": listed, "seal": self._seal(listed, env)})

    def put_failure(
        self, problem: str, places: Iterable[Path], env: Mapping[str, str], *, now: float, lasts: float
    ) -> bool:
        """Record for ``lasts`` seconds that this conda does not answer, so that not every run waits for it."""
        listed = list(places)
        kept = {"problem": problem, "until": now + lasts, "lasts": lasts}
        return self._write({**kept, "places": listed, "seal": self._seal(listed, env)})

    def forget(self) -> None:
        """Remove the stored answer."""
        try:
            self.file.unlink(missing_ok=True)
        except OSError:
            return

    def _write(self, content: dict[str, Any]) -> bool:
        content = {"schema": SCHEMA, **content, "places": [str(place) for place in content["places"]]}
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.file.parent, suffix=".tmp")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(content, file)
                fs.replace(name, self.file)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError:
            return False  # an unwritable cache costs only time
        return True

    def _seal(self, places: list[Path], env: Mapping[str, str]) -> str:
        """One digest over everything that the answer depends on."""
        seal = hashlib.sha256()
        for path in (self.command.executable, self.command.executable.parent.parent / "conda-meta" / "history"):
            seal.update(repr((str(path), _stamp(path))).encode())
        names = {*_ALWAYS, *(name for name in env if name.startswith("CONDA_") and not name.startswith(_NOISE))}
        for file in condarc_files(places):
            try:
                content = file.read_bytes()
            except OSError:
                content = b""
            seal.update(repr((str(file), len(content))).encode() + content)
            names.update(next(filter(None, found)).decode() for found in _VARIABLE.findall(content) if any(found))
        seal.update(repr(sorted((name, env.get(name)) for name in names)).encode())
        return seal.hexdigest()


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _freeze(value: Any) -> Any:
    if isinstance(value, CondaSettings):
        return {item.name: _freeze(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, RedactedUrl):
        return {"url": value.reveal()}
    if isinstance(value, Path):
        return {"path": str(value)}
    if isinstance(value, tuple):
        return [_freeze(item) for item in value]
    if isinstance(value, Mapping):
        return {"map": {key: _freeze(item) for key, item in value.items()}}
    return value


def _thaw(content: Mapping[str, Any]) -> CondaSettings:
    def back(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(back(item) for item in value)
        if isinstance(value, dict):
            ((kind, inner),) = value.items()
            if kind == "map":
                return {key: back(item) for key, item in inner.items()}
            return RedactedUrl(inner) if kind == "url" else Path(inner)
        return value

    return CondaSettings(**{key: back(value) for key, value in content.items()})


def _lines_of(settings: CondaSettings) -> Iterator[str]:
    """Every text in these settings that may hold a login, unredacted."""
    yield from (*settings.channels, *settings.allowlist_channels, *settings.denylist_channels)
    yield from (text for entry in settings.channel_settings for text in entry.values())
    yield from (url.reveal() for url in settings.default_channels)
    yield from (url.reveal() for url in settings.custom_channels.values())
    yield from (url.reveal() for members in settings.custom_multichannels.values() for url in members)
    yield settings.channel_alias.reveal()
    yield from settings.proxy_servers.values()
