"""What mirrors' pages come to where the index itself cannot be reached: the decision alone, without a network."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from resume_dl.indexes.pip.page_agreement import Statement, agree
from resume_dl.resolve.index_page import ListedFile

A, B, C = ("a" * 64, "b" * 64, "c" * 64)
MD5 = "d" * 32
SAME = frozenset({"same"})


def file(
    name: str = "demo-1.0-py3-none-any.whl", hashes: Mapping[str, str] | None = None, **said: object
) -> ListedFile:
    return ListedFile(name, f"https://mirror.example/{name}", {"sha256": A} if hashes is None else hashes, **said)


def said(*pages: list[ListedFile] | None) -> list[Statement]:
    """One statement of each, of mirrors m0, m1 … and an operator each."""
    return [
        Statement(f"m{number}", frozenset({f"o{number}"}), None if page is None else tuple(page))
        for number, page in enumerate(pages)
    ]


def test_files_that_two_operators_state_are_accepted() -> None:
    (found,) = agree(said([file()], [file()])).files
    assert (found.hashes, found.stated) == ({"sha256": A}, "")


@pytest.mark.parametrize("other", [{}, {"sha512": "e" * 128}, {"sha256": "not a digest"}, {"md5": MD5}])
def test_a_digest_in_common_is_needed(other: dict[str, str]) -> None:
    found = agree(said([file()], [file(hashes=other)]))
    assert (found.files, found.disputes) == ((), {})
    assert found.alone == {"m0": (file().filename,)}


def test_only_digests_that_both_state_are_kept() -> None:
    (found,) = agree(said([file(hashes={"sha256": A, "md5": MD5})], [file()])).files
    assert found.hashes == {"sha256": A}


def test_one_operator_is_one_witness() -> None:
    statements = [Statement("m0", SAME, (file(),)), Statement("m1", SAME | {"another"}, (file(),))]
    found = agree(statements)
    assert (found.files, found.exists) == ((), None)


@pytest.mark.parametrize("more", [[], [[file()]]])
def test_a_contradiction_is_reported_even_if_most_agree(more: list[list[ListedFile]]) -> None:
    found = agree(said([file()], [file(hashes={"sha256": B})], *more))
    error = found.disputes[file().filename].error()
    assert error.exit_code == 4
    assert f"m0 says sha256:{A} and m1 says sha256:{B}" in error.message


def test_a_page_that_contradicts_itself() -> None:
    found = agree(said([file(), file(hashes={"sha256": C})], [file()]))
    assert "elsewhere on its page" in found.disputes[file().filename].error().message
    assert agree(said([file(), file(hashes={"sha256": C})], [])).disputes == {}


def test_attributes_are_accepted_as_far_as_they_agree() -> None:
    """A mirror alone hides no version as yanked, and gives no METADATA and no Python of its own."""
    one = file(size=5, requires_python=">=4", yanked="bad", metadata={"sha256": B})
    other = file(size=5, requires_python=">=3", metadata={"sha256": C})
    (found,) = agree(said([one], [other])).files
    assert (found.size, found.requires_python, found.yanked, found.metadata) == (5, "", False, {})
    (same,) = agree(said([one], [one])).files
    assert (same.requires_python, same.yanked, same.metadata) == (">=4", "bad", {"sha256": B})
    (without,) = agree(said([one], [file(size=6)])).files
    assert (without.size, without.metadata) == (None, None)


@pytest.mark.parametrize(
    ("pages", "exists"),
    [
        ([[file()], [file()]], True),
        ([[], []], True),
        ([None, None], False),
        ([[file()], None], None),
        ([[file()], None, None], False),
        ([[file()], None, [file()]], True),
        ([[file()]], None),
        ([], None),
    ],
)
def test_whether_the_index_has_the_page(pages: list[list[ListedFile] | None], exists: bool | None) -> None:
    assert agree(said(*pages)).exists is exists


def test_a_name_that_a_page_repeats_costs_linear_time() -> None:
    """Fifty thousand entries of one name, on both pages."""
    page = [file(hashes={"md5": MD5})] * 50_000
    assert len(agree(said(page, page)).files) == 1
