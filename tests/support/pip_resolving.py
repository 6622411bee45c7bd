"""A user who resolves: settings, mirrors and indexes of their own, in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from resume_dl.model.artifact import Artifact
from resume_dl.model.pip import FindLinks, PipIndexes, PipRequest, PipSolution
from resume_dl.model.url import RedactedUrl
from resume_dl.resolution.pip_resolution import resolve_pip
from resume_dl.transfer.setup import TransferOptions, load_setup


class Told:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str, *, level: str = "info") -> None:
        self.lines.append(text)

    def plan(self, *_: Any) -> None: ...
    def progress(self, *_: Any) -> None: ...
    def event(self, *_: Any) -> None: ...
    def close(self) -> None: ...

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class Resolving:
    """``resolve("torch", index=...)`` gives one solution; several platforms: ``solutions``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told = Told()
        self.carries: dict[str, dict[str, str]] = {}
        self.origins: dict[str, str] = {}
        self.options: dict[str, Any] = {}
        self.env: dict[str, str] = {}
        (folder / "home").mkdir(parents=True, exist_ok=True)

    def mirror(self, name: str, **carries: str) -> None:
        """A mirror; ``pypi_simple=base`` stands for the origin ``pypi:simple``."""
        self.carries[name] = {key.replace("_", ":", 1): base for key, base in carries.items()}

    def environment(self) -> Mapping[str, str]:
        home = str(self.folder / "home")
        own = {f"RESUME_DL_{kind}_DIR": str(self.folder / kind.lower()) for kind in ("CONFIG", "CACHE", "STATE")}
        base = {"HOME": home, "USERPROFILE": home, "PATH": os.environ["PATH"], "RESUME_DL_CONDA": "none"}
        return {**base, **own, "PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "127.0.0.1", **self.env}

    def solutions(
        self,
        *requirements: str,
        index: str | None = None,
        extra: tuple[str, ...] = (),
        find_links: tuple[str | Path, ...] = (),
        cancelled: Callable[[], bool] = lambda: False,
        **fields: Any,
    ) -> tuple[PipSolution, ...]:
        links: list[FindLinks] = [place if isinstance(place, Path) else RedactedUrl(place) for place in find_links]
        indexes = PipIndexes(
            index_url=None if index is None else RedactedUrl(index),
            extra=tuple(RedactedUrl(each) for each in extra),
            find_links=tuple(links),
            no_index=fields.pop("no_index", False),
            pre=fields.pop("pre", False),
        )
        mirrors = self.folder / "mirrors.toml"
        text = "schema = 1\n[origins]\n" + "".join(f'"{name}" = "{base}"\n' for name, base in self.origins.items())
        for name, places in self.carries.items():
            text += f'\n[[mirror]]\nname = "{name}"\noperator = "{name}"\n[mirror.carries]\n'
            text += "".join(f'"{origin}" = "{base}"\n' for origin, base in places.items())
        mirrors.write_text(text, encoding="utf-8")
        setup = load_setup(TransferOptions(mirrors_file=mirrors, **self.options), self.environment())
        request = PipRequest(requirements=requirements, indexes=indexes, **fields)
        return resolve_pip(request, setup, self.told, cancelled=cancelled)

    def resolve(self, *requirements: str, **options: Any) -> PipSolution:
        (solution,) = self.solutions(*requirements, **options)
        return solution


def by_name(solution: PipSolution) -> dict[str, Artifact]:
    return {artifact.name: artifact for artifact in solution.artifacts}


def names(solution: PipSolution) -> set[str]:
    return {artifact.filename for artifact in solution.artifacts}
