"""Read the addresses in condarc files and pip.conf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from resume_dl.diagnosis.address_check import Address, SettingsFacts, of_channels
from resume_dl.errors import ConfigurationError
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.settings.condarc import condarc_files, load_file, search_path
from resume_dl.settings.pip_settings import parse_file, pip_files

_OPTIONS = ("index-url", "extra-index-url")
_SECTIONS = ("global", "download", "install")


def look_at_settings(conda: CondaSettings, env: Mapping[str, str]) -> SettingsFacts:
    """What the files say; one that cannot be read is a trouble."""
    files: list[str] = []
    troubles: list[tuple[str, str]] = []
    addresses: list[Address] = []
    for file in condarc_files(search_path(env, root=conda.root_prefix, prefix=None)):
        content, _, trouble = load_file(file)
        files.append(str(file))
        troubles += [("condarc", trouble)] if trouble else []
        addresses += of_channels(str(file), content)
    prefix = env.get("VIRTUAL_ENV") or env.get("CONDA_PREFIX")
    site = None if not prefix else Path(prefix)
    for file in pip_files(env, prefix=site):
        if file.is_file():
            files.append(str(file))
            try:
                addresses += _of_pip(file, _scope(file, env, site))
            except ConfigurationError as error:
                troubles.append(("pip.conf", error.message))
    return SettingsFacts(tuple(files), tuple(troubles), tuple(addresses))


def _of_pip(file: Path, scope: str) -> Iterator[Address]:
    parser = parse_file(file)
    for section in _SECTIONS:
        for option in _OPTIONS:
            value = parser.get(section, option, fallback="") or ""
            words = [word for word in value.split() if word.startswith(("http://", "https://"))]
            for word in words:
                # With several the command would drop the others: the person edits the file.
                yield Address(str(file), f"{section}.{option}", word, word.rstrip("/"), len(words) == 1, "pip", scope)


def _scope(file: Path, env: Mapping[str, str], site: Path | None) -> str:
    """Pip's option that names this file; empty for that of PIP_CONFIG_FILE."""
    places = pip_files({name: value for name, value in env.items() if name != "PIP_CONFIG_FILE"}, prefix=site)
    if file not in places:
        return ""
    if site is not None and file.parent == site:
        return "--site"
    user = places[-3:-1] if site is not None else places[-2:]
    return "--user" if file in user else "--global"
