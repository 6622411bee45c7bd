"""conda's answer about its settings, as values; from a child process or from the conda that we run in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from resume_dl import fs
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.conda_find import CondaCommand


class CondaAnswerError(Exception):
    """A conda that gave no answer; the text says why. Never leaves the settings package."""


def parse_answer(answer: Mapping[str, Any], command: CondaCommand) -> CondaSettings:
    """Settings from the parsed output of ``conda config --show --json`` (24.7 and 26.7 give the same form).

    Raises KeyError, TypeError or ValueError for an unexpected form.
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
        pkgs_dirs=tuple(fs.roomy(Path(path)) for path in _texts(answer["pkgs_dirs"])),
        envs_dirs=tuple(Path(path) for path in _texts(answer.get("envs_dirs", ()))),
        ssl_verify=_verify(answer.get("ssl_verify", True)),
        client_ssl_cert=answer.get("client_ssl_cert") or None,
        client_ssl_cert_key=answer.get("client_ssl_cert_key") or None,
        proxy_servers={str(key): str(value or "") for key, value in answer.get("proxy_servers", {}).items()},
        allowlist_channels=_texts(answer.get("allowlist_channels", ())),
        denylist_channels=_texts(answer.get("denylist_channels", ())),
        channel_settings=tuple(
            {str(key): str(value) for key, value in entry.items()} for entry in answer.get("channel_settings", ())
        ),
        add_anaconda_token=bool(answer.get("add_anaconda_token", True)),
        pinned_packages=_texts(answer.get("pinned_packages", ())),
        create_default_packages=_texts(answer.get("create_default_packages", ())),
        aggressive_update_packages=_texts(answer.get("aggressive_update_packages", ())),
        use_only_tar_bz2=bool(answer.get("use_only_tar_bz2")),
        add_pip_as_python_dependency=bool(answer.get("add_pip_as_python_dependency", True)),
        offline=bool(answer.get("offline")),
        override_channels_enabled=bool(answer.get("override_channels_enabled", True)),
        solver=str(answer.get("solver") or ""),
        exclude_newer=_text(answer.get("exclude_newer")),
        exclude_newer_package={
            str(name): _text(value) for name, value in (answer.get("exclude_newer_package") or {}).items()
        },
        remote_connect_timeout_secs=float(answer.get("remote_connect_timeout_secs", 9.15)),
        remote_read_timeout_secs=float(answer.get("remote_read_timeout_secs", 60.0)),
    )


class _Parts:
    """A channel as conda's JSON gives it: scheme, auth, location, token, name."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self.parts = parts

    def location(self) -> RedactedUrl:
        """The parent URL: with the login, without the channel's name."""
        auth, token = self.parts.get("auth"), self.parts.get("token")
        place = str(self.parts["location"] or "").rstrip("/")
        login = f"{auth}@" if auth else ""
        return RedactedUrl(f"{self.parts['scheme'] or 'https'}://{login}{place}" + (f"/t/{token}" if token else ""))

    def base(self) -> RedactedUrl:
        """The channel's URL: location and name."""
        return RedactedUrl(f"{self.location().reveal()}/{self.parts['name']}".rstrip("/"))


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _texts(value: Sequence[Any]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError("a list was expected")
    return tuple(str(item) for item in value)


def _verify(value: object) -> bool | str:
    return value if isinstance(value, (bool, str)) else True
