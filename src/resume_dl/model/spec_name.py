"""The package name of a dependency in a record, parsed without a solver. Pure."""

from __future__ import annotations

import re

_NAME = re.compile(r"\s*([\w.-]+)")


def name_of(spec: str) -> str:
    """The package name of a spec, lower case; empty if it has none.

    ``channel/subdir::name version build``, ``name[version=…]`` and ``name >=1; if …`` are specs too.
    """
    found = _NAME.match(spec.partition("[")[0].rpartition("::")[2])
    return found[1].lower() if found else ""
