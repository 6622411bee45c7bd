"""The generated files of a bundle: path and bytes of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from resume_dl.bundle.channel_files import subdirs, write_repodata
from resume_dl.bundle.environment import write_environment
from resume_dl.bundle.lists import write_explicit, write_requirements
from resume_dl.bundle.pages import projects, write_page, write_root
from resume_dl.bundle.pylock_text import write_pylock
from resume_dl.bundle.readme import write_readme
from resume_dl.bundle.sbom import write_sbom
from resume_dl.bundle_creation.contents import Contents
from resume_dl.bundle_creation.request_files import PublicRequest
from resume_dl.model.bundle import CHANNEL, Manifest
from resume_dl.offline_tools.archive import write_archive

SCRIPTS = ("install.py", "probe.py", "unpack.py", "verify.py")


def generated(
    manifest: Manifest, contents: Contents, requested: PublicRequest, *, name: str, epoch: int | None, signed: bool
) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Yield path and bytes of each file; write each before requesting the next.

    ``manifest`` has no ``files`` yet; ``name``: the environment's; ``epoch``: SOURCE_DATE_EPOCH; ``signed``: whether
    the bundle will have a signature.
    """
    for subdir in subdirs(manifest):
        yield f"{CHANNEL}/{subdir}/repodata.json", write_repodata(manifest, subdir, contents.records)
    for platform in manifest.platforms:
        if platform.explicit:
            yield platform.explicit, write_explicit(manifest, platform)
        if platform.requirements:
            yield platform.requirements, write_requirements(manifest, platform)
    if by_project := projects(manifest):
        yield "simple/index.html", write_root([*by_project])
        for project, wheels in by_project.items():
            page = write_page(project, wheels, requires_python=contents.requires_python)
            yield f"simple/{project}/index.html", page
        yield "pylock.toml", write_pylock(manifest)
    if any(platform.conda for platform in manifest.platforms):
        names_requested = {package for names in requested.conda.values() for package in names}
        yield "environment.yml", write_environment(manifest, name=name, requested=names_requested)
    yield (
        "sbom.cdx.json",
        write_sbom(manifest.packages, created_by=manifest.created_by, depends=contents.depends, epoch=epoch),
    )
    yield "README.txt", write_readme(manifest, signed=signed)
    for script in SCRIPTS:
        yield script, [write_archive(script.removesuffix(".py"))]
