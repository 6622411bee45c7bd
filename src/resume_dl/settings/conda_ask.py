"""Asks a conda for its settings: ``conda config --show --json`` in a child process that cannot hang us."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, final

from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.conda_find import CondaCommand


class CondaAnswerError(Exception):
    """This conda gave no settings; the text says why in a few words. Never leaves the settings package."""


def ask_conda(
    command: CondaCommand, env: Mapping[str, str], *, timeout: float
) -> tuple[CondaSettings, tuple[Path, ...]]:
    """The settings that this conda reports, and the files that it read them from.

    Both questions run at once; only the first must be answered. Raises CondaAnswerError.
    """
    with tempfile.TemporaryFile() as shown, tempfile.TemporaryFile() as read_from:
        deadline = time.monotonic() + timeout
        with (
            _Child([*command.line, "config", "--show", "--json"], env, shown) as show,
            _Child([*command.line, "config", "--show-sources", "--json"], env, read_from) as sources,
        ):
            code = show.wait(deadline)
            sources.wait(min(deadline, time.monotonic() + timeout / 6))
        answer = _json(shown)
        if code is None:
            raise CondaAnswerError(f"did not answer within {timeout:g} s")
        if code != 0 or not isinstance(answer, dict) or "pkgs_dirs" not in answer:
            raise CondaAnswerError(_reason(answer, code))
        files = _json(read_from)
        try:
            settings = parse_answer(answer, command)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CondaAnswerError(f"its answer has another form than expected ({type(error).__name__})") from error
    named = [Path(name) for name in files if Path(name).is_absolute()] if isinstance(files, dict) else []
    return settings, tuple(named)


def parse_answer(answer: Mapping[str, Any], command: CondaCommand) -> CondaSettings:
    """Settings from the parsed output of ``conda config --show --json`` (24.7 and 26.7 give the same form).

    Raises KeyError, TypeError or ValueError where the form is another.
    """
    alias = _Parts(answer["channel_alias"])
    return CondaSettings(
        source="conda",
        conda_executable=command.executable,
        conda_command=command.line,
        root_prefix=Path(answer["root_prefix"]),
        subdir=str(answer["subdir"]),
        channels=_texts(answer["channels"]),
        default_channels=tuple(_Parts(parts).base() for parts in answer["default_channels"]),
        custom_channels={str(name): _Parts(parts).location() for name, parts in answer["custom_channels"].items()},
        custom_multichannels={
            str(name): tuple(_Parts(parts).base() for parts in members)
            for name, members in answer["custom_multichannels"].items()
        },
        channel_alias=alias.location(),
        channel_priority=str(answer.get("channel_priority", "flexible")),
        pkgs_dirs=tuple(Path(path) for path in _texts(answer["pkgs_dirs"])),
        envs_dirs=tuple(Path(path) for path in _texts(answer.get("envs_dirs", ()))),
        ssl_verify=_verify(answer.get("ssl_verify", True)),
        client_ssl_cert=answer.get("client_ssl_cert") or None,
        client_ssl_cert_key=answer.get("client_ssl_cert_key") or None,
        proxy_servers={str(key): str(value or "") for key, value in answer.get("proxy_servers", {}).items()},
        pinned_packages=_texts(answer.get("pinned_packages", ())),
        create_default_packages=_texts(answer.get("create_default_packages", ())),
        aggressive_update_packages=_texts(answer.get("aggressive_update_packages", ())),
        use_only_tar_bz2=bool(answer.get("use_only_tar_bz2")),
        add_pip_as_python_dependency=bool(answer.get("add_pip_as_python_dependency", True)),
        offline=bool(answer.get("offline")),
        override_channels_enabled=bool(answer.get("override_channels_enabled", True)),
        solver=str(answer.get("solver") or ""),
        remote_connect_timeout_secs=float(answer.get("remote_connect_timeout_secs", 9.15)),
        remote_read_timeout_secs=float(answer.get("remote_read_timeout_secs", 60.0)),
    )


class _Parts:
    """A channel as conda's JSON gives it: scheme, auth, location, token, name."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self.parts = parts

    def location(self) -> RedactedUrl:
        """Where names are put below: with the login, without the channel's name."""
        auth, token = self.parts.get("auth"), self.parts.get("token")
        place = str(self.parts["location"] or "").rstrip("/")
        login = f"{auth}@" if auth else ""
        return RedactedUrl(f"{self.parts['scheme'] or 'https'}://{login}{place}" + (f"/t/{token}" if token else ""))

    def base(self) -> RedactedUrl:
        """The channel's address: location and name."""
        return RedactedUrl(f"{self.location().reveal()}/{self.parts['name']}".rstrip("/"))


def _texts(value: Sequence[Any]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError("a list was expected")
    return tuple(str(item) for item in value)


def _verify(value: object) -> bool | str:
    return value if isinstance(value, (bool, str)) else True


def _json(file: IO[bytes]) -> Any:
    file.seek(0)
    text = file.read().decode("utf-8", "replace")
    start = text.find("{")  # a plugin or a wrapper may have printed a line before
    try:
        return json.JSONDecoder().raw_decode(text, start)[0] if start >= 0 else None
    except ValueError:
        return None


def _reason(answer: object, code: int) -> str:
    if code:
        name = answer.get("exception_name") if isinstance(answer, dict) else None
        return f"`conda config` ended with exit code {code}" + (f" ({name})" if name else "")
    return "`conda config --show --json` gave no settings"


@final
class _Child:
    """A child process that is gone, with what it started, when the block ends."""

    def __init__(self, line: list[str], env: Mapping[str, str], out: IO[bytes]) -> None:
        self.line, self.env, self.out = line, env, out
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _Child:
        # Output goes to a file and not through a pipe: a grandchild that keeps a pipe open would hang its reader.
        try:
            self.process = subprocess.Popen(
                self.line,
                env=dict(self.env),
                stdin=subprocess.DEVNULL,
                stdout=self.out,
                stderr=subprocess.DEVNULL,
                start_new_session=sys.platform != "win32",
                creationflags=_no_window(),
            )
        except (OSError, ValueError) as error:
            raise CondaAnswerError(f"could not be started ({type(error).__name__})") from error
        return self

    def wait(self, deadline: float) -> int | None:
        """The exit code, or None when the time is up."""
        assert self.process is not None  # noqa: S101 - entered
        try:
            return self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            _kill(self.process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        import os  # noqa: PLC0415
        import signal  # noqa: PLC0415

        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        return  # stuck in the kernel: it is not waited for


def _no_window() -> int:
    return int(getattr(subprocess, "CREATE_NO_WINDOW", 0))
