"""``simple/``: the pages that make a bundle's wheels a package index (PEP 503), from any web server or from disk.

Links are relative, so the bundle may be served below any URL.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from packaging.utils import canonicalize_name

from resume_dl.model.bundle import BundlePackage, Manifest

_HEAD = (
    '<!DOCTYPE html>\n<html><head><meta charset="utf-8"><meta name="pypi:repository-version" content="1.0">'
    "<title>{title}</title></head><body>\n"
)
_END = b"</body></html>\n"


def projects(manifest: Manifest) -> dict[str, tuple[BundlePackage, ...]]:
    """The normalized name of each project -> its files, both sorted."""
    found: dict[str, list[BundlePackage]] = {}
    for package in manifest.packages:
        if package.kind != "conda":
            found.setdefault(str(canonicalize_name(package.name)), []).append(package)
    return {name: tuple(found[name]) for name in sorted(found)}


def write_root(names: Sequence[str]) -> Iterator[bytes]:
    """``simple/index.html`` in chunks: a link to each project; ``names`` are those of ``projects``."""
    yield _HEAD.format(title="Projects of this bundle").encode()
    for name in names:
        yield f'<a href="{html.escape(quote(name))}/">{html.escape(name)}</a><br>\n'.encode()
    yield _END


def write_page(
    name: str, files: Sequence[BundlePackage], *, requires_python: Mapping[str, str] | None = None
) -> Iterator[bytes]:
    """``simple/<name>/index.html`` in chunks: a link to each file, with its digest.

    ``requires_python``: path -> Requires-Python (PEP 345) of the files that have one.
    """
    yield _HEAD.format(title=html.escape(f"Files of {name}")).encode()
    for file in files:
        python = (requires_python or {}).get(file.path, "")
        limit = f' data-requires-python="{html.escape(python)}"' if python else ""
        href = f"../../{quote(file.path)}#sha256={file.sha256}"
        yield f'<a href="{html.escape(href)}"{limit}>{html.escape(file.filename)}</a><br>\n'.encode()
    yield _END
