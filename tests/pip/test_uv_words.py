"""What uv says, of several versions, in one form."""

from __future__ import annotations

import pytest

from resume_dl.errors import PackageNotFoundError, UnsatisfiableError
from resume_dl.resolution.pip_explanation import refusal
from resume_dl.resolve.index_page import ListedFile
from resume_dl.resolve.uv_program import explanation

FRAMED = """warning: something else
  \N{MULTIPLICATION SIGN} No solution found when resolving dependencies:
  ╰─▶ Because only numpy==1.19.0 is available and numpy==1.19.0 has no
      wheels with a matching platform tag (e.g., `macosx_13_0_arm64`), we can
      conclude that all versions of numpy cannot be used.
      And because you require numpy, we can conclude that your requirements
      are unsatisfiable.

      hint: Wheels are available for `numpy` (v1.19.0) on the following
      platform: `win_amd64`
"""
PLAIN = """
\x1b[31merror\x1b[0m: No solution found when resolving dependencies
  cause: Because only numpy==1.19.0 is available and numpy==1.19.0 has no wheels with a matching platform tag \
(e.g., `macosx_13_0_arm64`), we can conclude that all versions of numpy cannot be used.
         And because you require numpy, we can conclude that your requirements are unsatisfiable.

hint: Wheels are available for `numpy` (v1.19.0) on the following platform: `win_amd64`
"""
SENTENCES = [
    (
        "Because only numpy==1.19.0 is available and numpy==1.19.0 has no wheels with a matching platform tag (e.g., "
        "`macosx_13_0_arm64`), we can conclude that all versions of numpy cannot be used."
    ),
    "And because you require numpy, we can conclude that your requirements are unsatisfiable.",
]
HINT = "Wheels are available for `numpy` (v1.19.0) on the following platform: `win_amd64`"


@pytest.mark.parametrize("said", [FRAMED, PLAIN])
def test_the_explanation_has_one_sentence_per_line(said):
    first, *rest = explanation(said).splitlines()
    assert first.startswith("No solution found")
    assert rest == [*SENTENCES, f"hint: {HINT}"]


def test_existing_files_are_added_to_the_error():
    """Files of exactly the version that has no wheel for it; versions where none fits."""
    names = ["numpy-1.18.0-cp310-cp310-win_amd64.whl", "numpy-1.19.0-cp310-cp310-win_amd64.whl", "numpy-1.19.0.tar.gz"]
    listed = [ListedFile(name, f"http://h/{name}") for name in names]
    error = refusal(explanation(PLAIN), lambda name: listed if name == "numpy" else [])
    assert isinstance(error, UnsatisfiableError)
    assert error.message == "\n".join(SENTENCES)
    assert error.hint.startswith(HINT)
    assert names[1] in error.hint
    assert names[0] not in error.hint
    text = "Because there is no version of numpy==9 and you require numpy==9, we can conclude that ..."
    assert "versions of numpy: 1.18.0, 1.19.0" in refusal(text, lambda _: listed).hint


def test_only_the_newest_are_named():
    listed = [ListedFile(f"a-{number}.tar.gz", "http://h/a") for number in range(100)]
    hint = refusal("Because there is no version of a>100 and ...", lambda _: listed).hint
    assert "99" in hint
    assert len(hint) < 100


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Pre-releases are available (try: `--prerelease=allow`)", "Pre-releases are available (try: `--pre`)"),
        (
            (
                "Wheels are required for `a` because building from source is disabled for all packages "
                "(i.e., with `--no-build`)"
            ),
            "--allow-sdist accepts source archives, too, and builds them on this machine to learn their requirements",
        ),
        (
            (
                "`a` was found on http://one, but not at the requested version (a==2). A compatible version may be "
                "available on a subsequent index (e.g., http://two). By default, uv will only consider versions "
                "that are published on the first index ... "
                "use `--index-strategy unsafe-best-match` to consider all versions."
            ),
            (
                "`a` was found on http://one, but not at the requested version (a==2). A compatible version may be "
                "available on a subsequent index (e.g., http://two). A project comes from the first index "
                "that has it; others were not searched: pass the intended index as --extra-index-url, which is "
                "searched first, and the other as --index-url"
            ),
        ),
    ],
)
def test_uvs_hints_name_our_options(theirs, ours):
    """Options that our commands do not have help nobody."""
    assert refusal(f"Because.\nhint: {theirs}", lambda _: []).hint == ours


def test_an_unknown_name():
    text = "Because nosuch was not found in the package registry and you require nosuch, we can conclude that ..."
    error = refusal(text, lambda _: [], unreached="m could not be asked (down)")
    assert isinstance(error, PackageNotFoundError)
    assert "m could not be asked" in error.hint
