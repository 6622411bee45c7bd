"""Look-up of wheels in the package indexes and find-links of a request."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from resume_dl.indexes.copies import Freshness
from resume_dl.indexes.pip.catalogue import Catalogue, Wanted
from resume_dl.indexes.pip.index_notes import IndexNotes
from resume_dl.indexes.pip.kept_pages import KeptPages
from resume_dl.indexes.pip.pages import Pages
from resume_dl.model.artifact import Artifact
from resume_dl.model.network import NetworkSettings
from resume_dl.model.pip import PipIndexes
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Reporter
from resume_dl.resolution.pip_index_places import index_places
from resume_dl.resolve.index_page import ListedFile
from resume_dl.settings.pip_find import find_python
from resume_dl.settings.pip_network import pip_network
from resume_dl.settings.pip_settings import load_pip_settings
from resume_dl.transfer.setup import Setup


def listed_wheels(
    projects: Collection[str],
    indexes: PipIndexes,
    setup: Setup,
    reporter: Reporter,
    *,
    notes: IndexNotes,
    cancelled: Callable[[], bool],
) -> list[Artifact]:
    """Return every wheel of these projects that the indexes list, those of the first index first.

    ``indexes`` are those of the command line. Each wheel has its sources. A wheel without a digest is returned as well,
    one about which mirrors contradict each other is not. Raises ConfigurationError, ChannelUnavailableError and
    Interrupted.
    """
    from resume_dl.resolution.pip_request_files import index_reader, is_offline

    names = {canonicalize_name(each) for each in projects}
    if not names:
        return []
    python = find_python(setup.env)
    settings = load_pip_settings(setup.env, prefix=python.prefix)
    indexes = settings.indexes.then(indexes)
    places, every = index_places(indexes, python, setup, reporter)
    options = setup.options
    with index_reader(setup, settings, indexes, reporter, cancelled) as reader:
        pages = Pages(
            reader,
            places,
            offline=is_offline(setup),
            kept=KeptPages(setup.paths.cache / "pip"),
            named=setup.index_from,
            freshness=Freshness(options.refresh, options.index_max_age),
            notes=notes,
        )
        catalogue = Catalogue(pages, indexes=every, find_links=indexes.find_links, wanted=Wanted({}, {}))
        files = [file for number in range(len(indexes.find_links)) for file in catalogue.links(number)]
        pairs = [(number, name) for name in sorted(names) for number in range(len(every))]
        files += [file for number, name in pairs for file in catalogue.project(number, name) or ()]
        wheels = [file for file in files if _project_of(file) in names and pages.dispute(file) is None]
    artifacts = {each.key: each for each in map(_artifact, wheels)}
    return [replace(each, sources=places.of(each.url)) for each in artifacts.values()]


def index_network(indexes: PipIndexes, setup: Setup) -> NetworkSettings:
    """Return the network settings for downloads of listed wheels: pip's, merged over conda's."""
    settings = load_pip_settings(setup.env, prefix=find_python(setup.env).prefix)
    return pip_network(setup.load_network(), settings, settings.indexes.then(indexes))


def _project_of(file: ListedFile) -> str:
    """The project of a wheel; empty for other files, and for a name that is not valid."""
    try:
        return str(parse_wheel_filename(file.filename)[0])
    except InvalidWheelFilename:
        return ""


def _artifact(file: ListedFile) -> Artifact:
    name, version, *_ = parse_wheel_filename(file.filename)
    return Artifact(
        kind="wheel",
        filename=file.filename,
        url=RedactedUrl(file.url),
        size=file.size,
        sha256=file.hashes.get("sha256"),
        md5=file.hashes.get("md5"),
        name=str(name),
        version=str(version),
        record={"hashes": dict(file.hashes), "allowed": []},
    )
