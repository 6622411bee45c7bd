"""``sbom.cdx.json``: a bundle's content as CycloneDX 1.6 JSON (cyclonedx.org), by that project's library.

The library's values take 31 KB a component, 1.5 GB for 50,000; so each component is made, written and released by
itself, and only the head is a document of the library. The same packages give the same bytes on every machine: ASCII,
a serial number derived from the packages, no time but a given one.

Packages are named by package URLs (the types ``conda`` and ``pypi`` of the purl specification), and refer to each
other by their paths in the bundle.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any
from uuid import UUID, uuid5

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, License, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema.schema import SchemaVersion1Dot6
from packageurl import PackageURL
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.utils import canonicalize_name

from resume_dl.model.bundle import BundlePackage
from resume_dl.model.url import redact

_NAMESPACE = UUID("0f4ecb5b-7b1f-5d4e-9d0a-3f6f2f6c6a51")
"""Namespace of serial numbers (RFC 9562, version 5), for bundles only."""
_LEFT_OUT = "resume-dl:included"
"""Name of a property: ``false`` for packages that a delta expects on the target."""
_LOCAL = re.compile(r"file:", re.IGNORECASE)


def write_sbom(
    packages: Sequence[BundlePackage],
    *,
    created_by: str,
    depends: Mapping[str, Iterable[str]] | None = None,
    epoch: int | None = None,
) -> Iterator[bytes]:
    """The document in chunks, a component a line, in the order of ``packages``.

    ``created_by`` as in the manifest (``resume-dl 0.6.0``). ``depends``: path -> paths (``bundle/requested.py``); a
    missing path has unknown dependencies. ``epoch``: SOURCE_DATE_EPOCH, seconds since 1970; None for a document
    without a time.
    """
    head = json.dumps(_head(packages, created_by, epoch), sort_keys=True, separators=(",", ":"))
    yield head[:-1].encode("ascii") + b',\n"components":['
    yield from _lines(_component(package) for package in packages)
    yield b'],\n"dependencies":['
    edges = depends or {}
    yield from _lines(
        json.dumps({"ref": package.path, "dependsOn": sorted(set(edges[package.path]))}, separators=(",", ":"))
        for package in packages
        if package.path in edges
    )
    yield b"]}\n"


def serial_number(packages: Iterable[BundlePackage]) -> UUID:
    """The serial number, which depends on the packages alone."""
    digest = hashlib.sha256()
    for package in packages:
        digest.update(json.dumps(package.as_json(), sort_keys=True).encode("ascii") + b"\n")
    return uuid5(_NAMESPACE, digest.hexdigest())


def _head(packages: Sequence[BundlePackage], created_by: str, epoch: int | None) -> dict[str, Any]:
    bom = Bom(serial_number=serial_number(packages))
    name, _, version = created_by.partition(" ")
    bom.metadata.tools.components.add(Component(type=ComponentType.APPLICATION, name=name, version=version))
    if epoch is not None:
        bom.metadata.timestamp = datetime.fromtimestamp(epoch, timezone.utc)
    head: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    if epoch is None:
        del head["metadata"]["timestamp"]  # the library requires one
    return head


def _component(package: BundlePackage) -> str:
    address = [] if not package.url or _LOCAL.match(package.url) else [redact(package.url)]
    component = Component(
        type=ComponentType.LIBRARY,
        bom_ref=package.path,
        name=package.name,
        version=package.version,
        purl=_purl(package),
        hashes=[
            HashType(alg=algorithm, content=digest)
            for algorithm, digest in ((HashAlgorithm.SHA_256, package.sha256), (HashAlgorithm.MD5, package.md5))
            if digest
        ],
        licenses=[_license(package.license)] if package.license else [],
        external_references=[
            ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(url)) for url in address
        ],
        properties=[] if package.included else [Property(name=_LEFT_OUT, value="false")],
    )
    text: str = component.as_json(view_=SchemaVersion1Dot6)  # type: ignore[attr-defined]  # made by a decorator
    return text


def _purl(package: BundlePackage) -> PackageURL:
    if package.kind != "conda":
        qualifiers = {"file_name": package.filename}
        return PackageURL("pypi", None, canonicalize_name(package.name), package.version, qualifiers)
    archive = "conda" if package.filename.endswith(".conda") else "tar.bz2"
    qualifiers = {
        "build": package.build,
        "channel": redact(package.channel),
        "subdir": package.subdir,
        "type": archive,
    }
    return PackageURL("conda", None, package.name, package.version, qualifiers)


@functools.lru_cache(maxsize=1024)
def _license(text: str) -> License:
    """An id of SPDX or an expression of them; else the text as a name."""
    try:
        expression = canonicalize_license_expression(text)
    except InvalidLicenseExpression:
        return DisjunctiveLicense(name=text)
    from cyclonedx.spdx import is_supported_id

    if is_supported_id(expression):
        return DisjunctiveLicense(id=expression)
    return LicenseExpression(expression)


def _lines(entries: Iterable[str]) -> Iterator[bytes]:
    for number, entry in enumerate(entries):
        yield (b",\n" if number else b"\n") + entry.encode("ascii")
