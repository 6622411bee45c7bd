"""conda's settings, read from its ``context`` in this process instead of from a child process."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from conda.base.context import context
from conda.models.channel import Channel

from resume_dl.model.conda_settings import CondaSettings
from resume_dl.python_command import module_arguments
from resume_dl.settings.conda_answer import parse_answer
from resume_dl.settings.conda_find import CondaCommand


def conda_settings() -> CondaSettings:
    """The settings that ``conda config --show --json`` would print, with the options of the running command."""
    return parse_answer(_Answer(), CondaCommand(Path(sys.executable), module_arguments("conda")))


class _Answer(Mapping[str, Any]):
    """``context``'s settings in the form of conda's JSON; settings that an older conda lacks are missing."""

    def __getitem__(self, name: str) -> Any:
        try:
            return _plain(getattr(context, name))
        except AttributeError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(context.list_parameters())

    def __len__(self) -> int:
        return len(context.list_parameters())


def _plain(value: Any) -> Any:
    if isinstance(value, Channel):
        return value.dump()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value
