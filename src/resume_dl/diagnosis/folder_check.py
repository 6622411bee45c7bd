"""Judge package caches, their packages and the free disk space. Pure."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from resume_dl.diagnosis.finding import Finding, note, ok, problem
from resume_dl.model.units import show_bytes
from resume_dl.shell_commands import Step, command_line

LITTLE = 1 << 30
"""Bytes; less free space is a problem: most environments do not fit."""
ROOMY = 10 << 30
"""Bytes; an environment with CUDA and PyTorch takes up to 10 GiB, archives included."""


@dataclass(frozen=True, slots=True)
class FolderFacts:
    """The first writable package cache and what belongs to it."""

    cache: str = ""
    refusal: str = ""
    """Why no package cache can be written; empty if ``cache`` can."""
    exposed: str = ""
    """Why the cache is not safe from other users; empty if it is."""
    exposed_to_all: bool = False
    environments: str = ""
    """The folder of new environments."""
    links: bool | None = None
    """Whether a file of the cache can be hard-linked into an environment; None: unknown."""
    free: int | None = None
    """Free bytes on the cache's file system."""
    own_refusals: tuple[str, ...] = ()
    """Folders of resume-dl itself that cannot be written, with the reason."""
    packages: int | None = None
    """Number of packages examined; None: not finished in time."""
    damaged: tuple[str, ...] = ()


def check_folders(facts: FolderFacts) -> list[Finding]:
    """Findings ``cache``, ``links``, ``packages``, ``disk`` and ``folders``."""
    findings = [_cache(facts)]
    if facts.cache:
        findings += [_links(facts), _packages(facts)]
    if facts.free is not None:
        findings.append(_disk(facts.free))
    for refusal in facts.own_refusals:
        findings.append(problem("folders", f"cannot be written: {refusal}"))
    return findings


def _cache(facts: FolderFacts) -> Finding:
    if facts.refusal:
        own = command_line([Step(("conda", "config", "--prepend", "pkgs_dirs", "~/.conda/pkgs"))])
        return problem("cache", facts.refusal, own)
    if not facts.exposed:
        return ok("cache", f"{facts.cache} can be written")
    if facts.exposed_to_all and sys.platform != "win32":
        return problem("cache", facts.exposed, command_line([Step(("chmod", "o-w", facts.cache))]))
    return note("cache", facts.exposed)


def _links(facts: FolderFacts) -> Finding:
    if facts.links is None:
        return note("links", f"not known whether packages can be linked into {facts.environments or 'environments'}")
    if facts.links:
        return ok("links", "packages are hard-linked into environments")
    text = f"packages are copied into {facts.environments}, not linked: it is on another file system than the cache"
    return note("links", f"{text}, or that has no hard links")


def _packages(facts: FolderFacts) -> Finding:
    if facts.packages is None:
        return note("packages", "too many to examine here", command_line([Step(("conda", "doctor"))]))
    if not facts.damaged:
        return ok("packages", f"{facts.packages} in the caches, none damaged")
    shown = ", ".join(facts.damaged[:3]) + (f" and {len(facts.damaged) - 3} more" if len(facts.damaged) > 3 else "")
    text = f"damaged in the cache: {shown}; remove each archive together with the folder of its name"
    return problem("packages", text, command_line([Step(("conda", "doctor", "--verbose"))]))


def _disk(free: int) -> Finding:
    text = f"{show_bytes(free)} free beside the package cache"
    if free < LITTLE:
        return problem("disk", text, command_line([Step(("conda", "clean", "--tarballs", "--packages"))]))
    if free < ROOMY:
        return note("disk", f"{text}; an environment with CUDA may take 10 GB")
    return ok("disk", text)
