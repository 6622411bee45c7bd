"""What resume-dl is made of, as CycloneDX 1.6 JSON: what `self install` installs, what resume-dl.pyz contains."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from zip_application import LIBRARIES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def of_lock(path: Path) -> dict[tuple[str, str], list[str]]:
    """(name, version) -> the SHA-256 of each wheel, of every package in a pylock.toml."""
    lock = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        (each["name"], each.get("version", "")): [wheel["hashes"]["sha256"] for wheel in each.get("wheels", ())]
        for each in lock["packages"]
    }


def of_libraries() -> dict[tuple[str, str], list[str]]:
    """(name, version) of the libraries inside resume-dl.pyz."""
    return {(name, metadata.version(name)): [] for name in LIBRARIES}


def document(
    version: str,
    locked: Mapping[tuple[str, str], list[str]],
    inside: Mapping[tuple[str, str], list[str]],
    epoch: int,
) -> str:
    """Return the document; the same arguments give the same text."""
    own = Component(
        type=ComponentType.APPLICATION,
        bom_ref="resume-dl",
        name="resume-dl",
        version=version,
        purl=PackageURL("pypi", None, "resume-dl", version),
        licenses=[DisjunctiveLicense(id="BSD-3-Clause")],
    )
    bom = Bom(serial_number=uuid5(NAMESPACE_URL, repr((version, sorted(locked), sorted(inside)))))
    bom.metadata.component = own
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, timezone.utc)
    for (name, of), digests in sorted({**inside, **locked}.items()):
        places = [text for text, there in (("self install", locked), ("resume-dl.pyz", inside)) if (name, of) in there]
        component = Component(
            type=ComponentType.LIBRARY,
            bom_ref=f"{name}-{of}",
            name=name,
            version=of,
            purl=PackageURL("pypi", None, name, of),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each) for each in digests[:1] if len(digests) == 1],
            licenses=[DisjunctiveLicense(name=text)] if (text := _license(name)) else [],
            properties=[Property(name="resume-dl:part-of", value=each) for each in places],
        )
        bom.components.add(component)
        bom.register_dependency(own, [component])
    return json.dumps(json.loads(JsonV1Dot6(bom).output_as_string()), indent=1, sort_keys=True) + "\n"


def _license(name: str) -> str:
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ""
    text = about.get("License-Expression") or about.get("License") or ""
    return text.splitlines()[0] if text and text.strip() else ""
