"""Names of files that others made up: one check, for indexes and for bundles."""

from __future__ import annotations

import pytest

from resume_dl.file_names import unsafe_name
from resume_dl.model.artifact import safe_filename
from resume_dl.offline_tools.verification.file_names import unsafe_path

UNSAFE = [
    *("", ".", "..", "../b", "a\\b", "a:b", "a*b", 'a"b', "a\0b", "a\nb", "a\x7fb", "a.", "a ", "\ud800"),
    *("CON", "nul.conda", "COM1.tar.bz2", "lpt\u00b9.txt", "CONIN$", "aux .x"),
    "a-" + "1" * 254,
]


@pytest.mark.parametrize("name", UNSAFE, ids=ascii)
def test_unsafe_names_are_refused_everywhere(name):
    assert unsafe_name(name)
    assert unsafe_path(f"wheels/{name}")
    with pytest.raises(ValueError, match="unsafe file name"):
        safe_filename(name)


@pytest.mark.parametrize(
    "name", ["numpy-1.0-0.conda", "A.b", "console-1.0.whl", "comet", "com10", "é.txt", "a-" + "1" * 253]
)
def test_plain_names_pass_everywhere(name):
    assert unsafe_name(name) == unsafe_path(f"wheels/{name}") == ""
    assert safe_filename(name) == name
